#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# limit: 180 s
"""
Retries with back-off as applications with pika use them: workers that give back what they failed to do, and only
that; jobs that fail for good; clean stops and kills in the middle of it.
"""
import time

import pika
from ledger import own_broker
from matrix import lib

ANSWER_LIMIT_S = 60
EARLY_S = 0.02  # clocks of two processes


def connect(broker):
    return pika.BlockingConnection(pika.ConnectionParameters(
        broker.host, broker.port, heartbeat=0, blocked_connection_timeout=ANSWER_LIMIT_S))


def retries(maximum, initial_ms, **more):
    return {"x-retry-max": maximum, "x-retry-initial": initial_ms, "x-retry-jitter": 0,
            **{f"x-{name.replace('_', '-')}": value for name, value in more.items()}}


def dead_letters_to(queue):
    return {"dead_letter_exchange": "", "dead_letter_routing_key": queue}


def failures(properties):
    return (properties.headers or {}).get("x-failure-count", 0)


def count(channel, queue):
    return channel.queue_declare(queue, passive=True).method.message_count


def publish_confirmed(channel, queue, numbers, size=0):
    """The confirm of the last one says that all are safe."""
    for number in numbers:
        if number == numbers[-1]:
            channel.confirm_delivery()
        channel.basic_publish("", queue, b"%d %s" % (number, b"x" * size), pika.BasicProperties(delivery_mode=2))


def taken(channel, queue, number):
    """So many deliveries, each to be settled by whoever asks."""
    for place, delivery in enumerate(channel.consume(queue, inactivity_timeout=ANSWER_LIMIT_S), 1):
        assert delivery[0] is not None, f"{place - 1} of {number} deliveries came"
        yield delivery
        if place == number:
            break
    channel.cancel()


def needs(number, attempts):
    """The attempt at which the job succeeds; more than attempts: never."""
    return number % (attempts + 2) + 1


def work(channel, queue, jobs, attempts, interval_s):
    """Until each job was done or failed as often as it may; how often each was tried."""
    tried, failed_at = {}, {}
    for method, properties, body in channel.consume(queue, inactivity_timeout=ANSWER_LIMIT_S):
        assert method is not None, tried
        number = int(body.split(b" ")[0])
        before = tried.get(number, 0)
        assert failures(properties) == before, (number, before, properties.headers)
        assert not method.redelivered, number
        if before:
            waited = time.monotonic() - failed_at[number]
            assert waited >= interval_s * 2 ** (before - 1) - EARLY_S, (number, before, waited)
        tried[number] = before + 1
        if tried[number] == needs(number, attempts):
            channel.basic_ack(method.delivery_tag)
        else:
            failed_at[number] = time.monotonic()
            channel.basic_nack(method.delivery_tag, requeue=True)
        if len(tried) == jobs and all(n >= min(needs(job, attempts), attempts) for job, n in tried.items()):
            break
    channel.cancel()
    return tried


def case_jobs_are_tried_again(broker):
    jobs, attempts = 300, 4
    connection = connect(broker)
    channel = connection.channel()
    channel.queue_declare("rt.dead", durable=True)
    channel.queue_declare("rt.work", durable=True, arguments=retries(attempts - 1, 100, **dead_letters_to("rt.dead")))
    publish_confirmed(connection.channel(), "rt.work", range(jobs))
    channel.basic_qos(prefetch_count=20)
    tried = work(channel, "rt.work", jobs, attempts, 0.1)
    hopeless = sorted(n for n in range(jobs) if needs(n, attempts) > attempts)
    lib.await_true("the hopeless are dead", lambda: count(channel, "rt.dead") == len(hopeless))
    assert count(channel, "rt.work") == 0
    assert all(tried[n] == min(needs(n, attempts), attempts) for n in range(jobs))
    dead = []
    for _, properties, body in taken(connection.channel(), "rt.dead", len(hopeless)):
        assert failures(properties) == attempts, properties.headers
        (death,) = properties.headers["x-death"]
        assert (death["queue"], death["reason"], death["count"]) == ("rt.work", "delivery_limit", 1), death
        dead.append(int(body.split(b" ")[0]))
    assert sorted(dead) == hopeless
    for queue in ("rt.work", "rt.dead"):
        channel.queue_delete(queue)
    connection.close()


