/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory there is: the machine's, or what a control group leaves of it. Any thread.
 */
#pragma once

#include "util/base.h"

/* Bytes. root is the folder in which /proc and /sys are looked for, "" but in tests. */
uint64_t memory_there_is(const char *root);
