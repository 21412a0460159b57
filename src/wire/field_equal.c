/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Equality of values and tables, in two strengths: by value, where widths of integers do not count,
 * and by type as well, which is what makes two bindings the same one. Tables are compared as sorted
 * lists of their entries, since a peer chooses how many there are: n log n, not n squared. Entries
 * of one name keep their order among each other.
 */
#include "wire/field.h"

#include "internal.h"
#include "util/mem.h"

#include <stdlib.h>

#define ENTRIES_ON_STACK 32

struct entry {
	struct bytes name; // borrows from the table
	struct bytes raw;  // letter and value; borrows from the table
};

static bool values_equal(const struct field *a, const struct field *b, bool strict);

static int
entry_compare(const void *left, const void *right)
{
	const struct entry *a = left;
	const struct entry *b = right;
	int order = bytes_compare(a->name, b->name);

	if (order != 0)
		return order;
	return a->raw.p < b->raw.p ? -1 : a->raw.p > b->raw.p;
}

static void
sort_entries(struct entry *sorted, size_t count, struct bytes entries)
{
	struct field_iterator iterator = table_iterate(entries);
	struct field field;
	size_t n = 0;

	while (field_next(&iterator, &field))
		sorted[n++] = (struct entry){.name = field.name, .raw = field.raw};
	assert(n == count);
	qsort(sorted, count, sizeof(*sorted), entry_compare);
}

static bool
entries_equal(const struct entry *a, const struct entry *b, bool strict)
{
	struct field_iterator iterator_a = array_iterate(a->raw);
	struct field_iterator iterator_b = array_iterate(b->raw);
	struct field field_a;
	struct field field_b;

	return bytes_equal(a->name, b->name) && field_next(&iterator_a, &field_a) &&
	       field_next(&iterator_b, &field_b) && values_equal(&field_a, &field_b, strict);
}

static bool
tables_equal(struct bytes a, struct bytes b, bool strict)
{
	struct entry on_stack[2 * ENTRIES_ON_STACK];
	struct entry *sorted = on_stack;
	size_t count = table_count(a);
	bool equal = true;

	if (bytes_equal(a, b))
		return true;
	if (count != table_count(b))
		return false;
	if (count > ENTRIES_ON_STACK)
		sorted = xmalloc(2 * count * sizeof(*sorted));
	sort_entries(sorted, count, a);
	sort_entries(sorted + count, count, b);
	for (size_t i = 0; i < count && equal; i++)
		equal = entries_equal(&sorted[i], &sorted[count + i], strict);
	if (sorted != on_stack)
		xfree(sorted);
	return equal;
}

static bool
arrays_equal(struct bytes a, struct bytes b, bool strict)
{
	struct field_iterator iterator_a = array_iterate(a);
	struct field_iterator iterator_b = array_iterate(b);
	struct field field_a;
	struct field field_b;

	while (field_next(&iterator_a, &field_a))
		if (!field_next(&iterator_b, &field_b) || !values_equal(&field_a, &field_b, strict))
			return false;
	return !field_next(&iterator_b, &field_b);
}

/* A NaN equals a NaN here: else a binding that has one could never be removed. */
static bool
numbers_equal(double a, double b)
{
	bool both_nan = a != a && b != b; // NOLINT(misc-redundant-expression)

	return both_nan || a == b;
}

static bool
values_equal(const struct field *a, const struct field *b, bool strict)
{
	if (a->class != b->class)
		return false;
	/* Letters of one name are one type: l and L, I and U. */
	if (strict && strcmp(field_type_name(a->type), field_type_name(b->type)) != 0)
		return false;
	switch (a->class) {
	case FIELD_BOOLEAN:
	case FIELD_INTEGER:
	case FIELD_TIMESTAMP:
		return a->integer == b->integer;
	case FIELD_FLOAT:
		return numbers_equal(a->number, b->number);
	case FIELD_DECIMAL:
	case FIELD_STRING:
		return bytes_equal(a->bytes, b->bytes);
	case FIELD_TABLE:
		return tables_equal(a->bytes, b->bytes, strict);
	case FIELD_ARRAY:
		return arrays_equal(a->bytes, b->bytes, strict);
	case FIELD_VOID:
		return true;
	}
	return false;
}

bool
field_equal(const struct field *a, const struct field *b)
{
	return values_equal(a, b, false);
}

bool
table_equal(struct bytes a, struct bytes b)
{
	return tables_equal(a, b, true);
}
