#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# limit: 300 s
"""
Durable queues that are much longer than what the broker keeps of them in memory: every message comes, in
order and whole, by every way to take it, before and after restarts of both kinds.
"""
import random

import pika
from ledger import own_broker
from matrix import lib
from pika import exceptions, frame, spec
from rawclient import RawClient

BLOB = random.Random(1).randbytes(1024 * 1024)
ANSWER_LIMIT_S = 60


def size_of(number):
    """Mostly small, up to 20 KB, a few of 300 KB."""
    chosen = number * 2654435761 % 2 ** 32
    if number % 1999 == 7:
        return 300000
    if number % 50 == 3:
        return chosen % 20000
    return chosen % 400


def body_of(number, size=None):
    size = size_of(number) if size is None else size
    at = number * 7919 % (len(BLOB) - 300000)
    return BLOB[at:at + size]


def properties_of(number, persistent=True):
    return pika.BasicProperties(delivery_mode=2 if persistent else 1, message_id=str(number),
                                headers={"number": number})


class Client:
    """A connection with one channel. Its sync() comes back when all that was published before is safe."""

    def __init__(self, broker):
        self.connection = pika.BlockingConnection(pika.ConnectionParameters(
            broker.host, broker.port, heartbeat=0, blocked_connection_timeout=ANSWER_LIMIT_S))
        self.channel = self.connection.channel()
        self.others = self.connection.channel()
        self.others.confirm_delivery()

    def sync(self):
        """Records are in one order, so one that is safe means that those before are."""
        name = self.others.queue_declare("", durable=True).method.queue
        self.channel.queue_declare(name, passive=True)  # what was sent on the other channel has come
        self.others.basic_publish("", name, b"", properties_of(0))
        self.others.queue_delete(name)

    def count(self, queue):
        return self.channel.queue_declare(queue, durable=True, passive=True).method.message_count

    def publish(self, exchange, key, number, persistent=True, size=None):
        self.channel.basic_publish(exchange, key, body_of(number, size),
                                   properties_of(number, persistent))

    def close(self):
        self.connection.close()


class Taken:
    """What must come from one queue, in order; it looks at each message that does."""

    def __init__(self, numbers):
        self.expected, self.at, self.size = numbers, 0, None
        self.redelivered_below = 0  # messages before this place were handed out before
        self.maybe_below = 0  # those before this place may have been

    def take(self, method, properties, body):
        number = self.expected[self.at]
        assert properties.message_id == str(number), \
            f"{properties.message_id} came, not {number}, at place {self.at}"
        assert body == body_of(number, self.size), f"the body of {number} is another one"
        assert properties.delivery_mode == 2 and properties.headers == {"number": number}, properties
        if self.at < self.redelivered_below:
            assert method.redelivered, f"{number} came before"
        elif self.at >= self.maybe_below:
            assert not method.redelivered, f"{number} did not come before"
        self.at += 1

    def left(self):
        return len(self.expected) - self.at

    def go_back(self, places):
        """So many are ready again."""
        self.redelivered_below = max(self.redelivered_below, self.at)
        self.at -= places

    def crashed(self):
        self.maybe_below = len(self.expected)


def drain_without_acks(client, queue, taken):
    """All of it: what a consumer without acknowledgements got beyond its wish would be lost."""
    def on_message(_channel, method, properties, body):
        taken.take(method, properties, body)
        if taken.left() == 0:
            client.channel.stop_consuming()

    client.channel.basic_consume(queue, on_message, auto_ack=True)
    client.channel.start_consuming()
    assert client.count(queue) == 0


def take_with_acks(client, queue, taken, count, prefetch=100, keep=0):
    """Acknowledges count messages, takes `keep` more and keeps them. What the consumer has been sent
    beyond goes back."""
    def on_message(_channel, method, properties, body):
        taken.take(method, properties, body)
        state["came"] += 1
        if state["came"] == count or (state["came"] < count and state["came"] % 7 == 0):
            client.channel.basic_ack(method.delivery_tag, multiple=True)
        if state["came"] == count + keep:
            client.channel.stop_consuming()

    state = {"came": 0}
    client.channel.basic_qos(prefetch_count=prefetch)
    client.channel.basic_consume(queue, on_message)
    client.channel.start_consuming()
    taken.maybe_below = max(taken.maybe_below, taken.at + prefetch)


def take_by_get(client, queue, taken, count):
    for i in range(count):
        method, properties, body = client.channel.basic_get(queue, auto_ack=i % 2 == 0)
        assert method is not None, f"empty after {i}"
        taken.take(method, properties, body)
        assert method.message_count == taken.left(), method
        if i % 2 == 1:
            client.channel.basic_ack(method.delivery_tag)