def case_only_what_failed_is_charged(broker):
    """A worker that dies takes nothing with it; what it had prefetched is as it was."""
    jobs = 50
    connection = connect(broker)
    channel = connection.channel()
    channel.queue_declare("rt.charge", durable=True, arguments=retries(1, 100, retry_exhausted="drop"))
    publish_confirmed(connection.channel(), "rt.charge", range(jobs))
    for _ in range(3):
        worker = connect(broker)
        of_worker = worker.channel()
        of_worker.basic_qos(prefetch_count=jobs)
        got = []
        # not consume() and cancel(), with which pika nacks what it has prefetched
        of_worker.basic_consume("rt.charge", lambda *delivery: got.append(delivery))
        while len(got) < jobs:
            worker.process_data_events(ANSWER_LIMIT_S)
        worker.close()
    lib.await_true("all are back", lambda: count(channel, "rt.charge") == jobs)
    first = channel.basic_get("rt.charge")
    channel.basic_nack(first[0].delivery_tag, requeue=True)
    lib.await_true("the failed one is back", lambda: count(channel, "rt.charge") == jobs)
    came = [(int(body.split(b" ")[0]), failures(properties))
            for _, properties, body in taken(channel, "rt.charge", jobs)]
    assert came == [(n, 0) for n in range(1, jobs)] + [(0, 1)], came
    channel.queue_delete("rt.charge")
    connection.close()


def case_one_nack_of_all(broker):
    """Far more fails at once than the store writes together."""
    jobs = 5000
    connection = connect(broker)
    channel = connection.channel()
    channel.queue_declare("rt.many", durable=True, arguments=retries(3, 500))
    publish_confirmed(connection.channel(), "rt.many", range(jobs), size=2000)
    got = []
    channel.basic_consume("rt.many", lambda *delivery: got.append(delivery))
    while len(got) < jobs:
        connection.process_data_events(ANSWER_LIMIT_S)
    channel.basic_nack(0, multiple=True, requeue=True)
    while len(got) < 2 * jobs:
        connection.process_data_events(ANSWER_LIMIT_S)
    assert [int(body.split(b" ")[0]) for _, _, _, body in got[jobs:]] == list(range(jobs))
    assert all(failures(properties) == 1 for _, _, properties, _ in got[jobs:])
    channel.basic_ack(0, multiple=True)
    channel.basic_cancel(channel.consumer_tags[0])
    assert count(channel, "rt.many") == 0
    channel.queue_delete("rt.many")
    connection.close()


@own_broker
def case_what_waits_outlives_stops_and_kills(broker):
    """It comes in its time, with its count, or at once when its time was over meanwhile."""
    jobs = 500
    channel = connect(broker).channel()
    channel.queue_declare("rt.kept", durable=True, arguments=retries(5, 1500, retry_multiplier=1))
    publish_confirmed(channel, "rt.kept", range(jobs))
    for life, end in enumerate((broker.stop, broker.kill, broker.stop, broker.kill)):
        began = time.monotonic()
        for method, properties, _ in taken(channel, "rt.kept", jobs):
            assert failures(properties) == life, properties.headers
            channel.basic_nack(method.delivery_tag, requeue=True)
        # the answer says that all before it is safe
        channel.queue_declare("rt.safe", durable=True)
        channel.queue_delete("rt.safe")
        end()
        broker.start()
        channel = connect(broker).channel()
        lib.await_true("all came back", lambda: count(channel, "rt.kept") == jobs)
        assert time.monotonic() - began >= 1.5 - EARLY_S
    came = [(int(body.split(b" ")[0]), failures(properties))
            for _, properties, body in taken(channel, "rt.kept", jobs)]
    assert sorted(came) == [(n, 4) for n in range(jobs)], came[:10]
    channel.queue_delete("rt.kept")
    channel.connection.close()


if __name__ == "__main__":
    raise SystemExit(lib.run_cases(globals()))
