# SPDX-License-Identifier: Apache-2.0
"""What pannierctl shows of levels of priority, which are queues that are part of another, and keeps of them."""
import base64
import json
import os

import broker as lib
import pika
from commands import SETTINGS, lines, records, store

RANKED = [(3, b"a"), (0, b"b"), (9, b"c"), (3, b"d"), (9, b"e"), (1, b"f")]
RANKED_ORDER = [b"c", b"e", b"a", b"d", b"f", b"b"]


def ranked():
    """The store of a broker that was killed, with messages of four priorities, and what was taken of a fifth."""
    broker = lib.Broker(SETTINGS)
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("ranked", durable=True, arguments={"x-max-priority": 9})
    channel.queue_declare("ranked too", durable=True, arguments={"x-max-priority": 9})
    for priority, body in [(7, b"taken"), *RANKED]:
        channel.basic_publish("", "ranked", body, pika.BasicProperties(delivery_mode=2, priority=priority))
        if priority == 7:
            channel.basic_get("ranked", auto_ack=True)
    channel.basic_publish("", "ranked too", b"gone", pika.BasicProperties(delivery_mode=2, priority=2))
    channel.queue_delete("ranked too")
    broker.kill()
    return broker


def ranked_bodies(broker):
    broker.start()
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    bodies = [channel.basic_get("ranked")[2] for _ in RANKED]
    assert channel.basic_get("ranked") == (None, None, None)
    connection.close()
    broker.stop()
    return bodies


def case_levels_of_a_queue():
    broker = ranked()
    parts = [line for line in records(broker.data, "--type", "define") if line.get("kind") == "part"]
    assert [(line["name"], line["part"], line.get("removed", False)) for line in parts] == [
        ("ranked", 7, False), ("ranked", 3, False), ("ranked", 9, False), ("ranked", 1, False),
        ("ranked too", 2, False), ("ranked too", 2, True)], parts
    assert all(line["of"] == "queue" and line["vhost"] == "/" for line in parts)
    chosen = records(broker.data, "--queue", "ranked", "--type", "message")
    assert [line["refs"][0].get("part", 0) for line in chosen] == [7] + [priority for priority, _ in RANKED]
    exported = lines(store("export", broker.data, "-", "--queue", "ranked"))
    found = {(line["queues"][0].get("part", 0), base64.b64decode(line["body"]))
             for line in exported if line["type"] == "message"}
    assert found == set(RANKED), found
    assert sorted(line["part"] for line in exported if line.get("kind") == "part") == [1, 3, 7, 9]
    stats = json.loads(store("stats", broker.data, "--json").out)
    assert {queue.get("part", 0): queue["messages"] for queue in stats["queues"]} == {0: 1, 1: 1, 3: 2, 7: 0, 9: 2}
    assert "ranked part 9" in store("stats", broker.data).out
    assert store("verify", broker.data).out.endswith("the store is whole\n")
    assert ranked_bodies(broker) == RANKED_ORDER
    assert store("verify", broker.data).out.endswith("the store is whole\n")


def case_levels_survive_a_repair():
    broker = ranked()
    os.remove(f"{broker.data}/STORE")
    assert "queue ranked part 9 in vhost /: 2 messages are kept" in store("repair", broker.data, "--quarantine",
                                                                       status=1).out
    store("repair", broker.data, "--quarantine", "--yes")
    assert ranked_bodies(broker) == RANKED_ORDER
