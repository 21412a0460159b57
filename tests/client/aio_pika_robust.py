#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# limit: 120 s
"""aio-pika, with its robust connection, which recovers by itself."""
import asyncio
import functools
import logging
import ssl
import sys
import urllib.parse

import aio_pika
import aiormq
import matrix
import pamqp.exceptions
from aio_pika import ExchangeType, Message
from matrix import lib

LIMIT_S = 40


def asynchronous(case):
    """A case that is a coroutine, with its time limit."""
    @functools.wraps(case)
    def run(broker):
        asyncio.run(asyncio.wait_for(case(broker), LIMIT_S))
    return run


def connect(broker, **more):
    return aio_pika.connect(broker.url, timeout=10, **more)


async def take(iterator, count):
    return [await iterator.__anext__() for _ in range(count)]


def bodies(messages):
    return [message.body.decode() for message in messages]


async def publish(channel, queue, *texts):
    for text in texts:
        await channel.default_exchange.publish(Message(text.encode()), queue.name)


async def count_of(channel, queue):
    return (await channel.declare_queue(queue.name, passive=True)).declaration_result.message_count


async def refused(kind, text, awaitable):
    try:
        await awaitable
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"no {kind.__name__}")


async def round_trip(connection, size=14):
    channel = await connection.channel()
    queue = await channel.declare_queue(exclusive=True)
    headers = {"n": 5, "list": [1, "zwei", {"drei": True}], "none": None}
    await channel.default_exchange.publish(
        Message(b"x" * size, headers=headers, message_id="m", expiration=60, priority=3), queue.name)
    async with queue.iterator() as messages:
        [message] = await take(messages, 1)
        assert message.body == b"x" * size and message.headers == headers, message
        assert (message.message_id, message.expiration, message.priority) == ("m", 60, 3)
        await message.ack()
    await channel.close()


@asynchronous
async def case_connect(broker):
    async with await connect(broker) as connection:
        await round_trip(connection)
    wrong = broker.url.replace("guest@", "wrong@")
    await refused(aiormq.exceptions.AMQPConnectionError, "", aio_pika.connect(wrong, timeout=10))
    nowhere = broker.url.replace("%2f", "nowhere")
    # It does not expect a connection.close there, and says so.
    await refused(pamqp.exceptions.AMQPInternalError, "Connection.Close", aio_pika.connect(nowhere, timeout=10))


@asynchronous
async def case_connect_with_tls(broker):
    if not broker.tls_port:
        lib.skip("the server is a running one")
    url = f"amqps://guest:guest@127.0.0.1:{broker.tls_port}/"
    context = ssl.create_default_context(cafile=broker.ca)
    async with await aio_pika.connect(url, timeout=10, ssl_context=context) as connection:
        await round_trip(connection)
        await round_trip(connection, 1000000)
    by_address = f"{url}?cafile={urllib.parse.quote(broker.ca)}"
    async with await aio_pika.connect(by_address, timeout=10) as connection:
        await round_trip(connection)
    await refused(Exception, "CERTIFICATE_VERIFY_FAILED", aio_pika.connect(url, timeout=10))


@asynchronous
async def case_declare_bind_delete(broker):
    async with await connect(broker) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(exclusive=True)
        for kind in (ExchangeType.DIRECT, ExchangeType.FANOUT, ExchangeType.TOPIC, ExchangeType.HEADERS):
            exchange = await channel.declare_exchange(f"aio.{kind.value}", kind)
            arguments = {"x-match": "all", "k": 1} if kind == ExchangeType.HEADERS else None
            key = "a.#" if kind == ExchangeType.TOPIC else "a.b"
            await queue.bind(exchange, key, arguments=arguments)
            await exchange.publish(Message(kind.value.encode(), headers={"k": 1}), "a.b")
        source = await channel.declare_exchange("aio.source", ExchangeType.TOPIC)
        fanout = await channel.get_exchange("aio.fanout")
        await fanout.bind(source, "x.*")
        await source.publish(Message(b"through"), "x.y")
        async with queue.iterator() as messages:
            taken = await take(messages, 5)
            assert bodies(taken) == ["direct", "fanout", "topic", "headers", "through"], taken
            await taken[-1].ack(multiple=True)
        await fanout.unbind(source, "x.*")
        await queue.unbind("aio.direct", "a.b")
        for name in ("direct", "fanout", "topic", "headers", "source"):
            await channel.exchange_delete(f"aio.{name}")
        await publish(channel, queue, "1", "2", "3")
        assert (await queue.purge()).message_count == 3
        assert (await queue.delete(if_empty=True)).message_count == 0


