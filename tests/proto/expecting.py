# SPDX-License-Identifier: Apache-2.0
"""The verbs of a transcript that expect something, and those that go through a table of routes.

They are a part of Run (steps.py), split off for its size.
"""

import re

import client
import script
import wire

HARD_CODES = {320, 402, 501, 502, 503, 504, 505, 506, 530, 540, 541}


class Expecting:
    """Uses clients, values, queues and server of Run."""

    def compare(self, got, name, args):
        """Bits that are not named must be zero; other fields that are not named do not matter."""
        if got.name != name:
            return "another method"
        for field, want in args.items():
            if field not in got.values:
                return f"has no {field}"
            if script.match(want, got.values[field], self.values):
                return f"{field} differs"
        method = self.server.methods.by_name.get(name)
        for kind, field in method.fields if method else []:
            if kind == "BIT" and field not in args and got.values[field]:
                return f"{field} is set"
        return None

    def verb_receive(self, line):
        p = self.parser(line)
        c, channel = self.where(p)
        name, args = p.take()[1], p.arguments()
        got = c.receive(channel, name)
        problem = self.compare(got, name, args)
        if problem:
            raise client.Unexpected(f"{problem}; got {got}")
        self.received(c, channel, got)

    def received(self, c, channel, got):
        if got.name == "queue.declare_ok":
            self.queues[got.values["queue"]] = True
        elif got.name == "channel.open_ok":
            c.open_channels.add(channel)
        elif got.name in ("channel.close", "channel.close_ok"):
            c.open_channels.discard(channel)
        elif got.name == "connection.open_ok":
            c.is_open = True
        elif got.name in ("connection.close", "connection.close_ok"):
            c.is_open = False

    def verb_any_order(self, line):
        """A block of < lines that come in any order, each on its channel."""
        wanted = list(self.wanted_in(line.block))
        while wanted:
            c, channel = wanted[0][:2]
            got = c.receive(channel, wanted[0][2])
            for i, (c2, channel2, name, args) in enumerate(wanted):
                if (c2, channel2) == (c, channel) and not self.compare(got, name, args):
                    del wanted[i]
                    break
            else:
                raise client.Unexpected(f"not among those awaited: {got}")

    def wanted_in(self, block):
        for line in block:
            p = self.parser(line)
            if line.verb == "for":
                name = p.take()[1]
                for self.values[name] in script.numbers(p.text[p.at:]):
                    yield from self.wanted_in(line.block)
            else:
                yield (*self.where(p), p.take()[1], p.arguments())

    def verb_soft(self, line):
        """soft [c n] CODE METHOD TEXT: channel.close; answers it and opens the channel again."""
        p = self.parser(line)
        c, channel = self.where_code(p)
        self.expect_close(c, channel, "channel.close", p)
        c.send_method(channel, "channel.close_ok")
        c.queues[channel].clear()
        c.open_channel(channel)

    def where_code(self, p):
        """As where(), for a line where the number of a reply code follows."""
        c = self.client(p)
        numbers = p.words(r"\d+")
        self.code = int(numbers[-1])
        return c, int(numbers[0]) if len(numbers) > 1 else 1

    def expect_close(self, c, channel, name, p):
        code, method, text = self.code, self.method_name(p), p.value()[1]
        ids = (0, 0)
        if re.fullmatch(r"\d+\.\d+", method):
            ids = tuple(int(n) for n in method.split("."))
        elif method != "none":
            row = self.server.methods.by_name[method]
            ids = row.class_id, row.method_id
        if isinstance(text, script.Unset):
            raise script.ScriptError("the text has no value")
        got = c.receive(channel, name)
        problem = self.compare(got, name, {
            "reply_code": code, "class_id": ids[0], "method_id": ids[1],
            "reply_text": text if code == 541 else script.full_text(code, text)})
        if problem:
            raise client.Unexpected(f"{problem}; got {got}")

    def verb_hard(self, line):
        """hard [c] CODE METHOD TEXT [slow]: connection.close; answers it and waits for the end."""
        p = self.parser(line)
        c, _ = self.where_code(p)
        if self.code not in HARD_CODES and self.code != 403:
            raise script.ScriptError(f"{self.code} does not close a connection")
        self.expect_close(c, 0, "connection.close", p)
        stays = p.words("slow")
        c.is_open = False
        c.send_method(0, "connection.close_ok")
        if stays:
            c.flush()
        else:
            c.expect_eof()

    def verb_octets(self, line):
        """octets [c] TEXT: exactly these arrive, outside of frames"""
        p = self.parser(line)
        self.client(p).expect_bytes(p.value()[1])

    def verb_heartbeat(self, line):
        """A heartbeat frame arrives (after the last one that was awaited)."""
        c = self.client(self.parser(line))
        seen = c.heartbeats
        c.wait_until(lambda: c.heartbeats > seen, "a heartbeat")

    def verb_confirms(self, line):
        """confirms [c n] [acks=1..5,7] [nacks=6]: each tag exactly once, in any mixture"""
        m = re.fullmatch(r"(?:(c\d+) )?(?:(\d+) )?(?:acks=(\S+))? ?(?:nacks=(\S+))?",
                         re.sub(r"\$(\w+)", lambda v: str(self.values[v[1]]), line.rest))
        c, channel = self.clients[m[1] or "c1"], int(m[2] or 1)
        wanted = {tag: "basic.ack" for tag in tags(m[3])}
        wanted.update({tag: "basic.nack" for tag in tags(m[4])})
        while wanted:
            got = c.receive(channel, "confirms")
            if got.name not in ("basic.ack", "basic.nack"):
                raise client.Unexpected(f"wanted confirms of {sorted(wanted)}, got {got}")
            tag, multiple = got.values["delivery_tag"], got.values["multiple"]
            hit = [t for t in wanted if t == tag or (multiple and (t < tag or tag == 0))]
            if tag not in wanted and tag != 0 or any(wanted[t] != got.name for t in hit):
                raise client.Unexpected(f"wanted {wanted}, got {got}")
            for t in hit:
                del wanted[t]

    def verb_sync(self, line):
        """sync [c n] ["queue" ...]: round trips, by the named queues too"""
        p = self.parser(line)
        c, channel = self.where(p)
        queues = []
        while not p.at_end():
            queues.append(p.value()[1])
        c.sync(channel, queues)
        return c, channel

    def verb_quiet(self, line):
        """As sync, and nothing may have come on the channel."""
        c, channel = self.verb_sync(line)
        c.assert_quiet(channel)

    def verb_differ(self, line):
        """differ $a $b: two captured values are not the same"""
        a, b = re.findall(r"\$(\w+)", line.rest)
        if self.values[a] == self.values[b]:
            raise client.Unexpected(f"both are {client.show(self.values[a])}")

    # Routing tables

    def verb_topic(self, line):
        """topic PATTERN matches KEY ... not KEY ...: with exchange r.topic and queue r.a"""
        p = self.parser(line)
        key = p.value()[1]
        self.routing_table(p, "r.topic", {"routing_key": key},
                           lambda: {"routing_key": p.value()[1]})

    def verb_headers(self, line):
        """headers TABLE matches TABLE ... not TABLE ...: with amq.match and queue r.a"""
        p = self.parser(line)
        args = p.value()[1]
        self.routing_table(p, "amq.match", {"arguments": args},
                           lambda: {"props": {"headers": p.value()[1]}})

    def routing_table(self, p, exchange, binding, next_message):
        """Binds r.a, publishes each message as mandatory, and sees which of them come back."""
        c = self.clients["c1"]
        binding = dict(binding, queue=b"r.a", exchange=exchange.encode())
        c.send_method(1, "queue.bind", **binding)
        c.expect(1, "queue.bind_ok")
        expected = {"matches": True, "not": False}[p.take()[1]]
        while not p.at_end():
            if p.words("not"):
                expected = False
                continue
            message = next_message()
            c.send_method(1, "basic.publish", exchange=exchange.encode(), mandatory=1,
                          routing_key=message.get("routing_key", b""))
            c.send(wire.content(1, message.get("props", {}), b"", c.frame_max))
            c.send_method(1, "queue.declare", queue=b"r.a", passive=1)
            got = c.receive(1)
            if (got.name != "basic.return") != expected:
                raise client.Unexpected(f"{client.show(message)}: got {got}")
            if got.name == "basic.return":
                c.expect(1, "queue.declare_ok")
        c.send_method(1, "queue.unbind", **binding)
        c.expect(1, "queue.unbind_ok")


def tags(text):
    for part in (text or "").split(","):
        low, _, high = part.partition("..")
        if low:
            yield from range(int(low), int(high or low) + 1)
