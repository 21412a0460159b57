# SPDX-License-Identifier: Apache-2.0
"""What both servers have, as far as the next operations need to know it.

The world is learnt from the answers, which are the same on both sides (otherwise the sequence has
ended): which queues and exchanges exist, in which mode the channels are, who consumes.  It holds no
opinion of what a server should do; a wrong belief only makes an operation less interesting.
"""

CHANNELS = [(1, 1), (1, 2), (2, 1), (2, 2)]
REPLY_TO = b"amq.rabbitmq.reply-to"


class Op:
    """One method to send, with content where body is not None."""

    __slots__ = ("conn", "channel", "name", "values", "props", "body", "raw")

    def __init__(self, where, name, values=None, props=None, body=None, raw=False):
        self.conn, self.channel = where
        self.raw = raw         # sent as it is, and together with what follows
        self.name, self.values, self.props, self.body = name, values or {}, props or {}, body

    @property
    def where(self):
        return self.conn, self.channel


class Mode:
    """One channel, as the client knows it."""

    def __init__(self):
        self.open = self.confirm = self.tx = False
        self.limit = 0         # prefetch count of the whole channel
        self.got = False       # a message was got, to be acknowledged
        self.consumers = {}    # tag -> (queue, no_ack)
        self.last = None       # the queue declared last


class World:
    """Names, modes and counters of one sequence."""

    def __init__(self, prefix, users):
        self.prefix, self.users = prefix, users
        self.channels = {where: Mode() for where in CHANNELS}
        self.queues = {}       # name -> the connection that owns it, or None
        self.exchanges = {}    # name -> values of its declaration
        self.bindings = []     # operations that bound something
        self.tokens = []       # reply-to addresses that somebody has received
        self.made = set()      # exchanges to delete at the end
        self.messages = 0

    def name(self, suffix):
        return f"{self.prefix}.{suffix}".encode()

    def has_consumers(self):
        return any(mode.consumers for mode in self.channels.values())

    # Learning

    def expect_queues(self, conn, ops, replies):
        """Queues that may exist now: looking at them shows whether they do."""
        for op, answer in with_answers(ops, replies):
            if op.name == "exchange.declare":
                self.made.add(op.values["exchange"])
            if op.name == "queue.delete" and answer:
                self.queues.pop(op.values.get("queue"), None)
            if op.name == "queue.declare" and not op.values.get("passive"):
                name = answer.values["queue"] if answer else op.values["queue"]
                if name and name not in self.queues and not name.startswith((b"amq.", b"\xff")):
                    self.queues[name] = conn if op.values.get("exclusive") else None

    def look_ended(self, looked):
        """Forget the queues that are not there any more."""
        for name, seen in looked.items():
            if isinstance(seen, bytes) and b"NOT_FOUND" in seen:
                self.queues.pop(name, None)
                for mode in self.channels.values():
                    mode.consumers = {t: c for t, c in mode.consumers.items() if c[0] != name}

    def connection_ended(self, conn):
        for where in self.channels:
            if where[0] == conn:
                self.channels[where] = Mode()

    def learn(self, ops, replies, state, cancels):
        """Follow the operations of a step on one channel and their answers."""
        where = ops[0].where
        if where[1] == 0:
            self.connection_ended(where[0])
            return
        for op, answer in with_answers(ops, replies):
            if where not in self.channels or answer is None and answered(op):
                break
            self.learn_one(op, answer)
        if where not in self.channels:
            self.connection_ended(where[0])
            return
        mode = self.channels[where]
        for tag in cancels:
            mode.consumers.pop(tag, None)
        if state in ("closed", "refused"):
            self.channels[where] = Mode()
        elif state == "no connection":
            self.connection_ended(where[0])

    def learn_one(self, op, answer):
        mode, values = self.channels[op.where], op.values
        if op.name == "channel.open":
            self.channels[op.where] = Mode()
            self.channels[op.where].open = True
        elif op.name == "confirm.select":
            mode.confirm = True
        elif op.name == "tx.select":
            mode.tx = True
        elif op.name == "basic.qos":
            mode.limit = values["prefetch_count"] if values.get("global") else 0
        elif op.name == "basic.consume":
            tag = answer.values["consumer_tag"] if answer else values["consumer_tag"]
            mode.consumers[tag] = (values["queue"] or mode.last, values.get("no_ack", 0))
        elif op.name == "basic.cancel":
            mode.consumers.pop(values["consumer_tag"], None)
        elif op.name == "queue.declare":
            mode.last = answer.values["queue"] if answer else values["queue"]
        elif op.name == "exchange.declare" and not values.get("passive"):
            self.exchanges.setdefault(values["exchange"], values)
        elif op.name == "exchange.delete":
            self.exchanges.pop(values["exchange"], None)
        elif op.name in ("queue.bind", "exchange.bind"):
            self.bindings.append(op)
        elif op.name == "basic.get" and answer.name == "basic.get_ok":
            mode.got = mode.got or not values.get("no_ack")
            self.learn_token(answer)

    def learn_token(self, message):
        """A message may carry the address of a reply consumer."""
        token = message.values["props"].get("reply_to", b"")
        if token.startswith(b"<reply") and token not in self.tokens:
            self.tokens.append(token)


SILENT = ("basic.publish", "basic.ack", "basic.nack", "basic.reject", "basic.recover_async",
          "channel.close_ok")


def answered(op):
    """Whether the server answers this operation when it succeeds."""
    return op.name not in SILENT and not op.values.get("nowait")


def with_answers(ops, replies):
    """Each operation with its answer, or None; consume and cancel are answered out of order."""
    left = list(replies)
    for op in ops:
        names = ("basic.get_ok", "basic.get_empty") if op.name == "basic.get" else (op.name + "_ok",)
        found = [r for r in left if r.name in names][:1] if answered(op) else []
        left = [r for r in left if r not in found]
        yield op, found[0] if found else None
