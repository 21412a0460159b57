// SPDX-License-Identifier: Apache-2.0
// The cases for node's amqplib that need a broker of our own: TLS, and an application that connects again
// when the broker was killed. amqplib_recovery.py runs it: node amqplib_recovery.js MODULE ...
'use strict';

const assert = require('assert');

const amqplib = require(process.argv[2]);
const { Arrivals, RETRY_MS, killBroker, next, pause, run } = require('./cases.js');

/** Declares, publishes and consumes on one connection until that is lost. */
async function serve(url, application) {
	const connection = await amqplib.connect(url);
	const lost = next(connection, 'close');
	connection.on('error', () => {});
	try {
		await work(connection, application, lost);
	} finally {
		connection.close().catch(() => {});
	}
}

async function work(connection, application, lost) {
	const channel = await connection.createConfirmChannel();
	channel.on('error', () => {});
	await channel.prefetch(50);
	await channel.assertExchange('node.in', 'topic', { durable: false, autoDelete: true });
	const { queue } = await channel.assertQueue('node.recovery', { durable: false, exclusive: true });
	await channel.bindQueue(queue, 'node.in', 'k.#');
	await channel.consume(queue, (message) => {
		application.consumed.push(Number(message.content));
		channel.ack(message);
	}, { consumerTag: 'node.consumer' });
	application.connections++;
	let open = true;
	lost.then(() => { open = false; });
	while (open && !application.stopping) {
		for (let i = 0; i < 20; i++)
			channel.publish('node.in', 'k.1', Buffer.from(String(++application.published)));
		await Promise.race([channel.waitForConfirms(), lost]);
	}
}

async function serveAgainAndAgain(url, application) {
	while (!application.stopping) {
		await serve(url, application).catch(() => {});
		await pause(RETRY_MS);
	}
}

run({
	async tls(url, tlsUrl, ca) {
		const connection = await amqplib.connect(tlsUrl, { ca });
		const channel = await connection.createConfirmChannel();
		const { queue } = await channel.assertQueue('', { exclusive: true });
		channel.sendToQueue(queue, Buffer.alloc(300000));
		await channel.waitForConfirms();
		assert.strictEqual((await channel.get(queue)).content.length, 300000);
		await connection.close();
		await assert.rejects(amqplib.connect(tlsUrl), /certificate|self.signed/);
	},

	async recovery(url) {
		const application = { consumed: new Arrivals(), connections: 0, published: 0, stopping: false };
		const ended = serveAgainAndAgain(url, application);
		await application.consumed.find((number) => number >= 200);
		await killBroker();
		const since = application.published + 1;
		await application.consumed.find((number) => number >= since);
		assert.ok(application.connections >= 2);
		application.stopping = true;
		await ended;
	},
}, ['tls', 'recovery']);
