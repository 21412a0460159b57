# SPDX-License-Identifier: Apache-2.0
"""What a drawn operation becomes in the world as it is.

A sequence is drawn as small numbers (sequences.py).  Each kind of operation here turns three of them,
a, b and c, into methods to send: names that exist most of the time, messages that are outstanding,
flags now and then.  Zeros give the simplest form, so that a sequence can be simplified number by number.
"""

from world import REPLY_TO, Op

# What a name is declared as, unless the drawn numbers ask for something else. The user "limited" may not
# configure nc, write to nw, read from nr.
QUEUES = {
    "q1": {"durable": 1}, "q2": {}, "q3": {"exclusive": 1}, "q4": {"auto_delete": 1},
    "q5": {"durable": 1, "arguments": [(b"x-message-ttl", "I", 3600000), (b"x-other", "S", b"v")]},
    "nc": {}, "nw": {}, "nr": {},
}
EXCHANGES = {
    "xf": {"type": b"fanout"}, "xd": {"type": b"direct", "durable": 1}, "xt": {"type": b"topic"},
    "xh": {"type": b"headers"}, "xi": {"type": b"fanout", "internal": 1},
    "xa": {"type": b"direct", "auto_delete": 1}, "xe": {"type": b"direct", "alternate": "xf"},
    "nc": {"type": b"direct"}, "nw": {"type": b"fanout"}, "nr": {"type": b"fanout"},
}
SYSTEM = [b"amq.direct", b"amq.fanout", b"amq.topic", b"amq.headers", b"amq.match"]
KEYS = [b"a", b"", b"a.b", b"a.b.c", b"#", b"*.b", b"a.#", b"*", b"..", b"b"]
MATCHES = [
    [],
    [(b"k1", "S", b"v1")],
    [(b"x-match", "S", b"any"), (b"k1", "S", b"v1"), (b"k2", "I", 5)],
    [(b"x-match", "S", b"all"), (b"k2", "I", 5), (b"k3", "V", None)],
    [(b"x-match", "S", b"any-with-x"), (b"x-k", "t", True)],
    [(b"x-match", "S", b"all-with-x"), (b"x-k", "t", True), (b"k1", "x", b"v1")],
    [(b"k2", "l", 5)],
]
HEADERS = [
    [(b"k1", "S", b"v1")],
    [(b"k2", "b", 5), (b"k3", "F", [(b"n", "A", [("I", 1), ("S", b"two"), ("V", None)])])],
    [(b"x-k", "t", True), (b"k1", "S", b"v1"), (b"k2", "l", 5)],
    [],
]
FULL = {
    "content_type": b"text/plain", "content_encoding": b"utf-8", "delivery_mode": 1, "priority": 9,
    "correlation_id": b"c", "reply_to": b"somewhere", "message_id": b"id", "timestamp": 1700000000,
    "type": b"t", "app_id": b"app", "cluster_id": b"cl",
}
SIZES = [0, 0, 0, 0, 0, 5000, 140000]
TAGS = [b"t1", b"t2", b"t3"]
QUORUM = (b"x-queue-type", "S", b"quorum")


