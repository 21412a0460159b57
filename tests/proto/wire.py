# SPDX-License-Identifier: Apache-2.0
"""AMQP 0-9-1 on bytes, for tests: methods, properties, field tables and frames.

The list of methods is not repeated here: it is read from include/wire/methods.def, so a row that is
wrong there fails a transcript.  Everything textual is kept as bytes.  A field table is a list of
(key, letter, value), which keeps order, duplicates and types; a field value is (letter, value).
"""

import re
import struct

FRAME_METHOD, FRAME_HEADER, FRAME_BODY, FRAME_HEARTBEAT, FRAME_END = 1, 2, 3, 8, 0xCE

REPLIES = {
    200: "REPLY_SUCCESS", 311: "CONTENT_TOO_LARGE", 312: "NO_ROUTE", 313: "NO_CONSUMERS",
    320: "CONNECTION_FORCED", 402: "INVALID_PATH", 403: "ACCESS_REFUSED", 404: "NOT_FOUND",
    405: "RESOURCE_LOCKED", 406: "PRECONDITION_FAILED", 501: "FRAME_ERROR", 502: "SYNTAX_ERROR",
    503: "COMMAND_INVALID", 504: "CHANNEL_ERROR", 505: "UNEXPECTED_FRAME", 506: "RESOURCE_ERROR",
    530: "NOT_ALLOWED", 540: "NOT_IMPLEMENTED", 541: "INTERNAL_ERROR",
}

PROPERTIES = [
    ("content_type", "SHORTSTR"), ("content_encoding", "SHORTSTR"), ("headers", "TABLE"),
    ("delivery_mode", "OCTET"), ("priority", "OCTET"), ("correlation_id", "SHORTSTR"),
    ("reply_to", "SHORTSTR"), ("expiration", "SHORTSTR"), ("message_id", "SHORTSTR"),
    ("timestamp", "LONGLONG"), ("type", "SHORTSTR"), ("user_id", "SHORTSTR"),
    ("app_id", "SHORTSTR"), ("cluster_id", "SHORTSTR"),
]

SIZES = {"OCTET": ">B", "SHORT": ">H", "LONG": ">I", "LONGLONG": ">Q"}
NUMBERS = {
    "b": ">b", "B": ">B", "s": ">h", "U": ">h", "u": ">H", "I": ">i", "i": ">I", "l": ">q",
    "L": ">q", "f": ">f", "d": ">d", "T": ">Q",
}


class WireError(Exception):
    """Bytes that are not what the protocol allows."""


class Method:
    """One row of methods.def: its name ("queue.declare"), ids and fields in wire order."""

    def __init__(self, name, class_id, method_id, fields):
        self.name, self.class_id, self.method_id = name, class_id, method_id
        self.fields = fields

    def has(self, field):
        return any(name == field for _, name in self.fields)


class Methods:
    """The table of methods, by name and by ids."""

    ROW = re.compile(r"METHOD\(\s*(\w+)\s*,\s*(\d+)\s*,\s*(\w+)\s*,\s*(\d+)\s*,(.*?)\)\s*(?=METHOD|#|$|/\*)", re.S)
    FIELD = re.compile(r"(OCTET|SHORTSTR|SHORT|LONGLONG|LONGSTR|LONG|BIT|TABLE)\((\w+)\)")

    def __init__(self, text):
        self.by_name, self.by_ids = {}, {}
        text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)
        for c, ci, m, mi, fields in self.ROW.findall(text):
            row = Method(f"{c}.{m}", int(ci), int(mi), self.FIELD.findall(fields))
            self.by_name[row.name] = row
            self.by_ids[row.class_id, row.method_id] = row
        if len(self.by_name) < 60:
            raise WireError(f"methods.def: only {len(self.by_name)} methods found")


