// SPDX-License-Identifier: Apache-2.0
// The cases for @cloudamqp/amqp-client; cloudamqp.py runs it. Its frames are of 8,192 octets at most.
'use strict';

const assert = require('assert');

const { AMQPClient, AMQPSession } = require('@cloudamqp/amqp-client');
const { Arrivals, RETRY_MS, killBroker, pause, run } = require('./cases.js');

/** A case on a connection of its own, which it may bring to its end. */
function connected(test) {
	return async (url) => {
		const client = new AMQPClient(url);
		client.onerror = () => {};
		const connection = await client.connect();
		await test(connection, await connection.channel());
		if (!connection.closed)
			await connection.close();
	};
}

async function temporaryQueue(channel) {
	return (await channel.queueDeclare('', { exclusive: true, autoDelete: false })).name;
}

/** The call ends its channel: what it rejects with has the text, and later calls are refused at once. */
async function refused(channel, text, call) {
	channel.onerror = () => {};
	await assert.rejects(call, (error) => error.message.includes(text) || assert.fail(error));
	assert.ok(channel.closed);
	await assert.rejects(channel.queueDeclare(''), /closed/i);
}

const bodies = (messages) => messages.map((message) => message.bodyString());

const cases = {
	async login(url) {
		const wrong = new AMQPClient(url.replace('guest@', 'wrong@'));
		wrong.onerror = () => {};
		await assert.rejects(wrong.connect(), /ACCESS_REFUSED/);
		const nowhere = new AMQPClient(url.replace(/%2f$/, 'nowhere'));
		nowhere.onerror = () => {};
		await assert.rejects(nowhere.connect(), /vhost nowhere not found|NOT_ALLOWED/);
	},

	declare: connected(async (connection, channel) => {
		const temporary = { durable: false, autoDelete: true };
		assert.match(await temporaryQueue(channel), /^amq\.gen-/);
		await channel.exchangeDeclare('cloud.x', 'topic', temporary);
		const declared = await channel.queueDeclare('cloud.q', temporary, { 'x-max-length': 5 });
		assert.deepStrictEqual(declared, { name: 'cloud.q', messageCount: 0, consumerCount: 0 });
		await channel.queueBind('cloud.q', 'cloud.x', 'a.*');
		await channel.exchangeBind('cloud.x', 'amq.fanout');
		await channel.exchangeUnbind('cloud.x', 'amq.fanout');
		await channel.confirmSelect();
		await channel.basicPublish('cloud.x', 'a.b', 'routed');
		await channel.basicPublish('cloud.x', 'b.b', 'lost');
		assert.strictEqual((await channel.queueDeclare('cloud.q', { passive: true })).messageCount, 1);
		await channel.queueUnbind('cloud.q', 'cloud.x', 'a.*');
		assert.strictEqual((await channel.queueDelete('cloud.q')).messageCount, 1);
	}),

	channelErrors: connected(async (connection, channel) => {
		const taken = await temporaryQueue(channel);
		await refused(channel, 'reserved prefix', channel.queueDeclare(taken, { exclusive: true, autoDelete: false }));
		const second = await connection.channel();
		await refused(second, "no queue 'cloud.none' in vhost '/'",
			second.queueDeclare('cloud.none', { passive: true }));
		const third = await connection.channel();
		await third.confirmSelect();
		await refused(third, "no exchange 'cloud.none' in vhost '/'", third.basicPublish('cloud.none', 'k', 'lost'));
		const fourth = await connection.channel();
		await fourth.basicAck(77);
		await refused(fourth, 'unknown delivery tag 77', fourth.queueDeclare(''));
		const fifth = await connection.channel();
		await refused(fifth, "inequivalent arg 'type' for exchange 'amq.topic'",
			fifth.exchangeDeclare('amq.topic', 'fanout'));
		// The connection and its other channels have not noticed.
		await temporaryQueue(await connection.channel());
	}),

	async connectionError(url) {
		const client = new AMQPClient(url);
		client.onerror = () => {};
		const lost = new Promise((resolve) => { client.ondisconnect = resolve; });
		const connection = await client.connect();
		const channel = await connection.channel();
		const queue = await temporaryQueue(channel);
		await channel.basicConsume(queue, { tag: 'twice' }, () => {});
		await assert.rejects(channel.basicConsume(queue, { tag: 'twice' }, () => {}), /NOT_ALLOWED|closed/);
		await lost;
		assert.ok(connection.closed);
	},

	confirms: connected(async (connection, channel) => {
		const queue = await temporaryQueue(channel);
		await channel.confirmSelect();
		const published = [];
		for (let i = 0; i < 1000; i++)
			published.push(channel.basicPublish('', queue, String(i)));
		const tags = await Promise.all(published);
		assert.deepStrictEqual(tags, Array.from({ length: 1000 }, (_, i) => i + 1));
		assert.strictEqual((await channel.queuePurge(queue)).messageCount, 1000);
	}),

	bodiesOfAllSizes: connected(async (connection, channel) => {
		const queue = await temporaryQueue(channel);
		await channel.confirmSelect();
		const sizes = [0, 1, 8184, 8185, 300000];
		for (const size of sizes)
			await channel.basicPublish('', queue, Buffer.alloc(size, 7), { headers: { size, deep: { er: [1, 'x'] } } });
		for (const size of sizes) {
			const message = await channel.basicGet(queue);
			assert.strictEqual(message.bodySize, size);
			assert.deepStrictEqual(message.properties.headers, { size, deep: { er: [1, 'x'] } });
		}
	}),

	mandatoryReturn: connected(async (connection, channel) => {
		let returned = null;
		channel.onReturn = (message) => { returned = message; };
		await channel.confirmSelect();
		await channel.basicPublish('amq.direct', 'cloud.nowhere', 'lost', { messageId: 'm1' }, true);
		assert.strictEqual(returned.replyCode, 312);
		assert.strictEqual(returned.replyText, 'NO_ROUTE');
		assert.strictEqual(returned.routingKey, 'cloud.nowhere');
		assert.strictEqual(returned.properties.messageId, 'm1');
		assert.strictEqual(returned.bodyString(), 'lost');
	}),

	prefetch: connected(async (connection, channel) => {
		const queue = await temporaryQueue(channel);
		await channel.confirmSelect();
		for (let i = 0; i < 10; i++)
			await channel.basicPublish('', queue, String(i));
		await channel.prefetch(3);
		const came = new Arrivals();
		await channel.basicConsume(queue, { noAck: false }, (message) => came.push(message));
		await came.first(3);
		assert.strictEqual((await channel.queueDeclare(queue, { passive: true })).messageCount, 7);
		await came.all[1].ack(true);
		assert.deepStrictEqual(bodies(await came.first(5)), ['0', '1', '2', '3', '4']);
		assert.strictEqual((await channel.queueDeclare(queue, { passive: true })).messageCount, 5);
		await channel.basicAck(0, true);
		await came.first(8);
	}),

	rejectAndRequeue: connected(async (connection, channel) => {
		const queue = await temporaryQueue(channel);
		for (const body of ['a', 'b', 'c'])
			await channel.basicPublish('', queue, body);
		const came = new Arrivals();
		const consumer = await channel.basicConsume(queue, { noAck: false }, (message) => came.push(message));
		const [a, b, c] = await came.first(3);
		await consumer.cancel();
		await b.reject(false);
		await c.nack(true);
		await a.nack(true);
		const again = [await channel.basicGet(queue, { noAck: false }), await channel.basicGet(queue, { noAck: false })];
		assert.deepStrictEqual(bodies(again), ['a', 'c']);
		assert.ok(again.every((message) => message.redelivered));
		await channel.basicRecover(true);
		assert.strictEqual((await channel.basicGet(queue)).bodyString(), 'a');
		assert.strictEqual((await channel.queueDelete(queue)).messageCount, 1);
	}),

	transactions: connected(async (connection, channel) => {
		const other = await connection.channel();
		const queue = await temporaryQueue(channel);
		const count = async () => (await other.queueDeclare(queue, { passive: true })).messageCount;
		await channel.txSelect();
		await channel.basicPublish('', queue, 'a');
		await channel.basicPublish('', queue, 'b');
		assert.strictEqual(await count(), 0);
		await channel.txCommit();
		assert.strictEqual(await count(), 2);
		await channel.basicPublish('', queue, 'c');
		await channel.txRollback();
		await channel.txCommit();
		assert.strictEqual(await count(), 2);
		const first = await channel.basicGet(queue, { noAck: false });
		await first.ack();
		await channel.txRollback();
		await channel.basicAck(first.deliveryTag);
		await channel.txCommit();
		await channel.basicAck((await channel.basicGet(queue, { noAck: false })).deliveryTag);
		await channel.close();
		assert.strictEqual(await count(), 1);
		await refused(other, 'channel is not transactional', other.txCommit());
	}),

	async tls(url, tlsUrl, ca) {
		const connection = await new AMQPClient(tlsUrl, { ca }).connect();
		const channel = await connection.channel();
		const queue = await temporaryQueue(channel);
		await channel.confirmSelect();
		await channel.basicPublish('', queue, Buffer.alloc(300000));
		assert.strictEqual((await channel.basicGet(queue)).bodySize, 300000);
		await connection.close();
		const stranger = new AMQPClient(tlsUrl);
		stranger.onerror = () => {};
		await assert.rejects(stranger.connect(), /certificate|self.signed/);
	},

	async recovery(url) {
		// Of writes that the kill cuts off the library leaves promises behind that nobody can catch.
		process.on('unhandledRejection', (error) => assert.match(error.message, /ECONNRESET|EPIPE|closed/));
		const consumed = new Arrivals();
		const connects = new Arrivals();
		const setUp = async (session) => {
			// The session brings back consumers only of queues that still exist; these are gone.
			const queue = await session.queue('', { durable: false, exclusive: true });
			await queue.bind('amq.topic', 'cloud.#');
			await queue.subscribe({ prefetch: 50, manualAck: true }, (message) => {
				consumed.push(Number(message.bodyString()));
				message.ack().catch(() => {});
			});
			connects.push(queue.name);
		};
		const session = await AMQPSession.connect(url, { reconnectInterval: RETRY_MS, maxReconnectInterval: RETRY_MS,
			onconnect: (connected) => { setUp(connected).catch(() => {}); } });
		await connects.first(1);
		const exchange = await session.topicExchange();
		let published = 0;
		let stopping = false;
		const load = (async () => {
			const publish = () => exchange.publish(String(++published), { routingKey: 'cloud.k' });
			while (!stopping)
				await Promise.all(Array.from({ length: 20 }, publish)).catch(() => pause(RETRY_MS));
		})();
		await consumed.find((number) => number >= 200);
		await killBroker();
		const [before, after] = await connects.first(2);
		assert.notStrictEqual(before, after);
		const since = published + 1;
		await consumed.find((number) => number >= since);
		stopping = true;
		await load;
		await session.stop();
	},
};

run(cases, ['tls', 'recovery']);