class Drawn:
    """The numbers of one operation, with what they are to choose from."""

    def __init__(self, world, sides, where, numbers):
        self.world, self.sides, self.where = world, sides, where
        self.a, self.b, self.c = numbers

    @property
    def mode(self):
        return self.world.channels[self.where]

    @property
    def other(self):
        """A channel of the other connection."""
        return 3 - self.where[0], self.where[1]

    def op(self, name, where=None, props=None, body=None, **values):
        return Op(where or self.where, name, values, props, body)

    def queue(self, n):
        """Mostly a queue that exists, now and then the one declared last, or any name."""
        names = [q for q, owner in self.world.queues.items() if owner in (None, self.where[0])]
        if n >= 61 or not names:
            return self.world.name(sorted(QUEUES)[n % len(QUEUES)])
        if n >= 57 and self.mode.last is not None and self.mode.last in names:
            return b""
        return sorted(names)[n % len(names)]

    def exchange(self, n):
        """An exchange that was declared or a system exchange; now and then any name."""
        names = sorted(self.world.exchanges)
        if n >= 61 or not names and n < 45:
            return self.world.name(sorted(EXCHANGES)[n % len(EXCHANGES)])
        return names[n % len(names)] if n < 45 else SYSTEM[n % len(SYSTEM)]

    def outstanding(self, n):
        """The key of an unacked message of this channel."""
        keys = list(self.sides[0].state(*self.where).unacked.values())
        return keys[n % len(keys)] if keys else None

    def may_be_multiple(self, key):
        """Both sides have the same messages up to this one: tags may have been given in another order."""
        sets = []
        for s in self.sides:
            unacked = s.state(*self.where).unacked
            last = s.tag_of(*self.where, key)
            sets.append({k for t, k in unacked.items() if t <= last})
        return sets[0] == sets[1]

    def mixed(self):
        """Messages of one queue that were given to several consumers (or got) and go back while somebody
        waits: RabbitMQ puts them back consumer by consumer, and what it hands out between depends on that."""
        owners = {}
        for queue, _, tag in self.sides[0].state(*self.where).unacked.values():
            owners.setdefault(queue, set()).add(tag)
        waiting = {queue for mode in self.world.channels.values() for queue, _ in mode.consumers.values()}
        return any(len(tags) > 1 and queue in waiting for queue, tags in owners.items())

    def message(self, n, size=0):
        """Properties and body of the next message."""
        self.world.messages += 1
        number = self.world.messages
        body = f"m{number}".encode() + b"x" * SIZES[size % len(SIZES)]
        props = self.properties(n % 16)
        if n == 63:  # an empty body: then the message id tells messages apart
            body, props["message_id"] = b"", f"m{number}".encode()
        return props, body

    def properties(self, n):
        if n in (1, 2, 3):
            return {"delivery_mode": 2}
        if n == 4:
            return dict(FULL, headers=HEADERS[2])
        if 5 <= n <= 8:
            return {"headers": HEADERS[n - 5]}
        if n in (9, 10):
            name = b"CC" if n == 9 else b"BCC"
            keys = [("S", self.queue(self.a)), ("S", b"a.b"), ("I", 5)]
            return {"headers": [(b"k1", "S", b"v1"), (name, "A", keys), (b"z", "I", 1)]}
        if n == 11:
            return {"expiration": b"3600000", "delivery_mode": 2}
        if n == 12:
            return {"user_id": self.world.users[self.where[0]].encode()}
        return {}


# Queues

def queue_values(x, suffix, n):
    """The values of a declaration: as the table says, unless n asks for one that is not the same."""
    values = {k: v for k, v in QUEUES[suffix].items() if k != "arguments"}
    arguments = list(QUEUES[suffix].get("arguments", []))
    if n == 60:
        values["durable"] = 1 - values.get("durable", 0)
    elif n == 61:
        values["auto_delete"] = 1 - values.get("auto_delete", 0)
    elif n == 62:
        arguments = [(b"x-message-ttl", "l", 3600001)] + [(b"x-expires", "I", 3600000)] * (x.b % 2)
    elif n == 63:
        values["exclusive"] = 1 - values.get("exclusive", 0)
    elif n == 59:
        arguments.append((b"x-unknown", "I", 5))
    elif n == 58 and arguments:
        arguments[0] = (b"x-message-ttl", "l", 3600000)
    return dict(values, arguments=arguments)


def declare_queue(x):
    suffix = list(QUEUES)[x.a % len(QUEUES)]
    values = queue_values(x, suffix, x.b)
    return [x.op("queue.declare", queue=x.world.name(suffix), nowait=int(x.c == 63), **values)]


def declare_server_named(x):
    return [x.op("queue.declare", queue=b"", exclusive=int(x.b % 2), auto_delete=int(x.b % 4 > 1),
                 durable=int(x.b % 8 > 3))]


def passive_queue(x):
    name = x.queue(x.a)
    answers = any(queue == REPLY_TO for queue, _ in x.mode.consumers.values())
    if x.a == 63 and x.world.tokens and not answers:
        name = x.world.tokens[x.b % len(x.world.tokens)]
    elif x.a == 62:
        name = REPLY_TO
    return [x.op("queue.declare", queue=name, passive=1)] if name else purge(x)


def delete_queue(x):
    return [x.op("queue.delete", queue=x.queue(x.a), if_unused=int(x.b % 4 == 1),
                 if_empty=int(x.b % 4 == 2), nowait=int(x.c == 63))]


def purge(x):
    return [x.op("queue.purge", queue=x.queue(x.a), nowait=int(x.c == 63))]


