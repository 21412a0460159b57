# SPDX-License-Identifier: Apache-2.0
"""Both servers in step: sends the same operations to each and compares what arrives.

A step is some operations that one channel pipelines.  RabbitMQ is many processes, so before the next
step everything is brought to rest by round trips: the acting channel (and its limiter, by repeating the
qos), then every queue, then every channel.  What two processes send to a third may still be late, and
then what arrived differs: Pair looks again a few times before it says so.  Compared are

- the answers of each channel, in order; deliveries by consumer, in order, but without their tags and not
  against answers or other consumers, for which no order is promised;
- confirms as the set of numbers settled; cancelled consumers as a set;
- ready messages and consumers of every queue.
"""

import re
import time

import client
import known
import side as side_module
from side import CHANNELS, LOOK, message_id
from world import Op, with_answers

ROUNDS = 12
CLOSING = ("channel.close", "connection.close")
TAG = re.compile(rb"(unknown delivery tag) \d+")


class Difference(Exception):
    """The two servers do not do the same."""


class Pair:
    """Pannier and RabbitMQ, one sequence at a time."""

    def __init__(self, pannier, rabbitmq, histogram, triggers):
        self.sides, self.histogram, self.triggers = (pannier, rabbitmq), histogram, triggers
        self.world, self.log, self.met = None, [], set()

    # Sequences

    def begin(self, world):
        self.world, self.log = world, []
        for s in self.sides:
            s.new_sequence()
            if s.janitor is None:
                s.connect_janitor()

    def connect(self, conn):
        """Both sides have the connection, as the user of this sequence."""
        for s in self.sides:
            if s.users.get(conn) != self.world.users[conn] and conn in s.peers:
                s.peers[conn].close()
                s.forget(conn)
            if conn not in s.peers:
                s.connect(conn, self.world.users[conn])
                self.histogram.connected()

    def finish(self):
        """Close every channel, compare what the queues hold then, and leave nothing behind."""
        for where, mode in self.world.channels.items():
            if mode.open:
                self.step([Op(where, "channel.close", {"reply_code": 200, "reply_text": b"OK"})])
        queues = [(name, owner) for name, owner in self.world.queues.items()
                  if isinstance(self.sides[1].looked.get(name), tuple)]
        for name, owner in queues:
            conn = owner or 1
            ready = self.sides[1].looked[name][0]
            gets = [Op((conn, 1), "basic.get", {"queue": name, "no_ack": 1}) for _ in range(ready + 1)]
            self.step(gets)
        self.clean_up()

    def clean_up(self):
        """Names are new in the next sequence: what is left only takes memory."""
        for s in self.sides:
            for name, owner in self.world.queues.items():
                p, channel = (s.peers.get(owner), LOOK) if owner else (s.janitor, 1)
                if p:
                    p.send_method(channel, "queue.delete", queue=s.actual(name), nowait=1)
            for name in self.world.made:
                if not name.startswith(b"amq.") and name:
                    s.janitor.send_method(1, "exchange.delete", exchange=name, nowait=1)
            for p, channel in [(s.janitor, 1)] + [(p, LOOK) for p in s.peers.values()]:
                p.round_trip(channel)
            for conn in s.peers:
                self.close_channels(s, conn)

    def close_channels(self, s, conn):
        p = s.peers[conn]
        channels = [c for c in CHANNELS if self.world.channels[conn, c].open]
        for channel in channels:
            p.send_method(channel, "channel.close", reply_code=200)
        for channel in channels:
            p.until(lambda: p.count(channel, "channel.close_ok"), "channel.close_ok")
        p.events.clear()

    def abandon(self):
        """After a difference: start anew."""
        for s in self.sides:
            s.drop_all()
            s.connect_janitor()
        try:
            self.clean_up()
        except client.Unexpected:
            for s in self.sides:
                s.drop_all()

    # One step

    def step(self, ops):
        conn, channel = ops[0].where
        self.connect(conn)
        mode = self.world.channels.get((conn, channel))
        if mode and not mode.open and not ops[0].raw and ops[0].name != "channel.open":
            ops = [Op((conn, channel), "channel.open")] + ops
        self.log.append(("tags", self.tags()))
        self.log.append(("step", ops))
        state = self.exchange(conn, channel, ops)
        replies = self.sides[1].answers[conn, channel].replies
        self.world.expect_queues(conn, ops, replies)
        self.settle(state)
        self.compare_until_equal()
        self.learn(ops, state)

    def exchange(self, conn, channel, ops):
        """Send, and wait until the acting channel has done it; answers the server's close."""
        for s in self.sides:
            s.answers = {}
            for op in ops:
                s.send(op)
        names = [op.name for op in ops]
        closing = "channel.close" in names or "connection.close" in names
        committing = names[-1] == "tx.commit"
        flows = names.count("channel.flow") + 1
        hidden = 0
        if not closing and not committing:
            hidden = self.send_hidden(conn, channel, ops)
        for s in self.sides:
            s.peers[conn].flush()
        states = [s.await_group(conn, channel, flows, closing, committing) for s in self.sides]
        if states == ["committed", "committed"]:
            hidden = self.send_hidden(conn, channel, ops)
            states = [s.await_group(conn, channel, flows, False, False) for s in self.sides]
        for s, state in zip(self.sides, states):
            self.take(s, conn, channel, state, hidden)
        return self.agree(conn, channel, states)

    def send_hidden(self, conn, channel, ops):
        """The round trip of the acting channel; 2 when its limiter takes part."""
        mode = self.world.channels.get((conn, channel))
        limit = mode.limit if mode else 0
        for op in ops:
            if op.name == "basic.qos":
                limit = op.values["prefetch_count"] if op.values.get("global") else 0
        for s in self.sides:
            if limit:
                s.peers[conn].send_method(channel, "basic.qos", prefetch_count=limit, **{"global": 1})
            s.peers[conn].send_method(channel, "channel.flow", active=1)
        return 2 if limit else 1

    def take(self, s, conn, channel, state, hidden):
        if state == "no connection":
            s.take(conn, channel, 0)
            s.take_connection(conn, channel)
            if any(r.name == "connection.close" for r in s.answers[conn, channel].replies):
                s.peers[conn].end_after_close()
            s.forget(conn)
            return
        if state == "open" and hidden == 2:
            drop_last(s.peers[conn].events[channel], "basic.qos_ok")
        s.take(conn, channel, 1 if state == "open" else 0)
        if any(r.name == "channel.close" for r in s.answers[conn, channel].replies):
            s.peers[conn].send_method(channel, "channel.close_ok")
            s.peers[conn].flush()
        if state in ("closed", "refused"):
            s.outstanding.pop((conn, channel), None)

    def agree(self, conn, channel, states):
        """The state of the channel after the step; what is known to differ is made the same."""
        if states[0] == states[1]:
            return states[0]
        replies = [s.answers[conn, channel].replies for s in self.sides]
        if known.ends_connection(*replies):
            for s in self.sides:
                if conn in s.peers:
                    s.peers[conn].close()
                s.forget(conn)
            return "no connection"
        self.log_answers()
        raise Difference(f"channel {conn}.{channel} is {states[0]!r} at {self.sides[0].name}, "
                         f"{states[1]!r} at {self.sides[1].name}")

    # Rest

    def settle(self, state=None):
        """Round trips by every queue, then by every channel."""
        asked = {}
        for name, owner in self.world.queues.items():
            asked.setdefault(owner if owner in self.sides[0].peers else None, []).append(name)
        for s in self.sides:
            s.looked = {}
        for owner, names in asked.items():
            looks = [Look(s, owner, names) for s in self.sides]
            for look in looks:
                look.send()
            for look in looks:
                look.finish()
        channels = [w for w, mode in self.world.channels.items() if self.is_open(w, mode, state)]
        for s in self.sides:
            for conn, channel in channels:
                s.peers[conn].send_method(channel, "channel.flow", active=1)
            for conn in {c for c, _ in channels}:
                s.peers[conn].flush()
        for s in self.sides:
            for conn, channel in channels:
                p = s.peers[conn]
                p.until(lambda p=p, channel=channel: p.count(channel, "channel.flow_ok")
                        or p.events[0], "channel.flow_ok")
                s.take(conn, channel, 1)
                s.await_confirms(conn, channel)

    def is_open(self, where, mode, state):
        """Of the acting channel the world has not learnt yet."""
        if where[0] not in self.sides[0].peers or where[0] not in self.sides[1].peers:
            return False
        if state is not None and where == self.log[-1][1][0].where:
            return state in ("open", "committed")
        return mode.open

    # Comparing

    def compare_until_equal(self):
        for attempt in range(ROUNDS):
            problem = self.compare()
            if not problem:
                self.log_answers()
                return
            time.sleep(0.002 * attempt * attempt)
            self.settle_learnt()
        self.log_answers()
        raise Difference(problem)

    def settle_learnt(self):
        where = self.log[-1][1][0].where
        is_open = where in self.sides[1].outstanding and where[0] in self.sides[1].peers
        self.settle("open" if is_open else "closed")

    def compare(self):
        a, b = (s.answers for s in self.sides)
        for where in sorted(set(a) | set(b)):
            problem = self.compare_answers(where, a.get(where), b.get(where))
            if problem:
                return f"channel {where[0]}.{where[1]}: {problem}"
        left, right = (s.looked for s in self.sides)
        for name in sorted(set(left) | set(right)):
            if left.get(name) != right.get(name):
                return (f"queue {name.decode()} (ready, consumers): {left.get(name)} at "
                        f"{self.sides[0].name}, {right.get(name)} at {self.sides[1].name}")
        return None

    def compare_answers(self, where, a, b):
        a, b = a or side_module.Answers(), b or side_module.Answers()
        problem = self.compare_replies(a.replies, b.replies)
        if problem:
            return problem
        for tag in sorted(set(a.deliveries) | set(b.deliveries)):
            problem = self.compare_deliveries(tag, a.deliveries[tag], b.deliveries[tag])
            if problem:
                return problem
        if sorted(a.cancels) != sorted(b.cancels):
            return self.unlike(f"cancels {sorted(a.cancels)}", f"cancels {sorted(b.cancels)}")
        left, right = (s.outstanding.get(where) for s in self.sides)
        if left and right and left.confirms != right.confirms:
            return self.unlike(f"confirms {left.confirms}", f"confirms {right.confirms}")
        return None

    def compare_replies(self, a, b):
        if a and b and a[-1].name == b[-1].name == "connection.close":
            # RabbitMQ's connection process writes it past what the channel has still to say.
            a, b = a[:len(b) - 1] + a[-1:], b
        for pannier, rabbitmq in zip(a, b):
            label = known.same_reply(pannier, rabbitmq)
            if label:
                self.met.add(label)
                if known.REPLIES[label][1]:
                    return None
            elif canonical(pannier) != canonical(rabbitmq):
                return self.unlike(pannier, rabbitmq)
        return self.unlike(nth(a, len(b)), nth(b, len(a))) if len(a) != len(b) else None

    def compare_deliveries(self, tag, a, b):
        for pannier, rabbitmq in zip(a, b):
            if canonical(pannier) != canonical(rabbitmq):
                return self.unlike(pannier, rabbitmq)
        if len(a) != len(b):
            return f"consumer {tag.decode()}: " + self.unlike(nth(a, len(b)), nth(b, len(a)))
        return None

    def unlike(self, a, b):
        return f"\n    {self.sides[0].name}: {a}\n    {self.sides[1].name}: {b}"

    def tags(self):
        """RabbitMQ's delivery tags, by channel and message, for the transcript."""
        return {(where, key): tag for where, state in self.sides[1].outstanding.items()
                for tag, key in state.unacked.items()}

    def log_answers(self):
        for s in self.sides:
            raw = {where: list(answers.raw) for where, answers in s.answers.items()}
            self.log.append((s.name, raw))

    # Learning

    def learn(self, ops, state):
        where = ops[0].where
        answers = self.sides[1].answers[where]
        texts = known.texts(self.sides[0].answers[where].replies) or known.texts(answers.replies)
        self.histogram.step(ops, answers.raw, texts)
        self.world.learn(ops, answers.replies, state, answers.cancels)
        for w, others in self.sides[1].answers.items():
            if w != where:
                self.histogram.received(others.raw)
                for tag in others.cancels if w in self.world.channels else ():
                    self.world.channels[w].consumers.pop(tag, None)
        self.world.look_ended(self.sides[1].looked)
        for s in self.sides:
            self.learn_tags(s, where, ops, state)

    def learn_tags(self, s, where, ops, state):
        """Which delivery tags are to be settled now."""
        if state in ("open", "committed"):
            for op, answer in with_answers(ops, s.answers[where].replies):
                follow_tags(s, op, answer, self.world)
        for w, answers in s.answers.items():
            mode = self.world.channels.get(w)
            consumers = mode.consumers if mode else {}
            for tag, deliveries in answers.deliveries.items():
                for event in deliveries:
                    self.world.learn_token(event)
                    self.deliver(s, w, consumers.get(tag), event)

    @staticmethod
    def deliver(s, where, consumer, event):
        if consumer and not consumer[1]:
            key = (consumer[0], message_id(event.values), event.values["consumer_tag"])
            s.state(*where).unacked[event.values["delivery_tag"]] = key


