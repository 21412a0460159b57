<?php
// SPDX-License-Identifier: Apache-2.0
// A worker process of symfony_messenger.php, what bin/console messenger:consume runs: takes from the
// transport whose name is its argument until SIGTERM, and prints each message it handles, with
// " redelivered" when it is. It stays at a message whose text is "hold" when that comes first.

require __DIR__ . '/symfony_app.php';

use Symfony\Component\Messenger\Bridge\Amqp\Transport\AmqpReceivedStamp;
use Symfony\Component\Messenger\Event\WorkerMessageReceivedEvent;
use Symfony\Component\Messenger\EventListener\DispatchPcntlSignalListener;
use Symfony\Component\Messenger\EventListener\StopWorkerOnSigtermSignalListener;
use Symfony\Component\Messenger\Worker;

$redelivered = false;
$dispatcher = dispatcher(new DispatchPcntlSignalListener(), new StopWorkerOnSigtermSignalListener());
$dispatcher->addListener(WorkerMessageReceivedEvent::class, function ($event) use (&$redelivered) {
	$stamp = $event->getEnvelope()->last(AmqpReceivedStamp::class);
	$redelivered = $stamp->getAmqpEnvelope()->isRedelivery();
});
$bus = bus([], function (Work $work) use (&$redelivered) {
	echo $work->text, $redelivered ? ' redelivered' : '', "\n";
	if ($work->text === 'hold' && !$redelivered)
		fgets(STDIN);
});
$transport = transport($argv[1]);
$transport->setup();
echo "ready\n";
(new Worker([$argv[1] => $transport], $bus, $dispatcher))->run(['sleep' => 10000]);
echo "ended\n";
