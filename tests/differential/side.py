# SPDX-License-Identifier: Apache-2.0
"""What a client has at one of the two servers: connections, channels, and what arrived there.

A Side has the connections 1 and 2 with the channels 1 and 2 that the sequences use, and hidden ones for
looking: channel 3 of each connection (for its exclusive queues) and a janitor's connection. Answers is
what one channel received in one step, sorted into what has an order and what has none. Names that the
server makes are known to the rest by aliases ("<gen 1>"), the same on both sides.
"""

import collections
import re

import client
import peer

LOOK = 3  # the hidden channel of connections 1 and 2
CONNECTIONS = (1, 2)
CHANNELS = (1, 2)
MADE = re.compile(rb"amq\.(gen|ctag)-[A-Za-z0-9_-]{22}|amq\.rabbitmq\.reply-to\.[^\s']+")
CONFIRM_LIMIT = 15.0


class Answers:
    """What arrived on one channel during one step."""

    def __init__(self):
        self.replies = []      # in order: everything that is not below
        self.deliveries = collections.defaultdict(list)  # by consumer tag, in order
        self.cancels = []      # consumer tags that the server cancelled
        self.raw = []          # all of it as it came, for the transcript


class Outstanding:
    """What one channel of a side has to settle: delivery tags differ between the sides."""

    def __init__(self):
        self.unacked = {}      # delivery tag -> key of the message
        self.pending = {}      # the same, settled in a transaction that is not committed
        self.confirm = False   # confirm.select was sent
        self.published = 0     # messages sent since then
        self.numbers = {}      # message id -> publish number
        self.confirms = {}     # publish number -> "basic.ack" or "basic.nack"
        self.live = set()      # consumer tags between consume-ok and cancel-ok


