// SPDX-License-Identifier: Apache-2.0
// The cases for node's amqplib; amqplib.sh runs it: node amqplib.js MODULE-DIRECTORY URL.
// Prints a line for each case and "complete" at the end; exit status 1 when one failed.
'use strict';

const assert = require('assert');
const path = require('path');

const amqplib = require(path.resolve(process.argv[2]));
const url = process.argv[3];
const LIMIT_MS = 20000;

/** Promises the next emission of an event, with its first argument. */
function next(emitter, event) {
	return new Promise((resolve) => emitter.once(event, resolve));
}

/** Consumes until count messages have come and promises them; they are not acknowledged here. */
async function take(channel, queue, count, options) {
	const taken = [];
	let complete;
	const all = new Promise((resolve) => { complete = resolve; });
	const { consumerTag } = await channel.consume(queue, (message) => {
		taken.push(message);
		if (taken.length === count)
			complete();
	}, options);
	await all;
	await channel.cancel(consumerTag);
	return taken;
}

/** The call closes its channel with that code; promises the channel's error. */
async function refused(channel, code, text, call) {
	const event = next(channel, 'error');
	await assert.rejects(call, (error) => error.message.includes(text));
	const error = await event;
	assert.strictEqual(error.code, code);
	assert.ok(error.message.includes(text), error.message);
}

async function temporaryQueue(channel) {
	return (await channel.assertQueue('', { exclusive: true })).queue;
}

