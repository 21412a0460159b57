/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A checkpoint must be what the one before and the log between them lead to. Left out is what a start or a stop
 * changes without a record: whether a queue delivered, what was delivered before, numbers given out to
 * messages that are not stored.
 */
#include "ctl.h"
#include "image.h"

struct comparison {
	void (*each)(void *context, const char *sentence);
	void *context;
	struct buf sentence; // that is being made
};

static void
say(struct comparison *c)
{
	c->each(c->context, buf_cstr(&c->sentence));
	buf_clear(&c->sentence);
}

static struct bytes
shown_name(const struct definition *d)
{
	if (d->kind == DEFINITION_BINDING)
		return d->destination;
	return d->name.n != 0 ? d->name : d->user;
}

/* Whether the other image has it as it is here. */
static void
compare_definition(struct comparison *c, const struct image *other,
		   const struct image_definition *d, const char *missing)
{
	struct map_node *node = map_find(&other->definitions, d->key);
	const struct image_definition *there =
		node == NULL ? NULL : container_of(node, struct image_definition, by_key);
	struct ctl_name vhost;
	struct ctl_name name;
	const char *how = NULL;

	if (there == NULL || !image_has(other, there))
		how = missing;
	else if (!bytes_equal(d->octets, there->octets))
		how = "is not the same";
	if (how == NULL)
		return;
	buf_addf(&c->sentence, "definition of kind %d, %s in vhost %s, %s", (int)d->definition.kind,
		 ctl_name(&name, shown_name(&d->definition)), ctl_name(&vhost, d->definition.vhost),
		 how);
	say(c);
}

static void
compare_number(struct comparison *c, const struct image_queue *q, const char *what, uint64_t there,
	       uint64_t here)
{
	struct ctl_name name;

	if (there == here)
		return;
	buf_addf(&c->sentence, "queue %llu (%s): %s %llu, by the log %llu",
		 (unsigned long long)q->id, image_queue_name(&name, q), what,
		 (unsigned long long)there, (unsigned long long)here);
	say(c);
}

static bool
same_set(const struct qseq_set *a, const struct qseq_set *b)
{
	struct buf x;
	struct buf y;
	bool same;

	buf_init(&x, 0);
	buf_init(&y, 0);
	qseq_set_encode(a, &x);
	qseq_set_encode(b, &y);
	same = bytes_equal(buf_bytes(&x), buf_bytes(&y));
	buf_fini(&x);
	buf_fini(&y);
	return same;
}

static bool
same_counts(const struct qseq_counts *a, const struct qseq_counts *b)
{
	bool same = a->used == b->used;

	for (uint32_t i = 0; same && i < a->room; i++)
		same = a->slots[i] == 0 || qseq_counts_get(b, qseq_count_qseq(a->slots[i])) ==
						   qseq_count_count(a->slots[i]);
	return same;
}

static void
compare_queue(struct comparison *c, const struct image_queue *there, const struct image_queue *here)
{
	struct ctl_name name;

	compare_number(c, there, "messages", there->count, here->count);
	compare_number(c, there, "octets", there->octets, here->octets);
	if (there->next_qseq < here->next_qseq)
		compare_number(c, there, "next number", there->next_qseq, here->next_qseq);
	if (!same_set(&there->settled, &here->settled)) {
		buf_addf(&c->sentence,
			 "queue %llu (%s): other messages are settled than by the log",
			 (unsigned long long)there->id, image_queue_name(&name, there));
		say(c);
	}
	if (!same_counts(&there->returns, &here->returns)) {
		buf_addf(&c->sentence,
			 "queue %llu (%s): messages came back more or less often than by the log",
			 (unsigned long long)there->id, image_queue_name(&name, there));
		say(c);
	}
}

void
image_compare(const struct image *checkpoint, const struct image *replayed,
	      void (*each)(void *context, const char *sentence), void *context)
{
	struct comparison c = {.each = each, .context = context};
	const struct image_definition *d;
	const struct image_queue *q;

	buf_init(&c.sentence, 0);
	map_for_each (&checkpoint->definitions, d, const struct image_definition, by_key)
		if (image_has(checkpoint, d))
			compare_definition(&c, replayed, d, "is not there by the log");
	map_for_each (&replayed->definitions, d, const struct image_definition, by_key)
		if (image_has(replayed, d))
			compare_definition(&c, checkpoint, d, "is not in it");
	map_for_each (&checkpoint->queues, q, const struct image_queue, by_id) {
		const struct image_queue *here = image_queue(replayed, q->id);

		if (!q->removed && here != NULL && !here->removed)
			compare_queue(&c, q, here);
	}
	buf_fini(&c.sentence);
}
