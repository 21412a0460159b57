<?php
// SPDX-License-Identifier: Apache-2.0
// The cases for php-amqplib, on its stream and its socket connection; php_amqplib.py runs it.

require __DIR__ . '/matrix.php';
require '/usr/share/php/PhpAmqpLib/autoload.php';

use PhpAmqpLib\Channel\AMQPChannel;
use PhpAmqpLib\Connection\AMQPSocketConnection;
use PhpAmqpLib\Connection\AMQPSSLConnection;
use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Exception\AMQPBasicCancelException;
use PhpAmqpLib\Exception\AMQPConnectionClosedException;
use PhpAmqpLib\Exception\AMQPExceptionInterface;
use PhpAmqpLib\Exception\AMQPIOException;
use PhpAmqpLib\Exception\AMQPProtocolChannelException;
use PhpAmqpLib\Exception\AMQPTimeoutException;
use PhpAmqpLib\Message\AMQPMessage;
use PhpAmqpLib\Wire\AMQPTable;

const WAIT_S = 20;

function connect(string $password = 'guest', string $vhost = '/', string $login = 'AMQPLAIN')
{
	return new AMQPStreamConnection(HOST, PORT, 'guest', $password, $vhost, false, $login, null, 'en_US', 10, WAIT_S);
}

function channel(): AMQPChannel
{
	return connect()->channel();
}

function temporary_queue(AMQPChannel $channel): string
{
	return $channel->queue_declare('', false, false, true, false)[0];
}

function count_of(AMQPChannel $channel, string $queue): int
{
	return $channel->queue_declare($queue, true)[1];
}

/** A consumer whose messages are in ->messages; take() waits for them. */
class Taker
{
	public array $messages = [];
	public string $tag;

	public function __construct(private AMQPChannel $channel, string $queue)
	{
		$this->tag = $channel->basic_consume($queue, '', false, false, false, false, function ($message) {
			$this->messages[] = $message;
		});
	}

	public function take(int $count): array
	{
		while (count($this->messages) < $count)
			$this->channel->wait(null, false, WAIT_S);
		return array_splice($this->messages, 0, $count);
	}

	public function cancel(): void
	{
		$this->channel->basic_cancel($this->tag);
	}
}

function bodies(array $messages): array
{
	return array_map(fn($message) => $message->getBody(), $messages);
}

function round_trip($connection): void
{
	$channel = $connection->channel();
	$queue = temporary_queue($channel);
	$headers = ['n' => 5, 'list' => [1, 'zwei', ['drei' => true]], 'none' => null];
	$channel->basic_publish(new AMQPMessage('there and back', [
		'content_type' => 'text/plain', 'message_id' => 'm', 'application_headers' => new AMQPTable($headers),
	]), '', $queue);
	$message = (new Taker($channel, $queue))->take(1)[0];
	equal('there and back', $message->getBody());
	equal('m', $message->get('message_id'));
	equal($headers, $message->get('application_headers')->getNativeData());
	$message->ack();
	$channel->close();
}

function lost_connection(callable $call): void
{
	refused(AMQPConnectionClosedException::class, null, '', $call);
}

$cases = [];

$cases['connect'] = function () {
	foreach (['AMQPLAIN', 'PLAIN'] as $mechanism) {
		$connection = connect('guest', '/', $mechanism);
		equal(true, (bool) $connection->getServerProperties()['capabilities'][1]['publisher_confirms'][1]);
		round_trip($connection);
		$connection->close();
		refused(AMQPConnectionClosedException::class, 403, 'ACCESS_REFUSED', fn() => connect('wrong', '/', $mechanism));
	}
	refused(AMQPConnectionClosedException::class, null, "NOT_ALLOWED - vhost nowhere not found", fn() => connect('guest', 'nowhere'));
};

$cases['connect by its socket connection'] = function () {
	$connection = new AMQPSocketConnection(HOST, PORT, 'guest', 'guest', '/', false, 'AMQPLAIN', null, 'en_US', WAIT_S);
	round_trip($connection);
	$connection->close();
};

