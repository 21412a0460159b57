/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys of a message that is routed once more, as a dead letter or when its time has come: the key of its publish,
 * those of the header CC, and those of BCC, which go along beside the headers.
 */
#include "broker/message.h"
#include "internal.h"
#include "store/record.h"
#include "util/mem.h"
#include "wire/field.h"

void
key_list_add(struct key_list *list, struct bytes key)
{
	list->items = xrealloc(list->items, (list->count + 1) * sizeof(*list->items));
	list->items[list->count++] = key;
}

void
key_list_add_known(struct key_list *list, const struct message *m, struct bytes headers)
{
	struct field_iterator iterator;
	struct field cc;

	key_list_add(list, message_key(m));
	if (!table_find(headers, BYTES("CC"), &cc) || cc.class != FIELD_ARRAY)
		return;
	iterator = array_iterate(cc.bytes);
	while (field_next(&iterator, &cc))
		if (cc.type == 'S' && cc.bytes.n <= UINT8_MAX)
			key_list_add(list, cc.bytes);
}

void
key_list_add_bcc(struct key_list *list, const struct message *m)
{
	struct bytes extension = message_extension(m);
	struct message_value value;

	while (message_value_next(&extension, &value))
		if (value.tag == MESSAGE_TAG_BCC)
			key_list_add(list, value.octets);
}

void
key_list_fini(struct key_list *list)
{
	xfree(list->items);
	*list = (struct key_list){NULL, 0};
}
