# Consumers: their tags, their order, their priorities, their end; and basic.get
# (amqp.md 7.6, 7.8, 7.10, 14.1).

== a tag made by the server
open
> queue.declare queue="c.a" exclusive
< queue.declare_ok
> basic.consume queue="c.a"
< basic.consume_ok consumer_tag=~"amq\.ctag-[A-Za-z0-9_-]{22}"->$one
> basic.consume queue="c.a"
< basic.consume_ok consumer_tag=~"amq\.ctag-[A-Za-z0-9_-]{22}"->$two
differ $one $two
> basic.cancel consumer_tag=$two
< basic.cancel_ok consumer_tag=$two
> basic.publish exchange="" routing_key="c.a" body="m"
< basic.deliver consumer_tag=$one delivery_tag=1 exchange="" routing_key="c.a" body="m"

== a tag in use
open channels=2
> c1 1 queue.declare queue="c.a" exclusive
< c1 1 queue.declare_ok
> c1 1 basic.consume queue="c.a" consumer_tag="t"
< c1 1 basic.consume_ok consumer_tag="t"
> c1 2 basic.consume queue="c.a" consumer_tag="t"
< c1 2 basic.consume_ok consumer_tag="t"
> c1 1 basic.consume queue="c.a" consumer_tag="t"
hard 530 basic.consume "attempt to reuse consumer tag 't'"

== it is found before a missing queue
open
> queue.declare queue="c.a" exclusive
< queue.declare_ok
> basic.consume queue="c.a" consumer_tag="t"
< basic.consume_ok
> basic.consume queue="c.none" consumer_tag="t"
hard 530 basic.consume "attempt to reuse consumer tag 't'"

== a cancelled tag can be used again
open
> queue.declare queue="c.a" exclusive
< queue.declare_ok
for i 1..3
	> basic.consume queue="c.a" consumer_tag="t"
	< basic.consume_ok
	> basic.cancel consumer_tag="t"
	< basic.cancel_ok consumer_tag="t"

== without answers
open
> queue.declare queue="c.a" exclusive
< queue.declare_ok
> basic.consume queue="c.a" consumer_tag="t" no_ack nowait
> basic.publish exchange="" routing_key="c.a" body="m"
< basic.deliver consumer_tag="t" body="m"
> basic.cancel consumer_tag="t" nowait
> basic.consume queue="c.a" no_ack nowait
> basic.publish exchange="" routing_key="c.a" body="m"
< basic.deliver consumer_tag=~"amq\.ctag-.*" body="m"

== cancelling a tag that is not there
open
> basic.cancel consumer_tag="nope"
< basic.cancel_ok consumer_tag="nope"
> basic.cancel consumer_tag=""
< basic.cancel_ok consumer_tag=""
> basic.cancel consumer_tag="nope" nowait
quiet

== consume-ok comes before the first delivery, cancel-ok after the last
open channels=2
> c1 2 queue.declare queue="c.a" exclusive
< c1 2 queue.declare_ok
for i 1..3
	> c1 2 basic.publish exchange="" routing_key="c.a" body="m${i}"
sync c1 2 "c.a"
> c1 1 basic.consume queue="c.a" consumer_tag="t"
< c1 1 basic.consume_ok
for i 1..3
	< c1 1 basic.deliver consumer_tag="t" delivery_tag=$i body="m${i}"
> c1 1 basic.cancel consumer_tag="t"
< c1 1 basic.cancel_ok
> c1 2 basic.publish exchange="" routing_key="c.a" body="m4"
sync c1 2 "c.a"
quiet c1 1 "c.a"
> c1 1 basic.ack delivery_tag=3 multiple
> c1 1 basic.get queue="c.a"
< c1 1 basic.get_ok body="m4" delivery_tag=4

== no-local is ignored
open
> queue.declare queue="c.a" exclusive
< queue.declare_ok
> basic.consume queue="c.a" consumer_tag="t" no_local no_ack
< basic.consume_ok
> basic.publish exchange="" routing_key="c.a" body="mine"
< basic.deliver body="mine"

== exchange and key are those of the publish
open
> queue.declare queue="c.a" exclusive
< queue.declare_ok
> queue.bind queue="c.a" exchange="amq.topic" routing_key="#"
< queue.bind_ok
> basic.consume queue="c.a" consumer_tag="t" no_ack
< basic.consume_ok
> basic.publish exchange="amq.topic" routing_key="some.key" body="m"
< basic.deliver exchange="amq.topic" routing_key="some.key" delivery_tag=1
> basic.publish exchange="amq.topic" routing_key="" body="m"
< basic.deliver exchange="amq.topic" routing_key="" delivery_tag=2
> basic.publish exchange="" routing_key="c.a" body="m"
< basic.deliver exchange="" routing_key="c.a" delivery_tag=3

== consumers take turns
open
> queue.declare queue="c.a" exclusive
< queue.declare_ok
for tag "a" "b" "c"
	> basic.consume queue="c.a" consumer_tag=$tag no_ack
	< basic.consume_ok
for i 1..3
	for tag "a" "b" "c"
		> basic.publish exchange="" routing_key="c.a" body="m"
		sync "c.a"
		< basic.deliver consumer_tag=$tag

== a higher priority takes everything
open
> queue.declare queue="c.a" exclusive
< queue.declare_ok
> basic.consume queue="c.a" consumer_tag="low" arguments={x-priority=-1}
< basic.consume_ok
> basic.consume queue="c.a" consumer_tag="default"
< basic.consume_ok
> basic.consume queue="c.a" consumer_tag="high" arguments={x-priority=l:10}
< basic.consume_ok
for i 1..4
	> basic.publish exchange="" routing_key="c.a" body="m"
	< basic.deliver consumer_tag="high"
