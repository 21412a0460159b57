#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# limit: 240 s
"""
Back-pressure both ways: a consumer that stops reading, and publishers that outrun memory.

PANNIER_FLOOD_MB (1024) is how much goes through in each case, PANNIER_MEMORY_LIMIT_MB (64) the broker's
limit where one is set. With PANNIER_RATES=1 the rate beside a stalled consumer must be at least 90 % of the
rate without it; otherwise both are only printed, since they are times.
"""
import os
import select
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import broker as lib  # noqa: E402
from pika import frame, spec  # noqa: E402
from rawclient import Closed, RawClient, cut_bodies, publishing  # noqa: E402

MIB = 1 << 20
FLOOD = int(os.environ.get("PANNIER_FLOOD_MB", "1024")) * MIB
LIMIT_MB = int(os.environ.get("PANNIER_MEMORY_LIMIT_MB", "64"))
STALLED_MAX = 64 * MIB  # the most that the broker may hold more than at its start
WINDOW = 24 * MIB  # published and not yet read by the consumer that reads
STILL_S = 1  # a publisher that cannot write for this long is held
PROGRESS_S = 30  # something has to move within this time
SIZES = (64, 300, 1000, 5000, 10240)


def batches(queue):
    """Octets to publish, about 160 kB at a time: numbered messages of all sizes. Endless."""
    number = 0
    templates = [publishing(queue, b"\0" * size) for size in SIZES]
    while True:
        octets, bodies = [], 0
        for _ in range(10):
            for size, template in zip(SIZES, templates):
                octets += template[:-size - 1], struct.pack(">Q", number), template[-size + 7:]
                number, bodies = number + 1, bodies + size
        yield b"".join(octets), bodies, number


class Reader(threading.Thread):
    """A consumer that reads as fast as it can, in a thread: counts bodies and keeps their numbers in order."""

    def __init__(self, client):
        super().__init__(daemon=True)
        self.client, self.error = client, None
        self.numbers, self.bodies = [], 0
        self.moved = threading.Condition()
        self.start()

    def run(self):
        pending = self.client.buffer
        try:
            while True:
                numbers, bodies, used = cut_bodies(pending)
                pending = pending[used:]
                with self.moved:
                    self.numbers += numbers
                    self.bodies += bodies
                    self.moved.notify_all()
                octets = self.client.socket.recv(MIB)
                if not octets:
                    return
                pending += octets
        except OSError as error:
            self.error = error

    def await_bodies(self, at_least):
        """Waits until so many octets of bodies have come; fails when for long none came."""
        with self.moved:
            while self.bodies < at_least:
                before = self.bodies
                self.moved.wait(PROGRESS_S)
                assert self.bodies > before, f"stuck at {before} of {at_least}, {self.error}"


class Memory:
    """The broker's resident memory: at the start, and the most seen. Unknown for a running server."""

    def __init__(self, broker):
        self.broker = broker
        self.start = self.most = broker.rss() or 0

    def look(self):
        self.most = max(self.most, self.broker.rss() or 0)

    def must_stay_below(self, client, more, what):
        grown = self.most - self.start
        print(f"     {what}: {self.start / MIB:.1f} MiB at the start, {grown / MIB:.1f} more at most", flush=True)
        if not client.is_rabbitmq():
            assert grown < more, f"{what}: grown by {grown / MIB:.1f} MiB"


def flood(broker, queue, reader, memory):
    """Publishes FLOOD octets, never more than WINDOW ahead of the reader; returns the messages sent."""
    publisher = RawClient(broker).open()
    published = number = 0
    for octets, bodies, number in batches(queue):
        reader.await_bodies(published - WINDOW)
        publisher.socket.sendall(octets)
        published += bodies
        memory.look()
        if published >= FLOOD:
            break
    # The answer comes when all before it has been handled.
    publisher.declare(queue, passive=True)
    return number


def rate_beside(broker, queue, stalled):
    """Floods a queue with one reader, and with a consumer that does not read when stalled is given."""
    control = RawClient(broker).open()
    control.declare(queue)
    if stalled:
        stalled.consume(queue)
    memory = Memory(broker)
    consumer = RawClient(broker).open()
    consumer.consume(queue)
    reader = Reader(consumer)
    began = time.monotonic()
    sent = flood(broker, queue, reader, memory)
    rate = reader.bodies / (time.monotonic() - began) / MIB
    return control, reader, memory, sent, rate


def read_rest(client, total):
    """What the stalled one reads at last: the numbers that were delivered to it."""
    numbers, pending = [], client.buffer
    while len(numbers) < total:
        found, _, used = cut_bodies(pending)
        numbers += found
        pending = pending[used:]
        if len(numbers) < total:
            octets = client.socket.recv(MIB)
            assert octets, "the stalled connection was dropped"
            pending += octets
    return numbers