def binding(x):
    """A source, a key and arguments that go with each other."""
    source = x.exchange(x.b)
    kind = x.world.exchanges.get(source, {}).get("type", source)
    arguments = MATCHES[x.c % len(MATCHES)] if b"headers" in kind or b"match" in kind else []
    return source, KEYS[x.c % len(KEYS)], arguments


def bind(x):
    source, key, arguments = binding(x)
    return [x.op("queue.bind", queue=x.queue(x.a), exchange=source, routing_key=key,
                 arguments=arguments, nowait=int(x.c == 63))]


def unbind(x):
    bound = [b for b in x.world.bindings if b.name == "queue.bind"]
    if bound and x.a < 48:
        values = dict(bound[x.a % len(bound)].values)
        values.pop("nowait", None)
        return [x.op("queue.unbind", **values)] if values["queue"] else bind(x)
    source, key, arguments = binding(x)
    return [x.op("queue.unbind", queue=x.queue(x.a), exchange=source, routing_key=key,
                 arguments=arguments)]


# Exchanges

def exchange_values(x, suffix, n):
    values = {k: v for k, v in EXCHANGES[suffix].items() if k != "alternate"}
    arguments = []
    if "alternate" in EXCHANGES[suffix]:
        arguments = [(b"alternate-exchange", "S", x.world.name(EXCHANGES[suffix]["alternate"]))]
    if n == 59:
        values["type"] = b"topic" if values["type"] != b"topic" else b"fanout"
    elif n in (60, 61, 62):
        bit = ("durable", "auto_delete", "internal")[n - 60]
        values[bit] = 1 - values.get(bit, 0)
    elif n == 63:
        arguments = [(b"alternate-exchange", "S", x.world.name("other"))]
    return dict(values, arguments=arguments)


def declare_exchange(x):
    suffix = list(EXCHANGES)[x.a % len(EXCHANGES)]
    values = exchange_values(x, suffix, x.b)
    return [x.op("exchange.declare", exchange=x.world.name(suffix), nowait=int(x.c == 63), **values)]


def passive_exchange(x):
    return [x.op("exchange.declare", exchange=x.exchange(x.a), type=b"", passive=1)]


def delete_exchange(x):
    name = x.exchange(x.a)
    if name in SYSTEM:
        name = x.world.name("xd")
    return [x.op("exchange.delete", exchange=name, if_unused=int(x.b % 3 == 1),
                 nowait=int(x.c == 63))]


def bind_exchange(x):
    """Not between two system exchanges: that binding would outlive the sequence."""
    source, key, arguments = binding(x)
    destination = x.exchange(x.a)
    if destination in SYSTEM and source in SYSTEM:
        destination = x.world.name("xf")
    return [x.op("exchange.bind", destination=destination, source=source, routing_key=key,
                 arguments=arguments, nowait=int(x.c == 63))]


def unbind_exchange(x):
    bound = [b for b in x.world.bindings if b.name == "exchange.bind"]
    if bound and x.a < 48:
        return [x.op("exchange.unbind", **bound[x.a % len(bound)].values)]
    values = bind_exchange(x)[0].values
    return [x.op("exchange.unbind", **values)]


# Messages

def publish(x):
    """To the default exchange every other time; persistent, large, mandatory now and then."""
    props, body = x.message(x.c, x.b % 16)
    mandatory = int(x.b % 5 == 4)
    if x.a < 32:
        return [x.op("basic.publish", props=props, body=body, exchange=b"", mandatory=mandatory,
                     routing_key=x.queue(x.a))]
    return [x.op("basic.publish", props=props, body=body, exchange=x.exchange(x.b),
                 mandatory=mandatory, routing_key=KEYS[x.a % len(KEYS)])]


def publish_several(x):
    queue = x.queue(x.a)
    ops = []
    for _ in range(2 + x.b % 4):
        props, body = x.message(x.c)
        ops.append(x.op("basic.publish", props=props, body=body, exchange=b"", routing_key=queue))
    return ops


def get(x):
    return [x.op("basic.get", queue=x.queue(x.a), no_ack=int(x.b % 4 == 3))]


def consume(x):
    free = [t for t in TAGS if t not in x.mode.consumers]
    tag = b"" if x.b % 8 == 7 or not free else free[x.b % len(free)]
    arguments = [(b"x-priority", "I", x.c - 60)] if x.c >= 58 else []
    nowait = int(x.c == 57 and tag != b"")
    return [x.op("basic.consume", queue=x.queue(x.a), consumer_tag=tag, no_ack=int(x.b % 5 == 4),
                 exclusive=int(x.b >= 60), nowait=nowait, no_local=x.c % 2, arguments=arguments)]


