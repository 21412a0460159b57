<?php
// SPDX-License-Identifier: Apache-2.0
// The cases for php-amqp, the extension on librabbitmq; php_amqp.py runs it.

require __DIR__ . '/matrix.php';

const WAIT_S = 20;

function connect(array $more = []): AMQPConnection
{
	$connection = new AMQPConnection($more + [
		'host' => HOST, 'port' => PORT, 'login' => 'guest', 'password' => 'guest', 'vhost' => '/',
		'connect_timeout' => 10, 'read_timeout' => WAIT_S, 'write_timeout' => WAIT_S, 'rpc_timeout' => WAIT_S,
	]);
	$connection->connect();
	return $connection;
}

/** A channel without a limit; the extension would take three messages at a time. */
function channel_of(AMQPConnection $connection): AMQPChannel
{
	$channel = new AMQPChannel($connection);
	$channel->setPrefetchCount(0);
	return $channel;
}

function channel(): AMQPChannel
{
	return channel_of(connect());
}

function queue(AMQPChannel $channel, ?string $name = null, int $flags = AMQP_EXCLUSIVE): AMQPQueue
{
	$queue = new AMQPQueue($channel);
	if ($name !== null)
		$queue->setName($name);
	$queue->setFlags($flags);
	$queue->declareQueue();
	return $queue;
}

function count_of(AMQPChannel $channel, string $name): int
{
	$queue = new AMQPQueue($channel);
	$queue->setName($name);
	$queue->setFlags(AMQP_PASSIVE);
	return $queue->declareQueue();
}

/** Without a type it is the default exchange. */
function exchange(AMQPChannel $channel, string $name = '', ?string $type = null): AMQPExchange
{
	$exchange = new AMQPExchange($channel);
	$exchange->setName($name);
	if ($type !== null) {
		$exchange->setType($type);
		$exchange->declareExchange();
	}
	return $exchange;
}

/** Consumes count messages; they are not acknowledged, and the consumer is cancelled. */
function take(AMQPQueue $queue, int $count): array
{
	$taken = [];
	$queue->consume(function (AMQPEnvelope $envelope) use (&$taken, $count) {
		$taken[] = $envelope;
		return count($taken) < $count;
	});
	$queue->cancel();
	return $taken;
}

function bodies(array $envelopes): array
{
	return array_map(fn($envelope) => $envelope->getBody(), $envelopes);
}

/** Publishes with confirms on a channel of its own. */
class Confirmed
{
	public AMQPChannel $channel;
	private int $published = 0;
	private array $open = [];

	public function __construct(AMQPConnection $connection)
	{
		$this->channel = channel_of($connection);
		$this->channel->confirmSelect();
		$this->channel->setConfirmCallback(function (int $tag, bool $multiple) {
			foreach ($multiple ? array_keys($this->open) : [$tag] as $known) {
				if ($known <= $tag)
					unset($this->open[$known]);
			}
			return count($this->open) > 0;
		}, function () {
			throw new Exception('a nack');
		});
	}

	/** Publishes all, and waits until all are confirmed. */
	public function publish(AMQPExchange $exchange, string $key, array $bodies): void
	{
		foreach ($bodies as $body) {
			$this->open[++$this->published] = true;
			$exchange->publish($body, $key);
		}
		$this->channel->waitForConfirm(WAIT_S);
		equal([], $this->open);
	}
}

function round_trip(AMQPConnection $connection): void
{
	$channel = channel_of($connection);
	$queue = queue($channel);
	$headers = ['n' => 5, 'list' => ['eins', 'zwei'], 'yes' => true, 'real' => 1.5];
	exchange($channel)->publish('there and back', $queue->getName(), AMQP_NOPARAM,
		['headers' => $headers, 'message_id' => 'm', 'content_type' => 'text/plain', 'priority' => 3, 'timestamp' => 1700000000]);
	[$envelope] = take($queue, 1);
	equal('there and back', $envelope->getBody());
	equal($headers, $envelope->getHeaders());
	equal(['m', 'text/plain', 3], [$envelope->getMessageId(), $envelope->getContentType(), $envelope->getPriority()]);
	$queue->ack($envelope->getDeliveryTag());
	$channel->close();
}

