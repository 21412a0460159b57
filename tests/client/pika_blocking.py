#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# limit: 90 s
"""pika's BlockingConnection: what an application in Python meets, one case for each promise."""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import broker as lib  # noqa: E402
import pika  # noqa: E402
from pika import exceptions  # noqa: E402


def connect(broker, **more):
    credentials = pika.PlainCredentials("guest", more.pop("password", "guest"))
    return pika.BlockingConnection(pika.ConnectionParameters(
        broker.host, broker.port, credentials=credentials, blocked_connection_timeout=30, **more))


def channel_of(broker, **more):
    return connect(broker, **more).channel()


def refused(code, text, call, *args, **kwargs):
    """The call closes its channel with that code and a text that begins so."""
    try:
        call(*args, **kwargs)
    except exceptions.ChannelClosedByBroker as error:
        assert error.reply_code == code, error
        assert error.reply_text.startswith(text), error
        return
    raise AssertionError(f"not refused: {call}")


def take(channel, queue, count, **more):
    """Consumes count deliveries and cancels; nothing is acknowledged here, what came beyond goes back."""
    taken = []
    for method, properties, body in channel.consume(queue, inactivity_timeout=20, **more):
        assert method is not None, f"{len(taken)} of {count} deliveries came"
        taken.append((method, properties, body))
        if len(taken) == count:
            break
    channel.cancel()
    return taken


def case_server_properties(broker):
    connection = connect(broker)
    properties = connection._impl.server_properties
    assert all(int(part) >= 0 for part in properties["version"].split(".")), properties
    for capability in ("publisher_confirms", "exchange_exchange_bindings", "basic.nack",
                       "consumer_cancel_notify", "connection.blocked", "consumer_priorities",
                       "authentication_failure_close", "per_consumer_qos"):
        assert properties["capabilities"][capability] is True, capability
    assert connection.basic_nack_supported and connection.publisher_confirms_supported
    connection.close()
    assert connection.is_closed


def case_wrong_password(broker):
    for password in ("wrong", ""):
        try:
            connect(broker, password=password)
        except exceptions.ProbableAuthenticationError as error:
            assert "403" in str(error) and "ACCESS_REFUSED" in str(error), error
        else:
            raise AssertionError("let in")


def case_wrong_vhost(broker):
    try:
        connect(broker, virtual_host="nowhere")
    except exceptions.ProbableAccessDeniedError as error:
        assert "(530) 'NOT_ALLOWED - vhost nowhere not found'" in str(error), error
    else:
        raise AssertionError("let in")


def case_declare(broker):
    channel = channel_of(broker)
    declared = channel.queue_declare("declare.named", durable=True)
    assert declared.method.queue == "declare.named" and declared.method.message_count == 0
    again = channel.queue_declare("declare.named", durable=True)
    assert again.method.consumer_count == 0
    channel.basic_publish("", "declare.named", b"x")
    lib.await_true("a message", lambda: channel.queue_declare(
        "declare.named", passive=True).method.message_count == 1)
    named = channel.queue_declare("", exclusive=True).method.queue
    assert named.startswith("amq.gen-") and len(named) > 20, named
    # The empty name now means the queue that the channel declared last.
    channel.queue_bind("", "amq.direct", "declare.key")
    channel.basic_publish("amq.direct", "declare.key", b"to the last")
    (method, _, body), = take(channel, named, 1, auto_ack=True)
    assert body == b"to the last" and method.routing_key == "declare.key"
    channel.queue_delete("declare.named")


def case_declare_refused(broker):
    connection = connect(broker)
    channel = connection.channel()
    channel.queue_declare("refused.q", auto_delete=True)
    refused(406, "PRECONDITION_FAILED - inequivalent arg 'auto_delete' for queue 'refused.q' in vhost '/'",
            channel.queue_declare, "refused.q")
    # A channel's end leaves the connection alone.
    channel = connection.channel()
    refused(404, "NOT_FOUND - no queue 'refused.none' in vhost '/'",
            channel.queue_declare, "refused.none", passive=True)
    channel = connection.channel()
    refused(404, "NOT_FOUND - no exchange 'refused.none' in vhost '/'",
            channel.exchange_declare, "refused.none", passive=True)
    channel = connection.channel()
    refused(403, "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'",
            channel.queue_declare, "amq.mine")
    channel = connection.channel()
    named = channel.queue_declare("", exclusive=True).method.queue
    refused(403, f"ACCESS_REFUSED - queue name '{named}' contains reserved prefix 'amq.*'",
            channel.queue_declare, named, exclusive=True)
    channel = connection.channel()
    channel.exchange_declare("refused.x", "direct", auto_delete=True)
    refused(406, "PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'refused.x'",
            channel.exchange_declare, "refused.x", "fanout", auto_delete=True)
    channel = connection.channel()
    channel.exchange_delete("refused.x")
    channel.queue_delete("refused.q")
    assert connection.is_open


