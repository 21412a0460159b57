#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# limit: 120 s
"""A thousand connections are open while others send what no client should; none of the thousand drops."""
import os
import random
import resource
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import broker as lib  # noqa: E402
from pika import frame, spec  # noqa: E402
from rawclient import FRAME_MAX, HEADER, RawClient, publishing  # noqa: E402

CONNECTIONS = 1000
ROUNDS = 5


def octets_of(method, channel=1):
    return frame.Method(channel, method).marshal()


def raw_frame(kind, channel, payload, end=b"\xce"):
    return struct.pack(">BHL", kind, channel, len(payload)) + payload + end


def nested_table(depth):
    table = b""
    for _ in range(depth):
        table = b"\x01aF" + struct.pack(">L", len(table)) + table
    return table


def declare_with(table):
    arguments = struct.pack(">L", len(table)) + table
    return raw_frame(1, 1, struct.pack(">HHHB", 50, 10, 0, 1) + b"q\x00" + arguments)


def header_frame(size, channel=1):
    return raw_frame(2, channel, struct.pack(">HHQH", 60, 0, size, 0))


PUBLISH = octets_of(spec.Basic.Publish(routing_key="bystanders.none"))

# Sent in place of the protocol header.
BEFORE = {
    "HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "another version": b"AMQP\x01\x01\x08\x00",
    "nothing": b"",
    "zeros": bytes(100000),
}

# Sent on an open connection with channel 1.
AFTER = {
    "a bad frame end": raw_frame(1, 1, octets_of(spec.Queue.Declare())[7:-1], b"\x00"),
    "an unknown frame type": raw_frame(5, 1, b""),
    "a frame above frame_max": raw_frame(3, 1, bytes(FRAME_MAX)),
    "a length of 4 GB": b"\x01\x00\x01\xff\xff\xff\xff",
    "a channel that is not open": octets_of(spec.Queue.Declare(), 77),
    "a connection's method on a channel": octets_of(spec.Connection.Open("/"), 1),
    "an unknown class": raw_frame(1, 1, struct.pack(">HH", 99, 10)),
    "an unknown method": raw_frame(1, 1, struct.pack(">HH", 50, 99)),
    "a method of no octets": raw_frame(1, 1, b""),
    "a truncated method": raw_frame(1, 1, struct.pack(">HHH", 50, 10, 0) + b"\xffq"),
    "a truncated table": declare_with(b"\x01kF\x00\x00\x10\x00"),
    "a table of an unknown type": declare_with(b"\x01k\x00"),
    "a table 1,000 deep": declare_with(nested_table(1000)),
    "a body without a header": PUBLISH + raw_frame(3, 1, b"x"),
    "a header without a method": header_frame(1),
    "a body longer than its header said": PUBLISH + header_frame(3) + raw_frame(3, 1, b"toolong"),
    "a method in the middle of a body": PUBLISH + header_frame(30) + octets_of(spec.Queue.Declare()),
    "a header with bits for no property": PUBLISH + raw_frame(2, 1, struct.pack(">HHQH", 60, 0, 1, 3)),
    "a body of 2^63 octets": PUBLISH + header_frame(1 << 63),
    "an end in the middle of a frame": publishing("bystanders.none", b"x" * 1000)[:-500],
}


def noise(generator):
    return generator.randbytes(generator.randrange(1, 5000))


def send_and_end(client, octets):
    """Sends and half-closes."""
    try:
        client.socket.sendall(octets)
        client.socket.shutdown(1)
    except OSError:
        pass  # reset, broken pipe, not connected: the server was faster
    return client, octets


def read_to_the_end(client, octets):
    """The server, too, ends the connection."""
    try:
        while client.socket.recv(65536):
            pass
    except TimeoutError:
        raise AssertionError(f"the connection stays open after {octets[:100]!r}") from None
    except OSError:
        pass
    client.close()


def attack(broker, generator):
    """All at the same time, because a server may take its time to let go of some."""
    before = (*BEFORE.values(), noise(generator), HEADER + noise(generator))
    after = (*AFTER.values(), noise(generator), raw_frame(1, 1, noise(generator)))
    attackers = [send_and_end(RawClient(broker), octets) for octets in before]
    attackers += [send_and_end(RawClient(broker).open(), octets) for octets in after]
    for client, octets in attackers:
        read_to_the_end(client, octets)


def answer_all(clients):
    """Every connection asks and is answered; all ask first, so that they are served at the same time."""
    for client in clients:
        client.send(spec.Basic.Qos(prefetch_count=1))
    for number, client in enumerate(clients):
        try:
            client.expect(spec.Basic.QosOk)
        except Exception as error:
            raise AssertionError(f"connection {number} is not served: {error!r}") from error


def case_none_of_a_thousand_drops(broker):
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    clients = [RawClient(broker).open() for _ in range(CONNECTIONS)]
    answer_all(clients)
    seed = random.randrange(1 << 32)
    print(f"     seed {seed}", flush=True)
    generator = random.Random(seed)
    for _ in range(ROUNDS):
        attack(broker, generator)
    answer_all(clients)
    for client in clients:
        client.close()


if __name__ == "__main__":
    sys.exit(lib.run_cases(globals()))