const cases = {
	async serverNamedQueueAndRoundTrip(connection) {
		const channel = await connection.createChannel();
		const queue = await temporaryQueue(channel);
		assert.match(queue, /^amq\.gen-/);
		const headers = { text: 'ü', number: 5, big: 2 ** 40, real: 1.5, yes: true, none: null,
			list: [1, 'two', { three: 3 }], table: { deep: { er: 'x' } } };
		channel.sendToQueue(queue, Buffer.from('body'), { headers, contentType: 'text/plain',
			correlationId: 'c', replyTo: 'r', expiration: '60000', messageId: 'm',
			timestamp: 1700000000, type: 't', userId: 'guest', appId: 'a', priority: 3,
			persistent: true });
		const [message] = await take(channel, queue, 1, { noAck: true });
		assert.strictEqual(message.content.toString(), 'body');
		assert.deepStrictEqual(message.properties.headers, headers);
		assert.strictEqual(message.properties.deliveryMode, 2);
		assert.strictEqual(message.properties.correlationId, 'c');
		assert.strictEqual(message.properties.timestamp, 1700000000);
		await channel.close();
	},

	async declareRefused(connection) {
		const first = await connection.createChannel();
		await first.assertQueue('node.q', { durable: false });
		await refused(first, 406, "inequivalent arg 'durable' for queue 'node.q'",
			first.assertQueue('node.q', { durable: true }));
		const second = await connection.createChannel();
		await refused(second, 404, "no queue 'node.none' in vhost '/'", second.checkQueue('node.none'));
		const third = await connection.createChannel();
		await refused(third, 404, "no exchange 'node.none' in vhost '/'", third.checkExchange('node.none'));
		const fourth = await connection.createChannel();
		assert.strictEqual((await fourth.deleteQueue('node.q')).messageCount, 0);
		await fourth.close();
	},

	async bodiesOfAllSizes(connection) {
		const channel = await connection.createConfirmChannel();
		const queue = await temporaryQueue(channel);
		const sizes = [0, 1, 4088, 4089, 131064, 131065, 1000000];
		for (const size of sizes)
			channel.sendToQueue(queue, Buffer.alloc(size, size & 255));
		await channel.waitForConfirms();
		const messages = await take(channel, queue, sizes.length, { noAck: true });
		messages.forEach((message, i) => {
			assert.ok(message.content.equals(Buffer.alloc(sizes[i], sizes[i] & 255)), `size ${sizes[i]}`);
		});
		await channel.close();
	},

	async confirmsCallEachBack(connection) {
		const channel = await connection.createConfirmChannel();
		const queue = await temporaryQueue(channel);
		let called = 0;
		for (let i = 0; i < 1000; i++) {
			channel.sendToQueue(queue, Buffer.from(String(i)), {}, (error) => {
				assert.strictEqual(error, null);
				called++;
			});
		}
		await channel.waitForConfirms();
		assert.strictEqual(called, 1000);
		assert.strictEqual((await channel.checkQueue(queue)).messageCount, 1000);
		assert.strictEqual((await channel.purgeQueue(queue)).messageCount, 1000);
		await channel.close();
	},

	async mandatoryReturnsBeforeTheConfirm(connection) {
		const channel = await connection.createConfirmChannel();
		let returned = null;
		channel.on('return', (message) => { returned = message; });
		await new Promise((resolve, reject) => {
			channel.publish('amq.direct', 'node.nowhere', Buffer.from('lost'), { mandatory: true },
				(error) => error ? reject(error) : resolve());
		});
		assert.strictEqual(returned.fields.replyCode, 312);
		assert.strictEqual(returned.fields.replyText, 'NO_ROUTE');
		assert.strictEqual(returned.fields.routingKey, 'node.nowhere');
		assert.strictEqual(returned.content.toString(), 'lost');
		await channel.close();
	},

	async prefetch(connection) {
		const channel = await connection.createConfirmChannel();
		const queue = await temporaryQueue(channel);
		for (let i = 0; i < 10; i++)
			channel.sendToQueue(queue, Buffer.from(String(i)));
		await channel.waitForConfirms();
		await channel.prefetch(3);
		const seen = [];
		let wake = () => {};
		const until = async (count) => {
			while (seen.length < count)
				await new Promise((resolve) => { wake = resolve; });
		};
		await channel.consume(queue, (message) => { seen.push(message); wake(); });
		await until(3);
		assert.strictEqual((await channel.checkQueue(queue)).messageCount, 7);
		channel.ack(seen[1], true);
		await until(5);
		assert.strictEqual((await channel.checkQueue(queue)).messageCount, 5);
		channel.nackAll(false);
		await until(8);
		channel.ackAll();
		await until(10);
		assert.deepStrictEqual(seen.map((m) => Number(m.content)), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
		await channel.close();
	},

	async rejectAndRequeue(connection) {
		const channel = await connection.createChannel();
		const queue = await temporaryQueue(channel);
		channel.sendToQueue(queue, Buffer.from('a'));
		channel.sendToQueue(queue, Buffer.from('b'));
		const [a, b] = await take(channel, queue, 2);
		channel.nack(b, false, true);
		channel.reject(a, true);
		const again = await take(channel, queue, 2);
		assert.deepStrictEqual(again.map((m) => m.content.toString()), ['a', 'b']);
		assert.ok(again.every((m) => m.fields.redelivered));
		await channel.recover();
		const third = await take(channel, queue, 2);
		assert.deepStrictEqual(third.map((m) => m.content.toString()), ['a', 'b']);
		channel.reject(third[0], false);
		channel.ack(third[1]);
		assert.strictEqual((await channel.deleteQueue(queue)).messageCount, 0);
		await channel.close();
	},

	async get(connection) {
		const channel = await connection.createConfirmChannel();
		const queue = await temporaryQueue(channel);
		assert.strictEqual(await channel.get(queue), false);
		channel.sendToQueue(queue, Buffer.from('one'));
		channel.sendToQueue(queue, Buffer.from('two'));
		await channel.waitForConfirms();
		const message = await channel.get(queue);
		assert.strictEqual(message.fields.messageCount, 1);
		assert.strictEqual(message.content.toString(), 'one');
		channel.ack(message);
		assert.strictEqual((await channel.deleteQueue(queue)).messageCount, 1);
		await channel.close();
	},

	async exchangesOfAllKinds(connection) {
		const channel = await connection.createConfirmChannel();
		const queue = await temporaryQueue(channel);
		for (const kind of ['direct', 'fanout', 'topic', 'headers']) {
			const name = `node.${kind}`;
			await channel.assertExchange(name, kind, { durable: false });
			const bound = kind === 'headers' ? { 'x-match': 'all', k: 'v' } : {};
			await channel.bindQueue(queue, name, kind === 'topic' ? 'a.#' : 'a.b', bound);
			channel.publish(name, 'a.b', Buffer.from(kind), { headers: { k: 'v' } });
		}
		await channel.bindExchange('node.fanout', 'node.topic', 'through.*');
		channel.publish('node.topic', 'through.it', Buffer.from('through'));
		await channel.waitForConfirms();
		const messages = await take(channel, queue, 5, { noAck: true });
		assert.deepStrictEqual(messages.map((m) => m.fields.exchange),
			['node.direct', 'node.fanout', 'node.topic', 'node.headers', 'node.topic']);
		await channel.unbindExchange('node.fanout', 'node.topic', 'through.*');
		await channel.unbindQueue(queue, 'node.direct', 'a.b');
		channel.publish('node.direct', 'a.b', Buffer.from('no more'));
		await channel.waitForConfirms();
		assert.strictEqual((await channel.deleteQueue(queue)).messageCount, 0);
		for (const kind of ['direct', 'fanout', 'topic', 'headers'])
			await channel.deleteExchange(`node.${kind}`);
		await channel.close();
	},

	async cancelNotification(connection) {
		const channel = await connection.createChannel();
		const queue = await temporaryQueue(channel);
		const told = new Promise((resolve) => {
			channel.consume(queue, (message) => resolve(message));
		});
		await channel.checkQueue(queue);
		await channel.deleteQueue(queue);
		assert.strictEqual(await told, null);
		await channel.close();
	},

	async publishToAMissingExchange(connection) {
		const channel = await connection.createChannel();
		const event = next(channel, 'error');
		channel.publish('node.none', 'k', Buffer.from('lost'));
		const error = await event;
		assert.strictEqual(error.code, 404);
		const other = await connection.createChannel();
		await other.close();
	},

	async unknownDeliveryTag(connection) {
		const channel = await connection.createChannel();
		const event = next(channel, 'error');
		channel.ack({ fields: { deliveryTag: 77 } });
		const error = await event;
		assert.strictEqual(error.code, 406);
		assert.match(error.message, /unknown delivery tag 77/);
	},

	async connectionErrorEndsAllChannels() {
		const connection = await amqplib.connect(url);
		const channels = [await connection.createChannel(), await connection.createChannel()];
		const error = next(connection, 'error');
		const closed = [next(connection, 'close'), ...channels.map((c) => next(c, 'close'))];
		const queue = await temporaryQueue(channels[0]);
		const twice = { consumerTag: 'twice', exclusive: false };
		await channels[0].consume(queue, () => {}, twice);
		channels[0].consume(queue, () => {}, twice).catch(() => {});
		assert.strictEqual((await error).code, 530);
		await Promise.all(closed);
	},

	async wrongPassword() {
		const parts = new URL(url);
		parts.password = 'wrong';
		await assert.rejects(amqplib.connect(parts.href), /ACCESS.REFUSED|403/);
	},

	async wrongVhost() {
		await assert.rejects(amqplib.connect(url.replace(/\/[^/]*$/, '/nowhere')), /ConnectionClose|530/);
	},

	async heartbeats() {
		const connection = await amqplib.connect(`${url}?heartbeat=1`);
		const beat = new Promise((resolve, reject) => {
			connection.once('error', reject);
			setTimeout(resolve, 4000);
		});
		await beat;
		const channel = await connection.createChannel();
		await temporaryQueue(channel);
		await connection.close();
	},

	async exclusiveQueueOfAnotherConnection(connection) {
		const other = await amqplib.connect(url);
		const owner = await other.createChannel();
		await owner.assertQueue('node.exclusive', { exclusive: true });
		const channel = await connection.createChannel();
		await refused(channel, 405, 'cannot obtain exclusive access to locked queue',
			channel.checkQueue('node.exclusive'));
		await other.close();
		const after = await connection.createChannel();
		await refused(after, 404, "no queue 'node.exclusive'", after.checkQueue('node.exclusive'));
	},
};

async function withLimit(promise) {
	let timer;
	const late = new Promise((_, reject) => {
		timer = setTimeout(() => reject(new Error(`not within ${LIMIT_MS} ms`)), LIMIT_MS);
	});
	try {
		return await Promise.race([promise, late]);
	} finally {
		clearTimeout(timer);
	}
}

/** Runs one case on a connection of its own, which it may bring to its end. */
async function runCase(run) {
	const connection = await amqplib.connect(url);
	const error = next(connection, 'error').then((e) => { throw e; });
	await Promise.race([run(connection), error]);
	error.catch(() => {});
	await connection.close();
}

async function main() {
	let failed = 0;
	for (const [name, run] of Object.entries(cases)) {
		try {
			await withLimit(runCase(run));
			console.log(`ok ${name}`);
		} catch (error) {
			failed++;
			console.log(`FAIL ${name}`);
			console.error(name, error);
		}
	}
	console.log('complete');
	return failed;
}

main().then((failed) => process.exit(failed ? 1 : 0), (error) => {
	console.error(error);
	process.exit(1);
});
