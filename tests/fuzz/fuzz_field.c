/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entries of a field table: validated, then walked, looked up, printed, compared and copied.
 */
#include "fuzz.h"

#include "wire/field.h"

#define AREA 262144

static void
look_at(struct bytes entries)
{
	struct field_iterator iterator = table_iterate(entries);
	struct field field;
	struct field found;
	char text[64];
	size_t n = 0;

	while (field_next(&iterator, &field)) {
		fuzz_claim(strlen(field_print(&field, text, sizeof(text))) < sizeof(text));
		fuzz_claim(field_equal(&field, &field));
		/* Looking all up in a long table takes n squared, and finds nothing more. */
		if (n++ < 16) {
			fuzz_claim(table_find(entries, field.name, &found));
			fuzz_claim(found.raw.p <= field.raw.p);
		}
	}
	fuzz_claim(n == table_count(entries));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t area[AREA];
	struct bytes entries = bytes_of(data, size);
	struct writer w = writer_of(area, sizeof(area));
	char bad_type = 0;
	enum field_result result = table_validate(entries, &bad_type);

	if (result == FIELD_UNKNOWN_TYPE)
		fuzz_claim(strcmp(field_type_name(bad_type), "unknown") == 0);
	if (result != FIELD_OK || size > AREA / 2)
		return 0;
	look_at(entries);
	table_put_entries(&w, entries);
	fuzz_claim(!w.bad);
	entries = bytes_of(area, (size_t)(w.p - area));
	fuzz_claim(table_validate(entries, NULL) == FIELD_OK);
	fuzz_claim(table_equal(entries, bytes_of(data, size)));
	return 0;
}
