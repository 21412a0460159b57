#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# limit: 180 s
"""
Dead letters and limits as applications with pika use them: retries counted in x-death, a queue of the dead
that somebody drains, a log that keeps its newest lines, a full queue that tells its publishers.
"""
import random
import threading

import pika
from ledger import own_broker
from matrix import lib
from pika import exceptions

ANSWER_LIMIT_S = 60
ATTEMPTS = 4  # of a job, then it is given up


def connect(broker):
    return pika.BlockingConnection(pika.ConnectionParameters(
        broker.host, broker.port, heartbeat=0, blocked_connection_timeout=ANSWER_LIMIT_S))


def dead_letters_to(queue, **more):
    return {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue,
            **{name.replace("_", "-"): value for name, value in more.items()}}


def deaths(properties, queue, reason):
    """How often the message died so."""
    for death in (properties.headers or {}).get("x-death", []):
        if death["queue"] == queue and death["reason"] == reason:
            return death["count"]
    return 0


def count(channel, queue):
    return channel.queue_declare(queue, passive=True).method.message_count


def taken(channel, queue, number):
    """So many deliveries, each to be settled by whoever asks."""
    for place, delivery in enumerate(channel.consume(queue, inactivity_timeout=ANSWER_LIMIT_S), 1):
        assert delivery[0] is not None, f"{place - 1} of {number} deliveries came"
        yield delivery
        if place == number:
            break
    channel.cancel()


def publish_confirmed(channel, queue, numbers, **more):
    channel.confirm_delivery()
    for number in numbers:
        channel.basic_publish("", queue, b"%d" % number, pika.BasicProperties(
            delivery_mode=2, message_id=str(number), headers={"number": number}, **more))


# Retries: a job that fails is rejected, waits elsewhere and comes back; the worker reads how often.


def needs(number):
    """The attempt at which the job succeeds; more than ATTEMPTS: never."""
    return number % (ATTEMPTS + 2) + 1


def work(channel, jobs):
    """Until all jobs are done or given up: their numbers, and the attempts of each."""
    attempts, done, failed = {number: 0 for number in range(jobs)}, [], []
    for method, properties, body in channel.consume("dl.work", inactivity_timeout=ANSWER_LIMIT_S):
        assert method is not None, f"{len(done)} done, {len(failed)} given up"
        number = int(body)
        attempts[number] += 1
        before = deaths(properties, "dl.work", "rejected")
        assert before == attempts[number] - 1, (number, properties.headers)
        if before:
            assert properties.headers["x-first-death-queue"] == "dl.work", properties.headers
            assert deaths(properties, "dl.retry", "maxlen") == before, properties.headers
            assert properties.headers["x-death"][0]["queue"] == "dl.retry", properties.headers
        assert properties.headers["number"] == number and properties.message_id == str(number)
        if attempts[number] == needs(number):
            channel.basic_ack(method.delivery_tag)
            done.append(number)
        elif before + 1 == ATTEMPTS:
            channel.basic_publish("", "dl.failed", body, properties)
            channel.basic_ack(method.delivery_tag)
            failed.append(number)
        else:
            channel.basic_reject(method.delivery_tag, requeue=False)
        if len(done) + len(failed) == jobs:
            break
    channel.cancel()
    return attempts, done, failed


def case_retry_with_a_counter(broker):
    """The waiting place lets go at once: it may hold nothing."""
    jobs = 300
    connection = connect(broker)
    channel = connection.channel()
    channel.queue_declare("dl.work", durable=True, arguments=dead_letters_to("dl.retry"))
    channel.queue_declare("dl.retry", durable=True, arguments=dead_letters_to("dl.work", x_max_length=0))
    channel.queue_declare("dl.failed", durable=True)
    publish_confirmed(connection.channel(), "dl.work", range(jobs))
    channel.basic_qos(prefetch_count=20)
    attempts, done, failed = work(channel, jobs)
    assert sorted(done) == [n for n in range(jobs) if needs(n) <= ATTEMPTS]
    assert sorted(failed) == [n for n in range(jobs) if needs(n) > ATTEMPTS]
    assert all(attempts[n] == min(needs(n), ATTEMPTS) for n in attempts), attempts
    assert count(channel, "dl.work") == count(channel, "dl.retry") == 0
    for _, properties, _ in taken(connection.channel(), "dl.failed", len(failed)):
        assert deaths(properties, "dl.work", "rejected") == ATTEMPTS - 1, properties.headers
    for queue in ("dl.work", "dl.retry", "dl.failed"):
        channel.queue_delete(queue)
    connection.close()


# A queue of the dead, through a topic exchange, and two restarts. (Kills are tests/crash's.)


LAST = 1000000


def declare_dead(channel):
    channel.exchange_declare("dl.dead", "topic", durable=True)
    channel.queue_declare("dl.dead", durable=True)
    channel.queue_bind("dl.dead", "dl.dead", "dl.#")
    channel.queue_declare("dl.orders", durable=True, arguments={"x-dead-letter-exchange": "dl.dead"})


