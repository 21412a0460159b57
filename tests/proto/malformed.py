# SPDX-License-Identifier: Apache-2.0
"""Malformed input beside a thousand connections: the right reply code, and none of them drops.

One case.  Transcripts look at texts and ids; here the point is that what one peer does wrong costs
the others nothing.
"""

import random
import struct

import client
import truncated
import wire

BYSTANDERS = 1000
SEED = 20240917
ROUNDS = 100


def cases(server):
    """(name, slow, function) of each case."""
    return [("malformed input beside 1,000 connections", False, lambda: run(server))]


def run(server):
    others = []
    try:
        for i in range(BYSTANDERS):
            c = client.Client(server, server.methods, f"bystander {i}")
            others.append(c)
            truncated.handshake_at_once(c)
            c.flush()
        for c in others:
            truncated.handshake_done(c)
            c.expect(1, "channel.open_ok")
            c.is_open = True
        for name, octets, codes in malformations(server.methods):
            attack(server, name, octets, codes[server.is_oracle])
        noise(server)
        for c in others:
            c.send_method(1, "channel.flow", active=1)
            c.flush()
        for c in others:
            c.expect(1, "channel.flow_ok")
        for c in others:
            c.close()
    finally:
        for c in others:
            c.drop()


def malformations(methods):
    """(name, octets, (our reply code, RabbitMQ's)); 0: no answer but the end, None: no answer."""
    declare = methods.by_name["queue.declare"]
    publish = wire.frame(1, 1, wire.encode_method(methods.by_name["basic.publish"], {}))
    three = wire.frame(2, 1, wire.encode_header(3, {}))
    queue = wire.encode_method(declare, {"queue": b"malformed", "exclusive": 1})
    bare = queue[:-4]
    deep = nested(1000)
    return [
        ("a bad frame end", wire.frame(1, 1, queue, end=0), (501, 501)),
        ("a frame over frame_max", wire.frame(3, 1, b"x", size=131073), (501, 501)),
        ("the largest frame", wire.frame(3, 1, b"x", size=0xFFFFFFFF), (501, 501)),
        ("a channel that is not open", wire.frame(1, 2, queue), (504, 504)),
        ("a body out of place", wire.frame(3, 1, b"x"), (505, 505)),
        ("a table cut short", wire.frame(1, 1, bare + struct.pack(">I", 50) + b"\x01aI\0"),
         (501, 501)),
        ("an entry cut short", wire.frame(1, 1, bare + wire.longstr(b"\x01aI\0")), (501, 0)),
        ("a nested length beyond its table",
         wire.frame(1, 1, bare + wire.longstr(b"\x01aF\0\0\xff\xff")), (501, 0)),
        ("a table nested 1,000 deep", wire.frame(1, 1, bare + deep), (501, None)),
        ("headers nested 1,000 deep",
         publish + wire.frame(2, 1, struct.pack(">HHQH", 60, 0, 0, 0x2000) + deep), (501, None)),
        ("a body longer than its header said",
         publish + three + wire.frame(3, 1, b"xxxx"), (501, None)),
        ("a method in the middle of a body",
         publish + three + wire.frame(1, 1, queue), (505, 505)),
        ("a header in the middle of a body", publish + three + three, (505, 505)),
        ("a body of 2^63 octets", publish + wire.frame(2, 1, wire.encode_header(1 << 63, {})),
         (501, None)),
    ]


def nested(depth):
    """A table in a table in a table."""
    table = wire.longstr(b"")
    for _ in range(depth):
        table = wire.longstr(b"\x01aF" + table)
    return table


def attack(server, name, octets, code):
    c = client.Client(server, server.methods)
    try:
        c.handshake()
        c.open_channel(1)
        c.send(octets)
        c.flush()
        if code == 0:
            c.expect_eof()
        elif code is not None:
            got = c.expect(0, "connection.close")
            if got["reply_code"] != code:
                raise client.Unexpected(f"{name}: wanted {code}, got {got}")
    except client.Unexpected as e:
        raise client.Unexpected(f"{name}: {e}") from None
    finally:
        c.drop()


def noise(server):
    """Random octets, with and without a handshake, framed or not; then the peer is gone."""
    rng = random.Random(SEED)
    for i in range(ROUNDS):
        c = client.Client(server, server.methods)
        try:
            if i % 4:
                truncated.handshake_at_once(c)
            octets = rng.randbytes(rng.randrange(1, 2000))
            if i % 4 > 1:
                octets = wire.frame(rng.choice((1, 2, 3, 8)), rng.randrange(2), octets)
            if i % 4 == 3:
                row = rng.choice(list(server.methods.by_name.values()))
                ids = struct.pack(">HH", row.class_id, row.method_id)
                octets = wire.frame(1, 1, ids + octets)
            c.send(octets)
            c.flush()
        finally:
            c.drop()