def publish_backlog(client, total):
    """Through a fanout and a topic exchange; what must be in each queue."""
    queues = {name: [] for name in ("durable.auto", "durable.acks", "durable.get")}
    channel = client.channel
    channel.exchange_declare("durable.all", "fanout", durable=True)
    channel.exchange_declare("durable.some", "topic", durable=True)
    for name in queues:
        channel.queue_declare(name, durable=True)
        channel.queue_bind(name, "durable.all")
    channel.queue_bind("durable.auto", "durable.some", "a.#")
    channel.queue_bind("durable.auto", "durable.some", "*.both")
    channel.queue_bind("durable.acks", "durable.some", "*.both")
    channel.queue_bind("durable.acks", "durable.some", "b.*")
    for number in range(total):
        kind = number % 20
        if kind == 0:
            client.publish("durable.all", "", number)
            reached = queues
        elif kind < 12:
            client.publish("durable.some", "a.only.these", number)
            reached = ("durable.auto",)
        elif kind < 14:
            client.publish("durable.some", "c.both", number)
            reached = ("durable.auto", "durable.acks")
        else:
            client.publish("durable.some", "b.one", number)
            reached = ("durable.acks",)
        for name in reached:
            queues[name].append(number)
    client.sync()
    return {name: Taken(numbers) for name, numbers in queues.items()}


def assert_counts(client, queues):
    for name, taken in queues.items():
        assert client.count(name) == taken.left(), (name, client.count(name), taken.left())


@own_broker
def case_backlog_through_restarts(broker):
    client = Client(broker)
    queues = publish_backlog(client, 100000)
    acks, get = queues["durable.acks"], queues["durable.get"]
    assert_counts(client, queues)
    take_with_acks(client, "durable.acks", acks, 5000, keep=50)
    acks.go_back(50)
    take_by_get(client, "durable.get", get, 1000)
    client.sync()
    # With 50 unacknowledged messages: the broker closes the connection.
    broker.stop()
    broker.start()

    client = Client(broker)
    assert_counts(client, queues)
    take_with_acks(client, "durable.acks", acks, 5000, prefetch=10, keep=10)
    take_by_get(client, "durable.get", get, 1000)
    client.sync()
    broker.kill()
    broker.start()

    acks.go_back(10)
    acks.crashed()
    get.crashed()
    client = Client(broker)
    assert_counts(client, queues)
    drain_without_acks(client, "durable.auto", queues["durable.auto"])
    take_with_acks(client, "durable.acks", acks, acks.left())
    take_by_get(client, "durable.get", get, get.left())
    client.sync()
    assert_counts(client, queues)
    broker.kill()
    broker.start()

    client = Client(broker)
    assert_counts(client, queues)
    for name in queues:
        client.channel.queue_delete(name)
    client.close()


def fill(client, queue, count, size=100):
    client.channel.queue_declare(queue, durable=True)
    for number in range(count):
        client.publish("", queue, number, size=size)
    client.sync()
    assert client.count(queue) == count


@own_broker
def case_purge_and_delete(broker):
    client = Client(broker)
    for queue in ("durable.purged", "durable.deleted", "durable.kept"):
        fill(client, queue, 10000)
    for _ in range(10):
        method, _, body = client.channel.basic_get("durable.purged")
        assert body == body_of(method.delivery_tag - 1, 100)
    assert client.channel.queue_purge("durable.purged").method.message_count == 9990
    assert client.count("durable.purged") == 0
    client.channel.basic_nack(3, requeue=True)
    method, _, body = client.channel.basic_get("durable.purged")
    assert method.redelivered and method.message_count == 0 and body == body_of(2, 100)
    client.channel.basic_nack(0, multiple=True, requeue=False)
    try:
        client.others.queue_delete("durable.deleted", if_empty=True)
    except exceptions.ChannelClosedByBroker as error:
        assert error.reply_code == 406, error
    else:
        raise AssertionError("it is not empty")
    assert client.channel.queue_delete("durable.deleted").method.message_count == 10000
    broker.kill()
    broker.start()
    client = Client(broker)
    assert client.count("durable.purged") == 0
    assert client.channel.queue_declare("durable.deleted", durable=True).method.message_count == 0
    taken = Taken(list(range(10000)))
    taken.size = 100
    assert client.count("durable.kept") == 10000
    drain_without_acks(client, "durable.kept", taken)
    for queue in ("durable.purged", "durable.deleted", "durable.kept"):
        client.channel.queue_delete(queue)
    client.close()


def publish_mixed(client, queue, count):
    """Every third message is transient."""
    client.channel.queue_declare(queue, durable=True)
    for number in range(count):
        client.publish("", queue, number, persistent=number % 3 != 1, size=number % 500)
    client.sync()


