#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# limit: 60 s
"""
py-amqp, the library below kombu and Celery: AMQPLAIN, TLS, its way with qos, confirms, errors. It does not
connect again by itself: the case of a killed broker does, in a loop.
"""
import os
import socket
import ssl
import sys

import amqp
import ledger
import matrix
from amqp import exceptions
from ledger import kill_under_load, own_broker
from matrix import lib

LIMIT_S = 20


def connect(broker, port=None, **more):
    connection = amqp.Connection(
        f"{broker.host}:{port or broker.port}", userid="guest", password=more.pop("password", "guest"),
        **{"read_timeout": LIMIT_S, "write_timeout": LIMIT_S, **more})
    connection.connect()
    return connection


def is_rabbitmq(connection):
    return connection.server_properties["product"] == "RabbitMQ"


def refused(kind, text, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except kind as error:
        assert text in str(error), error
        return error
    raise AssertionError(f"not refused: {call}")


def temporary_queue(channel):
    return channel.queue_declare("", exclusive=True).queue


def publish(channel, queue, count):
    for number in range(count):
        channel.basic_publish(amq_message(b"%d" % number), exchange="", routing_key=queue)


def amq_message(body, **properties):
    return amqp.Message(body, **properties)


def drain_until(connection, condition):
    while not condition():
        connection.drain_events(timeout=LIMIT_S)


def ready_count(channel, queue):
    return channel.queue_declare(queue, passive=True).message_count


def case_login_mechanisms(broker):
    for method in ("AMQPLAIN", "PLAIN"):
        connection = connect(broker, login_method=method)
        assert method.encode() in connection.mechanisms or method in connection.mechanisms
        connection.channel()
        connection.close()
        error = refused(exceptions.AccessRefused, f"Login was refused using authentication mechanism {method}",
                        connect, broker, login_method=method, password="wrong")
        assert error.code == 403
    # Left to itself it takes AMQPLAIN.
    connect(broker).close()


def trusting(broker):
    return {"ca_certs": broker.ca, "cert_reqs": ssl.CERT_REQUIRED, "server_hostname": "127.0.0.1"}


def case_connect_with_tls(broker):
    if not broker.tls_port:
        lib.skip("the server is a running one")
    for method in ("AMQPLAIN", "PLAIN"):
        connection = connect(broker, broker.tls_port, ssl=trusting(broker), login_method=method,
                             confirm_publish=True)
        channel = connection.channel()
        queue = temporary_queue(channel)
        # Around the 16,384 octets of a TLS record, and many of them.
        for size in (0, 1, 16384, 16385, 1000000):
            body = os.urandom(size)
            channel.basic_publish(amq_message(body), exchange="", routing_key=queue)
            assert channel.basic_get(queue, no_ack=True).body in (body, body or "")
        refused(exceptions.NotFound, "no queue 'pyamqp.none'", channel.queue_declare, "pyamqp.none", passive=True)
        connection.close()
    stranger = {**trusting(broker), "ca_certs": None}
    refused(ssl.SSLCertVerificationError, "CERTIFICATE_VERIFY_FAILED", connect, broker, broker.tls_port, ssl=stranger)


def case_tune(broker):
    connection = connect(broker, heartbeat=5)
    # It takes the server's limits as they are, and the lower heartbeat.
    assert connection.channel_max > 0 and 4096 <= connection.frame_max <= 1 << 20
    assert connection.heartbeat == 5
    channel = connection.channel()
    queue = temporary_queue(channel)
    body = os.urandom(3 * connection.frame_max)  # four frames, both ways
    channel.basic_publish(amq_message(body), exchange="", routing_key=queue)
    got = lib.await_true("the message", lambda: channel.basic_get(queue, no_ack=True))
    assert bytes(got.body) == body
    connection.close()


def case_confirms(broker):
    connection = connect(broker, confirm_publish=True)
    channel = connection.channel()
    queue = temporary_queue(channel)
    publish(channel, queue, 100)  # each waits for its ack
    assert ready_count(channel, queue) == 100
    connection.close()


def case_mandatory_return(broker):
    connection = connect(broker)
    channel = connection.channel()
    returned = []
    channel.events["basic_return"].add(lambda *args: returned.append(args))
    channel.basic_publish(amq_message(b"lost", application_headers={"a": 1}), exchange="amq.direct",
                          routing_key="pyamqp.nowhere", mandatory=True)
    drain_until(connection, lambda: returned)
    error, exchange, key, message = returned[0]
    assert (error.reply_code, exchange, key) == (312, "amq.direct", "pyamqp.nowhere"), returned
    assert bytes(message.body if isinstance(message.body, bytes) else message.body.encode()) == b"lost"
    connection.close()


def consume_with_growing_prefetch(broker, second_global):
    """A consumer with prefetch 2 and four messages; then qos 4. What has come before and after."""
    connection = connect(broker)
    channel = connection.channel()
    queue = temporary_queue(channel)
    seen = []
    channel.basic_qos(0, 2, second_global)
    channel.basic_consume(queue, callback=seen.append)
    publish(channel, queue, 10)
    drain_until(connection, lambda: len(seen) == 2)
    assert ready_count(channel, queue) == 8
    channel.basic_qos(0, 4, second_global)
    return connection, channel, queue, seen


def case_qos_on_a_live_consumer(broker):
    """kombu raises the prefetch of a consumer at work, with global=false for any product but RabbitMQ."""
    if is_rabbitmq(connect(broker)):
        lib.skip("RabbitMQ's global=false concerns later consumers only")
    connection, channel, queue, seen = consume_with_growing_prefetch(broker, False)
    drain_until(connection, lambda: len(seen) == 4)
    assert ready_count(channel, queue) == 6
    # Lowered again: nothing more until the unacknowledged ones are below the new value.
    channel.basic_qos(0, 1, False)
    channel.basic_ack(seen[0].delivery_tag)
    assert ready_count(channel, queue) == 6
    for message in seen[1:4]:
        channel.basic_ack(message.delivery_tag)
    drain_until(connection, lambda: len(seen) == 5)
    assert ready_count(channel, queue) == 5
    channel.basic_qos(0, 0, False)
    drain_until(connection, lambda: len(seen) == 10)
    connection.close()


def case_qos_global(broker):
    connection, channel, queue, seen = consume_with_growing_prefetch(broker, True)
    drain_until(connection, lambda: len(seen) == 4)
    assert ready_count(channel, queue) == 6
    connection.close()


def case_channel_error(broker):
    connection = connect(broker)
    channel = connection.channel()
    error = refused(exceptions.NotFound, "no queue 'pyamqp.none' in vhost '/'",
                    channel.queue_declare, "pyamqp.none", passive=True)
    assert (error.reply_code, error.method_sig) == (404, (50, 10)), error
    # py-amqp answers with close-ok and opens the channel again by itself.
    assert connection.connected
    other = connection.channel()
    other.queue_declare("pyamqp.q", auto_delete=False)
    refused(exceptions.PreconditionFailed, "inequivalent arg 'durable' for queue 'pyamqp.q'",
            other.queue_declare, "pyamqp.q", durable=True, auto_delete=False)
    connection.channel().queue_delete("pyamqp.q")
    connection.close()


def case_connection_error(broker):
    connection = connect(broker)
    channel = connection.channel()
    refused(exceptions.AMQPNotImplementedError, "prefetch_size!=0 (1)", channel.basic_qos, 1, 0, False)
    assert not connection.connected
    refused(exceptions.NotAllowed, "vhost pyamqp not found", connect, broker, virtual_host="pyamqp")


def case_requeue(broker):
    connection = connect(broker)
    channel = connection.channel()
    queue = temporary_queue(channel)
    publish(channel, queue, 2)
    first = lib.await_true("a message", lambda: channel.basic_get(queue))
    channel.basic_reject(first.delivery_tag, requeue=True)
    again = channel.basic_get(queue)
    assert again.body == first.body and again.delivery_info["redelivered"]
    channel.basic_recover(requeue=True)
    third = channel.basic_get(queue)
    assert third.body == first.body and third.delivery_info["redelivered"]
    channel.basic_reject(third.delivery_tag, requeue=False)
    assert channel.queue_purge(queue) == 1
    assert channel.queue_delete(queue) == 0
    connection.close()


def case_exchanges(broker):
    connection = connect(broker)
    channel = connection.channel()
    queue = temporary_queue(channel)
    for kind in ("direct", "fanout", "topic", "headers"):
        name = f"pyamqp.{kind}"
        channel.exchange_declare(name, kind, auto_delete=True)
        arguments = {"x-match": "any", "k": "v"} if kind == "headers" else None
        channel.queue_bind(queue, name, "a.b" if kind != "topic" else "a.*", arguments=arguments)
        channel.basic_publish(amq_message(kind, application_headers={"k": "v"}), exchange=name,
                              routing_key="a.b")
        got = lib.await_true("the message", lambda: channel.basic_get(queue, no_ack=True))
        assert got.body == kind and got.delivery_info["exchange"] == name
    channel.exchange_bind("pyamqp.fanout", "pyamqp.direct", "through")
    channel.basic_publish(amq_message(b"e2e"), exchange="pyamqp.direct", routing_key="through")
    assert lib.await_true("the message", lambda: channel.basic_get(queue, no_ack=True)).body in ("e2e", b"e2e")
    channel.exchange_unbind("pyamqp.fanout", "pyamqp.direct", "through")
    channel.queue_delete(queue)
    connection.close()


def case_heartbeats(broker):
    connection = connect(broker, heartbeat=1)
    received = connection.bytes_recv
    # Nothing is asked: only the server's heartbeats can make the count rise.
    for _ in range(10):
        connection.send_heartbeat()
        try:
            connection.drain_events(timeout=0.4)  # below the server's interval of 0.5 s: it reads on else
        except TimeoutError:
            pass
    assert connection.bytes_recv > received
    temporary_queue(connection.channel())
    connection.close()


class Side(ledger.Side):
    lost = (exceptions.RecoverableConnectionError, OSError)

    def session(self, stage):
        with connect(self.ledger.broker, **self.where) as connection:
            self.connections += 1
            channel = connection.channel()
            channel.queue_declare(self.queue, durable=True, auto_delete=False)
            self.work(connection, channel, stage)

    def work(self, connection, channel, stage):
        raise NotImplementedError


class Publisher(Side):
    def work(self, connection, channel, stage):
        while not self.stopping:
            number = self.ledger.new()
            channel.basic_publish_confirm(amq_message(b"%d" % number, delivery_mode=2), exchange="",
                                          routing_key=self.queue)
            self.ledger.confirm(stage, number)


class Consumer(Side):
    def work(self, connection, channel, stage):
        def take(message):
            self.ledger.take(message.body, message.delivery_info["redelivered"])
            message.channel.basic_ack(message.delivery_tag)

        channel.basic_qos(0, 20, False)
        channel.basic_consume(self.queue, callback=take)
        while not self.stopping:
            try:
                connection.drain_events(timeout=0.1)
            except socket.timeout:
                pass


def recover(broker, queue, **options):
    kill_under_load(broker, queue, Publisher, Consumer, options)
    with connect(broker) as connection:
        connection.channel().queue_delete(queue)


@own_broker
def case_recovery_from_a_killed_broker(broker):
    recover(broker, "pyamqp.recovery")


@own_broker
def case_recovery_with_tls(broker):
    recover(broker, "pyamqp.recovery.tls", port=broker.tls_port, ssl=trusting(broker))


if __name__ == "__main__":
    sys.exit(lib.run_cases(globals(), common=matrix.tls_broker()))
