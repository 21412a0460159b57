#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of the fuzz targets of wire/ and session/ into tests/fuzz/corpus/<target>/.

Run it again when methods.def, props.def or the types of fields change; it replaces what it wrote
and leaves other files (crashers that were kept) alone.

usage: seeds.py [FOLDER]     FOLDER: where the corpora lie, tests/fuzz/corpus without
"""

import re
import struct
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^METHOD\((\w+), (\d+), (\w+), (\d+), (.*)\)$", re.M)
FIELD = re.compile(r"([A-Z]+)\((\w+)\)")
PROPERTY = re.compile(r"^PROPERTY\((\w+), (\w+)\)$", re.M)


def longstr(text):
    return struct.pack(">I", len(text)) + text


def shortstr(text):
    return bytes([len(text)]) + text


# A value of each letter, with its letter.
VALUES = {
    "bool": b"t\x01",
    "byte": b"b\xff",
    "unsignedbyte": b"B\xff",
    "short": b"s\x80\x00",
    "courtesy": b"U\xff\xfe",
    "unsignedshort": b"u\xff\xff",
    "signedint": b"I\x80\x00\x00\x00",
    "unsignedint": b"i\xff\xff\xff\xff",
    "long": b"l\x80" + bytes(7),
    "long_L": b"L" + bytes(7) + b"\x05",
    "float": b"f" + struct.pack(">f", 1.5),
    "double": b"d" + struct.pack(">d", -0.1),
    "nan": b"d\x7f\xf8" + bytes(6),
    "decimal": b"D\x02\x00\x00\x01\x3a",
    "longstr": b"S" + longstr(b"caf\xc3\xa9"),
    "binary": b"x" + longstr(b"\x00\xff"),
    "timestamp": b"T" + struct.pack(">Q", 1577058304),
    "void": b"V",
}


def entry(name, value):
    return shortstr(name.encode()) + value


def nested(depth, letter):
    """The content of a table that holds depth - 1 tables (or arrays) in each other."""
    value = b""
    for level in range(depth - 1):
        name = b"\x01n" if letter == b"F" or level == depth - 2 else b""
        value = name + letter + longstr(value)
    return value


ALL = b"".join(entry(name, value) for name, value in VALUES.items())
ARRAY = b"A" + longstr(b"".join(VALUES.values()))
X_DEATH = entry("x-death", b"A" + longstr(b"F" + longstr(
    entry("count", b"l" + bytes(7) + b"\x01") + entry("reason", b"S" + longstr(b"expired")) +
    entry("queue", b"S" + longstr(b"q")) + entry("routing-keys", b"A" + longstr(
        b"S" + longstr(b"k"))))))


def field_seeds():
    seeds = {name: entry("k", value) for name, value in VALUES.items()}
    seeds |= {
        "empty": b"",
        "all": ALL,
        "array": entry("a", ARRAY),
        "table": entry("t", b"F" + longstr(ALL)),
        "x_death": X_DEATH,
        "duplicates": entry("k", VALUES["long"]) * 3 + entry("j", VALUES["void"]),
        "many": b"".join(entry(f"k{i}", VALUES["void"]) for i in range(40, 0, -1)),
        "deep_64": nested(64, b"F"),
        "deep_65": nested(65, b"F"),
        "deep_array": nested(64, b"A"),
        "deep_1000": nested(1000, b"F"),
        "unknown": entry("k", b"z"),
        "truncated": ALL[:-3],
        "inner_too_long": entry("t", b"F\x00\x00\x00\xff\x01nV"),
    }
    return seeds


ARGUMENTS = {
    "OCTET": b"\x09",
    "SHORT": b"\x01\x38",
    "LONG": b"\x00\x02\x00\x00",
    "LONGLONG": bytes(7) + b"\x2a",
    "SHORTSTR": shortstr(b"name"),
    "LONGSTR": longstr(b"PLAIN AMQPLAIN"),
    "TIMESTAMP": struct.pack(">Q", 1577058304),
    "TABLE": longstr(entry("x-message-ttl", VALUES["signedint"])),
}


def arguments(fields):
    """The octets of a method's arguments; bits one after another share an octet, all are set."""
    octets, bits = b"", 0
    for kind, _ in fields + [("", "")]:
        if kind == "BIT":
            bits += 1
            continue
        if bits:
            octets += bytes([2 ** bits - 1])
            bits = 0
        octets += ARGUMENTS.get(kind, b"")
    return octets


