<?php
// SPDX-License-Identifier: Apache-2.0
// The cases for Symfony Messenger; symfony_messenger.py runs it.

require __DIR__ . '/matrix.php';
require __DIR__ . '/symfony_app.php';

use Symfony\Component\Messenger\Bridge\Amqp\Transport\AmqpReceivedStamp;
use Symfony\Component\Messenger\Bridge\Amqp\Transport\AmqpStamp;
use Symfony\Component\Messenger\Bridge\Amqp\Transport\AmqpTransport;
use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\Event\WorkerMessageReceivedEvent;
use Symfony\Component\Messenger\EventListener\SendFailedMessageForRetryListener;
use Symfony\Component\Messenger\EventListener\SendFailedMessageToFailureTransportListener;
use Symfony\Component\Messenger\EventListener\StopWorkerOnMessageLimitListener;
use Symfony\Component\Messenger\Exception\MessageDecodingFailedException;
use Symfony\Component\Messenger\Exception\TransportException;
use Symfony\Component\Messenger\Exception\UnrecoverableMessageHandlingException;
use Symfony\Component\Messenger\Handler\Acknowledger;
use Symfony\Component\Messenger\Handler\BatchHandlerInterface;
use Symfony\Component\Messenger\Handler\BatchHandlerTrait;
use Symfony\Component\Messenger\Retry\MultiplierRetryStrategy;
use Symfony\Component\Messenger\Stamp\DelayStamp;
use Symfony\Component\Messenger\Stamp\RedeliveryStamp;
use Symfony\Component\Messenger\Stamp\SentToFailureTransportStamp;
use Symfony\Component\Messenger\Worker;

/** Collects the envelopes that a worker receives, in order. */
class Received
{
	public array $envelopes = [];

	public function __invoke(WorkerMessageReceivedEvent $event): void
	{
		$this->envelopes[] = $event->getEnvelope();
	}

	public function texts(): array
	{
		return array_map(fn($envelope) => $envelope->getMessage()->text, $this->envelopes);
	}

	public function amqp(int $index): AMQPEnvelope
	{
		return $this->envelopes[$index]->last(AmqpReceivedStamp::class)->getAmqpEnvelope();
	}
}

/** Confirms, so that a count taken after a publish includes it: RabbitMQ does not promise it otherwise. */
const CONFIRMED = ['confirm_timeout' => 10];

/** Runs a worker in this process until it has taken that many messages from the transports. */
function work(array $transports, int $count, callable $handler, object ...$subscribers): Received
{
	$received = new Received();
	$dispatcher = dispatcher(new StopWorkerOnMessageLimitListener($count), ...$subscribers);
	$dispatcher->addListener(WorkerMessageReceivedEvent::class, $received);
	$worker = new Worker($transports, bus([], $handler), $dispatcher);
	$worker->run(['sleep' => 10000]);
	return $received;
}

function send(AmqpTransport $transport, string ...$texts): void
{
	$bus = bus(['there' => $transport]);
	foreach ($texts as $text)
		$bus->dispatch(new Work($text));
}

function texts(string $prefix, int $count): array
{
	return array_map(fn($number) => "$prefix $number", range(1, $count));
}

function nothing(): void
{
}

function dispatch_and_consume(): void
{
	$transport = transport('plain', CONFIRMED);
	send($transport, ...texts('work', 200));
	equal(200, $transport->getMessageCount());
	$received = work(['plain' => $transport], 200, 'nothing');
	equal(texts('work', 200), $received->texts());
	equal(2, $received->amqp(0)->getDeliveryMode());
	equal(0, $transport->getMessageCount());
}

function confirms(): void
{
	$transport = transport('confirmed', CONFIRMED);
	send($transport, ...texts('work', 50));
	equal(50, $transport->getMessageCount());
}

function topics_and_properties(): void
{
	$transport = transport('topics', CONFIRMED + [
		'exchange' => ['name' => 'topics', 'type' => 'topic', 'default_publish_routing_key' => 'else'],
		'queues' => [
			'topics.orders' => ['binding_keys' => ['order.#', 'invoice.*']],
			'topics.else' => ['binding_keys' => ['else'], 'flags' => AMQP_NOPARAM],
		],
	]);
	$bus = bus(['there' => $transport]);
	$properties = ['priority' => 5, 'app_id' => 'shop', 'headers' => ['tenant' => 'nine']];
	$bus->dispatch(new Work('order'), [new AmqpStamp('order.new.today', AMQP_NOPARAM, $properties)]);
	$bus->dispatch(new Work('invoice'), [new AmqpStamp('invoice.new', AMQP_NOPARAM, ['delivery_mode' => 1])]);
	$bus->dispatch(new Work('other'));
	equal(3, $transport->getMessageCount());
	$received = work(['topics' => $transport], 3, 'nothing');
	equal(['order', 'invoice', 'other'], sorted_like(['order', 'invoice', 'other'], $received->texts()));
	foreach ($received->envelopes as $index => $envelope) {
		$amqp = $received->amqp($index);
		if ($envelope->getMessage()->text === 'order')
			equal([5, 'shop', 'nine', 'order.new.today'], [$amqp->getPriority(), $amqp->getAppId(),
				$amqp->getHeader('tenant'), $amqp->getRoutingKey()]);
		elseif ($envelope->getMessage()->text === 'invoice')
			equal(1, $amqp->getDeliveryMode());
		else
			equal('else', $amqp->getRoutingKey());
	}
}

