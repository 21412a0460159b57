/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS over a socket. The handshake is the transport's own affair: until it is done the conn gets -EAGAIN,
 * and a task of the net goes on with it at each event, whether the conn is paused or not. After that a
 * read goes on until the room is full or no record is left, so that no decrypted bytes hide behind a
 * socket that has nothing to report; a write gathers small parts into whole records.
 *
 * SSL_write() wants a write that it could not finish repeated with at least the same bytes; they are
 * still the first of what the conn has to write. Broker thread.
 */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "internal.h"
#include "net/tls.h"
#include "socket.h"
#include "util/log.h"
#include "util/mem.h"

#define RECORD_MAX 16384 // bytes of a TLS record

struct transport_tls {
	struct transport base;
	struct net *net;       // borrows
	SSL *session;	       // owns
	struct tls_peer *peer; // owns; NULL until somebody asks, and when there is nothing to tell
	struct net_task task;  // goes on with the handshake
	struct deadline deadline; // of the handshake
	int end_error;		  // with ended: 0 or a negative errno
	bool ended;		  // the peer's side is over
	bool open;		  // the handshake is done
	bool want_readable;	  // what the conn was promised
	bool want_writable;
	bool crossed;	       // a read waits for a write or the other way round
	bool handshake_writes; // the handshake waits for room
	struct socket_events events;
};

static struct transport_tls *
tls_of(struct transport *transport)
{
	return container_of(transport, struct transport_tls, base);
}

/* Switches the events on that the conn, or the handshake, needs. */
static void
apply_wants(struct transport_tls *tls)
{
	bool connecting = tls->events.connecting;

	if (tls->open)
		socket_events_want(&tls->events, tls->want_readable || tls->crossed,
				   tls->want_writable || tls->crossed);
	else
		socket_events_want(&tls->events, !connecting, connecting || tls->handshake_writes);
}

/* ---- the handshake ----------------------------------------------------------------------------- */

static void
handshake_failed(struct transport_tls *tls, int error, const char *why)
{
	log_warn("TLS handshake failed: %s peer=%s:%u", why, tls->base.peer.host,
		 (unsigned)tls->base.peer.port);
	socket_events_want(&tls->events, false, false);
	deadline_clear(tls->net->deadlines, &tls->deadline);
	conn_die(tls->base.conn, error);
}

static void
handshake_overdue(struct deadline *deadline, uint64_t now_ms UNUSED)
{
	handshake_failed(container_of(deadline, struct transport_tls, deadline), -ETIMEDOUT,
			 "it took too long");
}

static void
handshake_done(struct transport_tls *tls)
{
	tls->open = true;
	deadline_clear(tls->net->deadlines, &tls->deadline);
	apply_wants(tls);
	/* The last flight may have brought the first bytes along, without another event to come. */
	conn_on_readable(tls->base.conn);
	if (tls->want_writable)
		conn_on_writable(tls->base.conn);
}

static const char *
handshake_reason(SSL *session, unsigned long code)
{
	long verified = SSL_get_verify_result(session);
	const char *reason = ERR_reason_error_string(code);

	if (verified != X509_V_OK)
		return X509_verify_cert_error_string(verified);
	return reason != NULL ? reason : "the peer closed the connection";
}

static void
handshake_step(struct net_task *task)
{
	struct transport_tls *tls = container_of(task, struct transport_tls, task);
	int error = socket_events_connected(&tls->events, &tls->base), status;

	if (error == -EAGAIN || tls->open || tls->base.conn->state == CONN_DEAD)
		return;
	if (error != 0) {
		handshake_failed(tls, error, strerror(-error));
		return;
	}
	ERR_clear_error();
	status = SSL_do_handshake(tls->session);
	if (status == 1) {
		handshake_done(tls);
		return;
	}
	status = SSL_get_error(tls->session, status);
	if (status == SSL_ERROR_WANT_READ || status == SSL_ERROR_WANT_WRITE) {
		tls->handshake_writes = status == SSL_ERROR_WANT_WRITE;
		apply_wants(tls);
	} else {
		handshake_failed(tls, status == SSL_ERROR_SSL ? -EPROTO : -ECONNRESET,
				 handshake_reason(tls->session, ERR_peek_last_error()));
		ERR_clear_error();
	}
}

