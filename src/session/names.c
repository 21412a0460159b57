/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names: those that the server makes, reserved ones, and the cleaning that RabbitMQ does (amqp.md 1.6,
 * 6.1, 7.6).
 */
#include "internal.h"
#include "util/digest.h"

struct bytes
name_generate(const char *prefix, char out[NAME_GENERATED_SIZE])
{
	uint8_t octets[16];
	size_t n = strlen(prefix);

	assert(n <= NAME_PREFIX_MAX);
	random_bytes(octets, sizeof(octets));
	memcpy(out, prefix, n);
	n += base64_encode(bytes_of(octets, sizeof(octets)), true, out + n,
			   NAME_GENERATED_SIZE - n);
	return bytes_of(out, n);
}

struct bytes
name_clean(struct bytes name, uint8_t out[NAME_MAX_SIZE])
{
	size_t n = 0;

	if (name.n == 0 ||
	    (memchr(name.p, '\r', name.n) == NULL && memchr(name.p, '\n', name.n) == NULL))
		return name;
	for (size_t i = 0; i < name.n; i++)
		if (name.p[i] != '\r' && name.p[i] != '\n')
			out[n++] = name.p[i];
	return bytes_of(out, n);
}

const struct reply *
name_check_reserved(const char *kind, struct bytes name)
{
	if (!bytes_has_prefix(name, BYTES("amq.")))
		return NULL;
	return refuse(ACCESS_REFUSED, "%s name '%.*s' contains reserved prefix 'amq.*'", kind,
		      BYTES_ARGS(name));
}