def reject_some(channel, numbers):
    """One in three, in groups: those that were, in the order of their deaths."""
    rejected, group = [], []
    for method, _, body in taken(channel, "dl.orders", numbers):
        number = int(body)
        if number % 3 == 0:
            group.append((number, method.delivery_tag))
        else:
            channel.basic_ack(method.delivery_tag)
        if len(group) == 5:
            chosen = random.Random(number).sample(group, len(group))
            for other, tag in chosen:
                channel.basic_nack(tag, requeue=False)
                rejected.append(other)
            group = []
    for number, tag in group:
        channel.basic_nack(tag, requeue=False)
        rejected.append(number)
    return rejected


@own_broker
def case_dead_letter_queue_is_drained(broker):
    orders = 1000
    connection = connect(broker)
    channel = connection.channel()
    declare_dead(channel)
    publish_confirmed(connection.channel(), "dl.orders", range(orders), expiration="100000000")
    channel.basic_qos(prefetch_count=50)
    rejected = reject_some(channel, orders)
    lib.await_true("all are dead", lambda: count(channel, "dl.dead") == len(rejected))
    publish_confirmed(connection.channel(), "dl.dead", [LAST])
    connection.close()
    broker.stop()
    broker.start()
    connection = connect(broker)
    channel = connection.channel()
    assert count(channel, "dl.orders") == 0 and count(channel, "dl.dead") == len(rejected) + 1
    half = len(rejected) // 2
    for place, (method, properties, body) in enumerate(taken(channel, "dl.dead", half)):
        assert int(body) == rejected[place], (int(body), rejected[place])
        assert method.exchange == "dl.dead" and method.routing_key == "dl.orders", method
        assert properties.expiration is None and properties.delivery_mode == 2, properties
        (death,) = properties.headers["x-death"]
        assert death["original-expiration"] == "100000000" and death["count"] == 1, death
        assert (death["queue"], death["reason"], death["exchange"], death["routing-keys"]) == (
            "dl.orders", "rejected", "", ["dl.orders"]), death
        assert death["time"].year > 2000, death
        channel.basic_ack(method.delivery_tag)
    connection.close()
    broker.stop()
    broker.start()
    connection = connect(broker)
    channel = connection.channel()
    left = rejected[half:] + [LAST]
    assert [int(body) for _, _, body in taken(channel, "dl.dead", len(left))] == left
    for queue in ("dl.orders", "dl.dead"):
        channel.queue_delete(queue)
    channel.exchange_delete("dl.dead")
    connection.close()


# A log that keeps its newest lines, while readers come and go.


class Reader(threading.Thread):
    """Reads for a while, goes away with what it did not acknowledge, and comes again."""

    def __init__(self, broker, queue, seed):
        super().__init__(daemon=True)
        self.broker, self.queue, self.chance = broker, queue, random.Random(seed)
        self.stopping, self.lines, self.error = False, 0, None
        self.start()

    def run(self):
        try:
            while not self.stopping:
                self.visit()
        except Exception as error:  # whatever it is, the case says so
            self.error = error

    def visit(self):
        connection = connect(self.broker)
        channel = connection.channel()
        channel.basic_qos(prefetch_count=self.chance.choice((1, 10, 100)))
        last, most, acks = -1, self.chance.randrange(1, 2000), self.chance.random() < 0.7
        for seen, (method, _, body) in enumerate(channel.consume(
                self.queue, auto_ack=not acks, inactivity_timeout=0.2)):
            if method is None or seen == most or self.stopping:
                break
            number = int(body.split(b" ")[0])
            assert method.redelivered or number > last, f"{number} after {last}"
            last = max(last, number)
            self.lines += 1
            if acks and self.chance.random() < 0.9:
                channel.basic_ack(method.delivery_tag)
        connection.close()

    def end(self):
        self.stopping = True
        self.join(ANSWER_LIMIT_S)
        assert not self.is_alive() and self.error is None, self.error
        return self.lines


SLACK = 4096  # of a queue on the disk: the oldest are read before they are dropped


def fill_log(broker, queue, lines, limit, persistent):
    """Writes all lines; the queue may never be seen longer than it may be."""
    connection = connect(broker)
    channel, other = connection.channel(), connection.channel()
    properties = pika.BasicProperties(delivery_mode=2 if persistent else 1)
    longest = 0
    for number in range(lines):
        channel.basic_publish("", queue, b"%d %s" % (number, b"x" * (number % 200)), properties)
        if number % 500 == 0:
            longest = max(longest, count(other, queue))
    assert longest <= limit + (SLACK if limit > 2048 else 0), longest
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"%d last" % lines, properties)
    connection.close()


