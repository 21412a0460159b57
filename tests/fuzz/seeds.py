#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of the fuzz targets of wire/ into tests/fuzz/corpus/<target>/.

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


def main():
    corpora = Path(sys.argv[1]) if len(sys.argv) > 1 else TOP / "tests/fuzz/corpus"
    for target, seeds in (("field", field_seeds()), ("frame", frame_seeds()),
                          ("method", method_seeds()), ("props", props_seeds())):
        folder = corpora / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, octets in seeds.items():
            (folder / f"{name}.bin").write_bytes(octets)
        print(f"{folder}: {len(seeds)} seeds")


if __name__ == "__main__":
    main()
