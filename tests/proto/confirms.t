# Publisher confirms (amqp.md 8.1).  A server may gather them as it likes: each tag once is enough.

== numbers begin with the first select and count every publish
open
> queue.declare queue="f.a" exclusive
< queue.declare_ok
> basic.publish exchange="" routing_key="f.a" body="before"
> confirm.select
< confirm.select_ok
for i 1..6
	> basic.publish exchange="" routing_key="f.a" body="m${i}"
confirms acks=1..6
> confirm.select
< confirm.select_ok
> basic.publish exchange="" routing_key="f.a" body="m7"
confirms acks=7
> queue.purge queue="f.a"
< queue.purge_ok message_count=8

== select without an answer
open
> confirm.select nowait
> basic.publish exchange="" routing_key="f.none" body="m"
confirms acks=1

== a single one is not multiple
open
> confirm.select
< confirm.select_ok
> basic.publish exchange="amq.fanout" routing_key="" body="m"
< basic.ack delivery_tag=1

== what goes nowhere is confirmed, after its return
open
> confirm.select
< confirm.select_ok
> basic.publish exchange="" routing_key="f.none" body="m1"
confirms acks=1
> basic.publish exchange="" routing_key="f.none" mandatory body="m2"
< basic.return body="m2"
confirms acks=2
for i 3..5
	> basic.publish exchange="" routing_key="f.none" mandatory body="m${i}"
	< basic.return body="m${i}"
	confirms acks=$i

== persistent messages to durable queues
open
> queue.declare queue="f.durable" durable
< queue.declare_ok
> confirm.select
< confirm.select_ok
for i 1..20
	> basic.publish exchange="" routing_key="f.durable" props={delivery_mode=2} body="m${i}"
confirms acks=1..20
> queue.purge queue="f.durable"
< queue.purge_ok message_count=20

== to several queues, of both kinds
open
> exchange.declare exchange="f.x" type="fanout"
< exchange.declare_ok
> queue.declare queue="f.durable" durable
< queue.declare_ok
> queue.declare queue="f.transient" exclusive
< queue.declare_ok
for q "f.durable" "f.transient"
	> queue.bind queue=$q exchange="f.x"
	< queue.bind_ok
> confirm.select
< confirm.select_ok
for i 1..5
	> basic.publish exchange="f.x" routing_key="" props={delivery_mode=2} body="m${i}"
	> basic.publish exchange="f.x" routing_key="" body="m${i}"
confirms acks=1..10
> queue.purge queue="f.durable"
< queue.purge_ok message_count=10

== transient messages beside persistent ones
open
> queue.declare queue="f.durable" durable
< queue.declare_ok
> confirm.select
< confirm.select_ok
for i 1..5
	> basic.publish exchange="" routing_key="f.durable" props={delivery_mode=2} body="m"
	> basic.publish exchange="" routing_key="f.durable" props={delivery_mode=1} body="m"
	> basic.publish exchange="" routing_key="f.none" props={delivery_mode=2} body="m"
confirms acks=1..15

== what a consumer takes at once
open channels=2
> c1 1 queue.declare queue="f.durable" durable
< c1 1 queue.declare_ok
> c1 2 basic.consume queue="f.durable" consumer_tag="t" no_ack
< c1 2 basic.consume_ok
> c1 1 confirm.select
< c1 1 confirm.select_ok
for i 1..5
	> c1 1 basic.publish exchange="" routing_key="f.durable" props={delivery_mode=2} body="m${i}"
for i 1..5
	< c1 2 basic.deliver body="m${i}"
confirms c1 1 acks=1..5

== purged and deleted messages are confirmed
open channels=2
> c1 1 queue.declare queue="f.durable" durable
< c1 1 queue.declare_ok
> c1 1 confirm.select
< c1 1 confirm.select_ok
for i 1..3
	> c1 1 basic.publish exchange="" routing_key="f.durable" props={delivery_mode=2} body="m"
sync c1 1 "f.durable"
> c1 2 queue.delete queue="f.durable"
< c1 2 queue.delete_ok message_count=3
confirms c1 1 acks=1..3

== confirms are the channel's
open channels=3
for n 1..2
	> c1 1 confirm.select
	< c1 1 confirm.select_ok
> c1 3 confirm.select
< c1 3 confirm.select_ok
> c1 1 basic.publish exchange="" routing_key="f.none" body="m"
> c1 2 basic.publish exchange="" routing_key="f.none" body="m"
> c1 3 basic.publish exchange="" routing_key="f.none" body="m"
confirms c1 1 acks=1
confirms c1 3 acks=1
quiet c1 2

== a publish that closes the channel is not answered otherwise
open
> confirm.select
< confirm.select_ok
> basic.publish exchange="f.none" routing_key="" body="m"
soft 404 basic.publish "no exchange 'f.none' in vhost '/'"
> confirm.select
< confirm.select_ok
> basic.publish exchange="" routing_key="f.none" body="m"
confirms acks=1

== ack and nack of the client are not confirms
open
> queue.declare queue="f.a" exclusive
< queue.declare_ok
> confirm.select
< confirm.select_ok
> basic.publish exchange="" routing_key="f.a" body="m"
confirms acks=1
> basic.get queue="f.a"
< basic.get_ok delivery_tag=1
> basic.ack delivery_tag=1
quiet

== a thousand confirms
open
> queue.declare queue="f.many" durable
< queue.declare_ok
> confirm.select
< confirm.select_ok
for i 1..1000
	> basic.publish exchange="" routing_key="f.many" props={delivery_mode=2} body="m"
confirms acks=1..1000