$cases = [];

$cases['connect'] = function () {
	$connection = connect();
	round_trip($connection);
	equal(131072, $connection->getMaxFrameSize());
	$connection->disconnect();
	refused(AMQPConnectionException::class, 403, 'ACCESS_REFUSED', fn() => connect(['password' => 'wrong']));
	refused(AMQPConnectionException::class, 530, 'NOT_ALLOWED - vhost nowhere not found', fn() => connect(['vhost' => 'nowhere']));
};

$cases['connect with TLS'] = function () {
	needs_our_broker();
	// It does not know addresses in certificates.
	$tls = ['host' => 'localhost', 'port' => TLS_PORT, 'cacert' => CA, 'verify' => true];
	$connection = connect($tls);
	round_trip($connection);
	$channel = channel_of($connection);
	$queue = queue($channel);
	exchange($channel)->publish(str_repeat('x', 1000000), $queue->getName());
	equal(1000000, strlen(take($queue, 1)[0]->getBody()));
	$connection->disconnect();
	$other = '/etc/ssl/certs/ca-certificates.crt';
	if (is_file($other))
		refused(AMQPConnectionException::class, null, 'could not connect', fn() => connect(['cacert' => $other] + $tls));
};

$cases['a persistent connection'] = function () {
	$connection = new AMQPConnection(['host' => HOST, 'port' => PORT, 'read_timeout' => WAIT_S]);
	$connection->pconnect();
	equal(true, $connection->isPersistent());
	round_trip($connection);
	$connection->preconnect();
	round_trip($connection);
	$connection->pdisconnect();
};

$cases['declare, bind, delete'] = function () {
	$channel = channel();
	$queue = queue($channel);
	equal('amq.gen-', substr($queue->getName(), 0, 8));
	foreach (['direct', 'fanout', 'topic', 'headers'] as $type) {
		$exchange = exchange($channel, "ext.$type", $type);
		$queue->bind("ext.$type", $type == 'topic' ? 'a.#' : 'a.b', $type == 'headers' ? ['x-match' => 'all', 'k' => 1] : []);
		$exchange->publish($type, 'a.b', AMQP_NOPARAM, ['headers' => ['k' => 1]]);
	}
	$source = exchange($channel, 'ext.source', 'topic');
	exchange($channel, 'ext.fanout')->bind('ext.source', 'x.*');
	$source->publish('through', 'x.y');
	equal(['direct', 'fanout', 'topic', 'headers', 'through'], bodies(take($queue, 5)));
	$queue->unbind('ext.direct', 'a.b');
	exchange($channel, 'ext.direct')->publish('no more', 'a.b');
	equal(0, count_of($channel, $queue->getName()));
	exchange($channel, 'ext.fanout')->unbind('ext.source', 'x.*');
	foreach (['direct', 'fanout', 'topic', 'headers', 'source'] as $name)
		exchange($channel, "ext.$name")->delete();
	$other = new AMQPQueue($channel);
	$other->setName('ext.arguments');
	$other->setFlags(AMQP_EXCLUSIVE);
	$other->setArguments(['x-message-ttl' => 60000, 'x-max-length' => 10, 'own' => ['a' => true, 'b' => 1.5]]);
	equal(0, $other->declareQueue());
	equal(0, $other->declareQueue());
	$other->purge();
	equal(0, $other->delete());
};

$cases['publish with confirms'] = function () {
	$confirmed = new Confirmed(connect());
	$channel = $confirmed->channel;
	$queue = queue($channel);
	$exchange = exchange($channel);
	$confirmed->publish($exchange, $queue->getName(), array_map('strval', range(0, 999)));
	equal(1000, count_of($channel, $queue->getName()));
	$queue->purge();
	$sizes = [1, 131064, 131065, 1000000];
	$confirmed->publish($exchange, $queue->getName(), array_map(fn($size) => str_repeat('x', $size), $sizes));
	equal($sizes, array_map('strlen', bodies(take($queue, 4))));
	// An empty body is false.
	$confirmed->publish($exchange, $queue->getName(), ['']);
	equal([false], bodies(take($queue, 1)));
};

