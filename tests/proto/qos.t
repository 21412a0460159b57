# Prefetch limits (amqp.md 7.7).

== a prefetch size is not implemented
open
> basic.qos prefetch_size=1
hard 540 basic.qos "prefetch_size!=0 (1)"
open
> basic.qos prefetch_size=1000 prefetch_count=1 global
hard 540 basic.qos "prefetch_size!=0 (1000)"

== each consumer has a limit of its own
open
> queue.declare queue="l.a" exclusive
< queue.declare_ok
> basic.qos prefetch_count=2
< basic.qos_ok
> basic.consume queue="l.a" consumer_tag="a"
< basic.consume_ok
for i 1..5
	> basic.publish exchange="" routing_key="l.a" body="m${i}"
< basic.deliver consumer_tag="a" body="m1" delivery_tag=1
< basic.deliver consumer_tag="a" body="m2" delivery_tag=2
quiet "l.a"
> basic.consume queue="l.a" consumer_tag="b"
< basic.consume_ok
< basic.deliver consumer_tag="b" body="m3" delivery_tag=3
< basic.deliver consumer_tag="b" body="m4" delivery_tag=4
quiet "l.a"
> basic.ack delivery_tag=3
< basic.deliver consumer_tag="b" body="m5" delivery_tag=5
quiet "l.a"

== the limit of a consumer is that of its beginning
open
> queue.declare queue="l.a" exclusive
< queue.declare_ok
> basic.qos prefetch_count=1
< basic.qos_ok
> basic.consume queue="l.a" consumer_tag="a"
< basic.consume_ok
for i 1..5
	> basic.publish exchange="" routing_key="l.a" body="m${i}"
< basic.deliver consumer_tag="a" body="m1"
> basic.qos prefetch_count=0
< basic.qos_ok
quiet "l.a"
> basic.consume queue="l.a" consumer_tag="b"
< basic.consume_ok
for i 2..5
	< basic.deliver consumer_tag="b" body="m${i}"

== nack and reject give credit too
open
> queue.declare queue="l.a" exclusive
< queue.declare_ok
> basic.qos prefetch_count=1
< basic.qos_ok
> basic.consume queue="l.a" consumer_tag="a"
< basic.consume_ok
for i 1..4
	> basic.publish exchange="" routing_key="l.a" body="m${i}"
< basic.deliver body="m1" delivery_tag=1
> basic.nack delivery_tag=1
< basic.deliver body="m2" delivery_tag=2
> basic.reject delivery_tag=2
< basic.deliver body="m3" delivery_tag=3
> basic.reject delivery_tag=3 requeue
< basic.deliver body="m3" delivery_tag=4 redelivered
> basic.nack delivery_tag=4 requeue
< basic.deliver body="m3" delivery_tag=5 redelivered
> basic.ack delivery_tag=0 multiple
< basic.deliver body="m4" delivery_tag=6

== a consumer without acknowledgements has no limit
open
> queue.declare queue="l.a" exclusive
< queue.declare_ok
> basic.qos prefetch_count=2
< basic.qos_ok
> basic.consume queue="l.a" consumer_tag="a" no_ack
< basic.consume_ok
for i 1..10
	> basic.publish exchange="" routing_key="l.a" body="m${i}"
for i 1..10
	< basic.deliver body="m${i}" delivery_tag=$i

== a global limit is shared, by consumers that are there already too
open
> queue.declare queue="l.a" exclusive
< queue.declare_ok
> basic.consume queue="l.a" consumer_tag="a"
< basic.consume_ok
> basic.qos prefetch_count=2 global
< basic.qos_ok
> basic.consume queue="l.a" consumer_tag="b"
< basic.consume_ok
for i 1..5
	> basic.publish exchange="" routing_key="l.a" body="m${i}"
< basic.deliver delivery_tag=1 body="m1"
< basic.deliver delivery_tag=2 body="m2"
quiet "l.a"
> basic.ack delivery_tag=1
< basic.deliver delivery_tag=3 body="m3"
quiet "l.a"
> basic.ack delivery_tag=3 multiple
< basic.deliver delivery_tag=4 body="m4"
< basic.deliver delivery_tag=5 body="m5"

