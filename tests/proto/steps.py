# SPDX-License-Identifier: Apache-2.0
"""Runs one case of a transcript: each verb is a method verb_... of Run or of Expecting.

A Run owns the connections of its case and remembers what was declared, so that the next case finds
a clean server.
"""

import time

import client
import expecting
import script
import wire

CASE_LIMIT = 60.0
PROBLEMS = (client.Unexpected, script.ScriptError, wire.WireError, OSError, ValueError)
GATHERING = ("send", "bytes", "frame", "header", "for", "set")  # before any other, all is written


class Failed(Exception):
    """An expectation that was not met, with its line."""


class Server:
    """What every case of a run shares: where the server is, the methods, which server it is."""

    def __init__(self, address, methods, is_oracle):
        self.address, self.methods, self.is_oracle = address, methods, is_oracle
        self.host, self.port, self.pid = address.host, address.port, address.pid


class Run(expecting.Expecting):
    """The execution of one case."""

    def __init__(self, server, path, case):
        self.server, self.path, self.case = server, path, case
        self.clients, self.values = {}, {}
        self.queues, self.exchanges = {}, {}
        self.deadline = None

    # Framework

    def run(self):
        self.deadline = time.monotonic() + CASE_LIMIT
        try:
            self.block(self.case.lines)
            self.at_end()
        finally:
            for c in self.clients.values():
                c.drop()
            self.clean_up()

    def block(self, lines):
        skip = False
        for line in lines:
            try:
                if line.verb == "oracle":
                    if skip:
                        self.block(line.block)
                    skip = False
                elif line.verb == "differs":
                    skip = self.server.is_oracle
                    if not skip:
                        self.block(line.block)
                else:
                    skip = False
                    self.step(line)
            except Failed:
                raise
            except PROBLEMS as e:
                raise Failed(f"{self.path}:{line.number}: {line.text}\n    {e}") from e

    def step(self, line):
        name = {">": "send", "<": "receive", "<|": "receive_any"}.get(line.verb, line.verb)
        verb = getattr(self, f"verb_{name}", None)
        if verb is None:
            raise script.ScriptError(f"no verb {line.verb!r}")
        if line.block and name not in ("for", "any_order"):
            raise script.ScriptError("this verb takes no block")
        if time.monotonic() > self.deadline:
            raise client.Unexpected(f"the case takes more than {CASE_LIMIT} s")
        if name not in GATHERING:
            for c in self.clients.values():
                c.flush()
        verb(line)

    def at_end(self):
        """Nothing may be left over; then close cleanly."""
        try:
            for c in self.clients.values():
                if c.is_open and not c.ended:
                    for channel in sorted(c.open_channels):
                        c.sync(channel)
            for c in self.clients.values():
                for channel in sorted(c.queues):
                    c.assert_quiet(channel)
            for c in self.clients.values():
                c.close()
        except (client.Unexpected, OSError) as e:
            raise Failed(f"{self.path}: at the end of the case\n    {e}") from e

    def clean_up(self):
        if not self.queues and not self.exchanges:
            return
        janitor = client.Client(self.server, self.server.methods, "janitor")
        try:
            janitor.handshake()
            for kind, names in (("queue", self.queues), ("exchange", self.exchanges)):
                for name in filter(is_utf8, names):
                    self.delete(janitor, kind, name)
            janitor.close()
        finally:
            janitor.drop()

    @staticmethod
    def delete(janitor, kind, name):
        if not janitor.open_channels:
            janitor.open_channel(1)
        janitor.send_method(1, f"{kind}.delete", **{kind: name})
        if janitor.receive(1).name == "channel.close":
            janitor.send_method(1, "channel.close_ok")
            janitor.open_channels.clear()

    def parser(self, line):
        return script.Parser(line.rest, self.values)

    def method_name(self, p):
        """The next word, or the value of the variable that stands there."""
        kind, text = p.take()
        return self.values[text[1:]].decode() if kind == "var" else text

    def client(self, p, default="c1"):
        """The client that the next word names, or c1."""
        name = (p.words(r"c\d+") or [default])[0]
        if name not in self.clients:
            raise script.ScriptError(f"no connection {name}")
        return self.clients[name]

    def where(self, p):
        """The client and channel at the start of a line: both may be left out."""
        c = self.client(p)
        return c, int((p.words(r"\d+") or ["1"])[0])

    # Connections and channels

    def new_client(self, p):
        name = (p.words(r"c\d+") or ["c1"])[0]
        if name in self.clients:
            self.clients[name].drop()
        self.clients[name] = client.Client(self.server, self.server.methods, name)
        return self.clients[name]

    def verb_connect(self, line):
        self.new_client(self.parser(line))

    def verb_header(self, line):
        self.client(self.parser(line)).send(client.PROTOCOL_HEADER)

    def verb_open(self, line):
        """open [c] [user= password= vhost= capabilities= frame_max= ...] [channels=N]"""
        p = self.parser(line)
        c, args = self.new_client(p), p.arguments()
        channels = args.pop("channels", 1)
        if "user" in args:
            args.setdefault("password", b"secret")
        c.handshake(**args)
        for channel in range(1, channels + 1):
            c.open_channel(channel)

    def verb_channel(self, line):
        p = self.parser(line)
        c = self.client(p)
        for n in p.words(r"\d+"):
            c.open_channel(int(n))

    def verb_close(self, line):
        """Close the connection, or with a channel number that channel; drops what still comes."""
        p = self.parser(line)
        c, channel = self.client(p), p.words(r"\d+")
        if not channel:
            c.close()
            return
        n = int(channel[0])
        c.send_method(n, "channel.close", reply_code=200, reply_text=b"OK")
        c.await_kept(n, "channel.close_ok")
        c.open_channels.discard(n)
        c.queues.pop(n, None)

    def verb_drop(self, line):
        self.client(self.parser(line)).drop()

    def verb_eof(self, line):
        """eof [c] [after=S]: the server ends the connection, S seconds after its begin or later."""
        p = self.parser(line)
        c, args = self.client(p), p.arguments()
        c.expect_eof()
        age = time.monotonic() - c.began
        if age < float(args.get("after", 0)):
            raise client.Unexpected(f"the connection ended after {age:.2f} s")

    def verb_gone(self, line):
        """gone [c]: the server ends the connection; a connection.close may come before that."""
        c = self.client(self.parser(line))
        c.flush()
        while not c.ended:
            c.cut_frames()
            for queue in c.queues.values():
                for kind, payload in queue:
                    got = c.decode(kind, payload)
                    if got.name != "connection.close":
                        raise client.Unexpected(f"wanted the end, got {got}")
            if not c.pull(client.WAIT):
                raise client.Unexpected("the server keeps the connection open")
        c.queues.clear()
        c.is_open = False

    # Sending

    def verb_send(self, line):
        p = self.parser(line)
        c, channel = self.where(p)
        name, args = self.method_name(p), p.arguments()
        cut, extra = args.pop("cut", 0), args.pop("extra", b"")
        if name == "content.header":
            payload = wire.encode_header(args["body_size"], args.get("props", {}),
                                         args.get("class_id", 60), args.get("weight", 0))
            c.send(wire.frame(2, channel, payload[:len(payload) - cut] + extra))
            return
        if name == "content.body":
            c.send(wire.frame(3, channel, args["body"]))
            return
        self.send_method(c, channel, name, args, cut, extra)

    def send_method(self, c, channel, name, args, cut, extra):
        method = self.server.methods.by_name.get(name)
        if method is None:
            raise script.ScriptError(f"no method {name}")
        props, body = args.pop("props", None), args.pop("body", None)
        for field in args:
            if not method.has(field):
                raise script.ScriptError(f"{name} has no field {field}")
        payload = wire.encode_method(method, args)
        c.send(wire.frame(1, channel, payload[:len(payload) - cut] + extra))
        if props is not None or body is not None:
            c.send(wire.content(channel, props or {}, body or b"", c.frame_max))
        if name == "queue.declare" and args.get("queue") and not args.get("passive"):
            self.queues[args["queue"].translate(None, b"\r\n")] = True
        elif name == "exchange.declare" and not args.get("passive"):
            self.exchanges[args["exchange"].translate(None, b"\r\n")] = True
        elif name == "channel.close_ok":
            c.open_channels.discard(channel)

    def verb_bytes(self, line):
        p = self.parser(line)
        c = self.client(p)
        c.send(p.value()[1])

    def verb_frame(self, line):
        """frame [c] type= channel= payload= [end=] [size=]: any frame, also wrong ones"""
        p = self.parser(line)
        c, args = self.client(p), p.arguments()
        c.send(wire.frame(args["type"], args.get("channel", 0), args.get("payload", b""),
                          args.get("end", wire.FRAME_END), args.get("size")))

    def verb_flush(self, line):
        """Write what was gathered now, so that what follows arrives apart from it."""
        self.client(self.parser(line)).flush()

    # Control

    def verb_pause(self, line):
        """pause SECONDS: for what is to happen by itself, or not to"""
        time.sleep(float(line.rest))

    def verb_set(self, line):
        name, _, rest = line.rest.partition(" ")
        self.values[name] = script.Parser(rest, self.values).value()[1]

    def verb_for(self, line):
        """for NAME A..B, or for NAME VALUE ...: the block for each"""
        name, _, rest = line.rest.partition(" ")
        values = [("I", n) for n in script.numbers(rest)]
        p = script.Parser("" if values else rest, self.values)
        while not p.at_end():
            values.append(p.value())
        for self.values[f"type of {name}"], self.values[name] in values:
            self.block(line.block)

    def verb_user(self, line):
        """Users exist before the server starts: see definitions() in run."""

    verb_vhost = verb_topic_permission = verb_user


def is_utf8(name):
    try:
        return bool(name.decode())
    except UnicodeDecodeError:
        return False