@asynchronous
async def case_publish_with_confirms(broker):
    async with await connect(broker) as connection:
        channel = await connection.channel(publisher_confirms=True)
        queue = await channel.declare_queue(exclusive=True)
        # All at the same time: each waits for its own confirm.
        confirms = await asyncio.gather(*(
            channel.default_exchange.publish(Message(b"%d" % i), queue.name) for i in range(1000)))
        assert all(isinstance(confirm, aiormq.spec.Basic.Ack) for confirm in confirms), confirms[0]
        assert await count_of(channel, queue) == 1000
        await queue.purge()
        sizes = (0, 1, 131064, 131065, 1000000)
        for size in sizes:
            await channel.default_exchange.publish(Message(b"x" * size), queue.name)
        async with queue.iterator(no_ack=True) as messages:
            assert tuple(len(message.body) for message in await take(messages, 5)) == sizes


@asynchronous
async def case_consume_with_prefetch(broker):
    async with await connect(broker) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(exclusive=True)
        await publish(channel, queue, *map(str, range(10)))
        await channel.set_qos(prefetch_count=3)
        arrived = asyncio.Queue()
        await queue.consume(arrived.put)
        first = [await arrived.get() for _ in range(3)]
        assert await count_of(channel, queue) == 7 and arrived.empty()
        await first[1].ack(multiple=True)
        second = [await arrived.get() for _ in range(2)]
        await first[2].nack(requeue=False)
        await second[1].ack(multiple=True)
        third = [await arrived.get() for _ in range(3)]
        assert bodies(first + second + third) == list(map(str, range(8)))
        assert await count_of(channel, queue) == 2


@asynchronous
async def case_reject_and_requeue(broker):
    async with await connect(broker) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(exclusive=True)
        await publish(channel, queue, "a", "b", "c")
        a, b, c = [await queue.get() for _ in range(3)]
        assert not (a.redelivered or b.redelivered or c.redelivered)
        await b.reject(requeue=True)
        await a.nack(requeue=True)
        await c.reject(requeue=False)
        again = [await queue.get() for _ in range(2)]
        assert bodies(again) == ["a", "b"] and all(message.redelivered for message in again)
        assert await queue.get(fail=False) is None
        # process() rejects what an exception goes through.
        await again[1].ack()
        try:
            async with again[0].process(requeue=True):
                raise KeyError("a")
        except KeyError:
            pass
        async with (await queue.get()).process() as message:
            assert message.body == b"a"
        assert await count_of(channel, queue) == 0


@asynchronous
async def case_mandatory_return(broker):
    async with await connect(broker) as connection:
        raising = await connection.channel(on_return_raises=True)
        exchange = await raising.get_exchange("amq.direct")
        await refused(aio_pika.exceptions.DeliveryError, "", exchange.publish(Message(b"lost"), "aio.nowhere"))
        giving = await connection.channel()
        returned = asyncio.Queue()
        giving.return_callbacks.add(lambda _, message: returned.put_nowait(message))
        exchange = await giving.get_exchange("amq.direct")
        message = await exchange.publish(Message(b"lost", message_id="m"), "aio.nowhere", mandatory=True)
        assert message.delivery.reply_code == 312 and message.delivery.reply_text == "NO_ROUTE"
        assert (await returned.get()).message_id == "m"


@asynchronous
async def case_transactions(broker):
    async with await connect(broker) as connection:
        channel = await connection.channel(publisher_confirms=False)
        other = await connection.channel()
        queue = await other.declare_queue(exclusive=True)
        async with channel.transaction():
            await publish(channel, queue, "kept")
            assert await count_of(other, queue) == 0
        assert await count_of(other, queue) == 1
        try:
            async with channel.transaction():
                await publish(channel, queue, "dropped")
                raise KeyError("rolled back")
        except KeyError:
            pass
        assert await count_of(other, queue) == 1


