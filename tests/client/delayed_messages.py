#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# limit: 180 s
"""
x-delayed-message exchanges as applications with pika use them: reminders, each at its time; retries that wait longer
each time; schedules that outlive restarts. RabbitMQ needs its plugin for them.
"""
import random
import time

import pika
from ledger import own_broker
from matrix import lib

ANSWER_LIMIT_S = 60
EARLY_S = 0.1  # of a turn of the broker that began before the publish that it reads
LATE_S = 5     # a machine may be busy


def connect(broker):
    return pika.BlockingConnection(pika.ConnectionParameters(
        broker.host, broker.port, heartbeat=0, blocked_connection_timeout=ANSWER_LIMIT_S))


def declare(channel, name, kind, **more):
    """An exchange with one queue of its name, which gets all."""
    channel.exchange_declare(name, "x-delayed-message", arguments={"x-delayed-type": kind}, **more)
    channel.queue_declare(name, durable=more.get("durable", False))
    channel.queue_bind(name, name, "#" if kind == "topic" else name)


def delayed(ms, **more):
    return pika.BasicProperties(headers={"x-delay": ms, **more.pop("headers", {})}, **more)


def taken(channel, queue, number):
    for place, delivery in enumerate(channel.consume(queue, auto_ack=True, inactivity_timeout=ANSWER_LIMIT_S), 1):
        assert delivery[0] is not None, f"{place - 1} of {number} deliveries came"
        yield delivery
        if place == number:
            break
    channel.cancel()


def count(channel, queue):
    return channel.queue_declare(queue, passive=True).method.message_count


def case_reminders_come_at_their_time(broker):
    """In the order of their times, and none too soon."""
    reminders, chance = 400, random.Random(1)
    connection = connect(broker)
    channel = connection.channel()
    declare(channel, "dm.reminders", "direct")
    publisher = connection.channel()
    publisher.confirm_delivery()
    due = []
    for number in range(reminders):
        ms = chance.randrange(1500, 3000)
        publisher.basic_publish("dm.reminders", "dm.reminders", b"%d" % number, delayed(
            ms, delivery_mode=1 + number % 2, headers={"number": number}), mandatory=True)
        due.append(time.monotonic() + ms / 1000)
    assert count(channel, "dm.reminders") == 0
    late = []
    for _, properties, body in taken(channel, "dm.reminders", reminders):
        now, number = time.monotonic(), int(body)
        assert now > due[number] - EARLY_S, f"{due[number] - now} s too soon"
        assert -3000 < properties.headers["x-delay"] <= -1500 and properties.headers["number"] == number
        late.append(now - due[number])
    assert max(late) < LATE_S, max(late)
    for name in ("dm.reminders",):
        channel.queue_delete(name)
        channel.exchange_delete(name)
    connection.close()


def case_order_is_that_of_their_times(broker):
    connection = connect(broker)
    channel = connection.channel()
    declare(channel, "dm.order", "fanout")
    for number in range(50):
        channel.basic_publish("dm.order", "", b"%d" % number, delayed(2000 - 30 * number))
    channel.basic_publish("dm.order", "", b"now")
    order = [body for _, _, body in taken(channel, "dm.order", 51)]
    assert order == [b"now"] + [b"%d" % number for number in reversed(range(50))], order
    channel.exchange_delete("dm.order")
    channel.queue_delete("dm.order")
    connection.close()


# Retries: the worker publishes what fails again, with a delay that grows.

FIRST_MS, ATTEMPTS = 50, 4