$cases['consume with prefetch'] = function () {
	$connection = connect();
	$confirmed = new Confirmed($connection);
	$channel = channel_of($connection);
	$queue = queue($channel);
	$confirmed->publish(exchange($confirmed->channel), $queue->getName(), array_map('strval', range(0, 9)));
	$channel->setPrefetchCount(3);
	equal(3, $channel->getPrefetchCount());
	// Of the ten, two are done at a time: more than three are never away.
	$seen = [];
	$queue->consume(function (AMQPEnvelope $envelope) use (&$seen, $queue, $confirmed) {
		$seen[] = $envelope->getBody();
		if (count($seen) % 3 == 0) {
			equal(10 - count($seen), count_of($confirmed->channel, $queue->getName()));
			$queue->ack($envelope->getDeliveryTag(), AMQP_MULTIPLE);
		}
		return count($seen) < 9;
	});
	equal(array_map('strval', range(0, 8)), $seen);
	$queue->cancel();
	// The limit of all consumers of the channel together.
	$channel->setGlobalPrefetchCount(5);
	equal(5, $channel->getGlobalPrefetchCount());
};

$cases['reject and requeue'] = function () {
	$channel = channel();
	$queue = queue($channel);
	foreach (['a', 'b', 'c'] as $body)
		exchange($channel)->publish($body, $queue->getName());
	[$a, $b, $c] = take($queue, 3);
	equal([false, false, false], [$a->isRedelivery(), $b->isRedelivery(), $c->isRedelivery()]);
	$queue->reject($b->getDeliveryTag(), AMQP_REQUEUE);
	$queue->nack($a->getDeliveryTag(), AMQP_REQUEUE);
	$queue->reject($c->getDeliveryTag());
	$again = take($queue, 2);
	equal(['a', 'b'], bodies($again));
	equal([true, true], [$again[0]->isRedelivery(), $again[1]->isRedelivery()]);
	$channel->basicRecover();
	$got = $queue->get();
	equal(['a', true], [$got->getBody(), $got->isRedelivery()]);
	$queue->ack($got->getDeliveryTag());
	equal('b', $queue->get(AMQP_AUTOACK)->getBody());
	equal(true, !$queue->get());
};

$cases['a mandatory message comes back before its confirm'] = function () {
	$channel = channel();
	$events = [];
	$channel->confirmSelect();
	$channel->setReturnCallback(function ($code, $text, $exchange, $key, $properties, $body) use (&$events) {
		$events[] = [$code, $text, $exchange, $key, $properties->getMessageId(), $body];
	});
	$channel->setConfirmCallback(function ($tag) use (&$events) {
		$events[] = $tag;
		return false;
	});
	exchange($channel, 'amq.direct')->publish('lost', 'ext.nowhere', AMQP_MANDATORY, ['message_id' => 'm']);
	$channel->waitForConfirm(WAIT_S);
	equal([[312, 'NO_ROUTE', 'amq.direct', 'ext.nowhere', 'm', 'lost'], 1], $events);
	// Without confirms it is waited for.
	$other = channel_of($channel->getConnection());
	$other->setReturnCallback(function ($code) use (&$events) {
		$events = $code;
		return false;
	});
	exchange($other)->publish('lost', 'ext.nowhere', AMQP_MANDATORY);
	$other->waitForBasicReturn(WAIT_S);
	equal(312, $events);
};

$cases['transactions'] = function () {
	$connection = connect();
	$channel = channel_of($connection);
	$other = channel_of($connection);
	$queue = queue($other);
	$name = $queue->getName();
	$channel->startTransaction();
	exchange($channel)->publish('kept', $name);
	equal(0, count_of($channel, $name));
	$channel->commitTransaction();
	equal(1, count_of($channel, $name));
	exchange($channel)->publish('dropped', $name);
	$channel->rollbackTransaction();
	equal(1, count_of($channel, $name));
	$of_tx = new AMQPQueue($channel);
	$of_tx->setName($name);
	$of_tx->ack($of_tx->get()->getDeliveryTag());
	$channel->rollbackTransaction();
	$channel->close();
	equal('kept', $queue->get(AMQP_AUTOACK)->getBody());
	refused(AMQPChannelException::class, 406, 'channel is not transactional', fn() => $other->commitTransaction());
};

