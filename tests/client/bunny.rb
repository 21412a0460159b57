# frozen_string_literal: true
# SPDX-License-Identifier: Apache-2.0
# The cases for Bunny, which recovers by itself; bunny.py runs it, matrix.py says what it prints.

require 'bunny'
require 'timeout'

HOST = ENV.fetch('MATRIX_HOST')
PORT = ENV.fetch('MATRIX_PORT').to_i
TLS_PORT = ENV.fetch('MATRIX_TLS_PORT')
LIMIT_S = 40
QUIET = Logger.new(IO::NULL)
CASES = []

class Skip < StandardError; end

def scenario(name, &block)
  CASES << [name, block]
end

def equal(expected, got)
  raise "expected #{expected.inspect}, got #{got.inspect}" unless expected == got
end

# The block raises that exception, whose text contains the other; gives it back.
def refused(kind, text)
  yield
rescue kind => e
  raise "#{e.message} has no '#{text}'" unless e.message.include?(text)

  e
else
  raise "no #{kind}"
end

def connect(**more)
  options = { host: HOST, port: PORT, logger: QUIET, automatically_recover: false, continuation_timeout: 15_000 }
  connection = Bunny.new(options.merge(more)).start
  return connection unless block_given?

  begin
    yield connection
  ensure
    connection.close if connection.open?
  end
end

# Yields a channel of a connection of its own, and that connection.
def channel
  connect { |connection| yield connection.create_channel, connection }
end

# Takes count deliveries from a Queue that a consumer fills.
def take(deliveries, count)
  Array.new(count) { deliveries.pop }
end

def consume(queue, **more)
  deliveries = Queue.new
  consumer = queue.subscribe(manual_ack: true, **more) { |info, properties, body| deliveries << [info, properties, body] }
  [deliveries, consumer]
end

def bodies(deliveries)
  deliveries.map(&:last)
end

def round_trip(connection)
  ch = connection.create_channel
  queue = ch.queue('', exclusive: true)
  deliveries, = consume(queue)
  queue.publish('there and back', headers: { 'n' => 5, 'list' => [1, 'zwei', { 'drei' => true }] })
  info, properties, body = deliveries.pop
  equal('there and back', body)
  equal({ 'n' => 5, 'list' => [1, 'zwei', { 'drei' => true }] }, properties.headers)
  ch.ack(info.delivery_tag)
  ch.close
end

scenario 'connect' do
  connect do |connection|
    equal(true, connection.server_capabilities['publisher_confirms'])
    equal(true, connection.server_capabilities['consumer_cancel_notify'])
    round_trip(connection)
  end
  refused(Bunny::AuthenticationFailureError, 'Authentication') { connect(password: 'wrong') }
  # Which of the two depends on whether connection.close is read before the connection's end.
  begin
    connect(vhost: 'nowhere')
  rescue Bunny::NotAllowedError, Bunny::TCPConnectionFailed
    nil
  else
    raise 'let in'
  end
end

scenario 'connect with TLS' do
  raise Skip, 'no TLS port' if TLS_PORT.empty?

  connect(port: TLS_PORT.to_i, tls: true, tls_ca_certificates: [ENV.fetch('MATRIX_CA')], verify_peer: true) do |connection|
    round_trip(connection)
  end
  refused(OpenSSL::SSL::SSLError, 'certificate verify failed') do
    connect(port: TLS_PORT.to_i, tls: true, tls_ca_certificates: [], verify_peer: true)
  end
end

scenario 'declare, bind, delete' do
  channel do |ch, connection|
    queue = ch.queue('', exclusive: true)
    raise queue.name unless queue.name.start_with?('amq.gen-')

    %i[direct fanout topic headers].each do |type|
      exchange = ch.public_send(type, "bunny.#{type}", durable: false)
      queue.bind(exchange, routing_key: type == :topic ? 'a.#' : 'a.b', arguments: type == :headers ? { 'x-match' => 'all', 'k' => 1 } : {})
      exchange.publish(type.to_s, routing_key: 'a.b', headers: { 'k' => 1 })
    end
    ch.topic('bunny.source', durable: false).publish('not bound yet', routing_key: 'x')
    ch.exchange('bunny.fanout', type: :fanout).bind('bunny.source', routing_key: 'x.*')
    ch.topic('bunny.source').publish('through', routing_key: 'x.y')
    deliveries, consumer = consume(queue)
    equal(%w[direct fanout topic headers through], bodies(take(deliveries, 5)))
    consumer.cancel
    queue.unbind('bunny.direct', routing_key: 'a.b')
    ch.direct('bunny.direct').publish('no more', routing_key: 'a.b')
    equal(0, queue.message_count)
    equal(true, connection.exchange_exists?('bunny.topic'))
    %w[direct fanout topic headers source].each { |name| ch.exchange_delete("bunny.#{name}") }
    equal(false, connection.exchange_exists?('bunny.topic'))
    equal(true, connection.queue_exists?(queue.name))
    queue.delete
    equal(false, connection.queue_exists?(queue.name))
  end