def follow_tags(s, op, answer, world):
    """What one operation that has succeeded does to the tags of its channel."""
    state, mode = s.state(*op.where), world.channels[op.where]
    if op.name == "basic.get" and answer.name == "basic.get_ok" and not op.values.get("no_ack"):
        key = (op.values["queue"] or mode.last, message_id(answer.values), b"")
        state.unacked[answer.values["delivery_tag"]] = key
    elif op.name in ("basic.ack", "basic.nack", "basic.reject"):
        settle_tags(s, op, state, mode)
    elif op.name in ("basic.recover", "basic.recover_async"):
        state.unacked = {}
    elif op.name == "tx.commit":
        state.pending = {}
    elif op.name == "tx.rollback":
        state.unacked = dict(sorted({**state.unacked, **state.pending}.items()))
        state.pending = {}
    elif op.name == "basic.cancel" and op.values.get("nowait"):
        state.live.discard(op.values["consumer_tag"])


def settle_tags(s, op, state, mode):
    tag = op.values["delivery_tag"]
    tag = s.tag_of(*op.where, tag) if isinstance(tag, tuple) else tag
    for t in list(state.unacked):
        if t == tag or op.values.get("multiple") and (t < tag or tag == 0):
            key = state.unacked.pop(t)
            if mode.tx:
                state.pending[t] = key