def case_exclusive_queue(broker):
    owner = channel_of(broker)
    owner.queue_declare("exclusive.q", exclusive=True)
    other = connect(broker)
    text = "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'exclusive.q'"
    refused(405, text, other.channel().queue_declare, "exclusive.q", passive=True)
    refused(405, text, other.channel().basic_consume, "exclusive.q", print)
    owner.connection.close()
    # It is gone when close-ok has come.
    refused(404, "NOT_FOUND", other.channel().queue_declare, "exclusive.q", passive=True)


def case_publish_with_confirms(broker):
    channel = channel_of(broker)
    channel.confirm_delivery()
    queue = channel.queue_declare("", exclusive=True).method.queue
    sizes = (0, 1, 131064, 131065, 300000)  # about what one and two body frames hold
    for size in sizes:
        channel.basic_publish("", queue, bytes(size), mandatory=True)
    got = take(channel, queue, len(sizes), auto_ack=True)
    assert [len(body) for _, _, body in got] == list(sizes)
    try:
        channel.basic_publish("", "confirm.nowhere", b"lost", mandatory=True)
    except exceptions.UnroutableError as error:
        returned, = error.messages
        assert returned.body == b"lost" and returned.method.reply_code == 312
        assert returned.method.reply_text == "NO_ROUTE"
        assert returned.method.routing_key == "confirm.nowhere"
    else:
        raise AssertionError("not returned")
    channel.basic_publish("", "confirm.nowhere", b"lost silently")


def case_mandatory_without_confirms(broker):
    channel = channel_of(broker)
    returns = []
    channel.add_on_return_callback(lambda *args: returns.append(args))
    properties = pika.BasicProperties(message_id="m1", headers={"n": 1, "t": {"a": [1, "two"]}})
    channel.basic_publish("amq.topic", "no.such", b"body", properties, mandatory=True)
    while not returns:
        channel.connection.process_data_events(5)
    _, method, back, body = returns[0]
    assert (method.exchange, method.reply_code, body) == ("amq.topic", 312, b"body")
    assert back.message_id == "m1" and back.headers == properties.headers


def case_properties_arrive_unchanged(broker):
    channel = channel_of(broker)
    queue = channel.queue_declare("", exclusive=True).method.queue
    properties = pika.BasicProperties(
        content_type="text/plain", content_encoding="utf-8", delivery_mode=2, priority=7,
        headers={"int": 5, "long": 1 << 40, "text": "ü", "bytes": b"\0\xff", "yes": True, "none": None,
                 "list": [1, [2]], "table": {"deep": {"er": "x"}}},
        correlation_id="c", reply_to="r", expiration="60000", message_id="m", timestamp=1700000000,
        type="t", user_id="guest", app_id="a", cluster_id="cl")
    channel.basic_publish("", queue, b"b", properties)
    (_, back, _), = take(channel, queue, 1, auto_ack=True)
    assert back == properties, back


def case_prefetch(broker):
    channel = channel_of(broker)
    channel.basic_qos(prefetch_count=3)
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.confirm_delivery()
    for number in range(10):
        channel.basic_publish("", queue, b"%d" % number)
    seen = []
    channel.basic_consume(queue, lambda ch, method, properties, body: seen.append((method, body)))
    while len(seen) < 3:
        channel.connection.process_data_events(5)
    # Seven stay in the queue; the answer to declare comes after all that was delivered before.
    assert channel.queue_declare(queue, passive=True).method.message_count == 7
    channel.connection.process_data_events(0)
    assert [body for _, body in seen] == [b"0", b"1", b"2"]
    channel.basic_ack(seen[1][0].delivery_tag, multiple=True)
    while len(seen) < 5:
        channel.connection.process_data_events(5)
    assert channel.queue_declare(queue, passive=True).method.message_count == 5
    channel.basic_ack(0, multiple=True)
    while len(seen) < 8:
        channel.connection.process_data_events(5)
    assert [body for _, body in seen] == [b"%d" % n for n in range(8)]