@own_broker
def case_transient_between_persistent(broker):
    queue, count = "durable.mixed", 9000
    client = Client(broker)
    publish_mixed(client, queue, count)
    assert client.count(queue) == count
    number = 0
    for method, properties, body in client.channel.consume(queue, inactivity_timeout=ANSWER_LIMIT_S):
        assert method is not None, f"only {number} came"
        assert properties.message_id == str(number) and body == body_of(number, number % 500), number
        client.channel.basic_ack(method.delivery_tag)
        number += 1
        if number == count:
            break
    client.channel.cancel()
    assert client.count(queue) == 0
    publish_mixed(client, queue, count)
    broker.kill()
    broker.start()
    client = Client(broker)
    assert client.count(queue) == count - count // 3
    for number in range(count):
        if number % 3 != 1:
            _, properties, _ = client.channel.basic_get(queue, auto_ack=True)
            assert properties.message_id == str(number), (properties, number)
    client.channel.queue_delete(queue)
    client.close()


def open_with_frames(broker, frame_max):
    client = RawClient(broker)
    client.start()
    client.send(spec.Connection.StartOk(client_properties={}, response="\0guest\0guest"), 0)
    tune = client.expect(spec.Connection.Tune)
    assert tune.frame_max == frame_max
    client.send(spec.Connection.TuneOk(tune.channel_max, frame_max, 0), 0)
    client.send(spec.Connection.Open("/"), 0)
    client.expect(spec.Connection.OpenOk)
    client.rpc(spec.Channel.Open(), spec.Channel.OpenOk)
    return client


def raw_publish(client, queue, properties, body):
    client.socket.sendall(b"".join((
        frame.Method(1, spec.Basic.Publish(routing_key=queue)).marshal(),
        frame.Header(1, len(body), properties).marshal(),
        frame.Body(1, body).marshal() if body else b"")))


def case_large_header_table():
    """Larger than the frames that brokers take by default: 200 KB of headers in one message."""
    headers = {f"key{i}": "v" * 2000 for i in range(100)}
    properties = spec.BasicProperties(delivery_mode=2, headers=headers)
    with lib.Broker({"frame_max": "1048576"}) as broker:
        if broker.external:
            lib.skip("needs frames larger than usual")
        client = open_with_frames(broker, 1048576)
        client.declare("durable.headers", durable=True)
        for i in range(30):  # 6 MB: most are not kept in memory
            raw_publish(client, "durable.headers", properties, b"%d" % i)
        assert client.declare("durable.headers", durable=True).message_count == 30
        client.close()
        broker.stop()
        broker.start()
        client = open_with_frames(broker, 1048576)
        client.consume("durable.headers")
        for i in range(30):
            client.expect(spec.Basic.Deliver)
            header = client.read_frame()
            assert header.properties.headers == headers
            assert client.read_frame().fragment == b"%d" % i
        client.close()


@own_broker
def case_get_waits_for_the_disk(broker):
    """Nothing of the queue is in memory after a restart. What is sent behind a get is answered behind it;
    a queue that goes while a get waits is answered for, too."""
    client = Client(broker)
    fill(client, "durable.got", 5000)
    for _ in range(3):
        broker.kill()
        broker.start()
        raw = RawClient(broker).open()
        raw.send(spec.Basic.Get(queue="durable.got", no_ack=False))
        raw.send(spec.Queue.Declare(queue="durable.got", passive=True))
        got = raw.expect(spec.Basic.GetOk)
        assert got.message_count == 4999
        assert raw.read_frame().properties.message_id == "0"
        assert raw.read_frame().fragment == body_of(0, 100)
        assert raw.expect(spec.Queue.DeclareOk).message_count == 4999
        raw.close()
    broker.kill()
    broker.start()
    one, other = RawClient(broker).open(), RawClient(broker).open()
    one.send(spec.Basic.Get(queue="durable.got", no_ack=True))
    other.rpc(spec.Queue.Delete(queue="durable.got"), spec.Queue.DeleteOk)
    found = one.read_frame().method
    assert isinstance(found, spec.Basic.GetOk) or found.reply_code == 404, found
    one.close()
    other.close()


def sanitized():
    with open(lib.pannierd(), "rb") as program:
        return b"__asan_init" in program.read()


def case_memory_stays_small():
    """A long queue costs disk."""
    with lib.Broker() as broker:
        if broker.external or sanitized():
            lib.skip("not for what others run or a sanitizer watches")
        client = RawClient(broker).open()
        client.declare("durable.long", durable=True)
        body = bytes(100)
        one = b"".join((
            frame.Method(1, spec.Basic.Publish(routing_key="durable.long")).marshal(),
            frame.Header(1, len(body), spec.BasicProperties(delivery_mode=2)).marshal(),
            frame.Body(1, body).marshal()))
        for _ in range(300):
            client.socket.sendall(one * 1000)
        assert client.declare("durable.long", durable=True).message_count == 300000
        rss = broker.rss() / 1e6
        print(f"     {rss:.1f} MB", flush=True)
        assert rss < 40, f"{rss:.1f} MB"
        client.rpc(spec.Queue.Delete(queue="durable.long"), spec.Queue.DeleteOk)
        client.close()


if __name__ == "__main__":
    raise SystemExit(lib.run_cases(globals()))
