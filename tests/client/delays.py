#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# limit: 120 s
"""
Delays that applications build of TTLs and dead letters, with pika: a queue per delay as Laravel makes them, levels of
queues as Celery 5.5 and NServiceBus have them, retries that wait longer each time, poison messages, and all of it
while the broker is killed.
"""
import random
import time

import pika
from ledger import own_broker
from matrix import lib

LIMIT_S = 30
JOBS = 300


def connect(broker):
    return pika.BlockingConnection(pika.ConnectionParameters(
        broker.host, broker.port, heartbeat=0, blocked_connection_timeout=LIMIT_S))


def channel_of(broker):
    channel = connect(broker).channel()
    channel.confirm_delivery()
    return channel


def count(channel, queue):
    return channel.queue_declare(queue, passive=True).method.message_count


def taken(channel, queue, number):
    """So many deliveries, acknowledged: (seconds, body, properties) of each."""
    found = []
    for method, properties, body in channel.consume(queue, inactivity_timeout=LIMIT_S):
        assert method is not None, f"{len(found)} of {number} came"
        found.append((time.monotonic(), body, properties))
        channel.basic_ack(method.delivery_tag)
        if len(found) == number:
            break
    channel.cancel()
    return found


def persistent(**more):
    return pika.BasicProperties(delivery_mode=2, **more)


# Laravel: "later" declares a queue for the delay, which leads to the work queue and goes when nobody uses it.


def later(channel, queue, delay_ms, body):
    name = f"{queue}.delay.{delay_ms}"
    channel.queue_declare(name, durable=True, arguments={
        "x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue, "x-message-ttl": delay_ms,
        "x-expires": 2 * delay_ms + 500})
    channel.basic_publish("", name, body, persistent())
    return name


def is_gone(channel, queue):
    """A publish says so and is no use of it: to ask for it would be."""
    try:
        channel.basic_publish("", queue, b"probe", mandatory=True)
        return False
    except pika.exceptions.UnroutableError:
        return True


def case_a_queue_for_each_delay(broker):
    channel = channel_of(broker)
    channel.queue_declare("laravel", durable=True)
    delays = [random.choice((200, 400, 800, 1200)) for _ in range(JOBS)]
    sent, names = {}, set()
    for number, delay in enumerate(delays):
        sent[number] = time.monotonic()
        names.add(later(channel, "laravel", delay, b"%d" % number))
    came = taken(channel, "laravel", JOBS)
    assert sorted(int(body) for _, body, _ in came) == list(range(JOBS))
    of_delay = {}
    for at, body, properties in came:
        number = int(body)
        assert at >= sent[number] + delays[number] / 1000 - 0.002, (number, at - sent[number])
        of_delay.setdefault(delays[number], []).append(number)
        death = properties.headers["x-death"][0]
        assert death["queue"] == f"laravel.delay.{delays[number]}" and death["reason"] == "expired", death
    for numbers in of_delay.values():
        assert numbers == sorted(numbers)
    assert count(channel, "laravel") == 0
    # A delay for which nobody asks any more goes, and can be made anew.
    for name in names:
        lib.await_true(f"{name} is gone", lambda: is_gone(channel, name), LIMIT_S, 0.05)
    channel.queue_purge("laravel")
    later(channel, "laravel", 200, b"again")
    assert taken(channel, "laravel", 1)[0][1] == b"again"
    channel.connection.close()


# Levels: bit n of the key is 1 when the message is to wait 2^n units; level 0 leads to the work.

LEVELS, UNIT_MS = 5, 100


def make_levels(channel):
    for level in reversed(range(LEVELS)):
        name = f"levels_{level}"
        below = f"levels_{level - 1}" if level else "levels_delivery"
        channel.exchange_declare(name, "topic", durable=True)
        channel.exchange_declare(below, "topic", durable=True)
        channel.queue_declare(name, durable=True, arguments={
            "x-queue-type": "quorum", "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
            "x-dead-letter-exchange": below, "x-message-ttl": UNIT_MS << level})
        key = ["*"] * LEVELS
        key[LEVELS - 1 - level] = "1"
        channel.queue_bind(name, name, ".".join(key) + ".#")
        key[LEVELS - 1 - level] = "0"
        channel.exchange_bind(below, name, ".".join(key) + ".#")
    channel.queue_declare("levels.work", durable=True, arguments={"x-queue-type": "quorum"})
    channel.queue_bind("levels.work", "levels_delivery", "#.levels-work")


def send_in(channel, units, body):
    bits = ".".join(f"{units:0{LEVELS}b}")
    channel.basic_publish(f"levels_{LEVELS - 1}", f"{bits}.levels-work", body, persistent(), mandatory=True)


def case_levels_of_queues(broker):
    channel = channel_of(broker)
    make_levels(channel)
    sent, units = {}, [number % (1 << LEVELS) for number in range(64)]
    random.shuffle(units)
    for number, wait in enumerate(units):
        sent[number] = time.monotonic()
        send_in(channel, wait, b"%d" % number)
    for at, body, properties in taken(channel, "levels.work", len(units)):
        number = int(body)
        waited = at - sent.pop(number)
        assert waited >= units[number] * UNIT_MS / 1000 - 0.002 * LEVELS, (units[number], waited)
        levels = [f"levels_{n}" for n in range(LEVELS) if units[number] >> n & 1]
        deaths = (properties.headers or {}).get("x-death", [])
        assert sorted(death["queue"] for death in deaths) == levels, (levels, deaths)
    assert not sent
    channel.connection.close()