def case_global_prefetch(broker):
    channel = channel_of(broker)
    channel.basic_qos(prefetch_count=3, global_qos=True)
    channel.confirm_delivery()
    queues = [channel.queue_declare("", exclusive=True).method.queue for _ in range(2)]
    seen = []
    for queue in queues:
        for number in range(3):
            channel.basic_publish("", queue, b"%d" % number)
        channel.basic_consume(queue, lambda ch, method, properties, body: seen.append(method))
    while len(seen) < 3:
        channel.connection.process_data_events(5)
    left = sum(channel.queue_declare(queue, passive=True).method.message_count for queue in queues)
    assert left == 3, left
    channel.basic_ack(0, multiple=True)
    while len(seen) < 6:
        channel.connection.process_data_events(5)


def case_reject_and_requeue(broker):
    channel = channel_of(broker)
    queue = channel.queue_declare("", exclusive=True).method.queue
    for body in (b"a", b"b", b"c"):
        channel.basic_publish("", queue, body)
    a, b, c = take(channel, queue, 3)
    assert not a[0].redelivered
    channel.basic_reject(b[0].delivery_tag, requeue=False)
    channel.basic_nack(c[0].delivery_tag, requeue=True)
    channel.basic_nack(a[0].delivery_tag, requeue=True)
    # Back at their old places, whatever the order they came back in.
    again = take(channel, queue, 2)
    assert [body for _, _, body in again] == [b"a", b"c"], again
    assert all(method.redelivered for method, _, _ in again)
    channel.basic_recover(requeue=True)
    third = take(channel, queue, 2)
    assert [body for _, _, body in third] == [b"a", b"c"], third
    channel.basic_ack(third[-1][0].delivery_tag, multiple=True)
    assert channel.queue_declare(queue, passive=True).method.message_count == 0


def case_unacked_return_when_the_channel_ends(broker):
    connection = connect(broker)
    first, second = connection.channel(), connection.channel()
    first.basic_qos(prefetch_count=3)
    queue = second.queue_declare("", exclusive=True).method.queue
    for number in range(5):
        second.basic_publish("", queue, b"%d" % number)
    taken = take(first, queue, 3)
    first.basic_ack(taken[0][0].delivery_tag)
    first.close()
    again = take(second, queue, 4, auto_ack=True)
    assert [(m.redelivered, b) for m, _, b in again] == [
        (True, b"1"), (True, b"2"), (False, b"3"), (False, b"4")], again


def case_unknown_delivery_tag(broker):
    channel = channel_of(broker)
    channel.basic_ack(99)
    refused(406, "PRECONDITION_FAILED - unknown delivery tag 99", channel.queue_declare, "", exclusive=True)


def case_get_purge_delete(broker):
    channel = channel_of(broker)
    channel.confirm_delivery()
    channel.queue_declare("gpd.q")
    assert channel.basic_get("gpd.q") == (None, None, None)
    for number in range(10):
        channel.basic_publish("", "gpd.q", b"%d" % number)
    method, _, body = channel.basic_get("gpd.q", auto_ack=True)
    assert (method.message_count, method.redelivered, body) == (9, False, b"0")
    method, _, body = channel.basic_get("gpd.q")
    assert (method.message_count, body) == (8, b"1")
    # What is not acknowledged is not purged.
    assert channel.queue_purge("gpd.q").method.message_count == 8
    channel.basic_nack(method.delivery_tag)
    for number in range(3):
        channel.basic_publish("", "gpd.q", b"x")
    refused(406, "PRECONDITION_FAILED - queue 'gpd.q' in vhost '/' not empty",
            channel.queue_delete, "gpd.q", if_empty=True)
    channel = channel.connection.channel()
    assert channel.queue_delete("gpd.q").method.message_count == 4
    assert channel.queue_delete("gpd.q").method.message_count == 0
    refused(404, "NOT_FOUND - no queue 'gpd.q'", channel.queue_purge, "gpd.q")


def routed(channel, exchange, keys, headers=None):
    """Publishes one message for each routing key, with confirms."""
    properties = pika.BasicProperties(headers=headers)
    for key in keys:
        channel.basic_publish(exchange, key, key.encode(), properties)