$cases['connect with TLS'] = function () {
	needs_our_broker();
	$connection = new AMQPSSLConnection(HOST, TLS_PORT, 'guest', 'guest', '/', ['cafile' => CA, 'verify_peer' => true]);
	round_trip($connection);
	$channel = $connection->channel();
	$queue = temporary_queue($channel);
	$channel->basic_publish(new AMQPMessage(str_repeat('x', 1000000)), '', $queue);
	equal(1000000, strlen((new Taker($channel, $queue))->take(1)[0]->getBody()));
	$connection->close();
	refused(AMQPIOException::class, null, 'Unable to connect', fn() =>
		new AMQPSSLConnection(HOST, TLS_PORT, 'guest', 'guest', '/', ['verify_peer' => true]));
};

$cases['declare, bind, delete'] = function () {
	$channel = channel();
	$queue = temporary_queue($channel);
	equal('amq.gen-', substr($queue, 0, 8));
	foreach (['direct', 'fanout', 'topic', 'headers'] as $type) {
		$channel->exchange_declare("php.$type", $type, false, false, false);
		$arguments = $type == 'headers' ? new AMQPTable(['x-match' => 'all', 'k' => 1]) : [];
		$channel->queue_bind($queue, "php.$type", $type == 'topic' ? 'a.#' : 'a.b', false, $arguments);
		$headers = ['application_headers' => new AMQPTable(['k' => 1])];
		$channel->basic_publish(new AMQPMessage($type, $headers), "php.$type", 'a.b');
	}
	$channel->exchange_declare('php.source', 'topic', false, false, false);
	$channel->exchange_bind('php.fanout', 'php.source', 'x.*');
	$channel->basic_publish(new AMQPMessage('through'), 'php.source', 'x.y');
	$taker = new Taker($channel, $queue);
	equal(['direct', 'fanout', 'topic', 'headers', 'through'], bodies($taker->take(5)));
	$taker->cancel();
	$channel->queue_unbind($queue, 'php.direct', 'a.b');
	$channel->basic_publish(new AMQPMessage('no more'), 'php.direct', 'a.b');
	equal([$queue, 0, 0], $channel->queue_declare($queue, true));
	$channel->exchange_unbind('php.fanout', 'php.source', 'x.*');
	foreach (['direct', 'fanout', 'topic', 'headers', 'source'] as $name)
		$channel->exchange_delete("php.$name");
	// Arguments of each type.
	$arguments = new AMQPTable(['x-message-ttl' => 60000, 'x-max-length' => 10, 'x-overflow' => 'reject-publish', 'own' => [1, null, true]]);
	$channel->queue_declare('php.arguments', false, false, true, false, false, $arguments);
	$channel->queue_declare('php.arguments', false, false, true, false, false, $arguments);
	$channel->basic_publish(new AMQPMessage('x'), '', 'php.arguments');
	equal(1, $channel->queue_purge('php.arguments'));
	equal(0, $channel->queue_delete('php.arguments'));
	$channel->getConnection()->close();
};

$cases['publish with confirms'] = function () {
	$channel = channel();
	$queue = temporary_queue($channel);
	$confirmed = [];
	$channel->set_ack_handler(function (AMQPMessage $message) use (&$confirmed) {
		$confirmed[] = (int) $message->getBody();
	});
	$channel->confirm_select();
	for ($i = 0; $i < 1000; $i++)
		$channel->basic_publish(new AMQPMessage("$i"), '', $queue);
	$channel->wait_for_pending_acks(WAIT_S);
	sort($confirmed);
	equal(range(0, 999), $confirmed);
	equal(1000, $channel->queue_purge($queue));
	$sizes = [0, 1, 131064, 131065, 1000000];
	foreach ($sizes as $size)
		$channel->batch_basic_publish(new AMQPMessage(str_repeat('x', $size)), '', $queue);
	$channel->publish_batch();
	$channel->wait_for_pending_acks(WAIT_S);
	equal($sizes, array_map('strlen', bodies((new Taker($channel, $queue))->take(5))));
	$channel->getConnection()->close();
};