/** The same elements as the first, in its order; what else there is comes last. */
function sorted_like(array $model, array $got): array
{
	return array_merge(array_values(array_intersect($model, $got)), array_values(array_diff($got, $model)));
}

/** Only from the queues that a worker is told to take from. */
function chosen_queues(): void
{
	$transport = transport('chosen', CONFIRMED + ['queues' => ['chosen.1' => [], 'chosen.2' => []]]);
	send($transport, 'for both');
	equal(2, $transport->getMessageCount());
	$dispatcher = dispatcher(new StopWorkerOnMessageLimitListener(1));
	$worker = new Worker(['chosen' => $transport], bus([], 'nothing'), $dispatcher);
	$worker->run(['sleep' => 10000, 'queues' => ['chosen.2']]);
	equal('chosen.1', [...$transport->get()][0]->last(AmqpReceivedStamp::class)->getQueueName());
	equal([], [...$transport->getFromQueues(['chosen.2'])]);
}

/** What cannot be handled is rejected; without a failure transport it is gone. */
function rejected(): void
{
	$transport = transport('rejected');
	send($transport, 'good', 'bad', 'good');
	work(['rejected' => $transport], 3, function (Work $work) {
		if ($work->text === 'bad')
			throw new UnrecoverableMessageHandlingException('as told');
	});
	equal(0, $transport->getMessageCount());
	equal([], [...$transport->get()]);
}

function failure_transport(): void
{
	$transport = transport('hopeful');
	$failed = transport('failed', CONFIRMED);
	send($transport, 'good', 'bad');
	$listener = new SendFailedMessageToFailureTransportListener(new Container(['hopeful' => $failed]));
	work(['hopeful' => $transport], 2, function (Work $work) {
		if ($work->text === 'bad')
			throw new RuntimeException('as told');
	}, $listener);
	equal([0, 1], [$transport->getMessageCount(), $failed->getMessageCount()]);
	$received = work(['failed' => $failed], 1, 'nothing');
	$stamp = $received->envelopes[0]->last(SentToFailureTransportStamp::class);
	equal('hopeful', $stamp->getOriginalReceiverName());
	equal(0, $failed->getMessageCount());
}

function undecodable(): void
{
	$transport = transport('garbled');
	$transport->setup();
	$connection = new AMQPConnection(['host' => HOST, 'port' => PORT]);
	$connection->connect();
	$exchange = new AMQPExchange(new AMQPChannel($connection));
	$exchange->setName('garbled');
	$exchange->publish('this is no PHP', '');
	refused(MessageDecodingFailedException::class, null, '',
		fn() => work(['garbled' => $transport], 1, 'nothing'));
	equal(0, $transport->getMessageCount());
}

/** Takes ten before it does anything, and one of each ten is refused. */
class Tens implements BatchHandlerInterface
{
	use BatchHandlerTrait;

	public array $sizes = [];

	public function __invoke(Work $work, ?Acknowledger $ack = null)
	{
		return $this->handle($work, $ack);
	}

	private function shouldFlush(): bool
	{
		return count($this->jobs) >= 10;
	}

	private function process(array $jobs): void
	{
		$this->sizes[] = count($jobs);
		foreach ($jobs as $index => [$work, $ack])
			$index === 5 ? $ack->nack(new UnrecoverableMessageHandlingException('as told')) : $ack->ack();
	}
}

/** Ten messages are unacknowledged at a time, all of them taken with basic.get. */
function batches(): void
{
	$transport = transport('batches');
	send($transport, ...texts('work', 30));
	$handler = new Tens();
	work(['batches' => $transport], 30, $handler);
	equal([10, 10, 10], $handler->sizes);
	equal(0, $transport->getMessageCount());
}