def case_stalled_consumer_beside_a_reading_one():
    """
    Two consumers without acknowledgements share a queue, one stops reading. It gets what its buffers
    hold and no more, the other one gets the rest of the gigabyte; nothing is lost or comes twice.
    """
    with lib.Broker() as broker:
        control, _, _, _, alone = rate_beside(broker, "bp.alone", None)
        control.rpc(spec.Queue.Delete(queue="bp.alone"), spec.Queue.DeleteOk)
        stalled = RawClient(broker, receive_buffer=65536).open()
        control, reader, memory, sent, beside = rate_beside(broker, "bp.shared", stalled)
        memory.must_stay_below(control, STALLED_MAX, "beside a stalled consumer")
        print(f"     {alone:.0f} MiB/s alone, {beside:.0f} MiB/s beside", flush=True)
        if os.environ.get("PANNIER_RATES"):
            assert beside >= 0.9 * alone
        # The queue runs empty into the reader; what is missing then is with the stalled one.
        lib.await_true("the queue is empty", lambda: not control.declare("bp.shared", passive=True).message_count)
        mark = len(reader.numbers)
        lib.await_true("the reader has read all", lambda: reading_stopped(reader, mark))
        late = read_rest(stalled, sent - len(reader.numbers))
        assert late == sorted(late) and reader.numbers == sorted(reader.numbers)
        assert sorted(late + reader.numbers) == list(range(sent))


def reading_stopped(reader, mark):
    """True when nothing came for a while; a moment too early and the numbers would not add up."""
    with reader.moved:
        before = len(reader.numbers)
        reader.moved.wait(STILL_S)
        return len(reader.numbers) == before >= mark


class Publisher:
    """Writes as much as the broker takes, without ever blocking; notes blocked and unblocked."""

    def __init__(self, broker, queue):
        self.client = RawClient(broker, capabilities={"connection.blocked": True}).open()
        self.client.socket.setblocking(False)
        self.source, self.pending = batches(queue), b""
        self.bodies = self.number = 0
        self.notices = []

    def write_until_held(self, at_most, memory):
        """Publishes until the broker stops reading, or so much is published. True when it was held."""
        while self.pending or self.bodies < at_most:
            if not self.pending:
                self.pending, bodies, self.number = next(self.source)
                self.bodies += bodies
            readable, writable, _ = select.select([self.client.socket], [self.client.socket], [], STILL_S)
            memory.look()
            if readable:
                self.read_notices()
            if writable:
                self.pending = self.pending[self.client.socket.send(self.pending):]
            elif not readable:
                return True
        return False

    def read_notices(self):
        octets = self.client.socket.recv(65536)
        if not octets:
            raise Closed()
        self.client.buffer += octets
        while True:
            used, found = frame.decode_frame(self.client.buffer)
            if not found:
                return
            self.client.buffer = self.client.buffer[used:]
            self.notices.append(type(found.method))
            assert self.notices[-1] in (spec.Connection.Blocked, spec.Connection.Unblocked), found


def held_then_drained(stall):
    """
    A flood is held at the memory limit; then a consumer takes everything while the publisher goes on. With
    stall the consumer is there from the start, without acknowledgements, and does not read at first.
    """
    # what happens to messages that may go to page files is the matter of paging.py
    settings = {"vm_memory_high_watermark.absolute": f"{LIMIT_MB}MiB", "vm_memory_high_watermark_paging_ratio": "1"}
    with lib.Broker(settings) as broker:
        control = RawClient(broker).open()
        control.declare("bp.flood")
        consumer = RawClient(broker, receive_buffer=65536).open()
        memory = Memory(broker)
        if stall:
            consumer.consume("bp.flood")
        publisher = Publisher(broker, "bp.flood")
        assert publisher.write_until_held(FLOOD, memory), "the flood was never held"
        print(f"     held after {publisher.bodies / MIB:.1f} MiB, {publisher.number} messages", flush=True)
        memory.must_stay_below(control, LIMIT_MB * 1.1 * MIB, "held")
        if not control.is_rabbitmq():
            assert publisher.bodies > LIMIT_MB * MIB / 4, "held long before the limit"
        # The connection that only controls is served as ever.
        control.declare("bp.flood", passive=True)
        if not stall:
            consumer.consume("bp.flood")
        reader = Reader(consumer)
        write_all(publisher, memory)
        lib.await_true("all is read", lambda: finished(reader, publisher), PROGRESS_S)
        assert reader.numbers == list(range(publisher.number)), "lost, doubled or out of order"
        memory.must_stay_below(control, LIMIT_MB * 1.1 * MIB, "to the end")
        print(f"     notices: {[notice.__name__ for notice in publisher.notices][:6]}", flush=True)
        assert publisher.notices[0] is spec.Connection.Blocked
        # Blocked and unblocked take turns.
        assert all(a is not b for a, b in zip(publisher.notices, publisher.notices[1:]))


def write_all(publisher, memory):
    """The rest of the flood; while it is held now and then, the consumer must make room."""
    end = time.monotonic() + PROGRESS_S
    last = publisher.bodies
    while publisher.write_until_held(FLOOD, memory):
        if publisher.bodies > last:
            last, end = publisher.bodies, time.monotonic() + PROGRESS_S
        assert time.monotonic() < end, "held though everything is read"


def finished(reader, publisher):
    assert reader.error is None, reader.error
    return len(reader.numbers) >= publisher.number


def case_flood_without_a_consumer():
    held_then_drained(stall=False)


def case_flood_to_a_stalled_consumer():
    held_then_drained(stall=True)


if __name__ == "__main__":
    if os.environ.get("PANNIER_URL"):
        print("skip: needs settings and figures of its own server\n0 passed, 0 failed")
        sys.exit(0)
    sys.exit(lib.run_cases(globals()))
