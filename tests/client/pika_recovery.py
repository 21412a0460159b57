#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# limit: 60 s
"""
pika when the broker is killed under load. It does not connect again by itself: an application does, in a
loop around BlockingConnection or in the callbacks of SelectConnection, as pika's own examples have it.
"""
import logging
import ssl
import sys
import threading

import ledger
import matrix
import pika
from ledger import AFTER, BEFORE, LOAD, RETRY_S, Ledger, kill_under_load, own_broker
from matrix import lib
from pika import exceptions

WINDOW = 100
PERSISTENT = pika.BasicProperties(delivery_mode=2)


def parameters(broker, tls=False):
    options = {}
    if tls:
        options["ssl_options"] = pika.SSLOptions(ssl.create_default_context(cafile=broker.ca), "127.0.0.1")
    return pika.ConnectionParameters("127.0.0.1", broker.tls_port if tls else broker.port, **options)


class Side(ledger.Side):
    lost = (exceptions.AMQPConnectionError, OSError)  # OSError: within the handshake of TLS

    def session(self, stage):
        with pika.BlockingConnection(self.where) as connection:
            self.connections += 1
            channel = connection.channel()
            channel.queue_declare(self.queue, durable=True)
            self.work(channel, stage)

    def work(self, channel, stage):
        raise NotImplementedError


class Publisher(Side):
    def work(self, channel, stage):
        channel.confirm_delivery()
        while not self.stopping:
            number = self.ledger.new()
            channel.basic_publish("", self.queue, b"%d" % number, PERSISTENT, mandatory=True)
            self.ledger.confirm(stage, number)


class Consumer(Side):
    def work(self, channel, stage):
        channel.basic_qos(prefetch_count=20)
        for method, _, body in channel.consume(self.queue, inactivity_timeout=0.1):
            if self.stopping:
                break
            if method:
                self.ledger.take(body, method.redelivered)
                channel.basic_ack(method.delivery_tag)
        channel.cancel()


def delete(broker, queue):
    with pika.BlockingConnection(parameters(broker)) as connection:
        connection.channel().queue_delete(queue)


def recover_blocking(broker, queue, tls):
    kill_under_load(broker, queue, Publisher, Consumer, parameters(broker, tls))
    delete(broker, queue)


@own_broker
def case_recovery_blocking(broker):
    recover_blocking(broker, "pika.recovery", False)


@own_broker
def case_recovery_blocking_with_tls(broker):
    recover_blocking(broker, "pika.recovery.tls", True)


class Selecting(threading.Thread):
    """Publishes with a window of unconfirmed messages and consumes, all on one connection, which is made
    again in the callbacks that tell of its end, on the same loop."""

    def __init__(self, ledger, queue, where):
        super().__init__(daemon=True)
        self.ledger, self.queue, self.where = ledger, queue, where
        self.publishing, self.stopping, self.opened, self.failed = True, False, 0, 0
        self.loop = pika.SelectConnection(where, on_open_callback=self.on_open, on_close_callback=self.on_loss,
                                          on_open_error_callback=self.on_loss).ioloop
        self.stage = ledger.stage
        self.start()

    def run(self):
        self.loop.start()

    def connect(self):
        self.stage = self.ledger.stage
        pika.SelectConnection(self.where, on_open_callback=self.on_open, on_close_callback=self.on_loss,
                              on_open_error_callback=self.on_loss, custom_ioloop=self.loop)

    def on_loss(self, connection, reason):
        if self.stopping:
            self.loop.stop()
            return
        self.failed += 1
        self.loop.call_later(RETRY_S, self.connect)

    def on_open(self, connection):
        self.connection, self.unconfirmed = connection, {}
        self.opened += 1
        connection.channel(on_open_callback=self.on_channel)

    def on_channel(self, channel):
        self.channel = channel
        channel.confirm_delivery(self.on_confirm)
        channel.basic_qos(prefetch_count=20)
        channel.queue_declare(self.queue, durable=True, callback=self.on_queue)

    def on_queue(self, frame):
        self.tag = 0
        self.channel.basic_consume(self.queue, self.on_message)
        self.publish()

    def publish(self):
        while self.publishing and len(self.unconfirmed) < WINDOW:
            self.tag += 1
            number = self.unconfirmed[self.tag] = self.ledger.new()
            self.channel.basic_publish("", self.queue, b"%d" % number, PERSISTENT)

    def on_confirm(self, frame):
        method = frame.method
        assert isinstance(method, pika.spec.Basic.Ack), method
        tags = [tag for tag in self.unconfirmed if tag <= method.delivery_tag] if method.multiple \
            else [method.delivery_tag]
        self.ledger.confirm(self.stage, *map(self.unconfirmed.pop, tags))
        self.publish()

    def on_message(self, channel, method, properties, body):
        self.ledger.take(body, method.redelivered)
        channel.basic_ack(method.delivery_tag)

    def stop_publishing(self):
        self.publishing = False
        self.ledger.wait(lambda: not self.unconfirmed)

    def stop(self):
        self.stopping = True
        self.loop.add_callback_threadsafe(self.connection.close)
        self.join(lib.STOP_LIMIT_S)
        assert not self.is_alive()
        assert self.opened == 2 and self.failed >= 1, (self.opened, self.failed)


@own_broker
def case_recovery_select(broker):
    book = Ledger(broker)
    session = Selecting(book, "pika.recovery.select", parameters(broker))
    book.await_confirms(BEFORE, LOAD)
    book.kill_and_restart()
    book.await_confirms(AFTER, LOAD)
    session.stop_publishing()
    book.await_and_check()
    session.stop()
    delete(broker, "pika.recovery.select")


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)  # pika tells of each attempt
    sys.exit(lib.run_cases(globals(), common=matrix.tls_broker()))
