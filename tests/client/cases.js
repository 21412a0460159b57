// SPDX-License-Identifier: Apache-2.0
// The frame of a client program for node: foreign.py says what it is called with and what it prints.
'use strict';

const fs = require('fs');
const readline = require('readline');

const LIMIT_MS = 40000;
const RETRY_MS = 200;

/** Promises the next emission of an event, with its first argument. */
function next(emitter, event) {
	return new Promise((resolve) => emitter.once(event, resolve));
}

function pause(milliseconds) {
	return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

/** What comes, kept until it is awaited. */
class Arrivals {
	constructor() {
		this.all = [];
		this.wake = () => {};
	}

	push(one) {
		this.all.push(one);
		this.wake();
	}

	/** Promises the first count of them, which stay. */
	async first(count) {
		while (this.all.length < count)
			await new Promise((resolve) => { this.wake = resolve; });
		return this.all.slice(0, count);
	}

	/** Promises the next that passes, and forgets what came before it. */
	async find(passes) {
		for (;;) {
			const found = this.all.findIndex(passes);
			if (found >= 0) {
				const one = this.all[found];
				this.all.splice(0, found + 1);
				return one;
			}
			await new Promise((resolve) => { this.wake = resolve; });
		}
	}
}

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

/** Has the broker killed and started again, empty. */
async function killBroker() {
	const input = readline.createInterface({ input: process.stdin });
	const answer = next(input, 'line');
	console.log('kill');
	if (await answer !== 'restarted')
		throw new Error('the broker did not come back');
	input.close();
}

/**
 * Runs the cases with the program's last three arguments; the cases named in special need a broker of
 * our own. Each case is called with (url, tlsUrl, certificate of the authority).
 */
async function run(cases, special) {
	const [url, tlsUrl, authority] = process.argv.slice(-3);
	const pem = authority && fs.readFileSync(authority);
	let failed = 0;
	for (const [name, test] of Object.entries(cases)) {
		if (!tlsUrl && special.includes(name)) {
			console.log(`skip ${name}`);
			continue;
		}
		try {
			await withLimit(test(url, tlsUrl, pem));
			console.log(`ok ${name}`);
		} catch (error) {
			failed++;
			console.log(`FAIL ${name}`);
			console.error(name, error.stack);
		}
	}
	console.log('complete');
	process.exit(failed ? 1 : 0);
}

module.exports = { Arrivals, RETRY_MS, killBroker, next, pause, run };
