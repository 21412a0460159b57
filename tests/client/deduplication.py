#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# limit: 120 s
"""
Deduplication as applications with pika use it: orders that are sent again when nobody knows whether they arrived,
over kills and restarts; a queue of jobs in which each is waiting once; an exchange of the plugin's type.
"""
import datetime
import decimal
import random

import pika
from ledger import own_broker
from matrix import lib

ANSWER_LIMIT_S = 60
KEY = "x-deduplication-header"


def connect(broker):
    return pika.BlockingConnection(pika.ConnectionParameters(
        broker.host, broker.port, heartbeat=0, blocked_connection_timeout=ANSWER_LIMIT_S))


def count(channel, queue):
    return channel.queue_declare(queue, passive=True).method.message_count


def keyed(key, persistent=True, **more):
    return pika.BasicProperties(delivery_mode=2 if persistent else 1, headers={KEY: key, **more})


def publish(channel, exchange, routing_key, key, **more):
    channel.basic_publish(exchange, routing_key, str(key).encode(), keyed(key, **more))


def bodies(channel, queue):
    """All of them, without acknowledgement."""
    got = []
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return got
        got.append(body.decode())


# Orders: whoever sends them begins again with the first one that was not confirmed, or before.


def send_until_killed(broker, orders, chance):
    """Until the broker is gone: the number of the first one that was not confirmed."""
    connection = connect(broker)
    channel = connection.channel()
    channel.confirm_delivery()
    confirmed = 0
    last = chance.randrange(len(orders) // 3, len(orders))
    for place, order in enumerate(orders):
        if place == last:
            broker.kill()
        try:
            publish(channel, "de.orders", "de.orders", order)
        except pika.exceptions.AMQPError:
            return confirmed
        confirmed = place + 1
    raise AssertionError("the broker lives on")


@own_broker
def case_orders_are_sent_again_after_kills(broker):
    chance = random.Random(1)
    connection = connect(broker)
    channel = connection.channel()
    channel.exchange_declare("de.orders", "direct", durable=True, arguments={
        "x-message-deduplication": True, "x-cache-size": 10000})
    channel.queue_declare("de.orders", durable=True)
    channel.queue_bind("de.orders", "de.orders", "de.orders")
    connection.close()
    orders = [f"order-{number}" for number in range(300)]
    for _ in range(5):
        send_until_killed(broker, orders, chance)
        broker.start()
    connection = connect(broker)
    channel = connection.channel()
    channel.confirm_delivery()
    for order in orders:
        publish(channel, "de.orders", "de.orders", order)
    assert bodies(channel, "de.orders") == orders
    connection.close()
    for _ in range(2):
        broker.stop()
        broker.start()
    connection = connect(broker)
    channel = connection.channel()
    channel.confirm_delivery()
    for order in orders:
        publish(channel, "de.orders", "de.orders", order)
    publish(channel, "de.orders", "de.orders", "new")
    assert bodies(channel, "de.orders") == ["new"]
    channel.queue_delete("de.orders")
    channel.exchange_delete("de.orders")
    connection.close()


# Jobs: asked for by many, waiting once.


@own_broker
def case_a_job_waits_once(broker):
    connection = connect(broker)
    channel, worker = connection.channel(), connection.channel()
    channel.queue_declare("de.jobs", durable=True, arguments={"x-message-deduplication": True})
    channel.confirm_delivery()
    worker.basic_qos(prefetch_count=1)
    for _ in range(3):
        for job in ("rebuild", "mail", "rebuild", 17, 17):
            channel.basic_publish("", "de.jobs", str(job).encode(), keyed(job), mandatory=True)
    assert count(channel, "de.jobs") == 3
    method, _, body = worker.basic_get("de.jobs")
    assert body == b"rebuild"
    publish(channel, "", "de.jobs", "rebuild")  # it is being done
    worker.basic_nack(method.delivery_tag)
    assert count(channel, "de.jobs") == 3
    connection.close()
    broker.kill()
    broker.start()
    connection = connect(broker)
    channel = connection.channel()
    channel.confirm_delivery()
    for job in ("rebuild", "mail", 17):
        publish(channel, "", "de.jobs", job)
    assert bodies(channel, "de.jobs") == ["rebuild", "mail", "17"]
    publish(channel, "", "de.jobs", "mail")  # done, and asked for again
    assert bodies(channel, "de.jobs") == ["mail"]
    channel.queue_delete("de.jobs")
    connection.close()


@own_broker
def case_a_job_that_fails_comes_back(broker):
    """By its dead letters, round a queue where it waits."""
    connection = connect(broker)
    channel = connection.channel()
    channel.queue_declare("de.wait", durable=True, arguments={
        "x-message-ttl": 200, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "de.work"})
    channel.queue_declare("de.work", durable=True, arguments={
        "x-message-deduplication": True, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "de.wait"})
    channel.confirm_delivery()
    publish(channel, "", "de.work", "job")
    for attempt in range(3):
        method, properties, body = next(channel.consume("de.work", inactivity_timeout=ANSWER_LIMIT_S))
        assert body == b"job", attempt
        deaths = [death["count"] for death in properties.headers.get("x-death", []) if death["queue"] == "de.work"]
        assert deaths == ([attempt] if attempt else []), deaths
        publish(channel, "", "de.work", "job")  # it is here
        channel.basic_reject(method.delivery_tag, requeue=False)
        channel.cancel()
    lib.await_true("it has come back", lambda: count(channel, "de.work") == 1)
    assert bodies(channel, "de.work") == ["job"]
    for queue in ("de.wait", "de.work"):
        channel.queue_delete(queue)
    connection.close()


# The plugin's type of exchange.


@own_broker
def case_the_exchange_of_the_plugin(broker):
    connection = connect(broker)
    channel = connection.channel()
    channel.exchange_declare("de.x", "x-message-deduplication", durable=True, arguments={
        "x-cache-size": 5, "x-cache-ttl": 500, "x-cache-persistence": "disk"})
    for queue in ("de.a", "de.b"):
        channel.queue_declare(queue)
        channel.queue_bind(queue, "de.x", "")
    values = ["text", 5, 2 ** 40, True, decimal.Decimal("1.5"), datetime.datetime(2020, 1, 1), None, {"a": 1}, [1, "b"]]
    for value in values:
        for _ in range(2):
            publish(channel, "de.x", "", value, persistent=False)
    expected = [str(value) for value in values]
    assert bodies(channel, "de.a") == bodies(channel, "de.b") == expected
    publish(channel, "de.x", "", "text", persistent=False)  # five came since
    assert bodies(channel, "de.a") == ["text"]
    connection.sleep(0.6)
    publish(channel, "de.x", "", "text", persistent=False)
    channel.basic_publish("de.x", "", b"long", keyed("long", False, **{"x-cache-ttl": 60000}))
    connection.sleep(0.6)
    channel.basic_publish("de.x", "", b"long", keyed("long", False))
    assert bodies(channel, "de.a") == ["text", "long"]
    for queue in ("de.a", "de.b"):
        channel.queue_delete(queue)
    channel.exchange_delete("de.x")
    connection.close()


if __name__ == "__main__":
    raise SystemExit(lib.run_cases(globals()))