class Reader:
    """A cursor over bytes; reading past the end raises."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def raw(self, n):
        if n > len(self.data) - self.at:
            raise WireError(f"{n} octets wanted, {len(self.data) - self.at} left")
        self.at += n
        return self.data[self.at - n:self.at]

    def number(self, form):
        return struct.unpack(form, self.raw(struct.calcsize(form)))[0]

    def shortstr(self):
        return self.raw(self.number(">B"))

    def longstr(self):
        return self.raw(self.number(">I"))

    def more(self):
        return self.at < len(self.data)


def shortstr(value):
    if len(value) > 255:
        raise WireError("short string over 255 octets")
    return bytes([len(value)]) + value


def longstr(value):
    return struct.pack(">I", len(value)) + value


def encode_field(letter, value):
    if letter in NUMBERS:
        body = struct.pack(NUMBERS[letter], value)
    elif letter == "t":
        body = b"\x01" if value else b"\x00"
    elif letter in "Sx":
        body = longstr(value)
    elif letter == "D":
        body = struct.pack(">BI", *value)
    elif letter == "F":
        body = encode_table(value)
    elif letter == "A":
        body = longstr(b"".join(encode_field(*v) for v in value))
    elif letter == "V":
        body = b""
    else:
        body = value  # a letter that does not exist, with whatever octets the test wants
    return letter.encode() + body


def encode_table(entries):
    return longstr(b"".join(shortstr(k) + encode_field(letter, v) for k, letter, v in entries))


def decode_field(r):
    letter = r.raw(1).decode("latin-1")
    if letter in NUMBERS:
        return letter, r.number(NUMBERS[letter])
    if letter == "t":
        return letter, r.raw(1) != b"\x00"
    if letter in "Sx":
        return letter, r.longstr()
    if letter == "D":
        return letter, (r.number(">B"), r.number(">I"))
    if letter == "F":
        return letter, decode_table(r)
    if letter == "A":
        inner, values = Reader(r.longstr()), []
        while inner.more():
            values.append(decode_field(inner))
        return letter, values
    if letter == "V":
        return letter, None
    raise WireError(f"field type {letter!r}")


def decode_table(r):
    inner, entries = Reader(r.longstr()), []
    while inner.more():
        key = inner.shortstr()
        entries.append((key, *decode_field(inner)))
    return entries


def encode_value(kind, value):
    if kind in SIZES:
        return struct.pack(SIZES[kind], value)
    if kind == "SHORTSTR":
        return shortstr(value)
    return longstr(value) if kind == "LONGSTR" else encode_table(value)


def decode_value(kind, r):
    if kind in SIZES:
        return r.number(SIZES[kind])
    if kind == "SHORTSTR":
        return r.shortstr()
    return r.longstr() if kind == "LONGSTR" else decode_table(r)


DEFAULTS = {"SHORTSTR": b"", "LONGSTR": b"", "TABLE": []}


def encode_method(method, values):
    """The payload of a method frame; a field without a value is zero or empty."""
    out = bytearray(struct.pack(">HH", method.class_id, method.method_id))
    bits = 8
    for kind, name in method.fields:
        value = values.get(name, DEFAULTS.get(kind, 0))
        if kind == "BIT":
            if bits == 8:
                out.append(0)
                bits = 0
            out[-1] |= bool(value) << bits
            bits += 1
        else:
            bits = 8
            out += encode_value(kind, value)
    return bytes(out)


def decode_method(methods, payload):
    """(method, {field: value}) of a method frame; left-over octets are an error."""
    r = Reader(payload)
    ids = r.number(">H"), r.number(">H")
    if ids not in methods.by_ids:
        raise WireError(f"unknown method {ids[0]}.{ids[1]}")
    method, values, bits, octet = methods.by_ids[ids], {}, 8, 0
    for kind, name in method.fields:
        if kind == "BIT":
            if bits == 8:
                octet, bits = r.number(">B"), 0
            values[name] = octet >> bits & 1
            bits += 1
        else:
            bits = 8
            values[name] = decode_value(kind, r)
    if r.more():
        raise WireError(f"{method.name}: octets left over")
    return method, values


def encode_header(size, props, class_id=60, weight=0):
    """The payload of a content header frame; props is {name: value}."""
    flags, out = 0, b""
    for i, (name, kind) in enumerate(PROPERTIES):
        if name in props:
            flags |= 0x8000 >> i
            out += encode_value(kind, props[name])
    return struct.pack(">HHQH", class_id, weight, size, flags) + out


def decode_header(payload):
    """(body size, {name: value}) of a content header frame."""
    r, props = Reader(payload), {}
    class_id, weight, size, flags = (r.number(f) for f in (">H", ">H", ">Q", ">H"))
    if class_id != 60 or weight != 0:
        raise WireError(f"content header of class {class_id}, weight {weight}, flags {flags:#x}")
    for i, (name, kind) in enumerate(PROPERTIES):
        if flags & 0x8000 >> i:
            props[name] = decode_value(kind, r)
    if r.more():
        raise WireError("content header: octets left over")
    return size, props


def frame(kind, channel, payload, end=FRAME_END, size=None):
    size = len(payload) if size is None else size
    return struct.pack(">BHI", kind, channel, size) + payload + bytes([end])


def content(channel, props, body, frame_max):
    """Header and body frames of one content."""
    out = [frame(FRAME_HEADER, channel, encode_header(len(body), props))]
    step = frame_max - 8 if frame_max else len(body) or 1
    for at in range(0, len(body), step):
        out.append(frame(FRAME_BODY, channel, body[at:at + step]))
    return b"".join(out)
