/* SPDX-License-Identifier: Apache-2.0 */
/* The ready entries of a queue in order: window and requeued ones, against a sorted array. */
#include "broker/internal.h"

#include "unit/model_fixture.h"

#define MODEL_MAX 4096
#define HEADER_PAYLOAD 14

static struct queue *queue;
static uint64_t random_state;

/* What the window should hold, in order, and what was popped and may come back. */
static struct entry ready[MODEL_MAX];
static size_t ready_n;
static struct entry out[MODEL_MAX];
static size_t out_n;

static void
set_up(void)
{
	model_set_up();
	queue = make_queue("q");
	random_state = 88172645463325252U;
}

static void
tear_down(void)
{
	window_clear(queue, ACK_PURGED);
	model_tear_down();
}

/* xorshift: the same steps in every run. */
static uint32_t
random_below(uint32_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)((random_state >> 32) % n);
}

static struct message *
make_message(uint32_t body_size)
{
	uint8_t header[HEADER_PAYLOAD] = {0, 60};
	struct message *m;

	store_longlong(header + 4, body_size);
	m = message_new(no_bytes(), BYTES("k"), bytes_of(header, sizeof(header)), body_size, 0);
	if (body_size != 0)
		memset(message_body_room(m), 'b', body_size);
	return m;
}

/* A check walks the whole window: deep ones are looked at now and then. */
static void
check_sometimes(void)
{
	if (queue->ready_count < 3000 || queue->ready_count % 10000 == 0)
		window_check(queue);
}

static uint64_t
push(uint32_t body_size)
{
	uint64_t qseq = queue->next_qseq++;

	window_push(queue, (struct entry){qseq << 16, make_message(body_size)});
	check_sometimes();
	return qseq;
}

static struct entry
pop(void)
{
	struct entry first = *window_first(queue);
	struct entry entry = window_pop(queue);

	ck_assert_uint_eq(first.bits, entry.bits);
	check_sometimes();
	return entry;
}

static void
requeue(struct entry entry)
{
	window_requeue(queue, (struct entry){entry.bits | ENTRY_REDELIVERED, entry.message});
	window_check(queue);
}

/* Pops and drops; the place of what was first. */
static uint64_t
drop_first(void)
{
	struct entry entry = pop();

	message_unref(entry.message);
	return entry_qseq(&entry);
}

START_TEST(test_window_is_first_in_first_out)
{
	for (uint64_t i = 1; i <= 2000; i++)
		ck_assert_uint_eq(push(1), i);
	for (uint64_t i = 1; i <= 2000; i++)
		ck_assert_uint_eq(drop_first(), i);
	ck_assert_uint_eq(queue->ready_count, 0);
	ck_assert_ptr_null(queue->head);
	ck_assert_ptr_null(queue->tail);
}
END_TEST

START_TEST(test_window_counts_messages_and_octets)
{
	size_t wire = 0;
	struct message *first = make_message(100);

	wire = message_wire_size(first);
	message_unref(first);
	push(100);
	push(0);
	ck_assert_uint_eq(queue->ready_count, 2);
	ck_assert_uint_eq(queue->body_bytes, 100);
	ck_assert_uint_eq(queue->ready_bytes, wire + wire - 100 - FRAME_OVERHEAD);
	drop_first();
	ck_assert_uint_eq(queue->ready_count, 1);
	ck_assert_uint_eq(queue->body_bytes, 0);
	drop_first();
	ck_assert_uint_eq(queue->ready_bytes, 0);
}
END_TEST

START_TEST(test_window_serves_requeued_entries_first_and_in_order)
{
	struct entry taken[6];

	for (int i = 0; i < 10; i++)
		push(1);
	for (int i = 0; i < 6; i++)
		taken[i] = pop();
	requeue(taken[4]);
	requeue(taken[1]);
	requeue(taken[5]);
	requeue(taken[0]);
	message_unref(taken[2].message);
	message_unref(taken[3].message);
	ck_assert_uint_eq(window_first(queue)->bits, (1U << 16) | ENTRY_REDELIVERED);
	ck_assert_uint_eq(drop_first(), 1);
	ck_assert_uint_eq(drop_first(), 2);
	ck_assert_uint_eq(drop_first(), 5);
	ck_assert_uint_eq(drop_first(), 6);
	ck_assert_uint_eq(window_first(queue)->bits, 7U << 16);
	ck_assert_uint_eq(drop_first(), 7);
}
END_TEST

START_TEST(test_window_takes_an_entry_back_that_was_popped_out_of_the_requeued_ones)
{
	struct entry a, b;

	push(1);
	push(1);
	a = pop();
	b = pop();
	requeue(b);
	requeue(a);
	a = pop();
	ck_assert_uint_eq(entry_qseq(&a), 1);
	ck_assert_uint_eq(a.bits & 0xffff, ENTRY_REDELIVERED);
	requeue(a);
	ck_assert_uint_eq(drop_first(), 1);
	ck_assert_uint_eq(drop_first(), 2);
}
END_TEST

