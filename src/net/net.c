/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The root of the layer: the lists that a turn works off, one after the other. Each pass takes only what
 * was on the list when it began, so that connections that keep each other busy do not keep the turn from
 * ending; what is left is told by net_work_left(). Broker thread; reads no clock.
 */
#include "internal.h"

#include "util/mem.h"

struct net_options
net_options_default(void)
{
	return (struct net_options){
		.read_budget = 128 * 1024,
		.output_high = 256 * 1024,
		.output_low = 64 * 1024,
		.reference_minimum = 4 * 1024,
		.tcp_nodelay = true,
	};
}

static void
ending_due(struct deadline *deadline, uint64_t now_ms)
{
	conn_end_overdue(container_of(deadline, struct net, ending_deadline), now_ms);
}

struct net *
net_new(struct loop *loop, struct deadlines *deadlines, const struct net_options *options)
{
	struct net *net = xcalloc(1, sizeof(*net));

	assert(deadlines != NULL);
	assert(options->read_budget >= 1024 && options->read_budget <= UINT32_MAX / 4);
	assert(options->output_low <= options->output_high && options->output_high > 0);
	net->loop = loop;
	net->deadlines = deadlines;
	net->options = *options;
	net->ending_deadline.run = ending_due;
	list_init(&net->tasks);
	list_init(&net->ready);
	list_init(&net->dirty);
	list_init(&net->ending);
	list_init(&net->dead);
	return net;
}

void
net_free(struct net **net)
{
	struct conn *conn;

	if (*net == NULL)
		return;
	list_for_each_safe (&(*net)->ending, conn, struct conn, end) {
		if (conn->state == CONN_LINGERING)
			conn_set_state(conn, CONN_DEAD);
	}
	net_reap(*net);
	assert((*net)->count == 0);
	assert(list_empty(&(*net)->tasks) && list_empty(&(*net)->ending));
	deadline_clear((*net)->deadlines, &(*net)->ending_deadline);
	xfree(*net);
	*net = NULL;
}

const struct net_options *
net_options(const struct net *net)
{
	return &net->options;
}

struct deadlines *
net_deadlines(const struct net *net)
{
	return net->deadlines;
}

struct loop *
net_loop(const struct net *net)
{
	return net->loop;
}

void
net_set_now(struct net *net, struct now now)
{
	net->now = now;
}

struct now
net_now(const struct net *net)
{
	return net->now;
}

void
net_post(struct net *net, struct net_task *task)
{
	if (!list_linked(&task->link))
		list_append(&net->tasks, &task->link);
}

void
net_unpost(struct net *net, struct net_task *task)
{
	if (list_linked(&task->link))
		list_remove(&net->tasks, &task->link);
}

/* What can be written again comes first: its owners may have waited for that. */
void
net_input(struct net *net)
{
	size_t count;
	struct list_link *link;

	assert_thread(THREAD_BROKER);
	net_flush(net);
	for (count = net->tasks.count; count > 0 && (link = list_pop(&net->tasks)); count--) {
		struct net_task *task = container_of(link, struct net_task, link);

		task->run(task);
	}
	for (count = net->ready.count; count > 0 && (link = list_pop(&net->ready)); count--)
		conn_input(container_of(link, struct conn, ready));
}

void
net_flush(struct net *net)
{
	struct list_link *link;

	assert_thread(THREAD_BROKER);
	for (size_t n = net->dirty.count; n > 0 && (link = list_pop(&net->dirty)); n--)
		conn_flush(container_of(link, struct conn, dirty));
}

void
net_reap(struct net *net)
{
	struct list_link *link;

	assert_thread(THREAD_BROKER);
	while ((link = list_pop(&net->dead)) != NULL)
		conn_reap(container_of(link, struct conn, end));
}

bool
net_work_left(const struct net *net)
{
	return !list_empty(&net->ready) || !list_empty(&net->dirty) || !list_empty(&net->tasks) ||
	       !list_empty(&net->dead);
}

bool
net_input_waits(const struct net *net)
{
	return !list_empty(&net->ready);
}

size_t
net_conn_count(const struct net *net)
{
	return net->count;
}