static void
on_event(evutil_socket_t fd UNUSED, short what, void *context)
{
	struct transport_tls *tls = context;

	if (!tls->open) {
		net_post(tls->net, &tls->task);
		return;
	}
	if ((what & EV_READ) != 0 || tls->crossed)
		conn_on_readable(tls->base.conn);
	if ((what & EV_WRITE) != 0 || tls->crossed)
		conn_on_writable(tls->base.conn);
}

/* ---- bytes ------------------------------------------------------------------------------------- */

/* What a call that moved no bytes means: -EAGAIN, 0 for the peer's end, or another negative errno. */
static int
stopped(struct transport_tls *tls, int status, int other_way)
{
	int reason = SSL_get_error(tls->session, status);
	int system_error = errno;

	if (reason == SSL_ERROR_WANT_READ || reason == SSL_ERROR_WANT_WRITE) {
		if (reason == other_way && !tls->crossed) {
			tls->crossed = true;
			apply_wants(tls);
		}
		return -EAGAIN;
	}
	ERR_clear_error();
	if (reason == SSL_ERROR_ZERO_RETURN)
		return 0;
	if (reason == SSL_ERROR_SYSCALL)
		return system_error != 0 ? -system_error : -ECONNRESET;
	return -EPROTO;
}

static void
moved(struct transport_tls *tls)
{
	if (unlikely(tls->crossed)) {
		tls->crossed = false;
		apply_wants(tls);
	}
}

/* Reads until the part is full. 0, or why it stopped before as -EAGAIN or -ECANCELED (the end). */
static int
read_part(struct transport_tls *tls, const struct iovec *part, size_t *total)
{
	size_t done = 0, n;

	while (done < part->iov_len) {
		int status;

		errno = 0;
		status = SSL_read_ex(tls->session, (uint8_t *)part->iov_base + done,
				     part->iov_len - done, &n);
		if (status != 1) {
			int error = stopped(tls, status, SSL_ERROR_WANT_WRITE);

			if (error == -EAGAIN)
				return -EAGAIN;
			tls->ended = true;
			tls->end_error = error;
			return -ECANCELED;
		}
		moved(tls);
		done += n;
		*total += n;
	}
	return 0;
}

static ssize_t
tls_read(struct transport *transport, const struct iovec *parts, int count)
{
	struct transport_tls *tls = tls_of(transport);
	size_t total = 0;
	int why = 0;

	if (!tls->open)
		return -EAGAIN;
	if (tls->ended)
		return tls->end_error;
	ERR_clear_error();
	for (int i = 0; i < count && why == 0; i++)
		why = read_part(tls, &parts[i], &total);
	if (total == 0)
		return tls->ended ? tls->end_error : -EAGAIN;
	/* The end is told by the next read, which no event of the socket may announce. */
	if (tls->ended)
		conn_on_readable(tls->base.conn);
	return (ssize_t)total;
}

/* Where the writer stands in its parts. */
struct gather {
	const struct iovec *part;
	const struct iovec *end;
	size_t offset; // bytes of *part that are done
};

static void
gather_skip(struct gather *from, size_t n)
{
	while (from->part < from->end && n >= from->part->iov_len - from->offset) {
		n -= from->part->iov_len - from->offset;
		from->part++;
		from->offset = 0;
	}
	from->offset += n;
}