end

scenario 'publish with confirms' do
  channel do |ch|
    queue = ch.queue('', exclusive: true)
    confirmed = []
    ch.confirm_select(->(tag, _multiple, nack) { confirmed << tag unless nack })
    1000.times { |i| queue.publish(i.to_s) }
    equal(true, ch.wait_for_confirms)
    equal((1..1000).to_a, confirmed.sort)
    equal([], ch.unconfirmed_set.to_a)
    equal(1000, queue.message_count)
    queue.purge
    [0, 1, 131_064, 131_065, 1_000_000].each { |size| queue.publish('x' * size) }
    equal(true, ch.wait_for_confirms)
    deliveries, = consume(queue)
    equal([0, 1, 131_064, 131_065, 1_000_000], bodies(take(deliveries, 5)).map(&:size))
  end
end

scenario 'consume with prefetch' do
  channel do |ch|
    queue = ch.queue('', exclusive: true)
    ch.confirm_select
    10.times { |i| queue.publish(i.to_s) }
    ch.wait_for_confirms
    ch.prefetch(3)
    deliveries, = consume(queue)
    first = take(deliveries, 3)
    equal(7, queue.message_count)
    equal(true, deliveries.empty?)
    ch.ack(first[1][0].delivery_tag, true)
    second = take(deliveries, 2)
    ch.nack(first[2][0].delivery_tag)
    ch.ack(second[1][0].delivery_tag, true)
    third = take(deliveries, 3)
    equal((0..7).map(&:to_s), bodies(first + second + third))
    # A limit for all consumers of the channel.
    ch.prefetch(5, true)
    deliveries, = consume(ch.queue('', exclusive: true))
    equal(0, deliveries.size)
  end
end

scenario 'reject and requeue' do
  channel do |ch|
    queue = ch.queue('', exclusive: true)
    %w[a b c].each { |body| queue.publish(body) }
    ch.prefetch(3)
    deliveries, consumer = consume(queue)
    a, b, c = take(deliveries, 3)
    consumer.cancel
    equal([false] * 3, [a, b, c].map { |d| d[0].redelivered? })
    ch.reject(b[0].delivery_tag, true)
    ch.nack(a[0].delivery_tag, false, true)
    ch.reject(c[0].delivery_tag, false)
    deliveries, consumer = consume(queue)
    again = take(deliveries, 2)
    equal(%w[a b], bodies(again))
    equal([true, true], again.map { |d| d[0].redelivered? })
    consumer.cancel
    ch.recover
    info, _, body = queue.pop(manual_ack: true)
    equal('a', body)
    equal(true, info.redelivered)
    ch.ack(info.delivery_tag)
    equal('b', queue.pop[2])
    equal([nil, nil, nil], queue.pop)
  end
end

scenario 'a mandatory message comes back before its confirm' do
  channel do |ch|
    events = Queue.new
    exchange = ch.default_exchange
    exchange.on_return { |info, properties, body| events << [info.reply_code, info.reply_text, info.routing_key, properties.message_id, body] }
    ch.confirm_select(->(tag, _, nack) { events << [tag, nack] })
    exchange.publish('lost', routing_key: 'bunny.nowhere', mandatory: true, message_id: 'm')
    equal([312, 'NO_ROUTE', 'bunny.nowhere', 'm', 'lost'], events.pop)
    equal([1, false], events.pop)
  end
end

scenario 'transactions' do
  channel do |ch, connection|
    queue = connection.create_channel.queue('', exclusive: true)
    ch.tx_select
    ch.default_exchange.publish('kept', routing_key: queue.name)
    equal(0, queue.message_count)
    ch.tx_commit
    equal(1, queue.message_count)
    ch.default_exchange.publish('dropped', routing_key: queue.name)
    ch.tx_rollback
    equal(1, queue.message_count)
    # An ack that is rolled back is not done: the message is there again when the channel has ended.
    info, = ch.basic_get(queue.name, manual_ack: true)
    ch.ack(info.delivery_tag)
    ch.tx_rollback
    ch.close
    equal('kept', queue.pop[2])
    refused(Bunny::PreconditionFailed, 'cannot switch from tx to confirm mode') do
      other = connection.create_channel
      other.tx_select
      other.confirm_select
    end
    refused(Bunny::PreconditionFailed, 'channel is not transactional') { connection.create_channel.tx_commit }
  end
end

