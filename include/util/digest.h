/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Digests and random bytes, on OpenSSL. Any thread.
 */
#pragma once

#include "util/base.h"
#include "util/bytes.h"

enum digest_kind {
	DIGEST_MD5,
	DIGEST_SHA256,
	DIGEST_SHA512
};

#define DIGEST_MAX 64

/* Size in bytes of a digest of this kind. */
size_t digest_size(enum digest_kind kind);
/* The digest of a followed by b (either may be empty) into out, which has digest_size() bytes. */
void digest(enum digest_kind kind, struct bytes a, struct bytes b, uint8_t *out);
/* Fills p with unpredictable bytes. */
void random_bytes(void *p, size_t n);
/* Compares without telling by its duration where they differ. Lengths are not secret. */
bool bytes_equal_constant_time(struct bytes a, struct bytes b);
/* Base64 of in into out as a C string: URL-safe alphabet without padding when url is true,
 * the standard one with padding else. room must be >= 4 * (n / 3 + 1) + 1. Returns the length. */
size_t base64_encode(struct bytes in, bool url, char *out, size_t room);
/* Standard alphabet with padding; returns the length, or a negative errno (EINVAL, ENOSPC). */
int base64_decode(struct bytes in, uint8_t *out, size_t room) MUST_CHECK;
