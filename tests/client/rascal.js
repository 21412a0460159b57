// SPDX-License-Identifier: Apache-2.0
// The cases for rascal; rascal.py runs it. What rascal makes of a channel's or a connection's end it keeps
// to itself: it opens new ones and goes on, and tells of the error by an event.
'use strict';

const assert = require('assert');

const { BrokerAsPromised } = require('rascal');
const { Arrivals, RETRY_MS, killBroker, next, pause, run } = require('./cases.js');

/** A configuration with one exchange, two queues and what publishes to and consumes from them. */
function configuration(url, socketOptions = {}) {
	const retry = { min: RETRY_MS, max: RETRY_MS, factor: 1, strategy: 'linear' };
	const temporary = { durable: false, autoDelete: true };
	return {
		vhosts: {
			'/': {
				connection: { url, socketOptions, retry },
				exchanges: { 'rascal.x': { type: 'topic', options: temporary } },
				queues: {
					'rascal.q': { options: { durable: false, exclusive: true } },
					'rascal.other': { options: { durable: false, exclusive: true } },
				},
				bindings: { 'rascal.x[a.#] -> rascal.q': {}, 'rascal.x[b.#] -> rascal.other': {} },
			},
		},
		publications: {
			toExchange: { vhost: '/', exchange: 'rascal.x', routingKey: 'a.b' },
			toQueue: { vhost: '/', queue: 'rascal.q' },
			nowhere: { vhost: '/', exchange: 'rascal.x', routingKey: 'c' },
			unconfirmed: { vhost: '/', exchange: 'rascal.x', routingKey: 'a.b', confirm: false },
		},
		// closeTimeout: shutdown would wait for acknowledgements that a case owes.
		subscriptions: { take: { vhost: '/', queue: 'rascal.q', prefetch: 3, retry, closeTimeout: 10 } },
	};
}

/** A case with a broker object of its own. */
function connected(test) {
	return async (url) => {
		const broker = await BrokerAsPromised.create(configuration(url));
		broker.on('error', () => {});
		try {
			await test(broker);
		} finally {
			await broker.shutdown();
		}
	};
}

/** Promises what became of a message: "success" with its id, or "return" before it. */
async function published(publication) {
	let returned = null;
	publication.on('return', (message) => { returned = message; });
	const failed = next(publication, 'error').then((error) => { throw error; });
	const id = await Promise.race([next(publication, 'success'), failed]);
	failed.catch(() => {});
	return { id, returned };
}

/** Promises that a message is confirmed or its channel gone. */
function outcome(publication) {
	return new Promise((resolve) => {
		for (const event of ['success', 'error', 'close'])
			publication.on(event, resolve);
	});
}

/** Subscribes and keeps what comes as { content, message, ackOrNack }. */
async function taken(broker) {
	const came = new Arrivals();
	const subscription = await broker.subscribe('take');
	subscription.on('message', (message, content, ackOrNack) => came.push({ message, content, ackOrNack }));
	subscription.on('error', () => {});
	return { came, subscription };
}