scenario 'channel errors' do
  channel do |ch, connection|
    ch.queue('bunny.exclusive', exclusive: true)
    refused(Bunny::PreconditionFailed, "inequivalent arg 'auto_delete' for queue 'bunny.exclusive'") do
      connection.create_channel.queue('bunny.exclusive', exclusive: true, auto_delete: true)
    end
    refused(Bunny::NotFound, "NOT_FOUND - no queue 'bunny.none' in vhost '/'") do
      connection.create_channel.queue('bunny.none', passive: true)
    end
    refused(Bunny::AccessRefused, "ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'") do
      connection.create_channel.direct('amq.mine')
    end
    connect do |other|
      refused(Bunny::ResourceLocked, "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'bunny.exclusive'") do
        other.create_channel.queue('bunny.exclusive', passive: true)
      end
    end
    # Only an error that says "unknown delivery tag" arrives at on_error; others close the channel without a word.
    bad = connection.create_channel
    errors = Queue.new
    bad.on_error { |_, close| errors << close.reply_text }
    bad.basic_ack(77)
    equal('PRECONDITION_FAILED - unknown delivery tag 77', errors.pop)
    refused(Bunny::ChannelAlreadyClosed, '') { bad.queue('', exclusive: true) }
    bad = connection.create_channel
    bad.basic_publish('lost', 'bunny.none', 'k')
    sleep 0.01 while bad.open?
    ch.queue_delete('bunny.exclusive')
    round_trip(connection)
  end
end

scenario 'the server cancels a consumer' do
  channel do |ch|
    queue = ch.queue('', exclusive: true)
    cancelled = Queue.new
    queue.subscribe(on_cancellation: ->(method) { cancelled << method.consumer_tag }, consumer_tag: 'mine') {}
    queue.delete
    equal('mine', cancelled.pop)
  end
end

# Publishes until told to stop. From its first error on it waits for the recovery's end: whoever publishes on
# a channel that is not open yet, and Bunny lets one, brings the new connection down.
def load_on(exchange, stop, prefix, recovered)
  Thread.new do
    Thread.current.report_on_exception = false
    number = 0
    until stop[:now]
      begin
        exchange.publish("#{prefix[:text]}#{number += 1}", routing_key: 'load.key')
        sleep 0.001 if (number % 10).zero?
      rescue StandardError
        recovered.pop
      end
    end
  end
end

scenario 'recovery by itself from a killed broker' do
  raise Skip, 'the server is not ours to kill' if TLS_PORT.empty?

  recovered = Queue.new
  prefix = { text: 'before-' }
  completed = lambda do
    prefix[:text] = 'after-'
    recovered << true
  end
  connection = Bunny.new(host: HOST, port: PORT, logger: QUIET, network_recovery_interval: 0.2,
                         session_error_handler: Thread.new {}, recovery_completed: completed).start
  consuming = connection.create_channel
  consuming.prefetch(20)
  exchange = consuming.topic('bunny.recovery', durable: false)
  # One queue has its name from the server and will get another; the other one has a name.
  anonymous = consuming.queue('', exclusive: true).bind(exchange, routing_key: 'load.#')
  named = consuming.queue('bunny.recovery.q', durable: false).bind(exchange, routing_key: '#')
  old_name = anonymous.name
  got = [anonymous, named].map do |queue|
    seen = Queue.new
    queue.subscribe(manual_ack: true) do |info, _, body|
      consuming.ack(info.delivery_tag)
      seen << body
    end
    seen
  end
  publishing = connection.create_channel
  publishing.confirm_select
  stop = {}
  loader = load_on(publishing.topic('bunny.recovery', durable: false), stop, prefix, recovered)
  got.each { |seen| 300.times { seen.pop } }
  $stdout.puts 'kill'
  got.each { |seen| 300.times { nil until seen.pop.start_with?('after-') } }
  stop[:now] = true
  loader.join
  raise 'the name is the old one' if anonymous.name == old_name

  # Confirms are counted anew. In this version confirms of several messages are lost on a recovered channel.
  number = publishing.next_publish_seq_no
  publishing.default_exchange.publish('last', routing_key: named.name)
  sleep 0.01 while publishing.unconfirmed_set.include?(number)
  connection.close
end

$stdout.sync = true
failed = 0
CASES.each do |name, block|
  began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  begin
    Timeout.timeout(LIMIT_S) { block.call }
    result = 'ok  '
  rescue Skip => e
    result = "skip (#{e.message})"
  rescue StandardError, Timeout::Error => e
    failed += 1
    warn e.full_message(highlight: false)
    result = 'FAIL'
  end
  puts format('%s %s %.1f s', result, name, Process.clock_gettime(Process::CLOCK_MONOTONIC) - began)
end
puts 'complete'
exit!(failed.zero? ? 0 : 1)