function tls(): void
{
	needs_our_broker();
	$url = sprintf('amqps://guest:guest@%s:%d/%%2f/secret', HOST, TLS_PORT);
	$transport = transport('secret', ['cacert' => CA, 'verify' => false], $url);
	send($transport, ...texts('work', 20));
	equal(texts('work', 20), work(['secret' => $transport], 20, 'nothing')->texts());
}

/** A worker process; its lines are read one by one. */
class Process
{
	private $process;
	private array $pipes = [];

	public function __construct(string $transport)
	{
		$command = [PHP_BINARY, __DIR__ . '/symfony_worker.php', $transport];
		$this->process = proc_open($command, [['pipe', 'r'], ['pipe', 'w'], STDERR], $this->pipes);
		equal('ready', $this->line());
	}

	public function line(): string
	{
		return rtrim(fgets($this->pipes[1]) ?: 'its end');
	}

	/** Ends it with that signal; gives the lines that were not read. */
	public function end(int $signal): array
	{
		proc_terminate($this->process, $signal);
		$rest = explode("\n", rtrim(stream_get_contents($this->pipes[1])));
		proc_close($this->process);
		return $rest;
	}
}

/** Two processes share the work; SIGTERM ends them when they are ready for it, and nothing is lost. */
function worker_processes(): void
{
	$transport = transport('shared', CONFIRMED);
	$workers = [new Process('shared'), new Process('shared')];
	send($transport, ...texts('work', 100));
	while ($transport->getMessageCount() > 0)
		usleep(10000);
	$rest = array_merge(...array_map(fn($worker) => $worker->end(SIGTERM), $workers));
	equal(2, count(array_keys($rest, 'ended')));
	$done = array_values(array_diff($rest, ['ended']));
	equal([], array_diff(texts('work', 100), $done));
	equal(100, count($done));
}

/** What a killed worker had is given to another one, flagged as redelivered. */
function killed_worker(): void
{
	$transport = transport('killed');
	$doomed = new Process('killed');
	send($transport, 'hold');
	equal('hold', $doomed->line());
	$doomed->end(SIGKILL);
	$heir = new Process('killed');
	equal('hold redelivered', $heir->line());
	equal(['ended'], $heir->end(SIGTERM));
	equal(0, $transport->getMessageCount());
}

/** The broker is killed: the transport says so, and one made anew declares everything again. */
function restart(): void
{
	needs_our_broker();
	$transport = transport('restarted');
	send($transport, 'before');
	kill_broker();
	refused(Exception::class, null, '', function () use ($transport) {
		while ($transport->getMessageCount() >= 0)
			usleep(1000);
	});
	$received = null;
	while (!$received) {
		try {
			$again = transport('restarted', CONFIRMED);
			send($again, 'after');
			$received = work(['restarted' => $again], $again->getMessageCount(), 'nothing');
		} catch (AMQPException | TransportException $e) {
			usleep(20000);
		}
	}
	equal(true, in_array('after', $received->texts()));
}

function delayed_dispatch(): void
{
	$transport = transport('delayed', CONFIRMED);
	$bus = bus(['there' => $transport]);
	$bus->dispatch(new Work('later'), [new DelayStamp(300)]);
	$bus->dispatch(new Work('now'));
	equal(1, $transport->getMessageCount());
	equal(['now', 'later'], work(['delayed' => $transport], 2, 'nothing')->texts());
}

/** Fails twice and is sent for a retry each time, through a delay queue of its own. */
function retries(): void
{
	$transport = transport('retried');
	send($transport, 'stubborn');
	$attempts = 0;
	$listener = new SendFailedMessageForRetryListener(
		new Container(['retried' => $transport]),
		new Container(['retried' => new MultiplierRetryStrategy(3, 100, 2)]));
	$received = work(['retried' => $transport], 3, function (Work $work) use (&$attempts) {
		if (++$attempts < 3)
			throw new RuntimeException('as told');
	}, $listener);
	$count_of = fn($envelope) => RedeliveryStamp::getRetryCountFromEnvelope($envelope);
	$counts = array_map($count_of, $received->envelopes);
	equal([0, 1, 2], $counts);
	equal(0, $transport->getMessageCount());
}

run_cases([
	'dispatch_and_consume' => dispatch_and_consume(...),
	'confirms' => confirms(...),
	'topics_and_properties' => topics_and_properties(...),
	'chosen_queues' => chosen_queues(...),
	'rejected' => rejected(...),
	'failure_transport' => failure_transport(...),
	'undecodable' => undecodable(...),
	'batches' => batches(...),
	'tls' => tls(...),
	'worker_processes' => worker_processes(...),
	'killed_worker' => killed_worker(...),
	'delayed_dispatch' => delayed_dispatch(...),
	'retries' => retries(...),
	'restart' => restart(...),
]);
