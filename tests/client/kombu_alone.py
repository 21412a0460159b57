#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# limit: 120 s
"""kombu without Celery: connections, producers, consumers, simple queues, and its own ways to reconnect."""
import socket
import ssl
import sys
import threading
import time

import matrix
from amqp import exceptions
from kombu import Connection, Consumer, Exchange, Producer, Queue
from kombu.mixins import ConsumerMixin
from kombu.pools import producers
from matrix import lib

WAIT_S = 15
CONFIRM = {"confirm_publish": True}
FAST = {"interval_start": 0.2, "interval_step": 0, "interval_max": 0.2}


def connect(broker, **more):
    url = f"pyamqp://guest:{more.pop('password', 'guest')}@{broker.host}:{broker.port}/{more.pop('vhost', '/')}"
    return Connection(url, transport_options={**CONFIRM, **more.pop("options", {})}, connect_timeout=10, **more)


def temporary(channel):
    queue = Queue("", exclusive=True)(channel)
    queue.declare()
    return queue


def count_of(queue):
    return queue.queue_declare(passive=True).message_count


class Taker:
    """A consumer whose messages are taken with take()."""

    def __init__(self, queue, **more):
        self.connection, self.messages = queue.channel.connection.client, []
        self.consumer = Consumer(queue.channel, [queue], on_message=self.messages.append,
                                 auto_declare=False, **more)
        self.consumer.consume()

    def take(self, count):
        while len(self.messages) < count:
            self.connection.drain_events(timeout=WAIT_S)
        taken, self.messages[:] = self.messages[:count], self.messages[count:]
        return taken


def bodies(messages):
    return [message.payload for message in messages]


def refused(kind, text, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"no {kind.__name__}")


def round_trip(connection, size=14):
    with connection.channel() as channel:
        queue = temporary(channel)
        body = {"text": "x" * size, "list": [1, None, 2.5]}
        Producer(channel).publish(body, routing_key=queue.name, serializer="json", compression="zlib",
                                  headers={"n": 5, "deep": {"list": [1, "zwei"]}}, priority=3, expiration=60)
        [message] = Taker(queue).take(1)
        assert message.payload == body
        assert message.headers["n"] == 5 and message.headers["deep"] == {"list": [1, "zwei"]}
        assert message.properties["priority"] == 3 and message.properties["expiration"] == "60000"
        message.ack()


def case_connect(broker):
    with connect(broker) as connection:
        round_trip(connection)
        round_trip(connection, 1000000)
        assert connection.info()["port"] == broker.port
    with connect(broker, login_method="PLAIN") as connection:
        round_trip(connection)
    refused(exceptions.AccessRefused, "ACCESS_REFUSED", connect(broker, password="wrong").connect)
    refused(exceptions.NotAllowed, "NOT_ALLOWED - vhost nowhere not found", connect(broker, vhost="nowhere").connect)


def case_connect_with_tls(broker):
    if not broker.tls_port:
        lib.skip("the server is a running one")
    url = f"pyamqp://guest:guest@127.0.0.1:{broker.tls_port}//"
    good = {"ca_certs": broker.ca, "cert_reqs": ssl.CERT_REQUIRED, "server_hostname": "127.0.0.1"}
    with Connection(url, ssl=good, transport_options=CONFIRM) as connection:
        round_trip(connection)
        round_trip(connection, 1000000)
    refused(OSError, "", Connection(url, ssl={"cert_reqs": ssl.CERT_REQUIRED, "server_hostname": "127.0.0.1"}).connect)


def case_declare_bind_delete(broker):
    with connect(broker) as connection, connection.channel() as channel:
        queue = temporary(channel)
        assert queue.name.startswith("amq.gen-"), queue.name
        kinds = ("direct", "fanout", "topic", "headers")
        for kind in kinds:
            exchange = Exchange(f"kombu.{kind}", kind, durable=False)(channel)
            exchange.declare()
            queue.bind_to(exchange, "a.#" if kind == "topic" else "a.b",
                          arguments={"x-match": "all", "k": 1} if kind == "headers" else None)
            Producer(channel, exchange).publish(kind, routing_key="a.b", headers={"k": 1})
        source = Exchange("kombu.source", "topic", durable=False)(channel)
        source.declare()
        Exchange("kombu.fanout")(channel).bind_to(source, "x.*")
        Producer(channel, source).publish("through", routing_key="x.y")
        assert bodies(Taker(queue, no_ack=True).take(5)) == [*kinds, "through"]
        Exchange("kombu.fanout")(channel).unbind_from(source, "x.*")
        queue.unbind_from(Exchange("kombu.direct"), "a.b")
        for name in (*kinds, "source"):
            Exchange(f"kombu.{name}")(channel).delete()
        Queue("kombu.arguments", exclusive=True, max_length=10, message_ttl=60, max_priority=5, expires=60,
              queue_arguments={"x-queue-mode": "lazy"})(channel).declare()
        other = Queue("kombu.arguments")(channel)
        for _ in range(3):
            Producer(channel).publish("x", routing_key="kombu.arguments")
        assert other.purge() == 3 and other.delete(if_empty=True) == 0


