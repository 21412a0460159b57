# SPDX-License-Identifier: Apache-2.0
"""Operations that are to fail: one for each row of the error catalogue that a client can reach.

ROWS is that catalogue: label, code, the text as it arrives without the name of its code, and what to send
(None: the ordinary operations meet it often enough). What is sent first makes what the error needs, and
does not care whether it is there already; a step that fails earlier than meant fails alike on both
sides.  The rows of permissions are met on connection 2 when its user is "limited".
"""

from operations import QUORUM, SYSTEM
from world import REPLY_TO, Op

MESSAGE_LIMIT = 200000


def fresh(x, name, **values):
    """A queue of this world that is as said: deleted before, declared after."""
    return [x.op("queue.delete", queue=name), x.op("queue.declare", queue=name, **values)]


def fresh_exchange(x, name, **values):
    return [x.op("exchange.delete", exchange=name),
            x.op("exchange.declare", exchange=name, **{"type": b"direct", **values})]


def again(x, values, other):
    name = x.world.name("q2")
    return fresh(x, name, **values) + [x.op("queue.declare", queue=name, **other)]


def exchange_again(x, values, other):
    name = x.world.name("xd")
    other = {"type": b"direct", **other}
    return fresh_exchange(x, name, **values) + [x.op("exchange.declare", exchange=name, **other)]


def declare_with(x, *arguments, **values):
    return [x.op("queue.declare", queue=x.world.name("new"), arguments=list(arguments), **values)]


def publish_with(x, props, body=b"e"):
    return [x.op("basic.publish", props=props, body=body, exchange=b"amq.direct",
                 routing_key=b"nowhere")]


def use_missing_queue(x):
    name = x.world.name("none")
    return [[x.op("queue.declare", queue=name, passive=1)], [x.op("basic.get", queue=name)],
            [x.op("queue.bind", queue=name, exchange=b"amq.direct")], [x.op("queue.purge", queue=name)],
            [x.op("basic.consume", queue=name)]][x.a % 5]


def use_missing_exchange(x):
    name = x.world.name("none")
    return [[x.op("exchange.declare", exchange=name, passive=1)],
            [x.op("basic.publish", exchange=name, body=b"e")],
            [x.op("exchange.bind", source=name, destination=b"amq.direct")],
            [x.op("exchange.bind", source=b"amq.fanout", destination=name)],
            fresh(x, x.world.name("q2"))[1:] + [x.op("queue.bind", exchange=name)]][x.a % 5]


def as_second(x, name, **values):
    """By the user whom it is not permitted, if the sequence has that one."""
    return [Op((2, x.where[1]), name, values, body=b"e" if name == "basic.publish" else None)]


def no_previous(x):
    method = ("queue.bind", "queue.unbind", "queue.purge", "queue.delete", "basic.get",
              "basic.consume")[x.a % 6]
    return [x.op("channel.close", reply_code=200), x.op("channel.open"), x.op(method)]


def on_default(x):
    return [[x.op("exchange.declare", exchange=b"", type=b"direct", passive=x.b % 2)],
            [x.op("exchange.delete", exchange=b"")],
            [x.op("exchange.bind", source=b"", destination=b"amq.direct")],
            [x.op("exchange.unbind", source=b"amq.direct", destination=b"")],
            fresh(x, x.world.name("q2"))[1:] + [x.op("queue.bind", exchange=b"")]][x.a % 5]


def publish_internal(x):
    name = x.world.name("xi")
    return fresh_exchange(x, name, internal=1) + [x.op("basic.publish", exchange=name, body=b"e")]


def in_exclusive_use(x):
    name = x.world.name("q2")
    tag = b"e" + str(x.world.messages).encode()
    return fresh(x, name) + [
        x.op("basic.consume", queue=name, consumer_tag=tag, exclusive=x.a % 2),
        x.op("basic.consume", queue=name, consumer_tag=tag + b"b", exclusive=1 - x.a % 2)]


