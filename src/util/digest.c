/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Digests, random bytes and Base64. OpenSSL looks an algorithm up by name each time unless it is
 * fetched once, so the three digests are fetched on first use and kept for the life of the process.
 * That a fetched digest fails is either no memory or a broken library: asserted. Any thread.
 */
#include "util/digest.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

static const struct {
	const char *name; // as OpenSSL calls it
	size_t size;	  // of the result, in bytes
} kinds[] = {
	[DIGEST_MD5] = {"MD5", 16},
	[DIGEST_SHA256] = {"SHA2-256", 32},
	[DIGEST_SHA512] = {"SHA2-512", 64},
};

static EVP_MD *fetched[countof(kinds)];
static pthread_once_t fetch_once = PTHREAD_ONCE_INIT;

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char alphabet_url[] =
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* One that is missing (MD5, where a policy forbids it) stays NULL until somebody wants it. */
static void
fetch_all(void)
{
	for (size_t i = 0; i < countof(kinds); i++)
		fetched[i] = EVP_MD_fetch(NULL, kinds[i].name, NULL);
}

size_t
digest_size(enum digest_kind kind)
{
	assert(kind < countof(kinds));
	return kinds[kind].size;
}

void
digest(enum digest_kind kind, struct bytes a, struct bytes b, uint8_t *out)
{
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	unsigned size = 0;
	bool done;

	assert(kind < countof(kinds));
	assert(context != NULL);
	pthread_once(&fetch_once, fetch_all);
	assert(fetched[kind] != NULL);
	done = EVP_DigestInit_ex2(context, fetched[kind], NULL) == 1;
	done = done && (a.n == 0 || EVP_DigestUpdate(context, a.p, a.n) == 1);
	done = done && (b.n == 0 || EVP_DigestUpdate(context, b.p, b.n) == 1);
	done = done && EVP_DigestFinal_ex(context, out, &size) == 1;
	assert(done);
	assert(size == kinds[kind].size);
	EVP_MD_CTX_free(context);
}

void
random_bytes(void *p, size_t n)
{
	int result;

	assert(n <= INT_MAX);
	result = RAND_bytes(p, (int)n);
	assert(result == 1);
}

bool
bytes_equal_constant_time(struct bytes a, struct bytes b)
{
	return a.n == b.n && (a.n == 0 || CRYPTO_memcmp(a.p, b.p, a.n) == 0);
}

size_t
base64_encode(struct bytes in, bool url, char *out, size_t room)
{
	const char *letters = url ? alphabet_url : alphabet;
	size_t length = 0;

	assert(room >= 4 * (in.n / 3 + 1) + 1);
	for (size_t i = 0; i < in.n; i += 3) {
		size_t here = min_u64(in.n - i, 3);
		uint32_t bits = (uint32_t)in.p[i] << 16;

		if (here > 1)
			bits |= (uint32_t)in.p[i + 1] << 8;
		if (here > 2)
			bits |= in.p[i + 2];
		for (size_t k = 0; k <= here; k++)
			out[length++] = letters[bits >> (18 - 6 * k) & 63];
		for (size_t k = here; k < 3 && !url; k++)
			out[length++] = '=';
	}
	out[length] = '\0';
	return length;
}

/* The six bits that a character of the standard alphabet stands for, -1 when it is none. */
static int
base64_value(uint8_t c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

int
base64_decode(struct bytes in, uint8_t *out, size_t room)
{
	size_t padding = 0;
	size_t length = 0;
	uint32_t bits = 0;

	if (in.n % 4 != 0 || in.n > INT_MAX)
		return -EINVAL;
	while (padding < 2 && padding < in.n && in.p[in.n - 1 - padding] == '=')
		padding++;
	if (in.n / 4 * 3 - padding > room)
		return -ENOSPC;
	for (size_t i = 0; i < in.n - padding; i++) {
		int value = base64_value(in.p[i]);

		if (value < 0)
			return -EINVAL;
		bits = bits << 6 | (uint32_t)value;
		/* After the 2nd, 3rd and 4th character of a group another byte is whole. */
		if (i % 4 != 0)
			out[length++] = (uint8_t)(bits >> (6 - i % 4 * 2));
	}
	return (int)length;
}
