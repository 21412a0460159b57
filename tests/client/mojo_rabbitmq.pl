#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# The cases for Mojo::RabbitMQ::Client; mojo_rabbitmq.py runs it. The library has no confirms and no nack, and
# after an ack or a reject it takes the next answer on that channel for an answer to that: whoever settles
# needs a channel for it. An empty body, and '0' is one, it sends as a frame that must not be.
use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use Mojo::IOLoop;
use Mojo::Promise;
use Mojo::RabbitMQ::Client;
use Mojo::Util 'url_escape';
use Matrix;

use constant WAIT_S => 15;

# What the promise is resolved with; dies with what it is rejected with.
sub result {
	my ($promise) = @_;
	my (@result, $error);
	Mojo::Promise->race($promise, Mojo::Promise->timeout(WAIT_S, 'nothing came'))
		->then(sub { @result = @_ }, sub { $error = join ' ', grep { defined && !ref } @_, '' })->wait;
	die "$error\n" if defined $error;
	return wantarray ? @result : $result[0];
}

# The answer to a method of a channel.
sub answer {
	my ($method) = @_;
	my $promise = Mojo::Promise->new;
	$method->on(success => sub { $promise->resolve($_[1]) });
	$method->on(error => sub { $promise->reject("$_[1]") });
	$method->deliver or die "the channel is closed\n";
	my $frame = result($promise);
	return $frame->method_frame;
}

# Acks, rejects and what has no answer.
sub settle {
	my ($method) = @_;
	$method->catch(sub { });
	$method->deliver or die "the channel is closed\n";
}

sub fails_with {
	my ($text, $call) = @_;
	die "it succeeded\n" if eval { $call->(); 1 };
	like($text, $@);
}