def drain(channel, queue):
    bodies = []
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return bodies
        bodies.append(body.decode())


def case_fanout_and_topic(broker):
    channel = channel_of(broker)
    channel.confirm_delivery()
    one, two = (channel.queue_declare("", exclusive=True).method.queue for _ in range(2))
    channel.exchange_declare("ft.fanout", "fanout", auto_delete=True)
    for queue in (one, two, two):
        channel.queue_bind(queue, "ft.fanout", "ignored")
    channel.queue_bind(two, "ft.fanout", "another")
    routed(channel, "ft.fanout", ["k"])
    assert drain(channel, one) == ["k"] and drain(channel, two) == ["k"]
    for pattern in ("a.*.c", "a.#", "#.z", "x.#.y"):
        channel.queue_bind(one, "amq.topic", pattern)
    routed(channel, "amq.topic", ["a", "a.b.c", "q.z", "z", "x.y", "x.1.2.y", "x", "b.a", ""])
    assert drain(channel, one) == ["a", "a.b.c", "q.z", "z", "x.y", "x.1.2.y"]
    channel.queue_unbind(one, "amq.topic", "a.#")
    routed(channel, "amq.topic", ["a", "a.b.c"])
    assert drain(channel, one) == ["a.b.c"]


def case_headers(broker):
    channel = channel_of(broker)
    channel.confirm_delivery()
    every, some = (channel.queue_declare("", exclusive=True).method.queue for _ in range(2))
    wanted = {"colour": "red", "size": 4}
    channel.queue_bind(every, "amq.headers", "", {**wanted, "x-match": "all"})
    channel.queue_bind(some, "amq.headers", "", {**wanted, "x-match": "any"})
    routed(channel, "amq.headers", ["both"], {**wanted, "more": "x"})
    routed(channel, "amq.headers", ["one"], {"colour": "red", "size": 5})
    routed(channel, "amq.headers", ["none"], {"colour": "blue"})
    routed(channel, "amq.headers", ["empty"])
    assert drain(channel, every) == ["both"]
    assert drain(channel, some) == ["both", "one"]


def case_exchange_to_exchange(broker):
    channel = channel_of(broker)
    channel.confirm_delivery()
    channel.exchange_declare("e2e.source", "topic", auto_delete=True)
    channel.exchange_declare("e2e.middle", "fanout", internal=True)
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.exchange_bind("e2e.middle", "e2e.source", "#.in")
    channel.queue_bind(queue, "e2e.middle")
    channel.queue_bind(queue, "e2e.source", "a.#")
    routed(channel, "e2e.source", ["a.in", "b.in", "c.out"])
    assert drain(channel, queue) == ["a.in", "b.in"]
    channel.exchange_unbind("e2e.middle", "e2e.source", "#.in")
    routed(channel, "e2e.source", ["b.in", "a"])
    assert drain(channel, queue) == ["a"]
    channel.exchange_delete("e2e.middle")


def case_internal_exchange_refuses_publishing(broker):
    channel = channel_of(broker)
    channel.exchange_declare("internal.x", "fanout", internal=True, auto_delete=True)
    channel.basic_publish("internal.x", "", b"")
    refused(403, "ACCESS_REFUSED - cannot publish to internal exchange 'internal.x' in vhost '/'",
            channel.queue_declare, "", exclusive=True)
    channel = channel.connection.channel()
    channel.exchange_delete("internal.x")


def case_alternate_exchange(broker):
    channel = channel_of(broker)
    channel.confirm_delivery()
    channel.exchange_declare("alternate.other", "fanout", auto_delete=True)
    channel.exchange_declare("alternate.x", "direct", auto_delete=True,
                             arguments={"alternate-exchange": "alternate.other"})
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(queue, "alternate.other")
    channel.basic_publish("alternate.x", "unbound", b"rescued", mandatory=True)
    assert drain(channel, queue) == ["rescued"]
    channel.exchange_delete("alternate.x")


def case_auto_delete(broker):
    channel = channel_of(broker)
    channel.queue_declare("auto.q", auto_delete=True)
    channel.exchange_declare("auto.x", "direct", auto_delete=True)
    channel.queue_bind("auto.q", "auto.x", "k")
    tag = channel.basic_consume("auto.q", print)
    channel.basic_cancel(tag)
    # The queue goes with its last consumer, the exchange with its last binding.
    refused(404, "NOT_FOUND", channel.queue_declare, "auto.q", passive=True)
    channel = channel.connection.channel()
    refused(404, "NOT_FOUND", channel.exchange_declare, "auto.x", passive=True)


