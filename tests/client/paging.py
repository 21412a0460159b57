#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# limit: 240 s
"""
Transient messages that do not fit into memory: their bodies wait in page files, memory stays below its limit,
and all of them come out in order, octet by octet.

PANNIER_MEMORY_LIMIT_MB (64) is the broker's limit, PANNIER_PAGED_MESSAGES (300000) how many messages of 1 KiB
go through.
"""
import os
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import broker as lib  # noqa: E402
from pika import spec  # noqa: E402
from rawclient import RawClient, publishing  # noqa: E402

MIB = 1 << 20
LIMIT_MB = int(os.environ.get("PANNIER_MEMORY_LIMIT_MB", "64"))
MESSAGES = int(os.environ.get("PANNIER_PAGED_MESSAGES", "300000"))
SETTINGS = {"vm_memory_high_watermark.absolute": f"{LIMIT_MB}MiB"}
SIZE = 1024
CHUNK = 128  # messages in one write


def body_of(number):
    return struct.pack(">Q", number) * (SIZE // 8)


def page_files(broker):
    return os.listdir(os.path.join(broker.data, "page"))


class Memory:
    def __init__(self, broker):
        self.broker = broker
        self.start = self.most = broker.rss()

    def look(self):
        self.most = max(self.most, self.broker.rss())

    def must_be_within_the_limit(self):
        grown = (self.most - self.start) / MIB
        print(f"     {self.start / MIB:.1f} MiB at the start, {grown:.1f} more at most", flush=True)
        # a little more: buffers of the threads, and up to some megabytes that are kept warm
        assert grown < LIMIT_MB * 1.1


def flood(client, queue, numbers, memory=None):
    template = publishing(queue, bytes(SIZE))[:-SIZE - 1]
    for first in range(numbers.start, numbers.stop, CHUNK):
        chunk = range(first, min(first + CHUNK, numbers.stop))
        client.socket.sendall(b"".join(template + body_of(n) + b"\xce" for n in chunk))
        if memory:
            memory.look()
    # the answer comes when all before it has been handled
    return client.declare(queue, passive=True).message_count


def read_in_order(client, numbers, memory=None):
    """Deliveries of these numbers, whole and in order."""
    pending, number = client.buffer, numbers.start
    while number < numbers.stop:
        octets = client.socket.recv(MIB)
        assert octets, "the connection was closed"
        pending += octets
        at, end = 0, len(pending)
        while end - at >= 8:
            kind, _, size = struct.unpack_from(">BHL", pending, at)
            if at + 8 + size > end:
                break
            if kind == spec.FRAME_BODY:
                assert pending[at + 7:at + 7 + size] == body_of(number), f"not message {number}"
                number += 1
            at += 8 + size
        pending = pending[at:]
        if memory:
            memory.look()
    client.buffer = pending


def get(client, queue, no_ack):
    found = client.rpc(spec.Basic.Get(queue=queue, no_ack=no_ack), spec.Basic.GetOk)
    client.read_frame()
    return found.delivery_tag, client.read_frame().fragment


def case_more_than_memory_without_a_consumer():
    with lib.Broker(SETTINGS) as broker:
        client = RawClient(broker).open()
        client.declare("paging")
        memory = Memory(broker)
        began = time.monotonic()
        assert flood(client, "paging", range(MESSAGES), memory) == MESSAGES
        written = time.monotonic() - began
        files = page_files(broker)
        assert files, "nothing was paged out"
        consumer = RawClient(broker).open()
        began = time.monotonic()
        consumer.consume("paging")
        read_in_order(consumer, range(MESSAGES), memory)
        print(f"     {MESSAGES / written:.0f} messages/s in, {MESSAGES / (time.monotonic() - began):.0f} out, "
              f"{len(files)} page files", flush=True)
        memory.must_be_within_the_limit()
        lib.await_true("page/ is empty", lambda: not page_files(broker))


def case_get_of_what_is_paged():
    with lib.Broker(SETTINGS) as broker:
        client = RawClient(broker).open()
        client.declare("paging")
        count = LIMIT_MB * MIB // SIZE
        flood(client, "paging", range(count))
        assert page_files(broker)
        client.rpc(spec.Basic.Qos(prefetch_count=0), spec.Basic.QosOk)
        for number in range(3000):
            tag, body = get(client, "paging", no_ack=number % 2 == 0)
            assert body == body_of(number), number
            if number % 2:
                client.send(spec.Basic.Ack(tag))
        assert client.rpc(spec.Queue.Purge(queue="paging"), spec.Queue.PurgeOk).message_count == count - 3000
        lib.await_true("page/ is empty", lambda: not page_files(broker))


def case_a_queue_that_goes_takes_its_pages_along():
    with lib.Broker(SETTINGS) as broker:
        client = RawClient(broker).open()
        client.declare("paging", exclusive=True)
        flood(client, "paging", range(LIMIT_MB * MIB // SIZE))
        assert page_files(broker)
        client.close()
        lib.await_true("page/ is empty", lambda: not page_files(broker))


def case_a_start_empties_the_folder():
    broker = lib.Broker(SETTINGS)
    client = RawClient(broker).open()
    client.declare("paging")
    flood(client, "paging", range(LIMIT_MB * MIB // SIZE))
    assert page_files(broker)
    broker.kill()
    assert page_files(broker)
    broker.start()
    assert not page_files(broker)
    with broker:
        client = RawClient(broker).open()
        client.declare("paging")
        count = LIMIT_MB * MIB // SIZE
        flood(client, "paging", range(count))
        assert page_files(broker)
        consumer = RawClient(broker).open()
        consumer.consume("paging")
        read_in_order(consumer, range(count))


def case_a_stop_leaves_nothing():
    with lib.Broker(SETTINGS) as broker:
        client = RawClient(broker).open()
        client.declare("paging")
        flood(client, "paging", range(LIMIT_MB * MIB // SIZE))
        assert page_files(broker)
    assert not page_files(broker)


def case_no_paging_when_it_is_not_wanted():
    with lib.Broker({**SETTINGS, "vm_memory_high_watermark_paging_ratio": "1"}) as broker:
        client = RawClient(broker).open()
        client.declare("paging")
        flood(client, "paging", range(LIMIT_MB * MIB // SIZE * 3 // 4))
        assert not page_files(broker)


if __name__ == "__main__":
    if os.environ.get("PANNIER_URL"):
        print("skip: needs settings and a folder of its own server\n0 passed, 0 failed")
        sys.exit(0)
    sys.exit(lib.run_cases(globals()))
