/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoding, encoding and names of methods: switches expanded from methods.def. Nothing is allocated;
 * a decoded method points into the payload that it came from. The cursor notices what is too short,
 * the faults that it cannot know (UTF-8, tables) are kept beside it, the first one wins.
 */
#include "wire/method.h"

#include "wire/field.h"
#include "wire/utf8.h"

struct decoder {
	struct reader reader;	  // over the whole payload
	enum method_result fault; // the first one that the reader does not notice
	char bad_type;		  // for METHOD_BAD_TABLE_TYPE
};

static inline struct bytes
decode_shortstr(struct decoder *d)
{
	struct bytes string = read_shortstr(&d->reader);

	/* Only strings in method arguments are checked (amqp.md 1.6). */
	if (unlikely(!utf8_valid(string)) && d->fault == METHOD_OK)
		d->fault = METHOD_BAD_UTF8;
	return string;
}

static void
refuse_table(struct decoder *d, enum field_result why, char type)
{
	if (d->fault != METHOD_OK)
		return;
	d->fault = why == FIELD_UNKNOWN_TYPE ? METHOD_BAD_TABLE_TYPE : METHOD_MALFORMED;
	d->bad_type = type;
}

static struct bytes
decode_table(struct decoder *d)
{
	struct bytes entries = read_longstr(&d->reader);
	char type = 0;
	enum field_result result = table_validate(entries, &type);

	if (unlikely(result != FIELD_OK))
		refuse_table(d, result, type);
	return entries;
}

/* Decodes the arguments of the method m->id; false when nobody knows it. */
static bool
decode_arguments(struct method *m, struct decoder *d)
{
	switch (m->id) {
#define OCTET(field) x->field = read_octet(&d->reader);
#define SHORT(field) x->field = read_short(&d->reader);
#define LONG(field) x->field = read_long(&d->reader);
#define LONGLONG(field) x->field = read_longlong(&d->reader);
#define SHORTSTR(field) x->field = decode_shortstr(d);
#define LONGSTR(field) x->field = read_longstr(&d->reader);
#define BIT(field) x->field = read_bit(&d->reader);
#define TABLE(field) x->field = decode_table(d);
#define NOTHING x->nothing = 0;
#define METHOD(class, class_id, method, method_id, fields)         \
	case METHOD_##class##_##method: {                          \
		struct class##_##method *x = &m->class##_##method; \
		fields return true;                                \
	}
#include "wire/methods.def"
	default:
		return false;
	}
}

enum method_result
method_decode(struct method *m, struct bytes payload)
{
	struct decoder d = {.reader = reader_of(payload), .fault = METHOD_OK};

	m->id = read_long(&d.reader);
	m->bad_type = 0;
	if (unlikely(d.reader.bad))
		return METHOD_MALFORMED;
	if (unlikely(!decode_arguments(m, &d)))
		return METHOD_UNKNOWN;
	if (unlikely(!reader_done(&d.reader)))
		return METHOD_MALFORMED;
	m->bad_type = d.bad_type;
	return d.fault;
}

void
method_encode(const struct method *m, struct writer *w)
{
	write_long(w, m->id);
	switch (m->id) {
#define OCTET(field) write_octet(w, x->field);
#define SHORT(field) write_short(w, x->field);
#define LONG(field) write_long(w, x->field);
#define LONGLONG(field) write_longlong(w, x->field);
#define SHORTSTR(field) write_shortstr(w, x->field);
#define LONGSTR(field) write_longstr(w, x->field);
#define BIT(field) write_bit(w, x->field);
#define TABLE(field) write_longstr(w, x->field);
#define NOTHING (void)x;
#define METHOD(class, class_id, method, method_id, fields)               \
	case METHOD_##class##_##method: {                                \
		const struct class##_##method *x = &m->class##_##method; \
		fields break;                                            \
	}
#include "wire/methods.def"
	default:
		w->bad = true;
	}
}

/* The table's identifiers have underscores where the specification's names have hyphens. */
static const char *
hyphenate(char *name)
{
	for (char *c = name; *c != '\0'; c++)
		if (*c == '_')
			*c = '-';
	return name;
}

const char *
method_name(uint32_t id)
{
	switch (id) {
#define METHOD(class, class_id, method, method_id, fields)             \
	case METHOD_##class##_##method: {                              \
		static _Thread_local char name[] = #class "." #method; \
		return hyphenate(name);                                \
	}
#include "wire/methods.def"
	default:
		return "unknown";
	}
}

bool
method_has_content(uint32_t id)
{
	return id == METHOD_basic_publish || id == METHOD_basic_deliver ||
	       id == METHOD_basic_get_ok || id == METHOD_basic_return;
}