class Look:
    """Passive declarations of queues by the channel that may see them."""

    def __init__(self, s, owner, names):
        self.side, self.names = s, list(names)
        self.peer, self.channel = (s.peers[owner], LOOK) if owner else (s.janitor, 1)

    def send(self):
        for name in self.names:
            self.peer.send_method(self.channel, "queue.declare", queue=self.side.actual(name), passive=1)
        self.peer.flush()

    def finish(self):
        """A queue that is gone closes the channel: then go on with the next."""
        while self.names:
            self.peer.until(self.ready, "queue.declare_ok")
            for event in self.peer.events.pop(self.channel):
                name = self.names.pop(0)
                if event.name == "channel.close":
                    text = known.plain_text(self.side.plain(event.values["reply_text"]))
                    self.side.looked[name] = text
                    self.reopen()
                else:
                    values = event.values
                    self.side.looked[name] = values["message_count"], values["consumer_count"]

    def ready(self):
        events = self.peer.events[self.channel]
        return len(events) >= len(self.names) or any(e.name == "channel.close" for e in events)

    def reopen(self):
        self.peer.send_method(self.channel, "channel.close_ok")
        self.peer.send_method(self.channel, "channel.open")
        self.peer.finish_open(self.channel)
        self.send()


def canonical(event):
    """What has to be the same: everything but the delivery tag, and tags in texts."""
    if isinstance(event, str) or event is None:
        return event
    values = {k: v for k, v in event.values.items() if k != "delivery_tag"}
    if "reply_text" in values:
        values["reply_text"] = TAG.sub(rb"\1 N", known.plain_text(values["reply_text"]))
    return event.name, values


def nth(events, n):
    return events[n] if n < len(events) else "nothing"


def drop_last(events, name):
    at = max(i for i, event in enumerate(events) if event.name == name)
    del events[at]
