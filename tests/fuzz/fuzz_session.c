/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole session: the octets of one peer on the memory transport, the real turn, a clock turned by hand.
 * The first octet says how (enum way, or-ed), the rest is the stream. What the server writes must be
 * frames that decode, with nothing but close-ok behind its connection.close; when the peer is gone,
 * nothing of it is left. The world is made anew for each input.
 */
#include "fuzz.h"

#include "broker/broker.h"
#include "broker/user.h"
#include "broker/vhost.h"
#include "net/net.h"
#include "net/transport.h"
#include "server/turn.h"
#include "session/session.h"
#include "util/buf.h"
#include "util/log.h"
#include "wire/frame.h"

enum way {
	WAY_RUNNING =
		1, // behind a handshake with channel 1 and 2 and queue "q", else from the first octet
	WAY_PIECES = 2,	      // in pieces of 13 octets or more
	WAY_OCTETS = 4,	      // octet by octet
	WAY_SMALL_FRAMES = 8, // frame_max is 4096 (with WAY_RUNNING)
	WAY_DEAF = 16,	      // the peer reads nothing until the end, and the server's limit is low
	WAY_SHUTDOWN = 32,    // the server closes when half of it came
	WAY_SHORT_MEMORY = 64 // the memory limit is passed
};

#define OCTETS_MAX 600 // of a stream that is sent octet by octet
#define TURNS_MAX 2000 // at one time: more is a loop without end

static struct {
	struct deadlines deadlines;
	struct net *net;
	struct broker *broker;
	struct session *session;
	struct turn turn;
	struct now now;
	struct mem_peer *peer;
	struct buf output; // what the server wrote
} world;

/* ---- the world ---- */

static void
world_make(uint8_t ways)
{
	const struct bytes all[PERMISSION_COUNT] = {BYTES(".*"), BYTES(".*"), BYTES(".*")};
	struct broker_options broker_options = broker_options_default();
	struct session_options session_options = session_options_default();
	struct net_options net_options = net_options_default();
	struct user *user;
	char error[128];

	broker_options.message_size_max = 65536;
	broker_options.yield_high = 2000;
	broker_options.yield_low = 1000;
	if (ways & WAY_SHORT_MEMORY)
		broker_options.memory_limit = 1;
	session_options.frame_max = ways & WAY_SMALL_FRAMES ? 4096 : 131072;
	net_options.read_budget = 4096;
	if (ways & WAY_DEAF) {
		net_options.output_high = 3000;
		net_options.output_low = 1000;
	}
	deadlines_init(&world.deadlines);
	world.net = net_new(NULL, &world.deadlines, &net_options);
	world.broker = broker_new(&world.deadlines, &broker_options);
	vhost_create(world.broker, BYTES("/"));
	user = user_create(world.broker, BYTES("guest"), 0);
	user_set_password(user, BYTES("guest"));
	fuzz_claim(user_set_permissions(world.broker, user, BYTES("/"), all, error,
					sizeof(error)) == 0);
	world.session = session_new(world.broker, world.net, &session_options);
	world.turn = (struct turn){.deadlines = &world.deadlines,
				   .net = world.net,
				   .broker = world.broker,
				   .session = world.session,
				   .check = true};
	world.now = (struct now){.monotonic_ms = 1000, .wall_ms = 1700000000000};
	net_set_now(world.net, world.now);
	broker_set_now(world.broker, world.now);
	buf_init(&world.output, 0);
}

/* Whether there was any. */
static bool
take_output(void)
{
	struct bytes octets = mem_peer_take(world.peer);

	buf_add_bytes(&world.output, octets);
	return octets.n != 0;
}

/* Turns until there is nothing left to do at this time. */
static void
run(void)
{
	int turns = 0;

	do {
		turn_run(&world.turn, world.now);
		fuzz_claim(++turns < TURNS_MAX);
	} while (turn_wait_ms(&world.turn, world.now) == 0);
}

static void
pass_ms(uint64_t ms)
{
	world.now.monotonic_ms += ms;
	world.now.wall_ms += ms;
	run();
}

static void
world_end(void)
{
	session_free(&world.session);
	broker_free(&world.broker);
	net_free(&world.net);
	deadlines_fini(&world.deadlines);
	buf_fini(&world.output);
}

/* ---- the stream ---- */

static void
put(struct writer *w, uint16_t channel, const struct method *method)
{
	frame_write_method(w, channel, method);
}

