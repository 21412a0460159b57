# SPDX-License-Identifier: Apache-2.0
"""The sequences that hypothesis draws, and running one.

A sequence is a profile, the user of the second connection, and 20 to 60 operations, each a kind, a channel,
whether it is pipelined with the one before, and three numbers.  A profile says which kinds come how
often: few sequences are deep in everything, many are deep in something.
"""

import collections

from hypothesis import strategies as st

import errors
import operations
from world import CHANNELS, World

Draw = collections.namedtuple("Draw", "kind where join numbers")
Sequence = collections.namedtuple("Sequence", "profile user draws")

BASE = {
    "declare_queue": 6, "declare_server_named": 1, "passive_queue": 1, "delete_queue": 2, "purge": 1,
    "bind": 4, "unbind": 2, "declare_exchange": 5, "passive_exchange": 1, "delete_exchange": 1,
    "bind_exchange": 2, "unbind_exchange": 1, "publish": 10, "publish_several": 3, "get": 5,
    "consume": 4, "cancel": 2, "qos": 2, "ack": 4, "nack": 2, "reject": 2, "recover": 1,
    "select_confirm": 1, "select_tx": 1, "commit": 1, "rollback": 1, "flow": 1, "open_channel": 1,
    "close_channel": 2, "close_connection": 1, "access_request": 1, "consume_reply": 1, "request": 1,
    "reply": 1, "error": 7,
}
PROFILES = {
    "all": {},
    "errors": {"error": 40, "declare_queue": 12, "declare_exchange": 12},
    "topology": {"bind": 16, "unbind": 8, "declare_exchange": 14, "bind_exchange": 12, "publish": 30,
                 "delete_exchange": 4, "unbind_exchange": 6, "consume": 0, "get": 16},
    "consumers": {"consume": 16, "cancel": 8, "qos": 6, "ack": 20, "publish_several": 12, "nack": 10,
                  "declare_exchange": 1, "bind": 1, "reject": 6},
    "prefetch": {"consume": 12, "qos": 16, "ack": 30, "publish_several": 20, "nack": 8, "get": 8,
                 "declare_exchange": 0, "bind": 0, "bind_exchange": 0, "error": 1},
    "confirms": {"select_confirm": 12, "publish": 50, "consume": 5, "select_tx": 0, "commit": 0,
                 "rollback": 0},
    "transactions": {"select_tx": 10, "commit": 14, "rollback": 9, "publish": 24, "get": 16, "ack": 14,
                     "nack": 7, "select_confirm": 0, "recover": 2},
    "replies": {"consume_reply": 10, "request": 14, "get": 16, "reply": 14, "cancel": 3,
                "passive_queue": 6, "publish": 4},
    "closes": {"close_channel": 12, "close_connection": 8, "get": 20, "consume": 10, "publish": 20},
}


def weighted(profile):
    weights = {**BASE, **PROFILES[profile]}
    return [kind for kind, weight in weights.items() for _ in range(weight)]


NUMBER = st.integers(0, 63)


def draws(kinds):
    return st.builds(Draw, st.sampled_from(kinds), st.sampled_from(CHANNELS), st.booleans(),
                     st.tuples(NUMBER, NUMBER, NUMBER))


@st.composite
def sequences(draw, without):
    """Starts with some declarations, so that the rest has something to work on."""
    profile = draw(st.sampled_from(sorted(PROFILES)))
    user = draw(st.sampled_from(["guest", "limited"]))
    begin = draw(st.lists(draws(["declare_queue", "declare_queue", "declare_exchange"]),
                          min_size=3, max_size=6))
    kinds = [kind for kind in weighted(profile) if kind not in without]
    rest = draw(st.lists(draws(kinds), min_size=17, max_size=54))
    return Sequence(profile, user, tuple(begin + rest))


# After these, what follows may see whether a delivery has already happened: nothing is promised about that
# within one pipelined step. (RabbitMQ's declare-ok overtakes publishes on their way to the queue.)
TRIGGERS = {"basic.publish", "basic.consume", "basic.nack", "basic.reject", "basic.ack", "basic.qos",
            "basic.recover", "basic.recover_async", "tx.commit", "basic.cancel"}