$cases['channel errors'] = function () {
	$connection = connect();
	$own = queue(channel_of($connection), 'ext.exclusive');
	$errors = [
		[AMQPQueueException::class, 404, "NOT_FOUND - no queue 'ext.none' in vhost '/'", fn($bad) => count_of($bad, 'ext.none')],
		[AMQPQueueException::class, 406, "PRECONDITION_FAILED - inequivalent arg 'auto_delete' for queue 'ext.exclusive'",
			fn($bad) => queue($bad, 'ext.exclusive', AMQP_EXCLUSIVE | AMQP_AUTODELETE)],
		[AMQPExchangeException::class, 403, "ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'",
			fn($bad) => exchange($bad, 'amq.mine', 'direct')],
		// Errors that answer nothing are met by the next call.
		[AMQPQueueException::class, 404, "NOT_FOUND - no exchange 'ext.none' in vhost '/'", function ($bad) {
			exchange($bad, 'ext.none')->publish('lost', 'k');
			count_of($bad, 'ext.exclusive');
		}],
	];
	foreach ($errors as [$class, $code, $text, $mistake]) {
		$bad = channel_of($connection);
		refused($class, $code, $text, fn() => $mistake($bad));
		equal(false, $bad->isConnected());
		refused(AMQPException::class, null, '', fn() => $bad->qos(0, 1));
	}
	refused(AMQPQueueException::class, 405, "cannot obtain exclusive access to locked queue 'ext.exclusive'",
		fn() => count_of(channel(), 'ext.exclusive'));
	equal(true, $connection->isConnected());
	round_trip($connection);
	equal(0, $own->delete());
};

/**
 * An application that publishes and consumes, and makes everything anew when a connection is lost. It has two:
 * whoever waits for a confirm on one where something is delivered meanwhile gets an error of the library.
 */
class Worker
{
	public array $got = [];
	private Confirmed $confirmed;
	private AMQPQueue $queue;
	private AMQPExchange $exchange;
	private int $number = 0;

	public function connect(): void
	{
		while (true) {
			try {
				$connection = connect();
				break;
			} catch (AMQPConnectionException $e) {
				usleep(200000);
			}
		}
		$this->confirmed = new Confirmed(connect());
		$this->exchange = exchange($this->confirmed->channel, 'ext.load', 'topic');
		$channel = channel_of($connection);
		$channel->setPrefetchCount(20);
		$this->queue = queue($channel, 'ext.load.q', AMQP_NOPARAM);
		$this->queue->bind('ext.load', 'load.#');
	}

	/** Until count messages with that prefix have come; publishes ten more for each ten that came. */
	public function work(string $prefix, int $count): void
	{
		$this->publish($prefix);
		$this->queue->consume(function (AMQPEnvelope $envelope) use ($prefix, $count) {
			$this->queue->ack($envelope->getDeliveryTag());
			$this->got[] = $envelope->getBody();
			if (count($this->got) % 10 == 0)
				$this->publish($prefix);
			return count(preg_grep("/^$prefix/", $this->got)) < $count;
		});
		$this->queue->cancel();
	}

	private function publish(string $prefix): void
	{
		$bodies = array_map(fn($i) => $prefix . $this->number++, range(1, 10));
		$this->confirmed->publish($this->exchange, 'load.key', $bodies);
	}
}

$cases['an application that recovers from a killed broker'] = function () {
	needs_our_broker();
	$worker = new Worker();
	$worker->connect();
	$worker->work('before-', 300);
	kill_broker();
	refused(AMQPException::class, null, '', fn() => $worker->work('before-', PHP_INT_MAX));
	$worker->connect();
	$worker->got = [];
	$worker->work('after-', 300);
};

run_cases($cases);
