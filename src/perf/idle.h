/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Idle connections: what each costs the broker in resident memory. Memory of the kernel is not counted.
 */
#pragma once

struct engine;
struct options;

/* Opens options->connections_idle connections with a channel each, looks at the broker's memory, closes
 * them. Returns bytes for each. */
double idle_measure(struct engine *engine, const struct options *options);