const cases = {
	async login(url) {
		const wrong = configuration(url.replace('guest@', 'wrong@'));
		await assert.rejects(BrokerAsPromised.create(wrong), /ACCESS.REFUSED|403/);
	},

	confirmsAndContent: connected(async (broker) => {
		const { came } = await taken(broker);
		const { id } = await published(await broker.publish('toExchange', { deep: { er: [1, 'x'] } }, 'a.b.c'));
		await published(await broker.publish('toQueue', 'text', { options: { headers: { n: 5 } } }));
		await broker.publish('unconfirmed', Buffer.alloc(300000));
		const [first, second, third] = await came.first(3);
		assert.deepStrictEqual(first.content, { deep: { er: [1, 'x'] } });
		assert.strictEqual(first.message.properties.messageId, id);
		assert.strictEqual(first.message.fields.routingKey, 'a.b.c');
		assert.strictEqual(second.content, 'text');
		assert.strictEqual(second.message.properties.headers.n, 5);
		assert.strictEqual(third.content.length, 300000);
	}),

	mandatoryReturn: connected(async (broker) => {
		const { returned } = await published(await broker.publish('nowhere', 'lost'));
		assert.strictEqual(returned.fields.replyCode, 312);
		assert.strictEqual(returned.fields.routingKey, 'c');
		assert.strictEqual(returned.content.toString(), 'lost');
	}),

	prefetch: connected(async (broker) => {
		for (let i = 0; i < 10; i++)
			await published(await broker.publish('toQueue', String(i)));
		const { came } = await taken(broker);
		const first = await came.first(3);
		// What is published and confirmed after them would be there by now.
		await published(await broker.publish('toQueue', '10'));
		assert.strictEqual(came.all.length, 3);
		first.forEach(({ ackOrNack }) => ackOrNack());
		const contents = (await came.first(6)).map(({ content }) => content);
		assert.deepStrictEqual(contents, ['0', '1', '2', '3', '4', '5']);
	}),

	rejectAndRequeue: connected(async (broker) => {
		const { came } = await taken(broker);
		await broker.publish('toQueue', 'a');
		const [a] = await came.first(1);
		a.ackOrNack(new Error('once more'), { strategy: 'nack', requeue: true });
		const [, again] = await came.first(2);
		assert.ok(again.message.fields.redelivered && again.content === 'a');
		again.ackOrNack(new Error('no more'), { strategy: 'nack' });
		await broker.publish('toQueue', 'b');
		const [, , b] = await came.first(3);
		assert.strictEqual(b.content, 'b');
		// Published again with a header that counts, by rascal itself.
		b.ackOrNack(new Error('later'), { strategy: 'republish', defer: 50 });
		const [, , , republished] = await came.first(4);
		assert.ok(!republished.message.fields.redelivered);
		assert.match(JSON.stringify(republished.message.properties.headers.rascal.recovery), /"republished":1/);
		republished.ackOrNack();
	}),

	channelError: connected(async (broker) => {
		const { came, subscription } = await taken(broker);
		await published(await broker.publish('toQueue', 'a'));
		const [a] = await came.first(1);
		a.ackOrNack();
		const error = next(subscription, 'error');
		// The second ack of the same delivery ends the channel with 406; rascal subscribes anew.
		a.message.fields.deliveryTag = 77;
		a.ackOrNack();
		await published(await broker.publish('toQueue', 'b'));
		await Promise.race([error, pause(1000)]);
		const b = await came.find(({ content }) => content === 'b');
		b.ackOrNack();
	}),

	async declareRefused(url) {
		const wrong = configuration(url);
		wrong.vhosts['/'].exchanges['amq.topic'] = { type: 'direct' };
		await assert.rejects(BrokerAsPromised.create(wrong), /inequivalent arg 'type' for exchange 'amq.topic'/);
	},

	async tls(url, tlsUrl, ca) {
		const broker = await BrokerAsPromised.create(configuration(tlsUrl, { ca, servername: 'localhost' }));
		broker.on('error', () => {});
		await published(await broker.publish('toQueue', Buffer.alloc(300000)));
		const { came } = await taken(broker);
		const [one] = await came.first(1);
		assert.strictEqual(one.content.length, 300000);
		one.ackOrNack();
		await broker.shutdown();
	},

	async recovery(url) {
		const broker = await BrokerAsPromised.create(configuration(url));
		broker.on('error', () => {});
		const consumed = new Arrivals();
		const subscription = await broker.subscribe('take');
		subscription.on('error', () => {});
		subscription.on('message', (message, content, ackOrNack) => {
			consumed.push(Number(content));
			ackOrNack();
		});
		let published = 0;
		let stopping = false;
		const load = async () => {
			while (!stopping) {
				await broker.publish('toExchange', String(++published))
					.then(outcome, () => pause(RETRY_MS));
			}
		};
		const loads = Array.from({ length: 5 }, load);
		await consumed.find((number) => number >= 200);
		const again = next(broker, 'vhost_initialised');
		await killBroker();
		await again;
		const since = published + 1;
		await consumed.find((number) => number >= since);
		stopping = true;
		await Promise.all(loads);
		await broker.shutdown();
	},
};

run(cases, ['tls', 'recovery']);