@asynchronous
async def case_channel_errors(broker):
    errors = aiormq.exceptions
    async with await connect(broker) as connection, await connect(broker) as stranger:
        owner = await connection.channel()
        queue = await owner.declare_queue("aio.exclusive", exclusive=True)
        await refused(errors.ChannelNotFoundEntity, "NOT_FOUND - no queue 'aio.none' in vhost '/'",
                      (await connection.channel()).declare_queue("aio.none", passive=True))
        await refused(errors.ChannelPreconditionFailed,
                      "inequivalent arg 'auto_delete' for queue 'aio.exclusive' in vhost '/'",
                      (await connection.channel()).declare_queue(
                          "aio.exclusive", exclusive=True, auto_delete=True))
        await refused(errors.ChannelAccessRefused, "contains reserved prefix 'amq.*'",
                      (await connection.channel()).declare_exchange("amq.mine"))
        await refused(errors.ChannelLockedResource, "cannot obtain exclusive access to locked queue",
                      (await stranger.channel()).declare_queue("aio.exclusive", passive=True))
        # A publish waits for its confirm, so it meets its error.
        bad = await connection.channel()
        exchange = await bad.get_exchange("aio.none", ensure=False)
        await refused(errors.ChannelNotFoundEntity, "no exchange 'aio.none'",
                      exchange.publish(Message(b"lost"), "k"))
        closed = asyncio.get_running_loop().create_future()
        bad = await connection.channel()
        bad.close_callbacks.add(lambda _, error: closed.set_result(str(error)))
        await bad.channel.basic_ack(77)
        assert "unknown delivery tag 77" in await closed
        await queue.delete()
        await round_trip(connection)


@asynchronous
async def case_the_server_cancels_a_consumer(broker):
    async with await connect(broker) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(exclusive=True)
        tag = await queue.consume(print)
        assert tag in channel.channel.consumers
        await (await connection.channel()).queue_delete(queue.name)
        while tag in channel.channel.consumers:
            await asyncio.sleep(0.01)


class Load:
    """Publishes with confirms until it is stopped; what it gets while there is no connection, it ignores."""

    def __init__(self, exchange):
        self.exchange, self.stage, self.failed = exchange, "before", 0
        self.task = asyncio.create_task(self.run())

    async def run(self):
        while self.stage:
            try:
                await asyncio.gather(*(self.exchange.publish(Message(self.stage.encode()), "load.key", timeout=2)
                                       for _ in range(10)))
            except Exception:  # the library does raise just that
                self.failed += 1
                await asyncio.sleep(0.05)

    async def stop(self):
        self.stage = None
        await self.task


@asynchronous
async def case_recovery_from_a_killed_broker(broker):
    if not broker.tls_port:
        lib.skip("the server is a running one")
    connection = await aio_pika.connect_robust(f"{broker.url}?reconnect_interval=0.2", timeout=5)
    reconnected = asyncio.Event()
    connection.reconnect_callbacks.add(lambda *_: reconnected.set())
    consuming, publishing = await connection.channel(), await connection.channel()
    await consuming.set_qos(prefetch_count=20)
    exchange = await consuming.declare_exchange("aio.load", ExchangeType.TOPIC)
    seen = asyncio.Queue()

    async def work(message):
        await message.ack()
        seen.put_nowait(message.body.decode())

    # One name is made by the client, the other one given.
    for queue in (await consuming.declare_queue(exclusive=True), await consuming.declare_queue("aio.load.q")):
        await queue.bind(exchange, "load.#")
        await queue.consume(work)
    # Channels recover in no order, so each declares what it needs.
    load = Load(await publishing.declare_exchange("aio.load", ExchangeType.TOPIC))
    for _ in range(600):
        await seen.get()
    await asyncio.get_running_loop().run_in_executor(None, matrix.restart, broker)
    await reconnected.wait()
    load.stage = "after"
    for _ in range(600):
        while await seen.get() != "after":
            pass
    assert load.failed
    await load.stop()
    await connection.close()


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)  # aio-pika tells of each attempt
    sys.exit(lib.run_cases(globals(), common=matrix.tls_broker()))