/* Up to a record of bytes: where they lie when they lie together, else copied to scratch. */
static struct bytes
gather_record(struct gather from, uint8_t *scratch)
{
	const uint8_t *first = (const uint8_t *)from.part->iov_base + from.offset;
	size_t n = from.part->iov_len - from.offset;
	size_t filled = 0;

	if (n >= RECORD_MAX || from.part + 1 == from.end)
		return bytes_of(first, min_u64(n, RECORD_MAX));
	while (from.part < from.end && filled < RECORD_MAX) {
		n = min_u64(from.part->iov_len - from.offset, RECORD_MAX - filled);
		memcpy(scratch + filled, (const uint8_t *)from.part->iov_base + from.offset, n);
		filled += n;
		gather_skip(&from, n);
	}
	return bytes_of(scratch, filled);
}

static ssize_t
tls_write(struct transport *transport, const struct iovec *parts, int count)
{
	struct transport_tls *tls = tls_of(transport);
	struct gather from = {parts, parts + count, 0};
	size_t total = 0, n;
	int error = -EAGAIN;
	uint8_t *scratch;

	if (!tls->open)
		return -EAGAIN;
	scratch = slab_alloc(RECORD_MAX);
	ERR_clear_error();
	while (from.part < from.end) {
		struct bytes record = gather_record(from, scratch);
		int status;

		errno = 0;
		status = SSL_write_ex(tls->session, record.p, record.n, &n);
		if (status != 1) {
			error = stopped(tls, status, SSL_ERROR_WANT_READ);
			break;
		}
		moved(tls);
		total += n;
		gather_skip(&from, n);
	}
	slab_free(scratch, RECORD_MAX);
	if (total != 0)
		return (ssize_t)total;
	return error != 0 ? error : -EPIPE;
}

/* ---- the rest of the transport ----------------------------------------------------------------- */

static void
tls_want(struct transport *transport, bool readable, bool writable)
{
	struct transport_tls *tls = tls_of(transport);

	tls->want_readable = readable;
	tls->want_writable = writable;
	apply_wants(tls);
}

static int
tls_shutdown(struct transport *transport)
{
	struct transport_tls *tls = tls_of(transport);

	if (tls->open) {
		int status;

		ERR_clear_error();
		status = SSL_shutdown(tls->session);
		if (status < 0 && SSL_get_error(tls->session, status) == SSL_ERROR_WANT_WRITE)
			return -EAGAIN;
		ERR_clear_error();
	}
	return shutdown(tls->events.fd, SHUT_WR) == 0 ? 0 : -errno;
}

static void
tls_close(struct transport *transport)
{
	struct transport_tls *tls = tls_of(transport);

	net_unpost(tls->net, &tls->task);
	deadline_clear(tls->net->deadlines, &tls->deadline);
	tls_peer_free(&tls->peer);
	SSL_free(tls->session);
	socket_events_fini(&tls->events);
	slab_free(tls, sizeof(*tls));
}

static const struct tls_peer *
tls_tls_peer(struct transport *transport)
{
	struct transport_tls *tls = tls_of(transport);

	if (tls->peer == NULL && tls->open)
		tls->peer = tls_peer_new(tls->session);
	return tls->peer;
}

static const struct transport_ops tls_ops = {
	.read = tls_read,
	.write = tls_write,
	.want = tls_want,
	.shutdown = tls_shutdown,
	.close = tls_close,
	.tls_peer = tls_tls_peer,
};

struct transport *
transport_tls_new(struct net *net, int fd, bool connecting, struct tls *tls, const char *host,
		  uint64_t handshake_ms)
{
	SSL *session = tls_session(tls, fd, host);
	struct transport_tls *new;

	if (session == NULL) {
		close(fd);
		return NULL;
	}
	new = slab_alloc(sizeof(*new));
	memset(new, 0, sizeof(*new));
	new->base.ops = &tls_ops;
	new->net = net;
	new->session = session;
	new->task.run = handshake_step;
	new->deadline.run = handshake_overdue;
	socket_events_init(&new->events, net->loop, fd, connecting, on_event, new);
	if (!connecting)
		address_of_socket(fd, &new->base.peer, &new->base.local);
	deadline_set(net->deadlines, &new->deadline, net->now.monotonic_ms + handshake_ms);
	return &new->base;
}
