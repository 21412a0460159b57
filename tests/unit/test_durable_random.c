/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Durable definitions at random: changes of a small world, so that the same names come and go, compared
 * with what the next broker reads; and with what it reads from a checkpoint and the log, where the log
 * begins before the checkpoint. TEST_SEED=... in the environment repeats a run.
 */
#include "unit/durable_fixture.h"

#include "wire/field.h"

#include <stdio.h>
#include <time.h>

static uint64_t random_state;

static unsigned
pick(unsigned n)
{
	random_state = random_state * 6364136223846793005U + 1442695040888963407U;
	return (unsigned)((random_state >> 33) % n);
}

/* A name of a small world: "v0" to "v2". */
static struct bytes
pick_name(char kind)
{
	static char names[8][4];
	static unsigned turn;
	char *name = names[turn++ % 8];

	snprintf(name, 4, "%c%u", kind, pick(3));
	return bytes_str(name);
}

static int64_t
pick_limit(void)
{
	return (int64_t)pick(4) - 1;
}

/* None, or one entry. */
static struct bytes
pick_arguments(struct bytes name)
{
	static uint8_t octets[64];
	struct writer w = writer_of(octets, sizeof(octets));

	if (pick(2) == 0)
		table_put_string(&w, name, pick_name('e'));
	return bytes_of(octets, (size_t)(w.p - octets));
}

static void
step_vhost(struct vhost *vhost, struct bytes name)
{
	if (vhost == NULL)
		vhost_create(broker, name);
	else if (pick(8) == 0)
		vhost_delete(vhost);
	else
		vhost_set_limits(vhost, pick_limit(), pick_limit());
}

static void
step_user(struct user *user)
{
	static const uint8_t hash[68] = {1, 2, 3};
	enum digest_kind kind = (enum digest_kind)pick(3);
	struct bytes new_hash = bytes_of(hash, pick(2) == 0 ? 0 : 4 + digest_size(kind));

	switch (pick(5)) {
	case 0:
		user_delete(broker, user);
		break;
	case 1:
		user_set_limits(user, pick_limit(), pick_limit());
		break;
	case 2:
		user_set_password(user, pick_name('p'));
		break;
	default:
		ck_assert_int_eq(user_set_password_hash(user, kind, new_hash), 0);
	}
}

static void
step_permissions(struct user *user)
{
	const struct bytes patterns[PERMISSION_COUNT] = {pick_name('c'), pick_name('w'),
							 pick_name('r')};
	struct bytes vhost = pick_name('v'); // it need not exist
	char error[128];
	int status = 0;

	switch (pick(5)) {
	case 0:
		user_clear_permissions(broker, user, vhost);
		break;
	case 1:
		user_clear_topic_permissions(broker, user, vhost,
					     pick(2) ? BYTES("") : pick_name('e'));
		break;
	case 2:
		status = user_set_topic_permissions(broker, user, vhost, pick_name('e'),
						    pick_name('w'), BYTES("{vhost}"), error,
						    sizeof(error));
		break;
	default:
		status = user_set_permissions(broker, user, vhost, patterns, error, sizeof(error));
	}
	ck_assert_int_eq(status, 0);
}

static void
step_policy(struct vhost *vhost)
{
	static const char *const patterns[] = {"", "0", "^q", "e1|q2"};
	enum policy_kind kind = pick(2) ? POLICY_USER : POLICY_OPERATOR;
	uint8_t octets[64];
	struct writer w = writer_of(octets, sizeof(octets));
	struct policy_spec spec = {
		.name = pick_name('p'),
		.pattern = bytes_str(patterns[pick(countof(patterns))]),
		.apply_to = bytes_str(policy_apply_to_name((enum policy_apply_to)pick(6))),
		.priority = (int64_t)pick(4) - 2,
	};
	struct policy *policy = policy_find(vhost, kind, spec.name);

	if (policy != NULL && pick(3) == 0) {
		policy_remove(policy);
		return;
	}
	table_put_int(&w, BYTES("max-length"), (int32_t)pick(9));
	if (kind == POLICY_USER && pick(2))
		table_put_string(&w, BYTES("alternate-exchange"), pick_name('e'));
	spec.definition = bytes_of(octets, (size_t)(w.p - octets));
	ck_assert_ptr_null(policy_check(kind, &spec));
	policy_put(vhost, kind, &spec);
}

