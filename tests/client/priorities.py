#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# limit: 180 s
"""
Priorities as applications with pika use them: urgent jobs that overtake a backlog, in memory and on the disk, over
restarts and a kill, and queues of priorities that are full.
"""
import heapq
import random

import pika
from ledger import own_broker
from matrix import lib

ANSWER_LIMIT_S = 60
LEVELS = 10


def connect(broker):
    return pika.BlockingConnection(pika.ConnectionParameters(
        broker.host, broker.port, heartbeat=0, blocked_connection_timeout=ANSWER_LIMIT_S))


def declare(channel, queue, durable=True, **more):
    channel.queue_declare(queue, durable=durable, arguments={
        "x-max-priority": LEVELS, **{name.replace("_", "-"): value for name, value in more.items()}})


def count(channel, queue):
    return channel.queue_declare(queue, passive=True).method.message_count


def publish(channel, queue, number, priority, persistent=True, size=0):
    channel.basic_publish("", queue, b"%d %s" % (number, b"x" * size), pika.BasicProperties(
        delivery_mode=2 if persistent else 1, priority=priority))


def number_of(body):
    return int(body.split(b" ")[0])


def rank(number, priority):
    """What comes first is least."""
    return -min(priority or 0, LEVELS), number


class Backlog:
    """What waits, as a heap of ranks."""

    def __init__(self, seed):
        self.chance, self.ready, self.priorities = random.Random(seed), [], {}

    def fill(self, connection, queue, jobs, persistent=True, size=0):
        """Without a priority, with one of those, and above them. The last one is confirmed, and with it all."""
        channel = connection.channel()
        for place in range(jobs):
            if place == jobs - 1:
                channel.confirm_delivery()
            number = len(self.priorities)
            priority = self.chance.choice((None, 0, 1, 1, 2, 5, 5, LEVELS, LEVELS + 7, 255))
            self.priorities[number] = priority
            publish(channel, queue, number, priority, persistent, self.chance.randrange(size + 1))
            heapq.heappush(self.ready, rank(number, priority))
        channel.close()

    def come(self, properties, body):
        """It must be the next one."""
        number = number_of(body)
        priority = self.priorities[number]
        assert properties.priority == priority, (properties.priority, priority)
        expected = heapq.heappop(self.ready)
        assert rank(number, priority) == expected, f"{rank(number, priority)} came, not {expected}"
        return number

    def back(self, number):
        heapq.heappush(self.ready, rank(number, self.priorities[number]))


def drain(channel, queue, backlog, jobs):
    """So many deliveries, acknowledged, in the order of the backlog."""
    for place, (method, properties, body) in enumerate(channel.consume(
            queue, inactivity_timeout=ANSWER_LIMIT_S), 1):
        assert method is not None, f"{place - 1} of {jobs} came"
        backlog.come(properties, body)
        channel.basic_ack(method.delivery_tag)
        if place == jobs:
            break
    channel.cancel()


# A worker with one job at a time, which gives some back, while more come.


def case_one_job_at_a_time(broker):
    jobs = 1500
    connection = connect(broker)
    channel = connection.channel()
    declare(channel, "pr.work", durable=False)
    backlog = Backlog(1)
    backlog.fill(connection, "pr.work", jobs, persistent=False)
    channel.basic_qos(prefetch_count=1)
    for method, properties, body in channel.consume("pr.work", inactivity_timeout=ANSWER_LIMIT_S):
        assert method is not None, f"{len(backlog.ready)} wait"
        number = backlog.come(properties, body)
        if backlog.chance.random() < 0.02:
            backlog.fill(connection, "pr.work", 10, persistent=False)
        if backlog.chance.random() < 0.2:
            backlog.back(number)
            channel.basic_reject(method.delivery_tag, requeue=True)
        else:
            channel.basic_ack(method.delivery_tag)
        if not backlog.ready:
            break
    channel.cancel()
    assert count(channel, "pr.work") == 0
    channel.queue_delete("pr.work")
    connection.close()


def case_many_workers_share_all_priorities(broker):
    """Each gets what is highest when it asks: what one has seen never rises."""
    jobs = 3000
    connection = connect(broker)
    channel = connection.channel()
    declare(channel, "pr.shared", durable=False)
    backlog = Backlog(2)
    backlog.fill(connection, "pr.shared", jobs, persistent=False)
    last, came = {}, []

    def worker(name):
        def on_delivery(where, method, properties, body):
            place = rank(number_of(body), properties.priority)
            assert place > last.get(name, (-256, 0)), (name, place, last[name])
            last[name] = place
            came.append(number_of(body))
            where.basic_ack(method.delivery_tag)
        return on_delivery

    for name in range(5):
        other = connection.channel()
        other.basic_qos(prefetch_count=1 + 10 * name)
        other.basic_consume("pr.shared", worker(name))
    while len(came) < jobs:
        connection.process_data_events(ANSWER_LIMIT_S)
    assert sorted(came) == list(range(jobs)) and len(last) == 5
    channel.queue_delete("pr.shared")
    connection.close()