class Side:
    """One server, its connections, and the state that is its own."""

    def __init__(self, name, address, methods):
        self.name, self.address, self.methods = name, address, methods
        self.peers, self.users = {}, {}
        self.janitor = None
        self.names, self.aliases = {}, {}
        self.counts = collections.Counter()
        self.outstanding = {}
        self.answers = {}
        self.looked = {}       # queue -> (ready, consumers) or the text of the error

    # Connections

    def connect(self, conn, user):
        p = peer.Peer(self.address, self.methods, f"{self.name} c{conn}")
        p.handshake(user=user.encode(), password=user.encode(), channel_max=LOOK)
        p.open_channel(LOOK)
        self.peers[conn], self.users[conn] = p, user

    def connect_janitor(self):
        self.janitor = peer.Peer(self.address, self.methods, f"{self.name} janitor")
        self.janitor.handshake()
        self.janitor.open_channel(1)

    def forget(self, conn):
        """The connection is gone."""
        p = self.peers.pop(conn, None)
        if p:
            p.drop()
        for channel in CHANNELS:
            self.outstanding.pop((conn, channel), None)

    def drop_all(self):
        for conn in CONNECTIONS:
            self.forget(conn)
        if self.janitor:
            self.janitor.drop()
            self.janitor = None

    def new_sequence(self):
        self.names, self.aliases = {}, {}
        self.counts.clear()
        self.outstanding, self.looked = {}, {}

    def state(self, conn, channel):
        return self.outstanding.setdefault((conn, channel), Outstanding())

    # Names

    def actual(self, value):
        return self.names.get(value, value) if isinstance(value, bytes) else value

    def alias(self, made):
        """The alias of a name that the server made."""
        if made not in self.aliases:
            kind = {b"g": "gen", b"c": "ctag", b"r": "reply"}[made[4:5]]
            self.counts[kind] += 1
            new = f"<{kind} {self.counts[kind]}>".encode()
            self.aliases[made], self.names[new] = new, made
        return self.aliases[made]

    def plain(self, value):
        """The value with aliases instead of made names."""
        if isinstance(value, bytes):
            return MADE.sub(lambda m: self.alias(m[0]), value) if b"amq." in value else value
        if isinstance(value, dict):
            return {k: self.plain(v) for k, v in value.items()}
        return value

    # Sending

    def send(self, op):
        """Send an operation; its tags and aliases become this side's own."""
        p, state = self.peers[op.conn], self.state(op.conn, op.channel)
        if op.name == "confirm.select":
            state.confirm = True
        elif op.name == "basic.publish" and state.confirm:
            state.published += 1
            state.numbers[message_id({"body": op.body, "props": op.props})] = state.published
        elif op.name == "basic.consume" and op.values.get("nowait"):
            state.live.add(op.values["consumer_tag"])
        values = {k: self.resolve(op, v) for k, v in op.values.items()}
        p.send_method(op.channel, op.name, **values)
        if op.body is not None:
            p.send_content(op.channel, {k: self.actual(v) for k, v in op.props.items()}, op.body)

    def resolve(self, op, value):
        if isinstance(value, tuple):  # the key of an unacked message
            return self.tag_of(op.conn, op.channel, value)
        return self.actual(value)

    def tag_of(self, conn, channel, key):
        found = [t for t, k in self.outstanding[conn, channel].unacked.items() if k == key]
        return found[0]

    # Receiving

    def await_group(self, conn, channel, flows, closing, committing):
        """Wait until the server has done what was sent; says how the channel is then."""
        p = self.peers[conn]

        def state():
            if p.count(0, "connection.close") or p.count(0, "connection.close_ok"):
                return "no connection"
            if closing:
                return "closed" if p.count(channel, "channel.close_ok") else ""
            if p.count(channel, "channel.close"):
                return "refused"
            if committing:
                return "committed" if p.count(channel, "tx.commit_ok") else ""
            return "open" if p.count(channel, "channel.flow_ok") >= flows else ""

        p.until(state, f"the end of the step on channel {channel}")
        return state()

    def take(self, conn, channel, hidden_flows):
        """Move what has arrived on the channel into its answers; the last flow_ok are our own."""
        answers = self.answers.setdefault((conn, channel), Answers())
        p = self.peers.get(conn)
        events = p.events.pop(channel, []) if p else []
        flows = [e for e in events if e.name == "channel.flow_ok"]
        ours = flows[len(flows) - hidden_flows:] if hidden_flows else []
        for event in events:
            if not any(event is o for o in ours):
                self.sort(answers, conn, channel, event)

    def take_connection(self, conn, channel):
        """What came on channel 0 counts for the channel whose step it was."""
        answers = self.answers.setdefault((conn, channel), Answers())
        for event in self.peers[conn].events.pop(0, []):
            self.sort(answers, conn, channel, event)

    def sort(self, answers, conn, channel, event):
        state = self.state(conn, channel)
        event.values = {k: self.plain(v) for k, v in event.values.items()}
        answers.raw.append(event)
        if event.name == "basic.deliver":
            tag = event.values["consumer_tag"]
            if tag not in state.live:
                raise client.Unexpected(f"{self.name}: no consumer of that tag lives: {event}")
            answers.deliveries[tag].append(event)
        elif event.name in ("basic.ack", "basic.nack"):
            self.confirm(state, event)
        elif event.name == "basic.cancel":
            tag = event.values["consumer_tag"]
            if tag not in state.live:
                raise client.Unexpected(f"{self.name}: no consumer of that tag lives: {event}")
            state.live.discard(tag)
            answers.cancels.append(tag)
        elif event.name in ("basic.consume_ok", "basic.cancel_ok"):
            change = state.live.add if event.name == "basic.consume_ok" else state.live.discard
            change(event.values["consumer_tag"])
            answers.replies.append(event)
        else:
            if event.name == "basic.return":
                self.came_back(state, event)
            answers.replies.append(event)

    def confirm(self, state, event):
        """A confirm settles each number once."""
        tag, multiple = event.values["delivery_tag"], event.values["multiple"]
        tags = [n for n in range(1, state.published + 1) if n == tag or multiple and (n < tag or tag == 0)]
        new = [n for n in tags if n not in state.confirms]
        if not new or (tag != 0 and tag not in new):
            raise client.Unexpected(f"{self.name}: settles nothing, or twice: {event}")
        for n in new:
            state.confirms[n] = event.name

    def came_back(self, state, event):
        """A return precedes the confirm of its message."""
        number = state.numbers.get(message_id(event.values))
        if number in state.confirms:
            raise client.Unexpected(f"{self.name}: its confirm came before it: {event}")

    def await_confirms(self, conn, channel):
        """Everything published in confirm mode is settled in the end."""
        state, p = self.outstanding.get((conn, channel)), self.peers.get(conn)
        if not state or not p:
            return
        while len(state.confirms) < state.published:
            p.until(lambda: p.events[channel] or p.events[0], "confirms", CONFIRM_LIMIT)
            if p.events[0]:
                return
            self.take(conn, channel, 0)


def message_id(values):
    """What tells messages apart: the body, and the message id where the body does not."""
    return bytes(values["body"][:40]), len(values["body"]), values["props"].get("message_id")
