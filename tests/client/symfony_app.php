<?php
// SPDX-License-Identifier: Apache-2.0
// An application on Symfony Messenger without the framework's container: its messages, its handlers, its
// bus and its transports over AMQP, as symfony_messenger.php and its workers use them.

require '/usr/share/php/Symfony/Component/Messenger/autoload.php';
require '/usr/share/php/Symfony/Component/EventDispatcher/autoload.php';

use Psr\Container\ContainerInterface;
use Symfony\Component\EventDispatcher\EventDispatcher;
use Symfony\Component\Messenger\Bridge\Amqp\Transport\AmqpTransport;
use Symfony\Component\Messenger\Bridge\Amqp\Transport\AmqpTransportFactory;
use Symfony\Component\Messenger\Handler\HandlersLocator;
use Symfony\Component\Messenger\MessageBus;
use Symfony\Component\Messenger\Middleware\FailedMessageProcessingMiddleware;
use Symfony\Component\Messenger\Middleware\HandleMessageMiddleware;
use Symfony\Component\Messenger\Middleware\SendMessageMiddleware;
use Symfony\Component\Messenger\Transport\Sender\SendersLocator;
use Symfony\Component\Messenger\Transport\Serialization\PhpSerializer;

/** What is to be done; the handlers are told how by the text. */
class Work
{
	public function __construct(public string $text)
	{
	}
}

class Container implements ContainerInterface
{
	public function __construct(private array $things)
	{
	}

	public function get(string $id)
	{
		return $this->things[$id];
	}

	public function has(string $id): bool
	{
		return isset($this->things[$id]);
	}
}

/**
 * Options as in framework.messenger.transports; the name is that of the exchange and, without queues among
 * the options, of the queue.
 */
function transport(string $name, array $options = [], ?string $url = null): AmqpTransport
{
	$url ??= sprintf('amqp://guest:guest@%s:%d/%%2f/%s', getenv('MATRIX_HOST'), getenv('MATRIX_PORT'), $name);
	$options += ['read_timeout' => 20, 'write_timeout' => 20, 'connect_timeout' => 10, 'rpc_timeout' => 20];
	return (new AmqpTransportFactory())->createTransport($url, $options, new PhpSerializer());
}

/** A bus that sends Work to these transports, [name => transport], and that has these handlers for it. */
function bus(array $transports, callable ...$handlers): MessageBus
{
	$senders = new SendersLocator([Work::class => array_keys($transports)], new Container($transports));
	return new MessageBus([
		new FailedMessageProcessingMiddleware(),
		new SendMessageMiddleware($senders),
		new HandleMessageMiddleware(new HandlersLocator([Work::class => $handlers])),
	]);
}

function dispatcher(object ...$subscribers): EventDispatcher
{
	$dispatcher = new EventDispatcher();
	foreach ($subscribers as $subscriber)
		$dispatcher->addSubscriber($subscriber);
	return $dispatcher;
}
