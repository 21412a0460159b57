# SPDX-License-Identifier: Apache-2.0
"""A case of tests/ctl/run: keys of deduplication, as dump and stats show them, and after a repair."""
import json
import os
import shutil

import broker as lib
import pika
from commands import SETTINGS, records, store


def publish_keys(broker, keys):
    """To an exchange that knows 100 of them, and to a queue that knows what it has: how many were new to each."""
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.exchange_declare("knows", "fanout", durable=True,
                             arguments={"x-message-deduplication": True, "x-cache-size": 100})
    channel.queue_declare("all", durable=True)
    channel.queue_bind("all", "knows")
    channel.queue_declare("has", durable=True, arguments={"x-message-deduplication": True})
    before = [channel.queue_declare(queue, passive=True).method.message_count for queue in ("all", "has")]
    for key in keys:
        properties = pika.BasicProperties(delivery_mode=2, headers={"x-deduplication-header": key})
        channel.basic_publish("knows", "", b"m", properties)
        channel.basic_publish("", "has", b"m", properties)
    after = [channel.queue_declare(queue, passive=True).method.message_count for queue in ("all", "has")]
    connection.close()
    return [b - a for a, b in zip(before, after)]


def take_keys(broker, count):
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    for queue in ("all", "has"):
        for _ in range(count):
            channel.basic_get(queue, auto_ack=True)
    channel.queue_declare("safe", durable=True)  # and so is what went before
    channel.queue_delete("safe")
    connection.close()


def case_keys_are_shown_and_survive_a_repair():
    broker = lib.Broker(SETTINGS)
    assert publish_keys(broker, range(50)) == [50, 50]
    take_keys(broker, 10)
    broker.kill()
    keys = records(broker.data, "--type", "key")
    assert len(keys) == 100
    assert [line["qseq"] for line in keys if "queue" in line] == list(range(1, 51))
    assert all("qseq" not in line and len(line["digest"]) == 32 for line in keys if line.get("exchange") == "knows")
    assert records(broker.data, "--type", "key", "--queue", "has") == [line for line in keys if "queue" in line]
    stats = json.loads(store("stats", broker.data, "--json").out)
    assert {"vhost": "/", "exchange": "knows", "keys": 50} in stats["deduplication"], stats["deduplication"]
    assert "deduplicates" in store("stats", broker.data).out
    store("verify", broker.data)
    os.remove(f"{broker.data}/STORE")
    store("repair", broker.data, "--quarantine", "--yes")
    broker.start()
    # what was taken from the queue is not in it
    assert publish_keys(broker, range(50)) == [0, 10]
    assert publish_keys(broker, range(50, 60)) == [10, 10]
    broker.stop()
    broker.start()
    assert publish_keys(broker, range(60)) == [0, 0]
    broker.stop()
    shutil.rmtree(broker.data)