def cancel(x):
    tags = list(x.mode.consumers)
    tag = tags[x.a % len(tags)] if tags and x.a < 60 else b"t9"
    return [x.op("basic.cancel", consumer_tag=tag, nowait=int(x.c == 63))]


def qos(x):
    """A limit of the channel not behind a get: RabbitMQ counts what was got, and never gives it back."""
    shared = x.b % 3 == 2 and not x.mode.got
    return [x.op("basic.qos", prefetch_count=(1, 2, 0, 5)[x.a % 4], **{"global": int(shared)})]


def settle(x, name, **flags):
    """Most often a message that is outstanding; the tag of all of them, or one that was never given."""
    multiple = int(x.b % 4 == 3 and name != "basic.reject")
    tag = x.outstanding(x.a)
    if tag is None or x.a == 62:
        tag, multiple = 0, int(name != "basic.reject" and x.a < 63)
    elif multiple and not x.may_be_multiple(tag):
        multiple = 0
    if x.a == 63:
        tag = 9999
    if multiple and flags.get("requeue") and x.mixed():
        return ack(x)
    if name != "basic.reject":
        flags["multiple"] = multiple
    if tag == 0 and not multiple and x.a < 60:
        return get(x)
    return [x.op(name, delivery_tag=tag, **flags)]


def ack(x):
    return settle(x, "basic.ack")


def nack(x):
    return settle(x, "basic.nack", requeue=int(x.c % 3 > 0))


def reject(x):
    return settle(x, "basic.reject", requeue=int(x.c % 3 > 0))


def recover(x):
    if x.mixed():
        return ack(x)
    return [x.op("basic.recover" if x.a % 3 else "basic.recover_async", requeue=1)]


# Channels and connections

def select_confirm(x):
    return [x.op("confirm.select", nowait=int(x.c == 63))]


def select_tx(x):
    return [x.op("tx.select")]


def commit(x):
    return [x.op("tx.commit")] if x.mode.tx or x.a == 63 else select_tx(x)


def rollback(x):
    return [x.op("tx.rollback")] if x.mode.tx or x.a == 63 else select_tx(x)


def flow(x):
    return [x.op("channel.flow", active=1)]


def open_channel(x):
    """Any operation opens its channel; this one does nothing else."""
    return [x.op("channel.flow" if x.mode.open else "channel.open", active=1)]


def close_channel(x):
    return [x.op("channel.close", reply_code=200, reply_text=b"OK")]


def close_connection(x):
    return [x.op("connection.close", where=(x.where[0], 0), reply_code=200, reply_text=b"OK")]


def access_request(x):
    return [x.op("access.request", realm=b"/data", active=1)]


# Direct reply-to

def consume_reply(x):
    if any(queue == REPLY_TO for queue, _ in x.mode.consumers.values()):
        return request(x)
    return [x.op("basic.consume", queue=REPLY_TO, consumer_tag=b"r1", no_ack=1)]


def request(x):
    if not any(queue == REPLY_TO for queue, _ in x.mode.consumers.values()):
        return consume_reply(x)
    _, body = x.message(0)
    return [x.op("basic.publish", props={"reply_to": REPLY_TO, "correlation_id": b"7"}, body=body,
                 exchange=b"", routing_key=x.queue(x.a))]


def reply(x):
    """To an address that came with a message: its consumer may be gone. Not in a transaction."""
    if not x.world.tokens or x.mode.tx:
        return request(x)
    _, body = x.message(0)
    token = x.world.tokens[x.a % len(x.world.tokens)]
    return [x.op("basic.publish", props={"correlation_id": b"7"}, body=body, exchange=b"",
                 routing_key=token)]


KINDS = {f.__name__: f for f in (
    declare_queue, declare_server_named, passive_queue, delete_queue, purge, bind, unbind,
    declare_exchange, passive_exchange, delete_exchange, bind_exchange, unbind_exchange,
    publish, publish_several, get, consume, cancel, qos, ack, nack, reject, recover,
    select_confirm, select_tx, commit, rollback, flow, open_channel, close_channel, close_connection,
    access_request, consume_reply, request, reply)}