def locked(x):
    """Use another connection's exclusive queue."""
    name, other = x.world.name("q3"), x.other
    uses = [("queue.declare", {}), ("queue.declare", {"passive": 1}), ("queue.purge", {}),
            ("queue.delete", {}), ("basic.get", {}), ("basic.consume", {}),
            ("queue.bind", {"exchange": b"amq.direct"}), ("queue.unbind", {"exchange": b"amq.direct"})]
    method, values = uses[x.a % len(uses)]
    own = [Op(other, "queue.declare", {"queue": name, "exclusive": 1})]
    if x.world.queues.get(name) == x.where[0]:
        return [Op(other, method, {"queue": name, **values})]
    return own + [x.op(method, queue=name, **values)]


def not_empty(x):
    name = x.world.name("q2")
    return fresh(x, name) + [x.op("basic.publish", routing_key=name, body=b"e"),
                             x.op("queue.delete", queue=name, if_empty=1)]


def queue_in_use(x):
    name = x.world.name("q2")
    return fresh(x, name) + [x.op("basic.consume", queue=name, consumer_tag=b"t-used"),
                             x.op("queue.delete", queue=name, if_unused=1)]


def exchange_in_use(x):
    name = x.world.name("xd")
    return fresh_exchange(x, name) + [
        x.op("exchange.bind", source=name, destination=SYSTEM[x.a % len(SYSTEM)]),
        x.op("exchange.delete", exchange=name, if_unused=1)]


def unknown_tag(x):
    return [x.op(("basic.ack", "basic.nack", "basic.reject")[x.a % 3], delivery_tag=(9999, 0)[x.b % 2])]


def settled_twice(x):
    """Also what was delivered without ack, and tags in a transaction."""
    name = x.world.name("q2")
    got = [x.op("channel.close", reply_code=200), x.op("channel.open"), *fresh(x, name),
           x.op("basic.publish", routing_key=name, body=b"e"),
           x.op("basic.get", queue=name, no_ack=x.a % 2)]
    if x.b % 2:
        got[2:2] = [x.op("tx.select")]
        got[-2:-1] = [got[-2], x.op("tx.commit")]
    acks = [x.op("basic.ack", delivery_tag=1)] * (2 - x.a % 2)
    return got + acks


def bind_headers(x, value):
    return [*fresh(x, x.world.name("q2"))[1:],
            x.op("queue.bind", exchange=b"amq.headers", arguments=[(b"x-match", *value)])]


def switch_to_tx(x):
    return [x.op("channel.close", reply_code=200), x.op("channel.open"), x.op("confirm.select"),
            x.op("tx.select")]


def switch_to_confirm(x):
    return [x.op("channel.close", reply_code=200), x.op("channel.open"), x.op("tx.select"),
            x.op("confirm.select")]


def not_transactional(x):
    return [x.op("channel.close", reply_code=200), x.op("channel.open"),
            x.op(("tx.commit", "tx.rollback")[x.a % 2])]


def reply_consumer_twice(x):
    return [x.op("channel.close", reply_code=200), x.op("channel.open"),
            *[x.op("basic.consume", queue=REPLY_TO, consumer_tag=t, no_ack=1) for t in (b"r1", b"r2")]]


def no_reply_consumer(x):
    return [x.op("channel.close", reply_code=200), x.op("channel.open"),
            *publish_with(x, {"reply_to": REPLY_TO})]


def tag_twice(x):
    name = x.world.name("q2")
    consume = x.op("basic.consume", queue=name, consumer_tag=b"t-twice")
    return [x.op("channel.close", reply_code=200), *fresh(x, name), consume, consume]