# A backlog longer than the broker keeps in memory.


@own_broker
def case_backlog_on_disk_over_restarts(broker):
    jobs, backlog = 12000, Backlog(3)
    for turn in range(3):
        connection = connect(broker)
        channel = connection.channel()
        declare(channel, "pr.disk")
        channel.basic_qos(prefetch_count=100)
        backlog.fill(connection, "pr.disk", jobs // 3, size=2000)
        assert count(channel, "pr.disk") == len(backlog.ready)
        drain(channel, "pr.disk", backlog, jobs // 12)
        connection.close()
        if turn == 1:
            broker.kill()
        else:
            broker.stop()
        broker.start()
    connection = connect(broker)
    channel = connection.channel()
    assert count(channel, "pr.disk") >= len(backlog.ready), (count(channel, "pr.disk"), len(backlog.ready))
    # acknowledgements of the last moments before a kill may be lost: those come again, as redelivered
    last = (-256, 0)
    for method, properties, body in channel.consume("pr.disk", inactivity_timeout=ANSWER_LIMIT_S):
        assert method is not None, f"{len(backlog.ready)} were not delivered"
        place = rank(number_of(body), properties.priority)
        assert place > last, (place, last)
        last = place
        channel.basic_ack(method.delivery_tag)
        if backlog.ready and place == backlog.ready[0]:
            heapq.heappop(backlog.ready)
        else:
            assert method.redelivered, place
        if not backlog.ready:
            break
    channel.cancel()
    channel.queue_delete("pr.disk")
    connection.close()


def case_urgent_job_overtakes_what_is_on_disk(broker):
    jobs = 6000
    connection = connect(broker)
    channel, publisher = connection.channel(), connection.channel()
    declare(channel, "pr.urgent")
    backlog = Backlog(4)
    backlog.fill(connection, "pr.urgent", jobs, size=1000)
    for place in range(50):
        publish(publisher, "pr.urgent", jobs + place, LEVELS)
        backlog.priorities[jobs + place] = LEVELS
        backlog.back(jobs + place)
    for _ in range(2000):
        method, properties, body = channel.basic_get("pr.urgent")
        backlog.come(properties, body)
        channel.basic_ack(method.delivery_tag)
    assert count(channel, "pr.urgent") == len(backlog.ready)
    assert channel.queue_purge("pr.urgent").method.message_count == len(backlog.ready)
    channel.queue_delete("pr.urgent")
    connection.close()


# Full queues.


def case_full_queue_drops_the_highest(broker):
    limit, jobs = 3000, 9000
    connection = connect(broker)
    channel = connection.channel()
    channel.queue_declare("pr.dropped", durable=True)
    declare(channel, "pr.full", x_max_length=limit, x_dead_letter_exchange="", x_dead_letter_routing_key="pr.dropped")
    backlog = Backlog(5)
    backlog.fill(connection, "pr.full", jobs)
    lib.await_true("it is as long as it may be", lambda: count(channel, "pr.full") == limit)
    lib.await_true("the others are dead", lambda: count(channel, "pr.dropped") == jobs - limit)
    # what goes first is what comes first: in the end it has those that would have come last
    backlog.ready = sorted(backlog.ready)[jobs - limit:]
    drain(channel, "pr.full", backlog, limit)
    for queue in ("pr.full", "pr.dropped"):
        channel.queue_delete(queue)
    connection.close()


def case_expired_jobs_of_all_priorities(broker):
    connection = connect(broker)
    channel = connection.channel()
    channel.queue_declare("pr.late", durable=True)
    declare(channel, "pr.short", x_message_ttl=300, x_dead_letter_exchange="", x_dead_letter_routing_key="pr.late")
    backlog = Backlog(6)
    backlog.fill(connection, "pr.short", 500)
    lib.await_true("all are dead", lambda: count(channel, "pr.late") == 500)
    assert count(channel, "pr.short") == 0
    for _ in range(500):
        _, properties, body = channel.basic_get("pr.late", auto_ack=True)
        (death,) = properties.headers["x-death"]
        assert (death["queue"], death["reason"]) == ("pr.short", "expired"), death
        assert properties.priority == backlog.priorities[number_of(body)]
    for queue in ("pr.short", "pr.late"):
        channel.queue_delete(queue)
    connection.close()


if __name__ == "__main__":
    raise SystemExit(lib.run_cases(globals()))