== raising the global limit, or taking it away, delivers at once
open
> queue.declare queue="l.a" exclusive
< queue.declare_ok
> basic.qos prefetch_count=1 global
< basic.qos_ok
> basic.consume queue="l.a" consumer_tag="a"
< basic.consume_ok
for i 1..6
	> basic.publish exchange="" routing_key="l.a" body="m${i}"
< basic.deliver body="m1"
quiet "l.a"
> basic.qos prefetch_count=3 global
< basic.qos_ok
< basic.deliver body="m2"
< basic.deliver body="m3"
quiet "l.a"
> basic.qos prefetch_count=1 global
< basic.qos_ok
> basic.ack delivery_tag=1
quiet "l.a"
> basic.qos prefetch_count=0 global
< basic.qos_ok
for i 4..6
	< basic.deliver body="m${i}"

== both limits count
open
> queue.declare queue="l.a" exclusive
< queue.declare_ok
> basic.qos prefetch_count=2
< basic.qos_ok
> basic.qos prefetch_count=3 global
< basic.qos_ok
> basic.consume queue="l.a" consumer_tag="a"
< basic.consume_ok
> basic.consume queue="l.a" consumer_tag="b"
< basic.consume_ok
for i 1..6
	> basic.publish exchange="" routing_key="l.a" body="m${i}"
for i 1..3
	< basic.deliver delivery_tag=$i body="m${i}"
quiet "l.a"
> basic.ack delivery_tag=3 multiple
for i 4..6
	< basic.deliver delivery_tag=$i body="m${i}"

== get has no limit, and gets after a global qos do not count
open
> queue.declare queue="l.a" exclusive
< queue.declare_ok
> basic.qos prefetch_count=2 global
< basic.qos_ok
for i 1..7
	> basic.publish exchange="" routing_key="l.a" body="m${i}"
sync "l.a"
for i 1..3
	> basic.get queue="l.a"
	< basic.get_ok delivery_tag=$i
> basic.consume queue="l.a" consumer_tag="a"
< basic.consume_ok
< basic.deliver delivery_tag=4
< basic.deliver delivery_tag=5
quiet "l.a"

== what is unacknowledged when a global limit is set counts from then on
open
> queue.declare queue="l.a" exclusive
< queue.declare_ok
for i 1..5
	> basic.publish exchange="" routing_key="l.a" body="m${i}"
sync "l.a"
> basic.get queue="l.a"
< basic.get_ok delivery_tag=1
> basic.qos prefetch_count=2 global
< basic.qos_ok
> basic.consume queue="l.a" consumer_tag="a"
< basic.consume_ok
< basic.deliver delivery_tag=2
quiet "l.a"

== limits are the channel's
open channels=2
> c1 1 queue.declare queue="l.a" exclusive
< c1 1 queue.declare_ok
> c1 1 basic.qos prefetch_count=1
< c1 1 basic.qos_ok
> c1 2 basic.consume queue="l.a" consumer_tag="a"
< c1 2 basic.consume_ok
for i 1..3
	> c1 1 basic.publish exchange="" routing_key="l.a" body="m${i}"
for i 1..3
	< c1 2 basic.deliver body="m${i}"

== a channel-wide limit is taken away by a qos for each consumer
open
> queue.declare queue="l.a" exclusive
< queue.declare_ok
> basic.qos prefetch_count=1 global
< basic.qos_ok
> basic.consume queue="l.a" consumer_tag="a"
< basic.consume_ok
for i 1..3
	> basic.publish exchange="" routing_key="l.a" body="m${i}"
< basic.deliver body="m1"
quiet "l.a"
> basic.qos prefetch_count=5
< basic.qos_ok
> basic.ack delivery_tag=1
< basic.deliver body="m2"
< basic.deliver body="m3"

== credit of a cancelled consumer is not another one's
open
> queue.declare queue="l.a" exclusive
< queue.declare_ok
> basic.qos prefetch_count=1
< basic.qos_ok
> basic.consume queue="l.a" consumer_tag="a"
< basic.consume_ok
for i 1..3
	> basic.publish exchange="" routing_key="l.a" body="m${i}"
