#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# limit: 60 s
"""pika's SelectConnection: everything in flight at once, as an asynchronous application does it."""
import ssl
import sys

import matrix
import pika
from matrix import lib
from pika.adapters.utils.connection_workflow import AMQPConnectionWorkflowFailed

MESSAGES = 5000
WINDOW = 200
LIMIT_S = 40


class Session:
    """One connection with its loop; run() returns when done() was called and raises what fail() got."""

    def __init__(self, broker, port=None, **more):
        self.error = None
        self.closed = None
        self.connection = pika.SelectConnection(
            pika.ConnectionParameters(broker.host, port or broker.port, **more),
            on_open_callback=self.on_open,
            on_open_error_callback=lambda connection, error: self.fail(error),
            on_close_callback=self.on_close)
        self.connection.ioloop.call_later(LIMIT_S, lambda: self.fail(AssertionError("too slow")))

    def run(self):
        self.connection.ioloop.start()
        if self.error:
            raise self.error
        return self

    def on_open(self, connection):
        raise NotImplementedError

    def on_close(self, connection, reason):
        self.closed = reason
        connection.ioloop.stop()

    def done(self):
        self.connection.close()

    def fail(self, error):
        self.error = error
        self.connection.ioloop.stop()


class ConfirmedStream(Session):
    """Publishes MESSAGES with at most WINDOW unconfirmed and consumes them with prefetch 50, acknowledging
    each tenth with multiple; done when all are confirmed and all have come, in order."""

    def __init__(self, broker, *where, **more):
        self.published = self.confirmed = self.consumed = 0
        super().__init__(broker, *where, **more)

    def on_open(self, connection):
        connection.channel(on_open_callback=self.on_consumer_channel)

    def on_consumer_channel(self, channel):
        self.consumer = channel
        channel.basic_qos(prefetch_count=50)
        channel.queue_declare("", exclusive=True, callback=self.on_queue)

    def on_queue(self, frame):
        self.queue = frame.method.queue
        self.consumer.basic_consume(self.queue, self.on_message)
        self.connection.channel(on_open_callback=self.on_publisher_channel)

    def on_publisher_channel(self, channel):
        self.publisher = channel
        channel.confirm_delivery(self.on_confirm, callback=lambda frame: self.publish())

    def publish(self):
        while self.published < MESSAGES and self.published - self.confirmed < WINDOW:
            self.published += 1
            self.publisher.basic_publish("", self.queue, b"%d" % self.published)

    def on_confirm(self, frame):
        method = frame.method
        if not isinstance(method, pika.spec.Basic.Ack):
            self.fail(AssertionError(f"not an ack: {method}"))
        # The tag rises; with multiple it stands for all up to it, without for one.
        if method.multiple:
            if method.delivery_tag <= self.confirmed:
                self.fail(AssertionError(f"confirmed twice: {method}"))
            self.confirmed = method.delivery_tag
        else:
            self.confirmed += 1
        if self.confirmed > self.published:
            self.fail(AssertionError(f"confirmed what was not sent: {method}"))
        self.publish()
        self.end_if_complete()

    def on_message(self, channel, method, properties, body):
        self.consumed += 1
        if int(body) != self.consumed:
            self.fail(AssertionError(f"{body} came as number {self.consumed}"))
        if self.consumed % 10 == 0:
            channel.basic_ack(method.delivery_tag, multiple=True)
        self.end_if_complete()

    def end_if_complete(self):
        if self.consumed == MESSAGES and self.confirmed == MESSAGES:
            self.done()


class ChannelError(Session):
    """A channel is closed by the server while others of the connection work on, and its number is used again."""

    def on_open(self, connection):
        self.reasons = []
        self.other = connection.channel(on_open_callback=lambda channel: None)
        self.open_and_fail()

    def open_and_fail(self):
        channel = self.connection.channel(channel_number=7, on_open_callback=self.on_channel)
        channel.add_on_close_callback(self.on_channel_close)

    def on_channel(self, channel):
        channel.queue_declare("select.none", passive=True)
        # All of this is in flight when the error is made, and is dropped.
        channel.basic_publish("", "select.none", b"x" * 1000)

    def on_channel_close(self, channel, reason):
        self.reasons.append((reason.reply_code, reason.reply_text))
        if len(self.reasons) < 3:
            # pika gives the number free only after this callback.
            self.connection.ioloop.call_later(0, self.open_and_fail)
        else:
            self.other.queue_declare("", exclusive=True, callback=lambda frame: self.done())


class ManyConsumers(Session):
    """A hundred consumers on one queue, round robin; the queue is deleted and all are told."""

    COUNT = 100

    def on_open(self, connection):
        self.seen, self.cancelled = {}, set()
        connection.channel(on_open_callback=self.on_channel)

    def on_channel(self, channel):
        self.channel = channel
        channel.add_on_cancel_callback(self.on_cancel)
        channel.queue_declare("", exclusive=True, callback=self.on_queue)

    def on_queue(self, frame):
        self.queue = frame.method.queue
        for number in range(self.COUNT):
            self.channel.basic_consume(
                self.queue, self.on_message, auto_ack=True, consumer_tag=f"c{number}",
                callback=self.publish if number == self.COUNT - 1 else None)

    def publish(self, frame):
        for _ in range(2 * self.COUNT):
            self.channel.basic_publish("", self.queue, b"")

    def on_message(self, channel, method, properties, body):
        self.seen[method.consumer_tag] = self.seen.get(method.consumer_tag, 0) + 1
        if sum(self.seen.values()) == 2 * self.COUNT:
            channel.queue_delete(self.queue)

    def on_cancel(self, frame):
        self.cancelled.add(frame.method.consumer_tag)
        if len(self.cancelled) == self.COUNT:
            self.done()


def case_confirmed_stream(broker):
    session = ConfirmedStream(broker).run()
    assert session.closed.reply_code == 200, session.closed


def case_confirmed_stream_with_tls(broker):
    if not broker.tls_port:
        lib.skip("the server is a running one")
    options = pika.SSLOptions(ssl.create_default_context(cafile=broker.ca), "127.0.0.1")
    session = ConfirmedStream(broker, broker.tls_port, ssl_options=options).run()
    assert session.closed.reply_code == 200, session.closed
    untrusting = pika.SSLOptions(ssl.create_default_context(), "127.0.0.1")
    try:
        ConfirmedStream(broker, broker.tls_port, ssl_options=untrusting).run()
    except AMQPConnectionWorkflowFailed as error:
        assert "CERTIFICATE_VERIFY_FAILED" in repr(error), error
    else:
        raise AssertionError("a certificate of nobody was accepted")


def case_channel_error_in_flight(broker):
    session = ChannelError(broker).run()
    assert session.reasons == [(404, "NOT_FOUND - no queue 'select.none' in vhost '/'")] * 3


def case_many_consumers(broker):
    session = ManyConsumers(broker).run()
    assert set(session.seen.values()) == {2}, session.seen


if __name__ == "__main__":
    sys.exit(lib.run_cases(globals(), common=matrix.tls_broker()))