def case_cancel_notification(broker):
    channel = channel_of(broker)
    queue = channel.queue_declare("", exclusive=True).method.queue
    cancelled = []
    channel.add_on_cancel_callback(cancelled.append)
    channel.basic_consume(queue, print, consumer_tag="told")
    channel.connection.channel().queue_delete(queue)
    while not cancelled:
        channel.connection.process_data_events(5)
    assert cancelled[0].method.consumer_tag == "told"


def case_round_robin_and_priority(broker):
    channel = channel_of(broker)
    channel.confirm_delivery()
    queue = channel.queue_declare("", exclusive=True).method.queue
    seen = {"a": 0, "b": 0, "high": 0}

    def count(ch, method, properties, body):
        seen[method.consumer_tag] += 1

    def publish(number):
        total = sum(seen.values()) + number
        for _ in range(number):
            channel.basic_publish("", queue, b"")
        while sum(seen.values()) < total:
            channel.connection.process_data_events(5)

    for tag in ("a", "b"):
        channel.basic_consume(queue, count, auto_ack=True, consumer_tag=tag)
    publish(10)
    assert seen == {"a": 5, "b": 5, "high": 0}, seen
    channel.basic_consume(queue, count, auto_ack=True, consumer_tag="high",
                          arguments={"x-priority": 10})
    publish(10)
    assert seen == {"a": 5, "b": 5, "high": 10}, seen


def case_exclusive_consumer(broker):
    channel = channel_of(broker)
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.basic_consume(queue, print, exclusive=True)
    other = channel.connection.channel()
    refused(403, f"ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use",
            other.basic_consume, queue, print)


def case_transaction(broker):
    channel = channel_of(broker)
    queue = channel.queue_declare("", exclusive=True).method.queue
    other = channel.connection.channel()
    try:
        channel.tx_select()
    except exceptions.ConnectionClosedByBroker as error:
        if "unimplemented method" not in error.reply_text:
            raise
        lib.skip("the server has no transactions")
    channel.basic_publish("", queue, b"kept")
    assert other.basic_get(queue) == (None, None, None)
    channel.tx_commit()
    channel.basic_publish("", queue, b"dropped")
    channel.tx_rollback()
    assert drain(other, queue) == ["kept"]
    refused(406, "PRECONDITION_FAILED - cannot switch from tx to confirm mode", channel.confirm_delivery)


def case_connection_errors(broker):
    channel = channel_of(broker)
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.basic_qos(prefetch_count=1)
    try:
        channel.basic_qos(prefetch_size=10)
    except exceptions.ConnectionClosedByBroker as error:
        assert error.reply_code == 540, error
        assert error.reply_text.startswith("NOT_IMPLEMENTED - prefetch_size!=0 (10)"), error
    else:
        raise AssertionError("a prefetch size was accepted")
    channel = channel_of(broker)
    refused(404, "NOT_FOUND", channel.queue_declare, queue, passive=True)


def case_many_channels(broker):
    connection = connect(broker, channel_max=100)
    channels = [connection.channel() for _ in range(100)]
    queue = channels[0].queue_declare("", exclusive=True).method.queue
    for channel in channels:
        channel.basic_publish("", queue, b"%d" % channel.channel_number)
    channels[0].close()
    channels[0] = connection.channel()
    bodies = [body for _, _, body in take(channels[0], queue, 100, auto_ack=True)]
    assert sorted(map(int, bodies)) == list(range(1, 101))


def case_heartbeats(broker):
    quiet = connect(broker, heartbeat=1)
    assert quiet._impl.params.heartbeat == 1
    offered = connect(broker, heartbeat=None)
    assert offered._impl.params.heartbeat > 0, "the server's own value"
    # pika answers only inside process_data_events, and drops a server that is silent for long.
    end = time.monotonic() + 5
    while time.monotonic() < end:
        quiet.process_data_events(0.5)
    quiet.channel().queue_declare("", exclusive=True)
    off = connect(broker, heartbeat=0)
    off.channel().queue_declare("", exclusive=True)


if __name__ == "__main__":
    sys.exit(lib.run_cases(globals()))