def methods():
    text = (TOP / "include/wire/methods.def").read_text(encoding="utf-8")
    for group, class_id, name, method_id, fields in ROW.findall(text):
        ids = struct.pack(">HH", int(class_id), int(method_id))
        yield f"{group}_{name}", ids + arguments(FIELD.findall(fields))


def method_seeds():
    seeds = dict(methods())
    # The two of every message have short names: they are looked at first.
    seeds["publish"] = seeds.pop("basic_publish")
    seeds["ack"] = seeds.pop("basic_ack")
    declare = struct.pack(">HHH", 50, 10, 0) + shortstr(b"q") + b"\x02"
    seeds |= {
        "empty": b"",
        "unknown": struct.pack(">HH", 60, 200),
        "left_over": seeds["ack"] + b"\x00",
        "utf8": struct.pack(">HHH", 60, 40, 0) + shortstr("grüße, 兔子 🐰".encode()) +
        shortstr(b"") + b"\x00",
        "utf8_ill": struct.pack(">HHH", 60, 40, 0) + shortstr(b"\xc3\xa9\xed\xa0\x80") +
        shortstr(b"") + b"\x00",
        "all_types": declare + longstr(ALL + entry("a", ARRAY)),
        "deep_64": declare + longstr(nested(64, b"F")),
        "deep_65": declare + longstr(nested(65, b"F")),
        "unknown_type": declare + longstr(entry("k", b"z")),
    }
    return seeds


def header(flags, values, body_size=5, class_id=60, weight=0):
    return struct.pack(">HHQH", class_id, weight, body_size, flags) + values


def props_seeds():
    rows = PROPERTY.findall((TOP / "include/wire/props.def").read_text(encoding="utf-8"))
    seeds = {name: header(0x8000 >> i, ARGUMENTS[kind]) for i, (kind, name) in enumerate(rows)}
    values = b"".join(ARGUMENTS[kind] for kind, _ in rows)
    seeds |= {
        "none": header(0, b""),
        "all": header(0xFFFC, values, body_size=2 ** 40),
        "low_bits": header(0x1003, b"\x02"),
        "left_over": header(0x1000, b"\x02\x00"),
        "short": header(0, b"")[:13],
        "other_class": header(0, b"", class_id=50, weight=1),
        "all_types": header(0x2000, longstr(ALL + X_DEATH)),
        "unknown_type": header(0x2000, longstr(entry("k", b"z"))),
    }
    return seeds


def frame(kind, channel, payload, end=0xCE):
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + bytes([end])


def frame_seeds():
    some = method_seeds()
    publish = frame(1, 1, some["publish"]) + frame(2, 1, header(0, b"")) + frame(3, 1, b"hello")
    heartbeat = frame(8, 0, b"")
    return {
        "heartbeat": heartbeat,
        "publish": publish,
        "stream": heartbeat + publish * 3 + frame(1, 1, some["ack"]) + publish[:20],
        "partial_prefix": heartbeat[:5],
        "partial_payload": publish[:12],
        "bad_end": frame(1, 1, some["ack"], end=0),
        "largest": frame(3, 65535, bytes(4096)),
        "too_large": frame(3, 1, bytes(4097)),
        "size_max": b"\x03\x00\x01\xff\xff\xff\xff",
        "unknown": frame(5, 7, b"abc"),
    }


# ---- session: how (tests/fuzz/fuzz_session.c), and a stream of frames -------------------------------

RUNNING, PIECES, OCTETS, SMALL_FRAMES, DEAF, SHUTDOWN, SHORT_MEMORY = 1, 2, 4, 8, 16, 32, 64


def call(channel, class_id, method_id, fields=b""):
    return frame(1, channel, struct.pack(">HH", class_id, method_id) + fields)