def case_publish_with_confirms(broker):
    with connect(broker) as connection, connection.channel() as channel:
        queue = temporary(channel)
        # With confirm_publish each publish waits for its confirm.
        for number in range(200):
            Producer(channel).publish(number, routing_key=queue.name)
        assert count_of(queue) == 200
        queue.purge()
        for size in (0, 1, 131064, 131065):
            Producer(channel).publish(b"x" * size, routing_key=queue.name)
            assert len(queue.get(no_ack=True).body) == size


def case_consume_with_prefetch(broker):
    with connect(broker) as connection, connection.channel() as channel:
        queue = temporary(channel)
        for number in range(10):
            Producer(channel).publish(number, routing_key=queue.name)
        # As Celery does it: what RabbitMQ calls global is the usual meaning elsewhere, and kombu looks who it is.
        apply_global = not connection.qos_semantics_matches_spec
        channel.basic_qos(0, 3, apply_global)
        taker = Taker(queue)
        first = taker.take(3)
        assert count_of(queue) == 7 and not taker.messages
        first[1].ack(multiple=True)
        second = taker.take(2)
        first[2].reject()
        second[1].ack(multiple=True)
        third = taker.take(3)
        assert bodies(first + second + third) == list(range(8))
        # It asks for more while its consumer is alive, as Celery does.
        taker.consumer.qos(prefetch_count=5, apply_global=apply_global)
        assert bodies(taker.take(2)) == [8, 9]


def case_reject_and_requeue(broker):
    with connect(broker) as connection, connection.channel() as channel:
        queue = temporary(channel)
        for body in "abc":
            Producer(channel).publish(body, routing_key=queue.name)
        a, b, c = [queue.get() for _ in range(3)]
        assert not any(message.delivery_info["redelivered"] for message in (a, b, c))
        b.requeue()
        a.requeue()
        c.reject()
        again = [queue.get() for _ in range(2)]
        assert bodies(again) == ["a", "b"] and all(message.delivery_info["redelivered"] for message in again)
        taker = Taker(queue)
        taker.consumer.recover(requeue=True)
        third = taker.take(2)
        assert bodies(third) == ["a", "b"]
        third[1].ack(multiple=True)
        assert queue.get() is None


def case_mandatory_return(broker):
    with connect(broker) as connection, connection.channel() as channel:
        returned = []
        producer = Producer(channel, Exchange("amq.direct"), auto_declare=False,
                            on_return=lambda *arguments: returned.append(arguments))
        producer.publish("lost", routing_key="kombu.nowhere", mandatory=True)
        # The publish has been confirmed, so the return has been here.
        [(error, exchange, key, message)] = returned
        assert error.reply_code == 312 and error.reply_text == "NO_ROUTE", error
        assert (exchange, key, message.body) == ("amq.direct", "kombu.nowhere", "lost")


def case_transactions(broker):
    with connect(broker, options={"confirm_publish": False}) as connection:
        channel, other = connection.channel(), connection.channel()
        queue = temporary(other)
        channel.tx_select()
        Producer(channel).publish("kept", routing_key=queue.name)
        assert count_of(queue) == 0
        channel.tx_commit()
        assert count_of(queue) == 1
        Producer(channel).publish("dropped", routing_key=queue.name)
        channel.tx_rollback()
        assert count_of(queue) == 1
        queue(channel).get().ack()
        channel.tx_rollback()
        channel.close()
        assert queue.get(no_ack=True).payload == "kept"


