#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# The cases for AnyEvent::RabbitMQ; anyevent_rabbitmq.py runs it.
use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use AnyEvent;
use AnyEvent::RabbitMQ;
use Matrix;

AnyEvent::RabbitMQ->load_xml_spec;

# Calls a method that has on_success and on_failure, waits, and gives what on_success got; dies with what
# on_failure got.
sub wait_for {
	my ($object, $method, %args) = @_;
	my $done = AnyEvent->condvar;
	$object->$method(
		%args,
		on_success => sub { $done->send(@_) },
		on_failure => sub { $done->croak(reason(@_)) },
	);
	return wantarray ? ($done->recv) : ($done->recv)[0];
}

# The text of whatever a failure is told with.
sub reason {
	my ($frame) = @_;
	return join ' ', map { $_ // 'undef' } @_ unless ref $frame && $frame->can('method_frame');
	my $method = $frame->method_frame;
	return $method->can('reply_text') ? join(' ', grep { defined } $method->reply_code, $method->reply_text) : ref $method;
}

sub fails_with {
	my ($text, $call) = @_;
	die "it succeeded\n" if eval { $call->(); 1 };
	Matrix::like($text, $@);
}

# A connection that is closed before it is open is told to on_close only, a broken one to on_failure.
sub connection {
	my %more = @_;
	my $done = AnyEvent->condvar;
	my $client = AnyEvent::RabbitMQ->new;
	$client->connect(
		host => HOST, port => PORT, user => 'guest', pass => 'guest', vhost => '/', timeout => 10,
		on_read_failure => sub { die @_ },
		on_close => sub { $done->croak(reason(@_)) },
		on_success => sub { $done->send(@_) },
		on_failure => sub { $done->croak(reason(@_)) },
		%more
	);
	return $done->recv;
}

sub channel {
	my ($connection, %more) = @_;
	return scalar wait_for($connection, 'open_channel', %more);
}

sub queue {
	my ($channel, %more) = @_;
	return wait_for($channel, 'declare_queue', exclusive => 1, %more)->method_frame->queue;
}

sub count_of {
	my ($channel, $queue) = @_;
	return wait_for($channel, 'declare_queue', queue => $queue, passive => 1)->method_frame->message_count;
}

sub body {
	my ($delivery) = @_;
	return $delivery->{body} ? $delivery->{body}->payload : '';
}

sub tag {
	my ($delivery) = @_;
	return ($delivery->{deliver} || $delivery->{ok})->method_frame->delivery_tag;
}

# A consumer: its deliveries are taken with take().
package Taker {
	sub new {
		my ($class, $channel, $queue, %more) = @_;
		my $self = bless { channel => $channel, seen => [], wanted => 0 }, $class;
		my $ok = main::wait_for($channel, 'consume', queue => $queue, no_ack => 0, %more,
			on_consume => sub {
				push @{ $self->{seen} }, @_;
				$self->{done}->send if $self->{done} && @{ $self->{seen} } >= $self->{wanted};
			});
		$self->{tag} = $ok->method_frame->consumer_tag;
		return $self;
	}

	sub take {
		my ($self, $count) = @_;
		if (@{ $self->{seen} } < $count) {
			@$self{qw(wanted done)} = ($count, AnyEvent->condvar);
			$self->{done}->recv;
			delete $self->{done};
		}
		return splice @{ $self->{seen} }, 0, $count;
	}

	sub cancel {
		my ($self) = @_;
		main::wait_for($self->{channel}, 'cancel', consumer_tag => $self->{tag});
	}
}

# Publishes all and waits until each has been confirmed.
sub publish_confirmed {
	my ($channel, $queue, @bodies) = @_;
	my $done = AnyEvent->condvar;
	for my $body (@bodies) {
		$done->begin;
		$channel->publish(routing_key => $queue, body => $body,
			on_ack => sub { $done->end }, on_nack => sub { $done->croak('nack: ' . reason(@_)) });
	}
	$done->recv;
}

sub round_trip {
	my ($connection, $size) = @_;
	my $channel = channel($connection);
	my $queue = queue($channel);
	my $body = 'x' x ($size // 14);
	$channel->publish(routing_key => $queue, body => $body,
		header => { headers => { n => 5, text => 'zwei' }, message_id => 'm', content_type => 'text/plain' });
	my ($delivery) = Taker->new($channel, $queue)->take(1);
	die "another body\n" if body($delivery) ne $body;
	equal(['m', 'text/plain', 'guest', 5, 'zwei'], [
		map({ $delivery->{header}->$_ } qw(message_id content_type user_id)), @{ $delivery->{header}->headers }{qw(n text)},
	]);
	$channel->ack(delivery_tag => tag($delivery));
	wait_for($channel, 'close');
}

run_cases(
	'connect' => sub {
		my $connection = connection();
		equal(1, $connection->server_properties->{capabilities}{publisher_confirms});
		round_trip($connection);
		wait_for($connection, 'close');
		# It does not ask for a reason: the server just ends the connection.
		fails_with('AnyEvent::Handle', sub { connection(pass => 'wrong') });
		fails_with('530 NOT_ALLOWED - vhost nowhere not found', sub { connection(vhost => 'nowhere') });
	},

	'connect with TLS' => sub {
		needs_our_broker();
		my $connection = connection(port => TLS_PORT, tls => 1, tls_ctx => { verify => 1, verify_peername => 'https', ca_file => CA });
		round_trip($connection);
		round_trip($connection, 1_000_000);
		wait_for($connection, 'close');
		fails_with('certificate verify failed',
			sub { connection(port => TLS_PORT, tls => 1, tls_ctx => { verify => 1 }) });
	},

	'small frames' => sub {
		my $connection = connection(tune => { frame_max => 4096, channel_max => 10, heartbeat => 30 });
		round_trip($connection, $_) for 4088, 4089, 100_000;
		wait_for($connection, 'close');
	},

	'declare, bind, delete' => sub {
		my $connection = connection();
		my $channel = channel($connection);
		my $queue = queue($channel);
		Matrix::like('amq.gen-', $queue);
		for my $type (qw(direct fanout topic)) {
			wait_for($channel, 'declare_exchange', exchange => "any.$type", type => $type);
			wait_for($channel, 'bind_queue', exchange => "any.$type", queue => $queue, routing_key => $type eq 'topic' ? 'a.#' : 'a.b');
			$channel->publish(exchange => "any.$type", routing_key => 'a.b', body => $type);
		}
		wait_for($channel, 'declare_exchange', exchange => 'any.source', type => 'topic');
		wait_for($channel, 'bind_exchange', source => 'any.source', destination => 'any.fanout', routing_key => 'x.*');
		$channel->publish(exchange => 'any.source', routing_key => 'x.y', body => 'through');
		my $taker = Taker->new($channel, $queue);
		equal([qw(direct fanout topic through)], [map { body($_) } $taker->take(4)]);
		$taker->cancel;
		wait_for($channel, 'unbind_queue', exchange => 'any.direct', queue => $queue, routing_key => 'a.b');
		$channel->publish(exchange => 'any.direct', routing_key => 'a.b', body => 'no more');
		equal(0, count_of($channel, $queue));
		wait_for($channel, 'unbind_exchange', source => 'any.source', destination => 'any.fanout', routing_key => 'x.*');
		wait_for($channel, 'delete_exchange', exchange => "any.$_") for qw(direct fanout topic source);
		$channel->publish(routing_key => $queue, body => $_) for 1 .. 3;
		equal(3, wait_for($channel, 'purge_queue', queue => $queue)->method_frame->message_count);
		equal(0, wait_for($channel, 'delete_queue', queue => $queue)->method_frame->message_count);
		wait_for($connection, 'close');
	},

	'publish with confirms' => sub {
		my $connection = connection();
		my $channel = channel($connection);
		my $queue = queue($channel);
		wait_for($channel, 'confirm');
		publish_confirmed($channel, $queue, 1 .. 500);
		equal(500, count_of($channel, $queue));
		wait_for($channel, 'purge_queue', queue => $queue);
		my @sizes = (0, 1, 131064, 131065, 1_000_000);
		publish_confirmed($channel, $queue, map { 'x' x $_ } @sizes);
		equal(\@sizes, [map { length body($_) } Taker->new($channel, $queue)->take(5)]);
		wait_for($connection, 'close');
	},

	'consume with prefetch' => sub {
		my $connection = connection();
		my $channel = channel($connection);
		my $queue = queue($channel);
		wait_for($channel, 'confirm');
		publish_confirmed($channel, $queue, 0 .. 9);
		wait_for($channel, 'qos', prefetch_count => 3);
		my $taker = Taker->new($channel, $queue);
		my @first = $taker->take(3);
		equal(7, count_of($channel, $queue));
		equal([], $taker->{seen});
		$channel->ack(delivery_tag => tag($first[1]), multiple => 1);
		my @second = $taker->take(2);
		# Without a tag all are acknowledged.
		$channel->ack;
		my @third = $taker->take(3);
		equal([0 .. 7], [map { body($_) } @first, @second, @third]);
		equal(2, count_of($channel, $queue));
		wait_for($connection, 'close');
	},

	'reject and requeue' => sub {
		my $connection = connection();
		my $channel = channel($connection);
		my $queue = queue($channel);
		$channel->publish(routing_key => $queue, body => $_) for qw(a b c);
		my $taker = Taker->new($channel, $queue);
		my @first = $taker->take(3);
		$taker->cancel;
		equal([0, 0, 0], [map { $_->{deliver}->method_frame->redelivered + 0 } @first]);
		$channel->reject(delivery_tag => tag($first[1]), requeue => 1);
		$channel->reject(delivery_tag => tag($first[0]), requeue => 1);
		$channel->reject(delivery_tag => tag($first[2]));
		$taker = Taker->new($channel, $queue);
		my @again = $taker->take(2);
		equal([qw(a b)], [map { body($_) } @again]);
		equal([1, 1], [map { $_->{deliver}->method_frame->redelivered } @again]);
		$taker->cancel;
		wait_for($channel, 'recover');
		my $got = wait_for($channel, 'get', queue => $queue, no_ack => 0);
		equal(['a', 1], [body($got), $got->{ok}->method_frame->redelivered]);
		$channel->ack(delivery_tag => tag($got));
		equal('b', body(scalar wait_for($channel, 'get', queue => $queue)));
		die "not empty\n" unless wait_for($channel, 'get', queue => $queue)->{empty};
		wait_for($connection, 'close');
	},

	'a mandatory message comes back before its confirm' => sub {
		my $connection = connection();
		my $channel = channel($connection);
		wait_for($channel, 'confirm');
		my $done = AnyEvent->condvar;
		my @events;
		$channel->publish(exchange => 'amq.direct', routing_key => 'any.nowhere', body => 'lost', mandatory => 1,
			on_return => sub { push @events, $_[0]->method_frame->reply_code, $_[0]->method_frame->reply_text },
			on_ack    => sub { push @events, 'ack'; $done->send });
		$done->recv;
		equal([312, 'NO_ROUTE', 'ack'], \@events);
		wait_for($connection, 'close');
	},

	'transactions' => sub {
		my $connection = connection();
		my ($channel, $other) = (channel($connection), channel($connection));
		my $queue = queue($other);
		wait_for($channel, 'select_tx');
		$channel->publish(routing_key => $queue, body => 'kept');
		equal(0, count_of($channel, $queue));
		wait_for($channel, 'commit_tx');
		equal(1, count_of($channel, $queue));
		$channel->publish(routing_key => $queue, body => 'dropped');
		wait_for($channel, 'rollback_tx');
		equal(1, count_of($channel, $queue));
		# An ack that is rolled back is not done.
		$channel->ack(delivery_tag => tag(scalar wait_for($channel, 'get', queue => $queue, no_ack => 0)));
		wait_for($channel, 'rollback_tx');
		wait_for($channel, 'close');
		equal('kept', body(scalar wait_for($other, 'get', queue => $queue)));
		fails_with('Channel closed', sub { wait_for($other, 'commit_tx') });
		wait_for($connection, 'close');
	},

	'channel errors' => sub {
		my $connection = connection();
		my $queue = queue(channel($connection), queue => 'any.exclusive');
		my $stranger = connection();
		my %quiet = (on_failure => sub { });
		my @errors = (
			[$connection, "404 NOT_FOUND - no queue 'any.none' in vhost '/'", sub { $_[0]->declare_queue(queue => 'any.none', passive => 1, %quiet) }],
			[$connection, "406 PRECONDITION_FAILED - inequivalent arg 'auto_delete' for queue 'any.exclusive'",
				sub { $_[0]->declare_queue(queue => $queue, exclusive => 1, auto_delete => 1, %quiet) }],
			[$connection, "403 ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'",
				sub { $_[0]->declare_exchange(exchange => 'amq.mine', %quiet) }],
			[$stranger, "405 RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'any.exclusive'",
				sub { $_[0]->declare_queue(queue => $queue, passive => 1, %quiet) }],
			[$connection, "404 NOT_FOUND - no exchange 'any.none' in vhost '/'",
				sub { $_[0]->publish(exchange => 'any.none', routing_key => 'k', body => 'lost') }],
			[$connection, '406 PRECONDITION_FAILED - unknown delivery tag 77', sub { $_[0]->ack(delivery_tag => 77) }],
		);
		for my $error (@errors) {
			my ($where, $text, $mistake) = @$error;
			my $closed = AnyEvent->condvar;
			my $bad = channel($where, on_close => sub { $closed->send(reason(@_)) });
			$mistake->($bad);
			Matrix::like($text, $closed->recv);
			equal('', $bad->is_open);
			fails_with('Channel has already been closed', sub { queue($bad) });
		}
		round_trip($connection);
		wait_for($_, 'close') for $connection, $stranger;
	},

	'the server cancels a consumer' => sub {
		my $connection = connection();
		my $channel = channel($connection);
		my $queue = queue($channel);
		my $cancelled = AnyEvent->condvar;
		my $taker = Taker->new($channel, $queue, on_cancel => sub { $cancelled->send(ref $_[0]->method_frame) });
		wait_for($channel, 'delete_queue', queue => $queue);
		equal('Net::AMQP::Protocol::Basic::Cancel', $cancelled->recv);
		wait_for($connection, 'close');
	},

	'heartbeats' => sub {
		my $lost = AnyEvent->condvar;
		my $connection = connection(tune => { heartbeat => 1 }, on_close => sub { $lost->send('lost') });
		# The library gives a server up that is silent for two seconds.
		my $timer = AnyEvent->timer(after => 4, cb => sub { $lost->send('kept') });
		equal('kept', $lost->recv);
		round_trip($connection);
		wait_for($connection, 'close');
	},

	'an application that recovers from a killed broker' => sub {
		needs_our_broker();
		my ($stage, $seen, $number) = ('before', 0, 0);
		my $done = AnyEvent->condvar;
		my (@alive, $connect, $publish, $retry);

		# Ten more are published whenever ten have been confirmed.
		$publish = sub {
			my ($channel) = @_;
			return unless $channel->is_open;
			my $confirmed = 0;
			$channel->publish(exchange => 'any.load', routing_key => 'load.key', body => "$stage " . $number++,
				on_ack => sub { $publish->($channel) if ++$confirmed == 10 },
				on_inactive => sub { }) for 1 .. 10; # it may be lost in between
		};
		my $work = sub {
			my ($connection) = @_;
			my ($publishing, $consuming) = @alive = ($connection, channel($connection), channel($connection));
			($publishing, $consuming) = @alive[1, 2];
			wait_for($publishing, 'confirm');
			wait_for($publishing, 'declare_exchange', exchange => 'any.load', type => 'topic');
			wait_for($consuming, 'declare_queue', queue => 'any.load.q');
			wait_for($consuming, 'bind_queue', queue => 'any.load.q', exchange => 'any.load', routing_key => 'load.#');
			wait_for($consuming, 'qos', prefetch_count => 20);
			wait_for($consuming, 'consume', queue => 'any.load.q', no_ack => 0, on_consume => sub {
				my ($delivery) = @_;
				$consuming->ack(delivery_tag => tag($delivery));
				return if body($delivery) !~ /^$stage/ || ++$seen != 300;
				($stage eq 'before') ? kill_broker() : $done->send;
			});
			$publish->($publishing);
		};
		my $lost = AnyEvent->condvar;
		$work->(connection(on_close => sub { $lost->send(reason(@_)) }, on_read_failure => sub { }));
		$lost->recv;
		equal(0, scalar grep { $_->is_open } @alive);
		($stage, $seen) = ('after', 0);
		my $again;
		until ($again = eval { connection() }) {
			my $pause = AnyEvent->condvar;
			$retry = AnyEvent->timer(after => 0.2, cb => sub { $pause->send });
			$pause->recv;
		}
		$work->($again);
		$done->recv;
		wait_for($again, 'close');
	},
);