def content(channel, body, properties=b"\x10\x00\x02", pieces=1):
    head = struct.pack(">HHQ", 60, 0, len(body)) + properties
    size = max(1, -(-len(body) // pieces))
    return frame(2, channel, head) + b"".join(
        frame(3, channel, body[at:at + size]) for at in range(0, len(body), size))


def publish(channel, exchange, key, body=b"hello", bits=0, **how):
    fields = b"\0\0" + shortstr(exchange) + shortstr(key) + bytes([bits])
    return call(channel, 60, 40, fields) + content(channel, body, **how)


def declare(channel, queue, bits=0, table=b""):
    return call(channel, 50, 10, b"\0\0" + shortstr(queue) + bytes([bits]) + longstr(table))


def bind(channel, queue, exchange, key, table=b""):
    return call(channel, 50, 20, b"\0\0" + shortstr(queue) + shortstr(exchange) + shortstr(key) +
                b"\0" + longstr(table))


def consume(channel, queue, tag, bits=0, table=b""):
    return call(channel, 60, 20, b"\0\0" + shortstr(queue) + shortstr(tag) + bytes([bits]) +
                longstr(table))


def settle(channel, method_id, tag, bits=0):
    return call(channel, 60, method_id, struct.pack(">QB", tag, bits))


def get(channel, queue, bits=0):
    return call(channel, 60, 70, b"\0\0" + shortstr(queue) + bytes([bits]))


def qos(channel, count, bits=0):
    return call(channel, 60, 10, struct.pack(">IHB", 0, count, bits))


def handshake(mechanism=b"PLAIN", response=b"\0guest\0guest", tune=(2047, 131072, 60)):
    properties = entry("capabilities", b"F" + longstr(
        entry("authentication_failure_close", b"t\x01") +
        entry("consumer_cancel_notify", b"t\x01"))) + entry("product", b"S" + longstr(b"py-amqp"))
    return (b"AMQP\0\0\x09\x01" +
            call(0, 10, 11, longstr(properties) + shortstr(mechanism) + longstr(response) +
                 shortstr(b"en_US")) +
            call(0, 10, 31, struct.pack(">HIH", *tune)) +
            call(0, 10, 40, shortstr(b"/") + b"\0\0") + call(1, 20, 10, b"\0"))


CLOSE = struct.pack(">H", 200) + shortstr(b"bye") + b"\0\0\0\0"


def streams():
    """Conversations behind the handshake: channels 1 and 2 are open, queue q is there."""
    some = publish(1, b"", b"q")
    return {
        "relay": consume(2, b"q", b"t") + some * 5 + settle(2, 80, 3, 1) + settle(2, 80, 4),
        "no_ack": consume(2, b"q", b"t", 2) + some * 40,
        "prefetch": qos(1, 2) + consume(1, b"q", b"a") + qos(1, 3, 1) + consume(1, b"q", b"b") +
                    some * 9 + settle(1, 80, 0, 1) + qos(1, 0, 1) + qos(1, 7),
        "requeue": some * 4 + get(1, b"q") * 3 + settle(1, 120, 2, 3) + settle(1, 90, 3, 1) +
                   get(1, b"") + call(1, 60, 110, b"\x01") + call(1, 60, 100, b"\x01"),
        "reject": some * 2 + get(1, b"q") + settle(1, 90, 1) + get(1, b"q", 1) + get(1, b"q"),
        "unknown_tag": settle(1, 80, 7) + some + call(1, 20, 41) + call(1, 20, 10, b"\0"),
        "confirm": call(1, 85, 10, b"\0") + some * 3 + publish(1, b"", b"none", bits=1) + some,
        "topic": declare(1, b"t") + bind(1, b"t", b"amq.topic", b"a.*.#") +
                 publish(1, b"amq.topic", b"a.b.c") * 2 + publish(1, b"amq.topic", b"a"),
        "headers": bind(1, b"q", b"amq.headers", b"", entry("k", b"t\x01")) + publish(
            1, b"amq.headers", b"", properties=b"\x20\0" + longstr(entry("k", b"t\x01"))) * 3,
        "exchanges": call(1, 40, 10, b"\0\0" + shortstr(b"x") + shortstr(b"fanout") + b"\x04" +
                          longstr(entry("alternate-exchange", b"S" + longstr(b"amq.fanout")))) +
                     call(1, 40, 30, b"\0\0" + shortstr(b"x") + shortstr(b"amq.direct") +
                          shortstr(b"k") + b"\0" + longstr(b"")) + publish(1, b"amq.direct", b"k") +
                     call(1, 40, 20, b"\0\0" + shortstr(b"x") + b"\0"),
        "delete": consume(2, b"q", b"t") + some * 3 +
                  call(1, 50, 40, b"\0\0" + shortstr(b"q") + b"\0") + settle(2, 80, 1),
        "purge": some * 3 + call(1, 50, 30, b"\0\0" + shortstr(b"q") + b"\0") + some,
        "auto_delete": declare(1, b"a", 8) + consume(2, b"a", b"t") + publish(1, b"", b"a") +
                       call(2, 60, 30, shortstr(b"t") + b"\0"),
        "exclusive": declare(1, b"mine", 4) + consume(1, b"mine", b"t", 4) +
                     consume(2, b"mine", b"u") + call(2, 20, 40, CLOSE),
        "passive": declare(1, b"q", 1) + declare(1, b"none", 1) + call(1, 20, 41),
        "server_named": declare(1, b"", 4, entry("x-max-length", VALUES["signedint"])) +
                        consume(1, b"", b""),
        "large": publish(1, b"", b"q", bytes(20000), pieces=3) + get(2, b"q"),
        "too_large": publish(1, b"", b"q", bytes(70000)) + get(1, b"q") + call(1, 20, 41),
        "interleaved": call(1, 60, 40, b"\0\0\0\1q\0") + some.replace(b"\x01\0\x01", b"\x01\0\x02") +
                       frame(8, 0, b"") + content(1, b"abcdef", pieces=3),
        "out_of_step": call(1, 60, 40, b"\0\0\0\1q\0") + get(1, b"q"),
        "body_too_long": some[:-14] + frame(3, 1, b"too long for it"),
        "bad_end": some[:-1] + b"\0" + some,
        "frame_too_large": b"\x03\0\1\x7f\xff\xff\xff" + bytes(40),
        "transaction": call(1, 90, 10) + some * 2 + call(1, 90, 20) + some + call(1, 90, 30),
        "reply_to": consume(1, b"amq.rabbitmq.reply-to", b"r", 2) + publish(
            1, b"", b"q", properties=b"\x02\0" + shortstr(b"amq.rabbitmq.reply-to")) +
            get(2, b"q", 1),
        "carbon_copies": publish(1, b"", b"none", properties=b"\x20\0" + longstr(
            entry("CC", b"A" + longstr(b"S" + longstr(b"q"))) +
            entry("BCC", b"A" + longstr(b"S" + longstr(b"q"))))) * 2 + get(1, b"q"),
        "all_properties": publish(1, b"", b"q", properties=struct.pack(">H", 0xE200) +
                                  shortstr(b"text/plain") + shortstr(b"utf-8") +
                                  longstr(ALL + X_DEATH) + shortstr(b"reply")) + get(1, b"q"),
        "closes": some + call(2, 20, 40, CLOSE) + call(0, 10, 50, CLOSE) + some,
        "flow": call(1, 20, 20, b"\x01") + call(1, 30, 10, shortstr(b"/") + b"\x1f") +
                call(1, 20, 20, b"\0") + call(0, 10, 51),
    }


def session_seeds():
    some = publish(1, b"", b"q")
    amqplain = entry("LOGIN", b"S" + longstr(b"guest")) + entry("PASSWORD", b"S" + longstr(b"guest"))
    seeds = {name: bytes([RUNNING]) + stream for name, stream in streams().items()}
    seeds |= {
        "handshake": b"\0" + handshake() + declare(1, b"q") + some + get(1, b"q"),
        "handshake_octets": bytes([OCTETS]) + handshake() + some,
        "amqplain": b"\0" + handshake(b"AMQPLAIN", amqplain) + call(0, 10, 50, CLOSE),
        "wrong_password": b"\0" + handshake(response=b"\0guest\0wrong"),
        "wrong_mechanism": b"\0" + handshake(b"FOO"),
        "wrong_tune": b"\0" + handshake(tune=(0, 100, 1)),
        "wrong_header": b"\0GET / HTTP/1.1\r\n\r\n",
        "nothing": b"\0",
        "deaf": bytes([RUNNING | DEAF]) + consume(2, b"q", b"t", 2) + some * 200 +
                publish(1, b"", b"none", bits=1) * 300,
        "yield": bytes([RUNNING]) + consume(2, b"q", b"t") + qos(2, 1, 1) + some * 200,
        "shutdown_in_body": bytes([RUNNING | SHUTDOWN | PIECES]) + publish(1, b"", b"q", bytes(9000)),
        "shutdown": bytes([RUNNING | SHUTDOWN]) + some * 2 + call(0, 10, 51),
        "short_memory": bytes([RUNNING | SHORT_MEMORY]) + consume(1, b"q", b"t") + some * 3,
        "small_frames": bytes([RUNNING | SMALL_FRAMES]) + publish(1, b"", b"q", bytes(9000), pieces=3) +
                        get(1, b"q"),
        "relay_octets": bytes([RUNNING | OCTETS]) + streams()["relay"],
        "large_pieces": bytes([RUNNING | PIECES]) + streams()["large"],
    }
    return seeds


def main():
    corpora = Path(sys.argv[1]) if len(sys.argv) > 1 else TOP / "tests/fuzz/corpus"
    for target, seeds in (("field", field_seeds()), ("frame", frame_seeds()),
                          ("method", method_seeds()), ("props", props_seeds()),
                          ("session", session_seeds())):
        folder = corpora / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, octets in seeds.items():
            (folder / f"{name}.bin").write_bytes(octets)
        print(f"{folder}: {len(seeds)} seeds")


if __name__ == "__main__":
    main()