def case_channel_errors(broker):
    with connect(broker) as connection, connect(broker) as stranger:
        own = Queue("kombu.exclusive", exclusive=True)(connection.channel())
        own.declare()
        refused(exceptions.NotFound, "NOT_FOUND - no queue 'kombu.none' in vhost '/'",
                count_of, Queue("kombu.none")(connection.channel()))
        refused(exceptions.PreconditionFailed, "inequivalent arg 'x-max-length' for queue 'kombu.exclusive'",
                Queue("kombu.exclusive", exclusive=True, max_length=5)(connection.channel()).declare)
        refused(exceptions.AccessRefused, "contains reserved prefix 'amq.*'",
                connection.channel().exchange_declare, "amq.mine", "direct")
        refused(exceptions.ResourceLocked, "cannot obtain exclusive access to locked queue 'kombu.exclusive'",
                count_of, Queue("kombu.exclusive")(stranger.channel()))
        # A publish waits for its confirm, so it meets its error.
        refused(exceptions.NotFound, "no exchange 'kombu.none'", Producer(
            connection.channel(), Exchange("kombu.none"), auto_declare=False).publish, "lost")
        bad = connection.channel()
        bad.basic_ack(77)
        refused(exceptions.PreconditionFailed, "unknown delivery tag 77",
                connection.drain_events, timeout=WAIT_S)
        own.delete()
        round_trip(connection)


def case_the_server_cancels_a_consumer(broker):
    with connect(broker) as connection, connection.channel() as channel:
        queue = temporary(channel)
        cancelled = []
        channel.basic_consume(queue.name, consumer_tag="mine", on_cancel=cancelled.append)
        queue(connection.channel()).delete()
        while not cancelled:
            connection.drain_events(timeout=WAIT_S)
        assert cancelled == ["mine"]


def case_simple_queue(broker):
    with connect(broker) as connection:
        with connection.SimpleQueue("kombu.simple", no_ack=False) as simple:
            simple.put({"hello": 1})
            assert simple.qsize() == 1
            message = simple.get(block=True, timeout=WAIT_S)
            assert message.payload == {"hello": 1}
            message.ack()
            refused(simple.Empty, "", simple.get, block=False)
        Queue("kombu.simple")(connection.channel()).delete()


def case_heartbeats(broker):
    with connect(broker, heartbeat=2) as connection:
        connection.connect()
        assert connection.get_heartbeat_interval() == 2
        end = time.monotonic() + 4
        while time.monotonic() < end:
            connection.heartbeat_check(rate=4)
            try:
                connection.drain_events(timeout=0.5)
            except socket.timeout:
                pass
        round_trip(connection)


LOAD = Exchange("kombu.load", "topic", durable=False)
LOAD_QUEUE = Queue("kombu.load.q", LOAD, "load.#", durable=False)


class Worker(ConsumerMixin):
    """kombu's own frame of a worker: it connects again when the connection is lost, and declares all anew."""

    def __init__(self, connection):
        self.connection, self.seen, self.changed = connection, [], threading.Condition()
        self.connections = 0

    def get_consumers(self, Consumer, channel):  # noqa: N803
        self.connections += 1
        return [Consumer([LOAD_QUEUE], callbacks=[self.work], prefetch_count=20)]

    def work(self, body, message):
        message.ack()
        with self.changed:
            self.seen.append(body)
            self.changed.notify()

    def await_bodies(self, stage, count):
        with self.changed:
            arrived = self.changed.wait_for(lambda: self.seen.count(stage) >= count, WAIT_S)
            assert arrived, f"{stage}: {self.seen.count(stage)}"

    @property
    def restart_limit(self):
        """Without it, at most one new connection a second is made."""
        return type("Unlimited", (), {"can_consume": lambda self, tokens=1: True, "expected_time": lambda self: 0})()


def case_recovery_from_a_killed_broker(broker):
    if not broker.tls_port:
        lib.skip("the server is a running one")
    worker = Worker(connect(broker))
    working = threading.Thread(target=worker.run, kwargs=FAST, daemon=True)
    working.start()
    load = {"stage": "before", "errors": 0}

    def publish():
        with producers[connect(broker)].acquire(block=True) as producer:
            while load["stage"]:
                # retry: kombu connects again and publishes again.
                producer.publish(load["stage"], exchange=LOAD, routing_key="load.key", declare=[LOAD_QUEUE], retry=True,
                                 retry_policy={**FAST, "errback": lambda *_: load.update(errors=load["errors"] + 1)})

    publishing = threading.Thread(target=publish, daemon=True)
    publishing.start()
    worker.await_bodies("before", 200)
    matrix.restart(broker)
    load["stage"] = "after"
    worker.await_bodies("after", 200)
    load["stage"] = None
    worker.should_stop = True
    publishing.join(WAIT_S)
    working.join(WAIT_S)
    assert load["errors"] and worker.connections == 2, (load, worker.connections)


if __name__ == "__main__":
    sys.exit(lib.run_cases(globals(), common=matrix.tls_broker()))