START_TEST(test_window_gives_its_memory_back)
{
	size_t before, deep;

	slab_trim();
	before = mem_held();
	for (int i = 0; i < 100000; i++)
		push(0);
	deep = mem_held();
	ck_assert_uint_gt(deep, before + 100000 * sizeof(struct entry));
	while (queue->ready_count > 0)
		drop_first();
	slab_trim();
	ck_assert_uint_le(mem_held(), before + 2 * CHUNK_SIZE);
}
END_TEST

START_TEST(test_window_gives_the_room_of_requeued_entries_back)
{
	for (int i = 0; i < 1000; i++)
		push(0);
	for (out_n = 0; out_n < 1000; out_n++)
		out[out_n] = pop();
	while (out_n > 0)
		requeue(out[--out_n]);
	ck_assert_uint_ge(queue->requeued_room, 1000);
	for (uint64_t i = 1; i <= 1000; i++)
		ck_assert_uint_eq(drop_first(), i);
	ck_assert_ptr_null(queue->requeued);
	ck_assert_uint_eq(queue->requeued_room, 0);
}
END_TEST

START_TEST(test_window_clear_drops_everything)
{
	struct entry entry;

	for (int i = 0; i < 500; i++)
		push(10);
	entry = pop();
	requeue(entry);
	window_clear(queue, ACK_PURGED);
	window_check(queue);
	ck_assert_uint_eq(queue->ready_count, 0);
	ck_assert_uint_eq(queue->ready_bytes, 0);
	ck_assert_uint_eq(queue->body_bytes, 0);
	ck_assert_ptr_null(queue->requeued);
	ck_assert_uint_eq(push(1), 501);
	ck_assert_uint_eq(drop_first(), 501);
}
END_TEST

START_TEST(test_window_of_a_short_queue_stays_small)
{
	size_t before;

	slab_trim();
	before = mem_held();
	for (int i = 0; i < 10000; i++) {
		push(0);
		drop_first();
	}
	/* one at a time: no block of a deep queue is taken */
	ck_assert_uint_le(queue->block_hint, 16);
	ck_assert_uint_le(mem_held(), before + 4 * CHUNK_SIZE);
}
END_TEST

static void
model_insert(struct entry entry)
{
	size_t at = ready_n++;

	ck_assert_uint_lt(at, MODEL_MAX);
	for (; at > 0 && ready[at - 1].bits > entry.bits; at--)
		ready[at] = ready[at - 1];
	ready[at] = entry;
}

static void
random_step(void)
{
	uint32_t what = random_below(100);

	if (what < 40 && ready_n + out_n < MODEL_MAX) {
		uint64_t qseq = push(random_below(3));

		model_insert((struct entry){qseq << 16, NULL});
	} else if (what < 70 && ready_n > 0) {
		struct entry entry = pop();

		ck_assert_uint_eq(entry.bits, ready[0].bits);
		memmove(ready, ready + 1, --ready_n * sizeof(ready[0]));
		out[out_n++] = entry;
	} else if (what < 90 && out_n > 0) {
		size_t at = random_below((uint32_t)out_n);
		struct entry entry = out[at];

		out[at] = out[--out_n];
		entry.bits |= ENTRY_REDELIVERED;
		requeue(entry);
		model_insert(entry);
	} else if (out_n > 0) {
		size_t at = random_below((uint32_t)out_n);

		message_unref(out[at].message);
		out[at] = out[--out_n];
	}
	ck_assert_uint_eq(queue->ready_count, ready_n);
}

START_TEST(test_window_does_what_a_sorted_array_does)
{
	for (int i = 0; i < 60000; i++) {
		random_step();
		if (i % 20000 == 19999) {
			window_clear(queue, ACK_PURGED);
			ready_n = 0;
		}
	}
	while (ready_n > 0) {
		ck_assert_uint_eq(window_first(queue)->bits, ready[0].bits);
		drop_first();
		memmove(ready, ready + 1, --ready_n * sizeof(ready[0]));
	}
	ck_assert_uint_eq(queue->ready_bytes, 0);
	while (out_n > 0)
		message_unref(out[--out_n].message);
}
END_TEST

TESTS_WITH("queue_window", set_up, tear_down, test_window_is_first_in_first_out,
	   test_window_counts_messages_and_octets,
	   test_window_serves_requeued_entries_first_and_in_order,
	   test_window_takes_an_entry_back_that_was_popped_out_of_the_requeued_ones,
	   test_window_gives_its_memory_back, test_window_gives_the_room_of_requeued_entries_back,
	   test_window_clear_drops_everything, test_window_of_a_short_queue_stays_small,
	   test_window_does_what_a_sorted_array_does)