< basic.deliver consumer_tag="a" delivery_tag=1
> basic.cancel consumer_tag="a"
< basic.cancel_ok
> basic.consume queue="l.a" consumer_tag="b"
< basic.consume_ok
< basic.deliver consumer_tag="b" delivery_tag=2
> basic.ack delivery_tag=1
quiet "l.a"
> basic.ack delivery_tag=2
< basic.deliver consumer_tag="b" delivery_tag=3

== a limit of 0 is none
open
> queue.declare queue="l.a" exclusive
< queue.declare_ok
> basic.qos prefetch_count=1
< basic.qos_ok
> basic.qos prefetch_count=0
< basic.qos_ok
> basic.consume queue="l.a" consumer_tag="a"
< basic.consume_ok
for i 1..5
	> basic.publish exchange="" routing_key="l.a" body="m${i}"
for i 1..5
	< basic.deliver body="m${i}"

== lowering the global limit takes nothing back
open
> queue.declare queue="l.a" exclusive
< queue.declare_ok
> basic.qos prefetch_count=3 global
< basic.qos_ok
> basic.consume queue="l.a" consumer_tag="a"
< basic.consume_ok
for i 1..5
	> basic.publish exchange="" routing_key="l.a" body="m${i}"
for i 1..3
	< basic.deliver body="m${i}" delivery_tag=$i
> basic.qos prefetch_count=1 global
< basic.qos_ok
quiet "l.a"
> basic.ack delivery_tag=2 multiple
quiet "l.a"
> basic.ack delivery_tag=3
< basic.deliver body="m4" delivery_tag=4
quiet "l.a"

== deliveries without acknowledgements do not count towards the global limit, but wait for it
open
> queue.declare queue="l.a" exclusive
< queue.declare_ok
> queue.declare queue="l.b" exclusive
< queue.declare_ok
> basic.qos prefetch_count=2 global
< basic.qos_ok
> basic.consume queue="l.a" consumer_tag="a" no_ack
< basic.consume_ok
> basic.consume queue="l.b" consumer_tag="b"
< basic.consume_ok
for i 1..4
	> basic.publish exchange="" routing_key="l.a" body="a${i}"
	< basic.deliver consumer_tag="a" body="a${i}"
for i 1..3
	> basic.publish exchange="" routing_key="l.b" body="b${i}"
< basic.deliver consumer_tag="b" body="b1" delivery_tag=5
< basic.deliver consumer_tag="b" body="b2" delivery_tag=6
> basic.publish exchange="" routing_key="l.a" body="a5"
quiet "l.a" "l.b"
> basic.ack delivery_tag=6 multiple
any_order
	< basic.deliver consumer_tag="b" body="b3"
	< basic.deliver consumer_tag="a" body="a5"

== a quorum queue takes no consumer while the channel has a limit for all
open
> queue.declare queue="l.quorum" durable arguments={x-queue-type="quorum"}
< queue.declare_ok
> basic.qos prefetch_count=5 global
< basic.qos_ok
> basic.consume queue="l.quorum" consumer_tag="a"
hard 540 basic.consume "queue 'l.quorum' in vhost '/' does not support global qos"
open
> basic.consume queue="l.quorum" arguments={x-priority="high"}
soft 406 basic.consume ~"invalid arg 'x-priority' for queue 'l\.quorum' in vhost '/': .*"
> basic.qos prefetch_count=5 global
< basic.qos_ok
> basic.qos prefetch_count=0 global
< basic.qos_ok
> basic.consume queue="l.quorum" consumer_tag="a"
< basic.consume_ok
> basic.cancel consumer_tag="a"
< basic.cancel_ok
> basic.qos prefetch_count=5
< basic.qos_ok
> basic.consume queue="l.quorum" consumer_tag="b"
< basic.consume_ok
> basic.get queue="l.quorum"
< basic.get_empty

== py-amqp raises the limit of a consumer that is there already
open product="py-amqp"
> queue.declare queue="l.a" exclusive
< queue.declare_ok
> basic.qos prefetch_count=1
< basic.qos_ok
> basic.consume queue="l.a" consumer_tag="a"
< basic.consume_ok
for i 1..4
	> basic.publish exchange="" routing_key="l.a" body="m${i}"
< basic.deliver body="m1"
quiet "l.a"
> basic.qos prefetch_count=3
< basic.qos_ok
differs py-amqp-qos
	< basic.deliver body="m2"
	< basic.deliver body="m3"
quiet "l.a"