def during_commit(x):
    """A persistent message to a durable queue makes the commit wait for the disk."""
    name = x.world.name("q1")
    return [x.op("channel.close", reply_code=200), *fresh(x, name, durable=1), x.op("tx.select"),
            x.op("basic.publish", routing_key=name, body=b"e", props={"delivery_mode": 2}),
            Op(x.where, "tx.commit", raw=True), Op(x.where, "channel.flow", {"active": 1}, raw=True)]


def unopened(x):
    return [x.op("channel.close", reply_code=200), Op(x.where, "basic.qos", {}, raw=True)]


def unimplemented(x):
    return [x.op(("basic.get_ok", "connection.close_ok", "queue.declare_ok", "connection.blocked",
                  "basic.deliver", "connection.tune")[x.a % 6])]


EXPIRATIONS = (b"abc", b"", b"1x", b"-1", b"315360000001", b" 5", b"1.5")
BAD = [(b"x-message-ttl", "I", -1), (b"x-message-ttl", "l", 315360000001), (b"x-expires", "I", 0),
       (b"x-message-ttl", "S", b"5"), (b"x-max-length", "I", -1), (b"x-overflow", "S", b"foo"),
       (b"x-overflow", "I", 5), (b"x-dead-letter-routing-key", "S", b"a"), (b"x-max-priority", "I", 256),
       (b"x-single-active-consumer", "S", b"a"), (b"x-queue-type", "S", b"foo"),
       (b"x-queue-type", "I", 5), (b"x-max-length-bytes", "S", b"5"), (b"x-expires", "t", True)]
WRONG_TYPE = [(b"x-quorum-initial-group-size", "I", 3), (b"x-max-age", "S", b"1h")]
QUORUM_FAULTS = [{}, {"durable": 1, "auto_delete": 1}, {"durable": 1, "exclusive": 1}]
TTL = (b"x-message-ttl", "I", 3600000)