static void
step_exchange(struct vhost *vhost)
{
	static const char *const types[] = {"direct",	       "fanout",   "topic",
					    "headers",	       "x-random", "x-modulus-hash",
					    "x-recent-history"};
	struct exchange_spec spec = {
		.name = pick_name('e'),
		.type = bytes_str(types[pick(countof(types))]),
		.durable = pick(4) != 0,
		.auto_delete = pick(2) == 0,
		.internal = pick(4) == 0,
		.arguments = pick_arguments(BYTES("alternate-exchange")),
	};
	struct exchange *exchange = exchange_find(vhost, spec.name);

	if (exchange == NULL)
		exchange_create(vhost, &spec);
	else if (pick(4) == 0)
		exchange_delete(exchange);
}

static void
step_queue(struct vhost *vhost)
{
	struct queue_spec spec = {
		.name = pick_name('q'),
		.durable = pick(4) != 0,
		.auto_delete = pick(2) == 0,
		.arguments = pick_arguments(BYTES("a")),
	};
	struct queue *queue = queue_find(vhost, spec.name);

	if (queue == NULL)
		queue_create(vhost, &spec);
	else if (pick(4) == 0)
		queue_delete(queue);
}

/* Of a queue or an exchange: it comes, or goes by itself. */
static void
step_part(struct vhost *vhost)
{
	struct part_owner owner = {NULL, NULL};
	uint32_t number = 255 + pick(3);
	struct queue *part;

	if (pick(2))
		owner.queue = queue_find(vhost, pick_name('q'));
	else
		owner.exchange = exchange_find(vhost, pick_name('e'));
	if (owner.queue == NULL && owner.exchange == NULL)
		return;
	part = part_find(owner, number);
	if (part == NULL)
		part_create(owner, number);
	else if (pick(4) == 0)
		part_delete(part);
}

static void
remove_some_binding(struct vhost *vhost)
{
	struct exchange *source = exchange_find(vhost, pick_name('e'));
	const struct binding *binding;
	unsigned n;

	if (source == NULL || !exchange_in_use(source))
		return;
	n = pick((unsigned)source->bindings_out.count);
	list_for_each (&source->bindings_out, binding, struct binding, of_source) {
		struct binding_spec spec = {
			.source = source,
			.queue = binding->queue,
			.exchange = binding->exchange,
			.key = binding->key,
			.arguments = binding->arguments,
		};

		if (n-- > 0)
			continue;
		binding_remove(&spec);
		return;
	}
}

static void
step_binding(struct vhost *vhost)
{
	struct binding_spec spec = {
		.source = exchange_find(vhost, pick(4) ? pick_name('e') : BYTES("amq.topic")),
		.key = pick_name('k'),
		.arguments = pick_arguments(BYTES("a")),
	};

	if (pick(3) == 0) {
		remove_some_binding(vhost);
		return;
	}
	if (pick(2) == 0)
		spec.queue = queue_find(vhost, pick_name('q'));
	else
		spec.exchange = exchange_find(vhost, pick(4) ? pick_name('e') : BYTES("amq.match"));
	if (spec.source == NULL || (spec.queue == NULL && spec.exchange == NULL))
		return;
	if (binding_check(&spec) == NULL)
		binding_add(&spec);
}