def case_retries_wait_longer_each_time(broker):
    jobs = 40
    connection = connect(broker)
    channel = connection.channel()
    declare(channel, "dm.retry", "topic", durable=True)
    for number in range(jobs):
        channel.basic_publish("dm.retry", "job.new", b"%d" % number, pika.BasicProperties(delivery_mode=2))
    done, began, last = {}, {}, {}
    for method, properties, body in channel.consume("dm.retry", inactivity_timeout=ANSWER_LIMIT_S):
        assert method is not None, f"{len(done)} of {jobs} are done"
        number, now = int(body), time.monotonic()
        headers = properties.headers or {}
        attempt = headers.get("attempt", 0)
        began.setdefault(number, now)
        if attempt:
            wait_s = FIRST_MS * 2 ** (attempt - 1) / 1000
            assert headers["x-delay"] == -int(wait_s * 1000), headers
            assert now - last[number] > wait_s - EARLY_S, (number, attempt, now - last[number])
            assert method.routing_key == "job.again", method
        last[number] = now
        if attempt == number % ATTEMPTS:
            done[number] = attempt
        else:
            channel.basic_publish("dm.retry", "job.again", body, delayed(
                FIRST_MS * 2 ** attempt, delivery_mode=2, headers={"attempt": attempt + 1}))
        channel.basic_ack(method.delivery_tag)
        if len(done) == jobs:
            break
    channel.cancel()
    assert all(done[number] == number % ATTEMPTS for number in range(jobs)), done
    channel.exchange_delete("dm.retry")
    channel.queue_delete("dm.retry")
    connection.close()


# A schedule for later, and restarts meanwhile: one that is asked for, and one that is not.


@own_broker
def case_a_schedule_outlives_restarts(broker):
    entries, wait_ms = 3000, 4000
    connection = connect(broker)
    channel = connection.channel()
    declare(channel, "dm.plan", "direct", durable=True)
    channel.tx_select()
    for number in range(entries):
        channel.basic_publish("dm.plan", "dm.plan", b"%d" % number, delayed(
            wait_ms + number // 10, delivery_mode=2), mandatory=True)
    channel.tx_commit()  # all delays begin now
    committed = time.monotonic()
    for end in (broker.stop, broker.kill):
        end()
        broker.start()
    connection = connect(broker)
    channel = connection.channel()
    if time.monotonic() < committed + wait_ms / 1000 - 1:
        assert count(channel, "dm.plan") == 0
    lib.await_true("the plan is done", lambda: count(channel, "dm.plan") == entries)
    numbers = [int(body) for _, _, body in taken(channel, "dm.plan", entries)]
    assert numbers == list(range(entries)), numbers
    time.sleep(0.5)
    assert count(channel, "dm.plan") == 0
    connection.close()


# As MassTransit does it: it declares once, then passively, and publishes to an exchange that leads there.


def case_as_masstransit_does_it(broker):
    connection = connect(broker)
    channel = connection.channel()
    channel.exchange_declare("dm.orders", "fanout", durable=True, auto_delete=False)
    channel.queue_declare("dm.orders", durable=True)
    channel.queue_bind("dm.orders", "dm.orders", "")
    channel.exchange_declare("dm.orders_delay", "x-delayed-message", durable=True,
                             arguments={"x-delayed-type": "fanout"})
    channel.exchange_bind("dm.orders", "dm.orders_delay", "")
    channel.exchange_declare("dm.orders_delay", "x-delayed-message", passive=True)
    began = time.monotonic()
    channel.confirm_delivery()
    channel.basic_publish("dm.orders_delay", "", b"order", delayed(1 << 9, delivery_mode=2), mandatory=True)
    ((method, properties, body),) = taken(channel, "dm.orders", 1)
    assert body == b"order" and method.exchange == "dm.orders_delay" and properties.headers == {"x-delay": -512}
    assert time.monotonic() - began > 0.512 - EARLY_S
    for name in ("dm.orders", "dm.orders_delay"):
        channel.exchange_delete(name)
    channel.queue_delete("dm.orders")
    connection.close()


def case_a_deleted_exchange_forgets(broker):
    connection = connect(broker)
    channel = connection.channel()
    declare(channel, "dm.gone", "fanout", durable=True)
    for _ in range(100):
        channel.basic_publish("dm.gone", "", b"never", delayed(300, delivery_mode=2))
    channel.exchange_delete("dm.gone", if_unused=False)
    declare(channel, "dm.gone", "fanout", durable=True)
    channel.basic_publish("dm.gone", "", b"later", delayed(600, delivery_mode=2))
    ((_, _, body),) = taken(channel, "dm.gone", 1)
    assert body == b"later" and count(channel, "dm.gone") == 0
    channel.exchange_delete("dm.gone")
    channel.queue_delete("dm.gone")
    connection.close()


if __name__ == "__main__":
    raise SystemExit(lib.run_cases(globals()))