$cases['consume with prefetch'] = function () {
	$channel = channel();
	$queue = temporary_queue($channel);
	$channel->confirm_select();
	for ($i = 0; $i < 10; $i++)
		$channel->basic_publish(new AMQPMessage("$i"), '', $queue);
	$channel->wait_for_pending_acks(WAIT_S);
	$channel->basic_qos(0, 3, false);
	$taker = new Taker($channel, $queue);
	$first = $taker->take(3);
	equal(7, count_of($channel, $queue));
	equal([], $taker->messages);
	$first[1]->ack(true);
	$second = $taker->take(2);
	$first[2]->nack();
	$second[1]->ack(true);
	$third = $taker->take(3);
	equal(['0', '1', '2', '3', '4', '5', '6', '7'], bodies([...$first, ...$second, ...$third]));
	equal(2, count_of($channel, $queue));
	$channel->getConnection()->close();
};

$cases['reject and requeue'] = function () {
	$channel = channel();
	$queue = temporary_queue($channel);
	foreach (['a', 'b', 'c'] as $body)
		$channel->basic_publish(new AMQPMessage($body), '', $queue);
	$taker = new Taker($channel, $queue);
	[$a, $b, $c] = $taker->take(3);
	$taker->cancel();
	equal([false, false, false], [$a->isRedelivered(), $b->isRedelivered(), $c->isRedelivered()]);
	$b->reject(true);
	$a->nack(true);
	$c->reject(false);
	$taker = new Taker($channel, $queue);
	$again = $taker->take(2);
	equal(['a', 'b'], bodies($again));
	equal([true, true], [$again[0]->isRedelivered(), $again[1]->isRedelivered()]);
	$taker->cancel();
	$channel->basic_recover(true);
	$got = $channel->basic_get($queue);
	equal(['a', true, 1], [$got->getBody(), $got->isRedelivered(), (int) $got->getMessageCount()]);
	$got->ack();
	equal('b', $channel->basic_get($queue, true)->getBody());
	equal(null, $channel->basic_get($queue));
	$channel->getConnection()->close();
};

$cases['a mandatory message comes back before its confirm'] = function () {
	$channel = channel();
	$events = [];
	$channel->set_return_listener(function ($code, $text, $exchange, $key, $message) use (&$events) {
		$events[] = [$code, $text, $exchange, $key, $message->getBody()];
	});
	$channel->set_ack_handler(function ($message) use (&$events) {
		$events[] = 'ack';
	});
	$channel->confirm_select();
	$channel->basic_publish(new AMQPMessage('lost'), 'amq.direct', 'php.nowhere', true);
	$channel->wait_for_pending_acks_returns(WAIT_S);
	equal([[312, 'NO_ROUTE', 'amq.direct', 'php.nowhere', 'lost'], 'ack'], $events);
	$channel->getConnection()->close();
};

$cases['transactions'] = function () {
	$connection = connect();
	$channel = $connection->channel();
	$other = $connection->channel();
	$queue = temporary_queue($other);
	$channel->tx_select();
	$channel->basic_publish(new AMQPMessage('kept'), '', $queue);
	equal(0, count_of($channel, $queue));
	$channel->tx_commit();
	equal(1, count_of($channel, $queue));
	$channel->basic_publish(new AMQPMessage('dropped'), '', $queue);
	$channel->tx_rollback();
	equal(1, count_of($channel, $queue));
	// An ack that is rolled back is not done.
	$channel->basic_get($queue)->ack();
	$channel->tx_rollback();
	$channel->close();
	equal('kept', $other->basic_get($queue, true)->getBody());
	refused(AMQPProtocolChannelException::class, 406, 'channel is not transactional', fn() => $other->tx_commit());
	$connection->close();
};

$cases['channel errors'] = function () {
	$connection = connect();
	$channel = $connection->channel();
	$queue = 'php.exclusive';
	$channel->queue_declare($queue, false, false, true, false);
	$errors = [
		[404, "NOT_FOUND - no queue 'php.none' in vhost '/'", fn($bad) => $bad->queue_declare('php.none', true)],
		[406, "PRECONDITION_FAILED - inequivalent arg 'auto_delete' for queue '$queue'",
			fn($bad) => $bad->queue_declare($queue, false, false, true, true)],
		[403, "ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'",
			fn($bad) => $bad->exchange_declare('amq.mine', 'direct')],
		[404, "NOT_FOUND - no exchange 'php.none' in vhost '/'", function ($bad) {
			$bad->basic_publish(new AMQPMessage('lost'), 'php.none', 'k');
			$bad->wait(null, false, WAIT_S);
		}],
		[406, 'PRECONDITION_FAILED - unknown delivery tag 77', function ($bad) {
			$bad->basic_ack(77);
			$bad->wait(null, false, WAIT_S);
		}],
	];
	foreach ($errors as [$code, $text, $mistake]) {
		$bad = $connection->channel();
		refused(AMQPProtocolChannelException::class, $code, $text, fn() => $mistake($bad));
		equal(false, $bad->is_open());
	}
	$stranger = connect();
	$channel_of_stranger = $stranger->channel();
	refused(AMQPProtocolChannelException::class, 405, "cannot obtain exclusive access to locked queue '$queue'",
		fn() => $channel_of_stranger->queue_declare($queue, true));
	$stranger->close();
	// The connection and its other channels live on.
	equal(0, count_of($channel, $queue));
	round_trip($connection);
	$connection->close();
};