sub url {
	my (%more) = @_;
	my $host = $more{tls} ? 'amqps://guest:' : 'amqp://guest:';
	$host .= ($more{password} // 'guest') . '@' . ($more{tls} ? 'localhost:' . TLS_PORT : HOST . ':' . PORT);
	return "$host/" . ($more{vhost} // '') . '?' . join '&', @{ $more{query} || [] };
}

# A refusal may come as the connection's end only.
sub connection {
	my $client = Mojo::RabbitMQ::Client->new(url => url(@_));
	my $lost = Mojo::Promise->new;
	$client->catch(sub { $lost->reject("$_[1]") });
	$client->on(disconnect => sub { $lost->reject($_[1] // 'disconnected') });
	result(Mojo::Promise->race($client->connect_p, $lost));
	$lost->catch(sub { });
	return $client;
}

sub channel {
	my ($client) = @_;
	my $channel = Mojo::RabbitMQ::Client::Channel->new;
	my $open = Mojo::Promise->new;
	$channel->on(open => sub { $open->resolve });
	$channel->catch(sub { $open->reject("$_[1]") });
	$client->open_channel($channel);
	result($open);
	return $channel;
}

sub queue {
	my ($channel, %more) = @_;
	return answer($channel->declare_queue(exclusive => 1, %more))->queue;
}

sub count_of {
	my ($channel, $queue) = @_;
	return answer($channel->declare_queue(queue => $queue, passive => 1))->message_count;
}

sub body {
	my ($delivery) = @_;
	return $delivery->{body}->payload;
}

sub tag {
	my ($delivery) = @_;
	return $delivery->{deliver}->method_frame->delivery_tag;
}

# A consumer: its deliveries are taken with take().
package Taker {
	sub new {
		my ($class, $channel, $queue) = @_;
		my $self = bless { channel => $channel, seen => [], wanted => 0 }, $class;
		my $consume = $channel->consume(queue => $queue, no_ack => 0);
		my ($seen, $weak) = ($self->{seen}, $self);
		Scalar::Util::weaken($weak);
		$consume->on(message => sub {
			push @$seen, $_[1];
			$weak->{done}->resolve if $weak && $weak->{done} && @$seen >= $weak->{wanted};
		});
		$self->{tag} = main::answer($consume)->consumer_tag;
		return $self;
	}

	sub take {
		my ($self, $count) = @_;
		if (@{ $self->{seen} } < $count) {
			@$self{qw(wanted done)} = ($count, Mojo::Promise->new);
			main::result($self->{done});
			delete $self->{done};
		}
		return splice @{ $self->{seen} }, 0, $count;
	}

	sub cancel {
		my ($self) = @_;
		main::answer($self->{channel}->cancel(consumer_tag => $self->{tag}));
	}
}

# Without confirms, what was published is there when the queue says so.
sub publish_all {
	my ($channel, $queue, @bodies) = @_;
	my $before = count_of($channel, $queue);
	result($channel->publish_p(exchange => '', routing_key => $queue, body => $_)) for @bodies;
	for (1 .. 500) {
		return if count_of($channel, $queue) == $before + @bodies;
		result(Mojo::Promise->timer(0.01));
	}
	die "not all were published\n";
}

sub round_trip {
	my ($client, $size) = @_;
	my ($asking, $taking) = (channel($client), channel($client));
	my $queue = queue($asking);
	my $body = 'x' x ($size // 14);
	$asking->publish(exchange => '', routing_key => $queue, body => $body,
		header => { headers => { n => 5, text => 'zwei' }, message_id => 'm', content_type => 'text/plain' })->deliver;
	my ($delivery) = Taker->new($taking, $queue)->take(1);
	die "another body\n" if body($delivery) ne $body;
	equal(['m', 'text/plain', 'guest', 5, 'zwei'], [
		map({ $delivery->{header}->$_ } qw(message_id content_type user_id)), @{ $delivery->{header}->headers }{qw(n text)},
	]);
	settle($taking->ack(delivery_tag => tag($delivery)));
	equal(0, answer($asking->delete_queue(queue => $queue))->message_count);
}

run_cases(
	'connect' => sub {
		my $client = connection();
		round_trip($client);
		round_trip($client, 131_064);
		my $closed = Mojo::Promise->new;
		$client->on(close => sub { $closed->resolve });
		$client->close;
		result($closed);
		fails_with('disconnected', sub { connection(password => 'wrong') });
		fails_with('NOT_ALLOWED - vhost nowhere not found', sub { connection(vhost => 'nowhere') });
	},

	'connect with TLS' => sub {
		needs_our_broker();
		my $client = connection(tls => 1, query => ['ca=' . url_escape(CA)]);
		round_trip($client);
		round_trip($client, 131_064);
		fails_with('certificate verify failed', sub { connection(tls => 1) });
	},

	'publisher and consumer by address' => sub {
		my $client = connection();
		my $channel = channel($client);
		answer($channel->declare_queue(queue => 'mojo.by_address'));
		my $publisher = Mojo::RabbitMQ::Client->publisher(url => url(query => ['exchange=amq.direct', 'routing_key=mojo.key']));
		answer($channel->bind_queue(queue => 'mojo.by_address', exchange => 'amq.direct', routing_key => 'mojo.key'));
		result($publisher->publish_p({ some => 'json' }, { message_id => 'm' }, routing_key => 'mojo.key', exchange => 'amq.direct'));
		my $consumer = Mojo::RabbitMQ::Client->consumer(
			url => url(query => ['queue=mojo.by_address']),
			defaults => { qos => { prefetch_count => 1 }, queue => {}, consumer => { no_ack => 0 } });
		my $message = Mojo::Promise->new;
		$consumer->on(message => sub { $message->resolve($_[1]) });
		result($consumer->consume_p);
		equal('{"some":"json"}', body(scalar result($message)));
		answer($channel->delete_queue(queue => 'mojo.by_address'));
	},

	'declare, bind, delete' => sub {
		my $client = connection();
		my $channel = channel($client);
		my $queue = queue($channel);
		like('amq.gen-', $queue);
		for my $type (qw(direct fanout topic)) {
			answer($channel->declare_exchange(exchange => "mojo.$type", type => $type));
			answer($channel->bind_queue(exchange => "mojo.$type", queue => $queue, routing_key => $type eq 'topic' ? 'a.#' : 'a.b'));
			$channel->publish(exchange => "mojo.$type", routing_key => 'a.b', body => $type)->deliver;
		}
		my $taker = Taker->new($channel, $queue);
		equal([qw(direct fanout topic)], [map { body($_) } $taker->take(3)]);
		$taker->cancel;
		answer($channel->unbind_queue(exchange => 'mojo.direct', queue => $queue, routing_key => 'a.b'));
		$channel->publish(exchange => 'mojo.direct', routing_key => 'a.b', body => 'no more')->deliver;
		equal(0, count_of($channel, $queue));
		answer($channel->delete_exchange(exchange => "mojo.$_")) for qw(direct fanout topic);
		publish_all($channel, $queue, 1 .. 3);
		equal(3, answer($channel->purge_queue(queue => $queue))->message_count);
		equal(0, answer($channel->delete_queue(queue => $queue))->message_count);
	},

	'publish and get' => sub {
		my $client = connection();
		my $channel = channel($client);
		my $queue = queue($channel);
		publish_all($channel, $queue, 1 .. 200);
		for my $number (1 .. 3) {
			my (undef, $ok, $message) = result($channel->get_p(queue => $queue));
			equal([$number, 200 - $number], [body($message), $ok->method_frame->message_count]);
		}
	},

	'consume with prefetch' => sub {
		my $client = connection();
		my ($channel, $asking) = (channel($client), channel($client));
		my $queue = queue($asking);
		publish_all($asking, $queue, 1 .. 10);
		answer($channel->qos(prefetch_count => 3));
		my $taker = Taker->new($channel, $queue);
		my @first = $taker->take(3);
		equal(7, count_of($asking, $queue));
		equal([], $taker->{seen});
		settle($channel->ack(delivery_tag => tag($first[1]), multiple => 1));
		my @second = $taker->take(2);
		# Tag 0 means all.
		settle($channel->ack(delivery_tag => 0));
		my @third = $taker->take(3);
		equal([1 .. 8], [map { body($_) } @first, @second, @third]);
		equal(2, count_of($asking, $queue));
	},

	'reject and requeue' => sub {
		my $client = connection();
		my ($channel, $asking) = (channel($client), channel($client));
		my $queue = queue($asking);
		publish_all($asking, $queue, qw(a b c));
		answer($channel->qos(prefetch_count => 3));
		my $taker = Taker->new($channel, $queue);
		my @first = $taker->take(3);
		settle($channel->reject(delivery_tag => tag($first[2])));
		settle($channel->reject(delivery_tag => tag($first[1]), requeue => 1));
		my ($b) = $taker->take(1);
		equal(['b', 1], [body($b), $b->{deliver}->method_frame->redelivered]);
		settle($channel->recover(requeue => 1));
		my @again = $taker->take(2);
		equal([qw(a b)], [map { body($_) } @again]);
		settle($channel->ack(delivery_tag => 0));
		equal(0, answer($asking->delete_queue(queue => $queue))->message_count);
	},

	'a mandatory message comes back' => sub {
		my $client = connection();
		my $channel = channel($client);
		my $publish = $channel->publish(exchange => 'amq.direct', routing_key => 'mojo.nowhere', body => 'lost', mandatory => 1);
		my $returned = Mojo::Promise->new;
		$publish->on(reject => sub { $returned->resolve($_[1]) });
		$publish->deliver;
		my $message = result($returned);
		my $method = $message->{return}->method_frame;
		equal([312, 'NO_ROUTE', 'lost'], [$method->reply_code, $method->reply_text, body($message)]);
	},

	'transactions' => sub {
		my $client = connection();
		my ($channel, $asking) = (channel($client), channel($client));
		my $queue = queue($asking);
		answer($channel->select_tx);
		$channel->publish(exchange => '', routing_key => $queue, body => 'kept')->deliver;
		equal(0, count_of($channel, $queue));
		answer($channel->commit_tx);
		equal(1, count_of($channel, $queue));
		$channel->publish(exchange => '', routing_key => $queue, body => 'dropped')->deliver;
		answer($channel->rollback_tx);
		equal(1, count_of($channel, $queue));
	},

	'channel errors' => sub {
		my ($client, $stranger) = (connection(), connection());
		my $queue = queue(channel($client), queue => 'mojo.exclusive');
		my @errors = (
			[$client, 404, "NOT_FOUND - no queue 'mojo.none' in vhost '/'", sub { $_[0]->declare_queue(queue => 'mojo.none', passive => 1) }],
			[$client, 406, "PRECONDITION_FAILED - inequivalent arg 'auto_delete' for queue 'mojo.exclusive'",
				sub { $_[0]->declare_queue(queue => $queue, exclusive => 1, auto_delete => 1) }],
			[$client, 403, "ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'",
				sub { $_[0]->declare_exchange(exchange => 'amq.mine') }],
			[$stranger, 405, "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'mojo.exclusive'",
				sub { $_[0]->declare_queue(queue => $queue, passive => 1) }],
			[$client, 404, "NOT_FOUND - no exchange 'mojo.none' in vhost '/'",
				sub { $_[0]->publish(exchange => 'mojo.none', routing_key => 'k', body => 'lost') }],
			[$client, 406, 'PRECONDITION_FAILED - unknown delivery tag 77', sub { $_[0]->ack(delivery_tag => 77) }],
			[$client, 406, 'PRECONDITION_FAILED - channel is not transactional', sub { $_[0]->commit_tx }],
		);
		for my $error (@errors) {
			my ($where, $code, $text, $mistake) = @$error;
			my $bad = channel($where);
			my $closed = Mojo::Promise->new;
			$bad->on(close => sub { $closed->resolve($_[1]->method_frame) });
			$mistake->($bad)->deliver;
			my $method = result($closed);
			equal($code, $method->reply_code);
			like($text, $method->reply_text);
			equal([0, 0], [$bad->is_open, $bad->declare_queue->deliver]);
		}
		round_trip($client);
	},

	'a deleted queue is not told' => sub {
		my $client = connection();
		my ($channel, $asking) = (channel($client), channel($client));
		my $queue = queue($asking);
		Taker->new($channel, $queue);
		answer($asking->delete_queue(queue => $queue));
		# A basic.cancel, which the library has not asked for, would be taken for this answer.
		like('amq.gen-', queue($channel));
	},

	'heartbeats' => sub {
		my $client = connection(query => ['heartbeat=1']);
		my $lost = Mojo::Promise->new;
		$client->on(disconnect => sub { $lost->resolve('lost') });
		equal('kept', result(Mojo::Promise->race($lost, Mojo::Promise->timer(4, 'kept'))));
		die "the server does not beat\n" unless $client->heartbeat_received > time - 3;
		round_trip($client);
	},

	'an application that recovers from a killed broker' => sub {
		needs_our_broker();
		my ($stage, $number) = ('before', 0);
		# Everything anew; promises the connection's end, and that 300 messages of the stage have come.
		my $work = sub {
			my ($client) = @_;
			my ($asking, $consuming) = (channel($client), channel($client));
			my ($seen, $lost, $done) = (0, Mojo::Promise->new, Mojo::Promise->new);
			answer($asking->declare_exchange(exchange => 'mojo.load', type => 'topic'));
			answer($asking->declare_queue(queue => 'mojo.load.q'));
			answer($asking->bind_queue(queue => 'mojo.load.q', exchange => 'mojo.load', routing_key => 'load.#'));
			answer($consuming->qos(prefetch_count => 20));
			my $consume = $consuming->consume(queue => 'mojo.load.q', no_ack => 0);
			$consume->on(message => sub {
				settle($consuming->ack(delivery_tag => tag($_[1])));
				$done->resolve if body($_[1]) =~ /^$stage/ && ++$seen == 300;
			});
			answer($consume);
			my $timer = Mojo::IOLoop->recurring(0.002, sub {
				$asking->publish(exchange => 'mojo.load', routing_key => 'load.key', body => "$stage " . $number++)->deliver
					for 1 .. 5;
			});
			$client->on(disconnect => sub { Mojo::IOLoop->remove($timer); $lost->resolve });
			return ($lost, $done);
		};
		my ($lost, $done) = $work->(my $first = connection());
		result($done);
		kill_broker();
		result($lost);
		$stage = 'after';
		my $again;
		result(Mojo::Promise->timer(0.2)) until $again = eval { connection() };
		(undef, $done) = $work->($again);
		result($done);
	},
);