# Retries with a wait of their own, each twice as long: an expiration in one queue for all of them.


def case_expirations_of_many_lengths(broker):
    """Each job comes back by itself when it waits behind longer ones; those of RabbitMQ wait for them."""
    channel = channel_of(broker)
    channel.queue_declare("backoff.work", durable=True)
    channel.queue_declare("backoff.wait", durable=True, arguments={
        "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "backoff.work"})
    began = time.monotonic()
    for number in range(20):
        channel.basic_publish("", "backoff.work", b"%d" % number, persistent())
    tries = {number: 0 for number in range(20)}
    due = dict.fromkeys(tries, began)
    done = 0
    for method, properties, body in channel.consume("backoff.work", inactivity_timeout=LIMIT_S):
        assert method is not None, tries
        number = int(body)
        assert time.monotonic() >= due[number] - 0.002, (number, tries[number])
        tries[number] += 1
        if tries[number] == 4:
            done += 1
        else:
            wait_ms = 50 << tries[number] if number % 2 else 400 >> tries[number]
            due[number] = time.monotonic() + wait_ms / 1000
            channel.basic_publish("", "backoff.wait", body, persistent(expiration=str(wait_ms)))
        channel.basic_ack(method.delivery_tag)
        if done == len(tries):
            break
    channel.cancel()
    assert count(channel, "backoff.wait") == count(channel, "backoff.work") == 0
    channel.connection.close()


# Poison: a message that kills whoever takes it.


def case_poison_ends_at_its_limit(broker):
    channel = channel_of(broker)
    channel.queue_declare("poison.dead", durable=True)
    channel.queue_declare("poison.work", durable=True, arguments={
        "x-queue-type": "quorum", "x-delivery-limit": 3, "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "poison.dead"})
    for body in (b"good 1", b"poison", b"good 2"):
        channel.basic_publish("", "poison.work", body, persistent())
    counts, good = [], []
    while len(good) < 2 or len(counts) < 4:
        worker = connect(broker).channel()
        worker.basic_qos(prefetch_count=1)
        for method, properties, body in worker.consume("poison.work", inactivity_timeout=1):
            if body == b"poison":
                counts.append((properties.headers or {}).get("x-delivery-count"))
                break
            if method is None:
                break
            good.append(body)
            worker.basic_ack(method.delivery_tag)
        worker.connection.close()  # what it holds goes back
    assert counts == [None, 1, 2, 3], counts
    assert sorted(good) == [b"good 1", b"good 2"]
    (_, body, properties), = taken(channel, "poison.dead", 1)
    assert body == b"poison"
    assert properties.headers["x-death"][0]["reason"] == "delivery_limit", properties.headers
    assert count(channel, "poison.work") == 0
    channel.connection.close()


# The broker is killed while messages wait.


@own_broker
def case_delays_go_on_after_a_kill(broker):
    """None is lost, none comes before its time, none waits from the beginning again."""
    channel = channel_of(broker)
    channel.queue_declare("killed", durable=True)
    due = {}
    for number in range(JOBS):
        delay = (500, 3000, 6000)[number % 3]
        due[number] = time.monotonic() + delay / 1000
        name = f"killed.delay.{delay}"
        channel.queue_declare(name, durable=True, arguments={
            "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "killed", "x-message-ttl": delay})
        channel.basic_publish("", name, b"%d" % number, persistent())
    lib.await_true("the first ones are due", lambda: count(channel, "killed") == JOBS // 3, LIMIT_S, 0.05)
    broker.kill()
    broker.start()
    channel = channel_of(broker)
    came = taken(channel, "killed", JOBS)
    assert sorted(int(body) for _, body, _ in came) == list(range(JOBS))
    late = max(at - due[int(body)] for at, body, _ in came if int(body) % 3 == 2)
    assert min(at - due[int(body)] for at, body, _ in came) >= -0.05 and late < 3, late
    assert count(channel, "killed") == 0
    channel.connection.close()


@own_broker
def case_thousands_of_expirations_over_a_kill(broker):
    """More than a broker has at hand: most of them are on the disk when their time is over."""
    number, wait_ms = 8000, 3000
    channel = connect(broker).channel()
    channel.queue_declare("many", durable=True)
    channel.queue_declare("many.wait", durable=True, arguments={
        "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "many"})
    for n in range(number):
        channel.basic_publish("", "many.wait", b"%d" % n, persistent(expiration=str(wait_ms)))
    sent = time.monotonic()
    channel.confirm_delivery()
    channel.basic_publish("", "many.wait", b"%d" % number, persistent(expiration=str(wait_ms)))
    broker.kill()
    broker.start()
    channel = channel_of(broker)
    assert count(channel, "many.wait") == number + 1 and count(channel, "many") == 0
    came = taken(channel, "many", number + 1)
    assert [int(body) for _, body, _ in came] == list(range(number + 1))
    assert came[-1][0] >= sent + wait_ms / 1000 - 0.05 and count(channel, "many.wait") == 0
    channel.connection.close()


if __name__ == "__main__":
    raise SystemExit(lib.run_cases(globals()))