ROWS = [
    # 404
    ("no queue", 404, "no queue '.*' in vhost", use_missing_queue),
    ("no exchange", 404, "no exchange '.*' in vhost", use_missing_exchange),
    ("no previously declared queue", 404, "no previously declared queue", no_previous),
    # 403
    ("configure access to queue", 403, "configure access to queue",
     lambda x: as_second(x, "queue.delete", queue=x.world.name("nc"))),
    ("write access to queue", 403, "write access to queue",
     lambda x: as_second(x, "queue.unbind", queue=x.world.name("nw"), exchange=b"amq.direct")),
    ("read access to queue", 403, "read access to queue",
     lambda x: as_second(x, "queue.purge", queue=x.world.name("nr"))),
    ("configure access to exchange", 403, "configure access to exchange",
     lambda x: as_second(x, "exchange.delete", exchange=x.world.name("nc"))),
    ("write access to exchange", 403, "write access to exchange",
     lambda x: as_second(x, "basic.publish", exchange=x.world.name("nw"))),
    ("read access to exchange", 403, "read access to exchange",
     lambda x: as_second(x, "exchange.bind", source=x.world.name("nr"), destination=b"amq.fanout")),
    ("write access to topic", 403, "write access to topic",
     lambda x: as_second(x, "basic.publish", exchange=b"amq.topic", routing_key=b"b")),
    ("read access to topic", 403, "read access to topic",
     lambda x: fresh(x, x.world.name("q2"))[1:] + as_second(
         x, "queue.bind", queue=x.world.name("q2"), exchange=b"amq.topic", routing_key=b"b")),
    ("reserved prefix, queue", 403, "queue name .* contains reserved prefix",
     lambda x: [x.op("queue.declare", queue=b"amq.q")]),
    ("reserved prefix, exchange", 403, "exchange name .* contains reserved prefix",
     lambda x: [x.op("exchange.declare", exchange=b"amq.x", type=b"direct")]),
    ("default exchange", 403, "operation not permitted on the default exchange", on_default),
    ("deletion of system exchange", 403, "deletion of system exchange",
     lambda x: [x.op("exchange.delete", exchange=SYSTEM[x.a % len(SYSTEM)])]),
    ("publish to internal exchange", 403, "cannot publish to internal exchange", publish_internal),
    ("exclusive use", 403, "in exclusive use", in_exclusive_use),
    # 405
    ("locked", 405, "cannot obtain exclusive access to locked queue", locked),
    ("locked, exclusive declared otherwise", 405, "cannot obtain exclusive access to locked queue",
     lambda x: again(x, {"exclusive": x.a % 2}, {"exclusive": 1 - x.a % 2})),
    # 406
    ("inequivalent durable, queue", 406, "inequivalent arg 'durable' for queue",
     lambda x: again(x, {"durable": x.a % 2}, {"durable": 1 - x.a % 2})),
    ("inequivalent auto_delete, queue", 406, "inequivalent arg 'auto_delete' for queue",
     lambda x: again(x, {"auto_delete": x.a % 2}, {"auto_delete": 1 - x.a % 2})),
    ("inequivalent argument, queue: none", 406, "for queue .* (received|current is) none",
     lambda x: again(x, {"arguments": [TTL] * (x.a % 2)}, {"arguments": [TTL] * (1 - x.a % 2)})),
    ("inequivalent argument, queue: value", 406, "inequivalent arg 'x-.* received '",
     lambda x: again(x, {"arguments": [TTL]}, {"arguments": [(b"x-message-ttl", "l", 5000000)]})),
    ("inequivalent type, exchange", 406, "inequivalent arg 'type' for exchange",
     lambda x: exchange_again(x, {}, {"type": b"fanout"})),
    ("inequivalent durable, exchange", 406, "inequivalent arg 'durable' for exchange",
     lambda x: exchange_again(x, {"durable": x.a % 2}, {"durable": 1 - x.a % 2})),
    ("inequivalent auto_delete, exchange", 406, "inequivalent arg 'auto_delete' for exchange",
     lambda x: exchange_again(x, {"auto_delete": x.a % 2}, {"auto_delete": 1 - x.a % 2})),
    ("inequivalent internal, exchange", 406, "inequivalent arg 'internal' for exchange",
     lambda x: exchange_again(x, {"internal": x.a % 2}, {"internal": 1 - x.a % 2})),
    ("inequivalent alternate-exchange", 406, "inequivalent arg 'alternate-exchange'",
     lambda x: exchange_again(x, {}, {"arguments": [(b"alternate-exchange", "S", b"a")]})),
    ("invalid arg", 406, "invalid arg '.*' for queue '.*' in vhost '.*': ",
     lambda x: declare_with(x, BAD[x.a % len(BAD)])),
    ("invalid arg of queue type", 406, "invalid arg .* of queue type rabbit_classic_queue",
     lambda x: declare_with(x, WRONG_TYPE[x.a % len(WRONG_TYPE)])),
    ("invalid consume arg", 406, "invalid arg 'x-priority'",
     lambda x: [*fresh(x, x.world.name("q2")),
                x.op("basic.consume", arguments=[(b"x-priority", "S", b"1")])]),
    ("invalid type, queue", 406, "invalid type '.*' for arg '.*' in queue",
     lambda x: declare_with(x, (b"x-dead-letter-exchange", "I", 5))),
    ("invalid type, exchange", 406, "invalid type '.*' for arg '.*' in exchange",
     lambda x: [x.op("exchange.declare", exchange=x.world.name("new"), type=b"direct",
                     arguments=[(b"alternate-exchange", "I", 5)])]),
    ("invalid property", 406, "invalid property '",
     lambda x: declare_with(x, QUORUM, **QUORUM_FAULTS[x.a % 3])),
    ("server-named quorum queue", 406, "Cannot declare a server-named queue",
     lambda x: [x.op("queue.declare", queue=b"", durable=1, arguments=[QUORUM])]),
    ("unknown exchange type", 406, "unknown exchange type",
     lambda x: [x.op("exchange.declare", exchange=x.world.name("new"),
                     type=(b"foo", b"classic")[x.a % 2])]),
    ("queue in use", 406, "queue .* in use", queue_in_use),
    ("queue not empty", 406, "queue .* not empty", not_empty),
    ("exchange in use", 406, "exchange .* in use", exchange_in_use),
    ("unknown delivery tag", 406, "unknown delivery tag", unknown_tag),
    ("settled twice", 406, "unknown delivery tag", settled_twice),
    ("message size", 406, "message size .* is larger than configured max size",
     lambda x: publish_with(x, {}, b"e" * (MESSAGE_LIMIT + 1))),
    ("invalid expiration", 406, "invalid expiration",
     lambda x: publish_with(x, {"expiration": EXPIRATIONS[x.a % len(EXPIRATIONS)]})),
    ("user_id", 406, "user_id property set to", lambda x: publish_with(x, {"user_id": b"other"})),
    ("CC is no array", 406, "invalid message: {unacceptable_type_in_header",
     lambda x: publish_with(x, {"headers": [((b"CC", b"BCC")[x.a % 2], "IS"[x.b % 2],
                                             (5, b"a")[x.b % 2])]})),
    ("fast reply consumer does not exist", 406, "fast reply consumer does not exist",
     no_reply_consumer),
    ("reply consumer cannot acknowledge", 406, "reply consumer cannot acknowledge",
     lambda x: [x.op("basic.consume", queue=REPLY_TO)]),
    ("reply consumer already set", 406, "reply consumer already set", reply_consumer_twice),
    ("confirm to tx", 406, "cannot switch from confirm to tx mode", switch_to_tx),
    ("tx to confirm", 406, "cannot switch from tx to confirm mode", switch_to_confirm),
    ("not transactional", 406, "channel is not transactional", not_transactional),
    ("x-match value", 406, "Invalid x-match field value",
     lambda x: bind_headers(x, ("S", b"foo"))),
    ("x-match type", 406, "Invalid x-match field type", lambda x: bind_headers(x, ("I", 1))),
    # Hard errors
    ("501 malformed UTF-8", 501, "Malformed UTF-8",
     lambda x: [x.op("queue.declare", queue=b"\xff")]),
    ("503 unimplemented method", 503, "unimplemented method", unimplemented),
    ("504 second channel.open", 504, "second 'channel.open' seen",
     lambda x: [x.op("channel.flow", active=1), x.op("channel.open")]),
    ("504 channel not open", 504, "expected 'channel.open'", unopened),
    ("504 during tx.commit", 504, "unexpected command while processing 'tx.commit'", during_commit),
    ("530 consumer tag reused", 530, "attempt to reuse consumer tag", tag_twice),
    ("530 channel_max", 530, "has reached the negotiated channel_max",
     lambda x: [Op((x.where[0], n), "channel.flow", {"active": 1}) for n in (1, 2)]
     + [Op((x.where[0], 4), "channel.open", {}, raw=True)]),
    ("540 immediate", 540, "immediate=true",
     lambda x: [x.op("basic.publish", exchange=b"amq.direct", body=b"e", immediate=1)]),
    ("540 flow", 540, "active=false", lambda x: [x.op("channel.flow", active=0)]),
    ("540 prefetch_size", 540, "prefetch_size!=0", lambda x: [x.op("basic.qos", prefetch_size=7)]),
    ("540 recover", 540, "requeue=false",
     lambda x: [x.op(("basic.recover", "basic.recover_async")[x.a % 2])]),
]

# Whether an error ends the connection, at one of the two servers at least.
ENDING = {label: code >= 500 or label == "unknown exchange type" for label, code, *_ in ROWS}
TRIGGERS = {label: trigger for label, _, _, trigger in ROWS if trigger}
# What does not always come about when it is drawn, and so is drawn twice as often.
RARE = ["read access to topic", "write access to topic", "server-named quorum queue"]