/* From the protocol header to two open channels and a queue. */
static void
send_handshake(uint8_t ways)
{
	uint8_t room[1024];
	struct writer w = writer_of(room, sizeof(room));
	const uint32_t frame_max = ways & WAY_SMALL_FRAMES ? 4096 : 131072;

	write_raw(&w, bytes_of(protocol_header, PROTOCOL_HEADER_SIZE));
	put(&w, 0,
	    &(struct method){.id = METHOD_connection_start_ok,
			     .connection_start_ok = {
				     .client_properties = BYTES("\14capabilitiesF\0\0\0\31"
								"\26consumer_cancel_notifyt\1"),
				     .mechanism = BYTES("PLAIN"),
				     .response = BYTES("\0guest\0guest"),
			     }});
	put(&w, 0,
	    &(struct method){.id = METHOD_connection_tune_ok,
			     .connection_tune_ok = {2047, frame_max, 10}});
	put(&w, 0,
	    &(struct method){.id = METHOD_connection_open,
			     .connection_open = {.virtual_host = BYTES("/")}});
	put(&w, 1, &(struct method){.id = METHOD_channel_open});
	put(&w, 2, &(struct method){.id = METHOD_channel_open});
	put(&w, 1,
	    &(struct method){.id = METHOD_queue_declare, .queue_declare = {.queue = BYTES("q")}});
	fuzz_claim(!w.bad);
	mem_peer_send(world.peer, bytes_of(room, (size_t)(w.p - room)));
	run();
	take_output();
	fuzz_claim(session_connection_count(world.session) == 1);
}

static void
send_stream(struct bytes stream, uint8_t ways)
{
	size_t half = stream.n / 2;
	size_t piece = stream.n;

	if ((ways & WAY_OCTETS) && stream.n <= OCTETS_MAX)
		piece = 1;
	else if (ways & WAY_PIECES)
		piece = 13 + stream.n / 100;
	for (size_t at = 0; at < stream.n; at += piece) {
		if ((ways & WAY_SHUTDOWN) && at <= half && at + piece > half)
			session_close_all(world.session, "shutdown");
		mem_peer_send(world.peer, bytes_of(stream.p + at, min_u64(piece, stream.n - at)));
		run();
		if (!(ways & WAY_DEAF))
			take_output();
	}
}

/* ---- what came back ---- */

static void
check_output(void)
{
	struct bytes rest = buf_bytes(&world.output);
	bool closed = false;

	while (rest.n > 0) {
		struct frame frame;
		struct method m;

		/* a wrong protocol header is answered by ours, and that is all */
		if (rest.n == PROTOCOL_HEADER_SIZE && memcmp(rest.p, protocol_header, rest.n) == 0)
			return;
		fuzz_claim(frame_cut(&frame, rest, 131072) == FRAME_OK);
		fuzz_claim(frame.type <= FRAME_BODY || frame.type == FRAME_HEARTBEAT);
		if (frame.type == FRAME_METHOD) {
			fuzz_claim(method_decode(&m, frame.payload) == METHOD_OK);
			fuzz_claim(!closed || m.id == METHOD_connection_close_ok);
			closed = closed || m.id == METHOD_connection_close;
		} else {
			fuzz_claim(!closed || frame.type == FRAME_HEARTBEAT);
		}
		rest = bytes_of(rest.p + FRAME_OVERHEAD + frame.size,
				rest.n - FRAME_OVERHEAD - frame.size);
	}
}

static void
check_nothing_is_left(void)
{
	const struct vhost *vhost = vhost_find(world.broker, BYTES("/"));
	const struct queue *queue;

	fuzz_claim(session_connection_count(world.session) == 0);
	fuzz_claim(world.broker->consumers_pool.in_use == 0);
	fuzz_claim(list_empty(&world.broker->dirty));
	map_for_each (&vhost->queues, queue, struct queue, node) {
		fuzz_claim(queue->unacked_count == 0);
		fuzz_claim(queue->owner == NULL);
		fuzz_claim(list_empty(&queue->yielders));
		fuzz_claim(queue->refs == 1);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct conn_ops no_ops = {0}; // until the session takes over
	uint8_t ways;
	struct conn *conn;

	if (size == 0)
		return 0;
	ways = data[0];
	log_set_level(LOG_NONE);
	world_make(ways);
	conn = conn_new(world.net,
			transport_mem_new(&world.peer, ways & WAY_DEAF ? 4000 : (size_t)1 << 30),
			&no_ops, NULL);
	session_accept(world.session, conn);
	if (ways & WAY_RUNNING)
		send_handshake(ways);
	send_stream(bytes_of(data + 1, size - 1), ways);
	pass_ms(1);
	while (take_output())
		run();
	check_output();
	mem_peer_break(world.peer);
	world.broker->options.memory_limit =
		0; // who is not read does not see that its peer is gone
	for (int i = 0; i < 12; i++)
		pass_ms(3000);
	check_nothing_is_left();
	mem_peer_free(&world.peer);
	world_end();
	return 0;
}