$cases['connection errors'] = function () {
	$connection = connect();
	$channel = $connection->channel();
	refused(AMQPConnectionClosedException::class, 540, 'NOT_IMPLEMENTED', fn() => $channel->basic_qos(10, 0, false));
	equal(false, $connection->isConnected());
};

$cases['the server cancels a consumer'] = function () {
	$connection = connect();
	$channel = $connection->channel();
	$queue = temporary_queue($channel);
	new Taker($channel, $queue);
	$connection->channel()->queue_delete($queue);
	refused(AMQPBasicCancelException::class, null, '', fn() => $channel->wait(null, false, WAIT_S));
	$connection->close();
};

$cases['heartbeats'] = function () {
	$connection = new AMQPStreamConnection(HOST, PORT, 'guest', 'guest', '/', false, 'AMQPLAIN', null, 'en_US', 10, 10, null, false, 1);
	equal(1, $connection->getHeartbeat());
	$channel = $connection->channel();
	$queue = temporary_queue($channel);
	$taker = new Taker($channel, $queue);
	// It beats by itself while it waits, and gives up when the server is silent for two seconds.
	for ($end = microtime(true) + 4; microtime(true) < $end;) {
		try {
			$channel->wait(null, false, 0.5);
		} catch (AMQPTimeoutException $e) {
			$connection->checkHeartBeat();
		}
	}
	equal(0, count_of($channel, $queue));
	$connection->close();
};

/** An application that publishes and consumes, and makes everything anew when its connection is lost. */
class Worker
{
	public AMQPStreamConnection $connection;
	private AMQPChannel $channel;
	private array $got = [];
	private int $number = 0;

	public function connect(): void
	{
		while (true) {
			try {
				$this->connection = connect();
				break;
			} catch (AMQPExceptionInterface $e) {
				usleep(200000);
			}
		}
		$this->channel = $this->connection->channel();
		$this->channel->exchange_declare('php.load', 'topic', false, false, false);
		$this->channel->queue_declare('php.load.q', false, false, false, false);
		$this->channel->queue_bind('php.load.q', 'php.load', 'load.#');
		$this->channel->basic_qos(0, 20, false);
		$this->channel->confirm_select();
		$this->channel->basic_consume('php.load.q', 'worker', false, false, false, false, function ($message) {
			$this->got[] = $message->getBody();
			$message->ack();
		});
	}

	/** Until count messages with that prefix have come; publishes ten, and waits for these. */
	public function work(string $prefix, int $count): void
	{
		for ($done = 0; $done < $count; $done += 10) {
			for ($i = 0; $i < 10; $i++)
				$this->channel->basic_publish(new AMQPMessage($prefix . $this->number++), 'php.load', 'load.key');
			// What is delivered meanwhile waits for the next wait().
			$this->channel->wait_for_pending_acks(WAIT_S);
			while (!in_array($prefix . ($this->number - 1), $this->got))
				$this->channel->wait(null, false, WAIT_S);
			$this->got = array_slice($this->got, -20);
		}
	}
}

$cases['an application that recovers from a killed broker'] = function () {
	needs_our_broker();
	$worker = new Worker();
	$worker->connect();
	$worker->work('before-', 300);
	kill_broker();
	refused(AMQPExceptionInterface::class, null, '', fn() => $worker->work('before-', PHP_INT_MAX));
	equal(false, $worker->connection->isConnected());
	$worker->connect();
	$worker->work('after-', 300);
	$worker->connection->close();
};

run_cases($cases);