> basic.cancel consumer_tag="high"
< basic.cancel_ok
> basic.publish exchange="" routing_key="c.a" body="m"
< basic.deliver consumer_tag="default"

== until it is full
open
> queue.declare queue="c.a" exclusive
< queue.declare_ok
> basic.qos prefetch_count=2
< basic.qos_ok
> basic.consume queue="c.a" consumer_tag="low"
< basic.consume_ok
> basic.consume queue="c.a" consumer_tag="high" arguments={x-priority=10}
< basic.consume_ok
for tag "high" "high" "low" "low"
	> basic.publish exchange="" routing_key="c.a" body="m"
	< basic.deliver consumer_tag=$tag
> basic.publish exchange="" routing_key="c.a" body="last"
sync "c.a"
quiet
> basic.ack delivery_tag=1
< basic.deliver consumer_tag="high" body="last" delivery_tag=5

== an exclusive consumer
open c1
open c2
> c1 1 queue.declare queue="c.exclusive"
< c1 1 queue.declare_ok
> c1 1 basic.consume queue="c.exclusive" consumer_tag="t" exclusive
< c1 1 basic.consume_ok
> c2 1 basic.consume queue="c.exclusive"
soft c2 1 403 basic.consume "queue 'c.exclusive' in vhost '/' in exclusive use"
> c2 1 basic.consume queue="c.exclusive" exclusive
soft c2 1 403 basic.consume "queue 'c.exclusive' in vhost '/' in exclusive use"
> c2 1 basic.get queue="c.exclusive"
< c2 1 basic.get_empty
> c1 1 basic.cancel consumer_tag="t"
< c1 1 basic.cancel_ok
> c2 1 basic.consume queue="c.exclusive" consumer_tag="t" exclusive
< c2 1 basic.consume_ok

== exclusive where somebody consumes already
open channels=2
> c1 1 queue.declare queue="c.a" exclusive
< c1 1 queue.declare_ok
> c1 1 basic.consume queue="c.a" consumer_tag="t"
< c1 1 basic.consume_ok
> c1 2 basic.consume queue="c.a" exclusive
soft c1 2 403 basic.consume "queue 'c.a' in vhost '/' in exclusive use"
> c1 1 basic.cancel consumer_tag="t"
< c1 1 basic.cancel_ok
> c1 2 basic.consume queue="c.a" exclusive
< c1 2 basic.consume_ok

== get
open
> queue.declare queue="c.a" exclusive
< queue.declare_ok
> basic.get queue="c.a"
< basic.get_empty reserved_1=""
for i 1..3
	> basic.publish exchange="" routing_key="c.a" body="m${i}"
sync "c.a"
> basic.get queue="c.a"
< basic.get_ok delivery_tag=1 exchange="" routing_key="c.a" message_count=2 body="m1"
> basic.get queue="c.a" no_ack
< basic.get_ok delivery_tag=2 message_count=1 body="m2"
> basic.consume queue="c.a" consumer_tag="t"
< basic.consume_ok
< basic.deliver delivery_tag=3 body="m3"
> basic.nack delivery_tag=0 multiple
sync "c.a"
> queue.purge queue="c.a"
< queue.purge_ok message_count=0

== a delivery is not split by what else goes to the channel
open frame_max=4096
> queue.declare queue="c.a" exclusive
< queue.declare_ok
> basic.consume queue="c.a" consumer_tag="t" no_ack
< basic.consume_ok
for i 1..20
	> basic.publish exchange="" routing_key="c.a" body=100000*"x"
	> channel.flow active
	> basic.cancel consumer_tag="nope"
any_order
	for i 1..20
		< basic.deliver body=100000*"x"
		< channel.flow_ok active
		< basic.cancel_ok consumer_tag="nope"

== a server-named auto-delete queue consumed by its empty name
open
> queue.declare queue="" exclusive auto_delete
< queue.declare_ok queue=$q
> basic.consume queue="" consumer_tag="t" no_ack
< basic.consume_ok
> basic.publish exchange="" routing_key=$q body="m"
< basic.deliver routing_key=$q body="m"
> basic.cancel consumer_tag="t"
< basic.cancel_ok
> queue.declare queue=$q passive
soft 404 queue.declare "no queue '${q}' in vhost '/'"

== what a waiting consumer gets cannot be got
open
> queue.declare queue="c.waiting" exclusive
< queue.declare_ok
> basic.consume queue="c.waiting" consumer_tag="t" no_ack
< basic.consume_ok
> basic.publish exchange="" routing_key="c.waiting" body="m"
> basic.get queue="c.waiting" no_ack
any_order
	< basic.deliver consumer_tag="t" body="m"
	< basic.get_empty

== what comes before a consumer is cancelled is its own
open
> queue.declare queue="c.high" exclusive
< queue.declare_ok
> basic.consume queue="c.high" consumer_tag="high" no_ack arguments={x-priority=5}
< basic.consume_ok
> basic.consume queue="c.high" consumer_tag="low" no_ack
< basic.consume_ok
> basic.publish exchange="" routing_key="c.high" body="m1"
> basic.publish exchange="" routing_key="c.high" body="m2"
> basic.cancel consumer_tag="high"
> basic.publish exchange="" routing_key="c.high" body="m3"
< basic.deliver consumer_tag="high" body="m1"
< basic.deliver consumer_tag="high" body="m2"
< basic.cancel_ok consumer_tag="high"
< basic.deliver consumer_tag="low" body="m3"
