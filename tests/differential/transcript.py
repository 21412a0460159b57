# SPDX-License-Identifier: Apache-2.0
"""Writes what was played as a transcript of tests/proto: it passes on RabbitMQ and fails on Pannier.

Names that a server makes become variables; where the servers differed is said at the end.
"""

import re

MADE = re.compile(rb"<(gen|ctag|reply) (\d+)>")
PREFIXES = {b"gen": r"amq\.gen-.*", b"ctag": r"amq\.ctag-.*", b"reply": r"amq\.rabbitmq\.reply-to\..*"}
BITS = {"durable", "exclusive", "auto_delete", "passive", "nowait", "internal", "no_ack", "no_local",
        "mandatory", "immediate", "multiple", "requeue", "global", "if_unused", "if_empty", "active",
        "redelivered", "write", "read"}
SHOWN = ("exchange", "routing_key", "queue", "delivery_tag", "body")  # even when they are empty
CLOSES = ("channel.close", "connection.close")


class Writer:
    """The lines of one transcript."""

    def __init__(self, users):
        self.users, self.lines, self.known = users, [], set()
        self.opened = set()    # (connection, channel) that the transcript has opened
        self.confirmed = {}    # channel -> numbers
        self.tags = {}         # (channel, key of a message) -> delivery tag
        self.connected = set()

    # Values

    def value(self, value, receiving=False):
        if isinstance(value, bytes):
            made = MADE.fullmatch(value)
            name = (made[1] + made[2]).decode() if made else None
            if made and receiving and name not in self.known:
                self.known.add(name)
                return f'~"{PREFIXES[made[1]]}"->${name}'
            return f"${name}" if made else text(value)
        if isinstance(value, dict):
            shown = [f"{k}={self.value(v, receiving)}" for k, v in value.items()]
            partly = "~" if any("=~" in one for one in shown) else ""  # only there may patterns stand
            return partly + "{" + " ".join(shown) + "}"
        return table(value) if isinstance(value, list) else str(value)

    def fields(self, values, receiving=False):
        out = []
        for name, value in values.items():
            if value or name in SHOWN and not name.startswith("reserved"):
                short = name in BITS and value == 1
                given = long_text(value) if name == "body" else self.value(value, receiving)
                out.append(name if short else f"{name}={given}")
        return "".join(" " + field for field in out)

    # Lines

    def step(self, ops):
        conn = ops[0].conn
        if conn not in self.connected:
            self.connected.add(conn)
            self.opened |= {(conn, 1), (conn, 2)}
            user = self.users[conn]
            self.lines.append(f"open c{conn} channels=2" +
                              (f' user="{user}" password="{user}"' if user != "guest" else ""))
        for op in ops:
            if op.name == "channel.open" and not op.raw and op.where in self.opened:
                continue
            if op.name == "channel.open":
                self.opened.add(op.where)
                self.lines.append(f"> c{op.conn} {op.channel} channel.open")
                if not op.raw:
                    self.lines.append(f"< c{op.conn} {op.channel} channel.open_ok")
                continue
            self.send(op)

    def send(self, op):
        values = dict(op.values)
        if isinstance(values.get("delivery_tag"), tuple):
            values["delivery_tag"] = self.tags.get((op.where, values["delivery_tag"]), 0)
        if op.props:
            values["props"] = op.props
        if op.body is not None:
            values["body"] = op.body
        self.lines.append(f"> c{op.conn} {op.channel} {op.name}{self.fields(values)}")

    def receive(self, where, event):
        at = f"c{where[0]} {where[1]}"
        if event.name in CLOSES:
            self.close(where, event.values, event.name == "channel.close")
        elif event.name in ("basic.ack", "basic.nack"):
            self.confirm(where, event)
        elif event.name != "channel.open_ok":
            self.lines.append(f"< {at} {event.name}{self.fields(event.values, True)}")
        if event.name == "channel.close_ok":
            self.opened.discard(where)
        elif event.name == "connection.close_ok":
            self.connected.discard(where[0])

    def close(self, where, values, soft):
        ids = f"{values['class_id']}.{values['method_id']}"
        said = values["reply_text"].partition(b" - ")[2]
        at = f"soft c{where[0]} {where[1]}" if soft else f"hard c{where[0]}"
        self.lines.append(f"{at} {values['reply_code']} {'none' if ids == '0.0' else ids} {text(said)}")
        if not soft:
            self.connected.discard(where[0])
            self.confirmed = {w: n for w, n in self.confirmed.items() if w[0] != where[0]}
        else:
            self.confirmed.pop(where, None)

    def confirm(self, where, event):
        done, tag = self.confirmed.setdefault(where, set()), event.values["delivery_tag"]
        new = [n for n in range(1, tag + 1) if n not in done and (n == tag or event.values["multiple"])]
        done.update(new)
        kind = "acks" if event.name == "basic.ack" else "nacks"
        self.lines.append(f"confirms c{where[0]} {where[1]} {kind}={','.join(map(str, new))}")


def text(value):
    """A literal; names that the server made are variables in it."""
    def one(c):
        return {'"': '\\"', "\\": "\\\\"}.get(chr(c), chr(c) if 32 <= c < 127 else f"\\x{c:02x}")

    out = "".join(one(c) for c in value)
    return '"' + MADE.sub(rb"${\1\2}", out.encode()).decode() + '"'


def long_text(value):
    """A long body is one letter many times."""
    return f"{len(value)}*{text(value[-1:])}" if len(value) > 60 else text(value)


def key(name):
    return name.decode() if re.fullmatch(rb"[A-Za-z_][\w.\-]*", name) else text(name)


def table(entries):
    return "{" + " ".join(f"{key(k)}={field(letter, v)}" for k, letter, v in entries) + "}"


def field(letter, value):
    if letter in "SVt":
        return {"S": lambda: text(value), "V": lambda: "V", "t": lambda: str(value).lower()}[letter]()
    if letter == "x":
        return f'x"{value.hex()}"'
    if letter == "F":
        return table(value)
    if letter == "A":
        return "[" + " ".join(field(*v) for v in value) + "]"
    return str(value) if letter == "I" else f"{letter}:{value}"


def write(title, log, world, problem):
    """The transcript of a log: steps, and what RabbitMQ answered."""
    out, ops = Writer(world.users), []
    for entry, what in log:
        if entry == "step":
            ops = what
            out.step(ops)
        elif entry == "tags":
            out.tags = what
        elif entry == "rabbitmq":
            for where, events in sorted(what.items()):
                for event in events:
                    out.receive(where, event)
            if ops[0].where in out.opened and ops[0].conn in out.connected:
                out.lines.append(f"sync c{ops[0].conn} {ops[0].channel}")
    out.lines.append("# " + problem.replace("\n", "\n# "))
    return f"== {title}\n" + "\n".join(out.lines) + "\n"