static void
step(void)
{
	struct bytes vhost_name = pick_name('v');
	struct bytes user_name = pick_name('u');
	struct vhost *vhost = vhost_find(broker, vhost_name);
	struct user *user = user_find(broker, user_name);
	unsigned what = pick(20);

	if (what == 0 || vhost == NULL)
		step_vhost(vhost, vhost_name);
	else if (what < 4 && user == NULL)
		user_create(broker, user_name, pick(32));
	else if (what == 1)
		step_user(user);
	else if (what < 4)
		step_permissions(user);
	else if (what < 7)
		step_exchange(vhost);
	else if (what < 10)
		step_queue(vhost);
	else if (what < 12)
		step_policy(vhost);
	else if (what < 14)
		step_part(vhost);
	else
		step_binding(vhost);
	broker_reap(broker);
}

static void
seed(void)
{
	const char *given = getenv("TEST_SEED");

	random_state = given != NULL ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
	printf("TEST_SEED=%llu\n", (unsigned long long)random_state);
	fflush(stdout);
}

START_TEST(test_random_changes_survive_restarts)
{
	seed();
	for (int start = 0; start < 12; start++) {
		for (unsigned i = pick(300); i > 0; i--)
			step();
		reopen_broker_after(pick(2) ? kill_broker : close_broker);
	}
}
END_TEST

#define CHECKPOINTS 20

/* What a checkpoint would have been at some time. */
struct checkpoint {
	struct definition_list list;
	struct buf text; // of the model
	size_t place;	 // definitions logged before it
};

/* How many definitions were logged: here all records but the first, which says that the store is new. */
static size_t
logged_count(uint64_t first_lsn)
{
	return broker->effect_lsn == 0 ? 0 : (size_t)(broker->effect_lsn - first_lsn) + 1;
}

static void
check_restart(const struct checkpoint *checkpoint, size_t from, size_t until,
	      const struct buf *expected)
{
	struct loose_logs *logs = xcalloc(1, sizeof(*logs));
	struct broker *other = new_broker();
	struct buf text;

	other->recovering = true;
	if (checkpoint != NULL)
		apply_list(other, &checkpoint->list, 0, checkpoint->list.count, logs);
	apply_list(other, &logged, from, until, logs);
	broker_end_recovery(other);
	text = dump(other, true);
	ck_assert(bytes_equal(buf_bytes(&text), buf_bytes(expected)));
	buf_fini(&text);
	broker_free(&other);
	xfree(logs);
}

/* A checkpoint is taken while changes go on, so what is replayed over it begins before it. */
START_TEST(test_random_checkpoints_and_the_log_agree)
{
	static struct checkpoint checkpoints[CHECKPOINTS];
	const uint64_t first_lsn = 2;

	seed();
	for (size_t i = 0; i < CHECKPOINTS; i++) {
		struct checkpoint *c = &checkpoints[i];

		for (unsigned n = pick(80); n > 0; n--)
			step();
		c->place = logged_count(first_lsn);
		c->text = dump(broker, false);
		broker_each_definition(broker, list_add_definition, &c->list);
	}
	reopen_broker_after(kill_broker);
	ck_assert_uint_eq(logged.count, checkpoints[CHECKPOINTS - 1].place);
	for (size_t i = 0; i < CHECKPOINTS; i++) {
		const struct checkpoint *c = &checkpoints[i];
		const struct checkpoint *last = &checkpoints[CHECKPOINTS - 1];

		check_restart(NULL, 0, c->place, &c->text);
		check_restart(c, c->place, c->place, &c->text);
		for (size_t back = 0; back <= 60 && back <= c->place; back += 1 + pick(9)) {
			check_restart(c, c->place - back, c->place, &c->text);
			check_restart(c, c->place - back, last->place, &last->text);
		}
	}
	for (size_t i = 0; i < CHECKPOINTS; i++) {
		list_drop(&checkpoints[i].list);
		buf_fini(&checkpoints[i].text);
	}
}
END_TEST

TESTS_WITH("durable_random", durable_set_up, durable_tear_down,
	   test_random_changes_survive_restarts, test_random_checkpoints_and_the_log_agree)