# These mean the queue declared last where they name none. RabbitMQ looks for it even on a channel that it has
# closed for an operation before, and then closes it once more.
NAMING = ("queue.bind", "queue.unbind", "queue.purge", "queue.delete", "basic.get", "basic.consume")
# These take what the consumers (of other channels: this one may yet fail) have left.
TAKING = ("basic.get", "queue.purge")
SETTLING = ("basic.ack", "basic.nack", "basic.reject")
ALONE = ("tx.commit", "channel.close", "connection.close", "basic.qos", "basic.recover",
         "basic.recover_async")
# RabbitMQ's queue process sends the answers of these, after those of what follows, or never when it fails.
LATE = ("basic.consume", "basic.cancel")


def joins(group, op, world):
    """Whether an operation may be pipelined with those before it."""
    last = group[-1]
    if op.where != last.where:
        return False
    if op.raw or last.raw:
        return op.raw and last.raw
    if op.name in ALONE or last.name in ALONE + LATE or op.name == "channel.open":
        return False
    if op.name == "queue.declare" and any(o.name in TRIGGERS for o in group):
        return False
    if op.name in NAMING and not op.values.get("queue"):
        return False
    if op.values.get("routing_key", b"").startswith(b"<reply"):  # not in a transaction, see operations.reply
        return False
    consuming = world.has_consumers() or any(o.name == "basic.consume" for o in group)
    triggered = any(o.name in TRIGGERS or o.name == "queue.delete" for o in group)
    if op.name in TAKING and not world.channels[op.where].consumers and last.name != "basic.consume":
        return True
    return not (consuming and triggered) or cannot_fail(op, group)


def cannot_fail(op, group):
    """Nor see a delivery: when the channel is closed a delivery may have happened or not. What was put
    back may have been delivered again or not."""
    if any(o.values.get("requeue") for o in (op, *group)):
        return False
    if op.name == "basic.publish":
        return op.values.get("exchange") == b"" and op.props.get("reply_to") is None
    tag = op.values.get("delivery_tag", 0)
    settled = [o.values.get("delivery_tag") for o in group]
    return op.name in SETTLING and tag not in (0, 9999) and tag not in settled and not any(
        o.values.get("multiple") for o in (op, *group))


class Player:
    """Plays one sequence: the operations of a draw join the step that waits, or end it."""

    def __init__(self, pair, sequence, prefix):
        self.pair, self.group = pair, []
        self.world = World(prefix, {1: "guest", 2: sequence.user})
        self.sequence = sequence

    def play(self):
        self.pair.begin(self.world)
        for draw in self.sequence.draws:
            if self.group and not (draw.join and draw.where == self.group[-1].where):
                self.flush()
            ops = self.make(draw)
            if self.group and not joins(self.group, ops[0], self.world):
                self.flush()  # which may settle what the operations mean to settle
                ops = self.make(draw)
            for op in ops:
                if self.group and not joins(self.group, op, self.world):
                    self.flush()
                self.group.append(op)
        self.flush()
        self.pair.finish()

    def make(self, draw):
        x = operations.Drawn(self.world, self.pair.sides, draw.where, draw.numbers)
        if draw.kind == "close_connection":
            return self.alone(x) + operations.close_connection(x)
        if draw.kind != "error":
            return operations.KINDS[draw.kind](x)
        if self.group:
            self.flush()
        labels = self.pair.triggers
        label = labels[(x.a * 64 + x.b) % len(labels)]
        self.pair.histogram.drawn = label
        x.a, x.b = x.b // 2 % 30, x.c
        ending = errors.ENDING[label]
        return (self.alone(x) if ending else []) + errors.TRIGGERS[label](x)

    def alone(self, x):
        """Close the other channel of a connection that is about to end: in which order its channels give
        back their messages to each other's consumers and to the rest is not promised."""
        other = (x.where[0], 3 - x.where[1])
        modes = [self.world.channels[where] for where in (x.where, other)]
        if not modes[1].open or not (modes[0].consumers or modes[1].consumers):
            return []
        return [x.op("channel.close", where=other, reply_code=200, reply_text=b"OK")]

    def flush(self):
        if self.group:
            group, self.group = self.group, []
            self.pair.step(group)