def bounded_log(broker, queue, lines, limit, persistent):
    channel = connect(broker).channel()
    channel.queue_declare(queue, durable=persistent, arguments={"x-max-length": limit})
    readers = [Reader(broker, queue, seed) for seed in range(3)]
    fill_log(broker, queue, lines, limit, persistent)
    read = [reader.end() for reader in readers]
    assert all(read), read
    fill_log(broker, queue, lines, limit, persistent)
    lib.await_true("it is as long as it may be", lambda: count(channel, queue) == limit)
    left = [int(body.split(b" ")[0]) for _, _, body in taken(channel, queue, limit)]
    assert left == list(range(lines - limit + 1, lines + 1)), (left[0], left[-1], len(left))
    channel.queue_delete(queue)
    channel.connection.close()


def case_bounded_log_in_memory(broker):
    bounded_log(broker, "dl.log", 30000, 1000, False)


def case_bounded_log_on_disk(broker):
    bounded_log(broker, "dl.log.disk", 30000, 1000, True)


def case_long_bounded_log_on_disk(broker):
    """Longer than what the broker keeps in memory: the oldest must be read to be dropped."""
    bounded_log(broker, "dl.log.long", 30000, 10000, True)


# Far more rejected at once than the store writes together.


def case_one_nack_of_all(broker):
    """What is delivered while the dead letters are written is not of it."""
    jobs, later = 20000, 50
    connection = connect(broker)
    channel, publisher = connection.channel(), connect(broker).channel()
    channel.queue_declare("dl.buried", durable=True)
    channel.queue_declare("dl.many", durable=True, arguments=dead_letters_to("dl.buried"))
    for number in range(jobs):
        publisher.basic_publish("", "dl.many", b"%d %s" % (number, b"x" * 2000), pika.BasicProperties(delivery_mode=2))
    got = []
    channel.basic_consume("dl.many", lambda *delivery: got.append(delivery))
    while len(got) < jobs:
        connection.process_data_events(ANSWER_LIMIT_S)
    channel.basic_nack(0, multiple=True, requeue=False)
    publish_confirmed(publisher, "dl.many", range(later))
    while len(got) < jobs + later:
        connection.process_data_events(ANSWER_LIMIT_S)
    lib.await_true("all are dead", lambda: count(publisher, "dl.buried") == jobs)
    channel.basic_ack(got[-1][1].delivery_tag, multiple=True)
    channel.basic_cancel(channel.consumer_tags[0])
    assert count(channel, "dl.many") == 0 and count(channel, "dl.buried") == jobs
    numbers = [int(body.split(b" ")[0]) for _, _, body in taken(channel, "dl.buried", jobs)]
    assert numbers == list(range(jobs))
    for queue in ("dl.many", "dl.buried"):
        channel.queue_delete(queue)
    publisher.connection.close()
    connection.close()


# A full queue that tells its publishers.


def publish_all(channel, queue, numbers):
    """Those that were refused."""
    refused = []
    for number in numbers:
        try:
            channel.basic_publish("", queue, b"%d" % number, pika.BasicProperties(delivery_mode=2),
                                  mandatory=number % 2 == 0)
        except exceptions.NackError as error:
            assert [message.body for message in error.messages] in ([], [b"%d" % number]), error
            refused.append(number)
    return refused


def case_confirms_of_a_full_queue(broker):
    limit = 100
    connection = connect(broker)
    channel, other = connection.channel(), connection.channel()
    channel.queue_declare("dl.refused", durable=True)
    channel.queue_declare("dl.full", durable=True, arguments=dead_letters_to(
        "dl.refused", x_max_length=limit, x_overflow="reject-publish"))
    channel.confirm_delivery()
    assert publish_all(channel, "dl.full", range(2 * limit)) == list(range(limit, 2 * limit))
    for method, _, body in taken(other, "dl.full", limit // 2):
        assert int(body) == method.delivery_tag - 1
        other.basic_ack(method.delivery_tag)
    lib.await_true("what came beyond is back", lambda: count(other, "dl.full") == limit // 2)
    assert publish_all(channel, "dl.full", range(1000, 1000 + limit)) == list(range(1000 + limit // 2, 1000 + limit))
    assert count(channel, "dl.full") == limit and count(channel, "dl.refused") == 0
    for queue in ("dl.full", "dl.refused"):
        channel.queue_delete(queue)
    connection.close()


def case_refused_and_dead_lettered(broker):
    connection = connect(broker)
    channel = connection.channel()
    channel.queue_declare("dl.refused", durable=True)
    channel.queue_declare("dl.full", durable=True, arguments=dead_letters_to(
        "dl.refused", x_max_length_bytes=100, x_overflow="reject-publish-dlx"))
    channel.confirm_delivery()
    refused = publish_all(channel, "dl.full", range(10, 110))
    assert refused == list(range(60, 110)), refused
    for _, properties, body in taken(channel, "dl.refused", len(refused)):
        assert int(body) == refused.pop(0) and deaths(properties, "dl.full", "maxlen") == 1
    for queue in ("dl.full", "dl.refused"):
        channel.queue_delete(queue)
    connection.close()


if __name__ == "__main__":
    raise SystemExit(lib.run_cases(globals()))
