# One consumer at a time: x-single-active-consumer (amqp.md 6.11).

== the first is active, the next one takes over
open channels=3
> c1 1 queue.declare queue="sa.a" arguments={x-single-active-consumer=true}
< c1 1 queue.declare_ok
> c1 1 basic.consume queue="sa.a" consumer_tag="t1"
< c1 1 basic.consume_ok
> c1 2 basic.consume queue="sa.a" consumer_tag="t2"
< c1 2 basic.consume_ok
> c1 3 basic.consume queue="sa.a" consumer_tag="t3"
< c1 3 basic.consume_ok
> c1 1 queue.declare queue="sa.a" passive
< c1 1 queue.declare_ok message_count=0 consumer_count=3
for i 1..3
	> c1 3 basic.publish exchange="" routing_key="sa.a" body="m${i}"
	< c1 1 basic.deliver consumer_tag="t1" delivery_tag=$i body="m${i}"
# A tag that was delivered before the cancel is still good, and is not in the way of the next one.
> c1 1 basic.cancel consumer_tag="t1"
< c1 1 basic.cancel_ok
> c1 3 basic.publish exchange="" routing_key="sa.a" body="m4"
< c1 2 basic.deliver consumer_tag="t2" delivery_tag=1 body="m4"
> c1 1 basic.ack delivery_tag=3 multiple
sync c1 1 "sa.a"
> c1 2 channel.close reply_code=200 reply_text="bye"
< c1 2 channel.close_ok
< c1 3 basic.deliver consumer_tag="t3" delivery_tag=1 redelivered body="m4"
> c1 1 queue.delete queue="sa.a"
< c1 1 queue.delete_ok
< c1 3 basic.cancel consumer_tag="t3" nowait

== the end of a connection
open c1
open c2
> c1 queue.declare queue="sa.a" arguments={x-single-active-consumer=true}
< c1 queue.declare_ok
> c2 basic.consume queue="sa.a" consumer_tag="one"
< c2 basic.consume_ok
> c1 basic.consume queue="sa.a" consumer_tag="two"
< c1 basic.consume_ok
> c1 basic.publish exchange="" routing_key="sa.a" body="m"
< c2 basic.deliver consumer_tag="one" redelivered=false body="m"
drop c2
< c1 basic.deliver consumer_tag="two" redelivered body="m"

== the highest priority takes over, and displaces nobody
open channels=4
> c1 1 queue.declare queue="sa.a" exclusive arguments={x-single-active-consumer=true}
< c1 1 queue.declare_ok
> c1 1 basic.consume queue="sa.a" consumer_tag="t1" no_ack
< c1 1 basic.consume_ok
> c1 2 basic.consume queue="sa.a" consumer_tag="t2" no_ack arguments={x-priority=1}
< c1 2 basic.consume_ok
> c1 3 basic.consume queue="sa.a" consumer_tag="t3" no_ack arguments={x-priority=3}
< c1 3 basic.consume_ok
> c1 4 basic.consume queue="sa.a" consumer_tag="t4" no_ack arguments={x-priority=2}
< c1 4 basic.consume_ok
> c1 1 basic.publish exchange="" routing_key="sa.a" body="m"
< c1 1 basic.deliver consumer_tag="t1" body="m"
> c1 1 basic.cancel consumer_tag="t1"
< c1 1 basic.cancel_ok
> c1 1 basic.publish exchange="" routing_key="sa.a" body="m"
< c1 3 basic.deliver consumer_tag="t3" body="m"

== of the same priority the one that came first takes over
open channels=4
> c1 1 queue.declare queue="sa.a" exclusive arguments={x-single-active-consumer=true}
< c1 1 queue.declare_ok
> c1 1 basic.consume queue="sa.a" consumer_tag="t1" no_ack
< c1 1 basic.consume_ok
> c1 2 basic.consume queue="sa.a" consumer_tag="t2" no_ack
< c1 2 basic.consume_ok
> c1 3 basic.consume queue="sa.a" consumer_tag="t3" no_ack
< c1 3 basic.consume_ok
> c1 4 basic.consume queue="sa.a" consumer_tag="t4" no_ack
< c1 4 basic.consume_ok
> c1 1 basic.publish exchange="" routing_key="sa.a" body="m"
< c1 1 basic.deliver consumer_tag="t1" body="m"
> c1 1 basic.cancel consumer_tag="t1"
< c1 1 basic.cancel_ok
> c1 1 basic.publish exchange="" routing_key="sa.a" body="m"
< c1 2 basic.deliver consumer_tag="t2" body="m"
> c1 2 basic.cancel consumer_tag="t2"
< c1 2 basic.cancel_ok
> c1 1 basic.publish exchange="" routing_key="sa.a" body="m"
< c1 3 basic.deliver consumer_tag="t3" body="m"
> c1 3 basic.cancel consumer_tag="t3"
< c1 3 basic.cancel_ok

== the active one is full: the others wait all the same
open channels=2
> c1 1 queue.declare queue="sa.a" exclusive arguments={x-single-active-consumer=true}
< c1 1 queue.declare_ok
> c1 1 basic.qos prefetch_count=1
< c1 1 basic.qos_ok
> c1 1 basic.consume queue="sa.a" consumer_tag="t1"
< c1 1 basic.consume_ok
> c1 2 basic.consume queue="sa.a" consumer_tag="t2"
< c1 2 basic.consume_ok
for i 1..2
	> c1 2 basic.publish exchange="" routing_key="sa.a" body="m${i}"
< c1 1 basic.deliver consumer_tag="t1" delivery_tag=1 body="m1"
quiet "sa.a"
> c1 1 basic.ack delivery_tag=1
< c1 1 basic.deliver consumer_tag="t1" delivery_tag=2 body="m2"

== an exclusive consumer is refused
open
> queue.declare queue="sa.a" exclusive arguments={x-single-active-consumer=true}
< queue.declare_ok
> basic.consume queue="sa.a" exclusive
soft 403 basic.consume "queue 'sa.a' in vhost '/' in exclusive use"
> basic.consume queue="sa.a" consumer_tag="t"
< basic.consume_ok

== basic.get passes by
open channels=2
> c1 1 queue.declare queue="sa.a" exclusive arguments={x-single-active-consumer=true}
< c1 1 queue.declare_ok
> c1 1 basic.qos prefetch_count=1
< c1 1 basic.qos_ok
> c1 1 basic.consume queue="sa.a" consumer_tag="t"
< c1 1 basic.consume_ok
for i 1..2
	> c1 2 basic.publish exchange="" routing_key="sa.a" body="m${i}"
< c1 1 basic.deliver body="m1"
sync c1 2 "sa.a"
> c1 2 basic.get queue="sa.a" no_ack
< c1 2 basic.get_ok body="m2"

== quorum queues: no basic.get
open
> queue.declare queue="sa.quorum" durable arguments={x-queue-type="quorum" x-single-active-consumer=true}
< queue.declare_ok
> basic.get queue="sa.quorum"
soft 405 basic.get "cannot obtain access to locked queue 'sa.quorum' in vhost '/'. basic.get operations are not supported by quorum queues with single active consumer"

== quorum queues: no exclusive consumer
open
> queue.declare queue="sa.quorum" durable arguments={x-queue-type="quorum" x-single-active-consumer=true}
< queue.declare_ok
> basic.consume queue="sa.quorum" consumer_tag="t" exclusive
differs quorum-exclusive-consumer
	soft 403 basic.consume "queue 'sa.quorum' in vhost '/' in exclusive use"
oracle
	< basic.consume_ok consumer_tag="t"

== quorum queues: a higher priority takes over when what was delivered is settled
open channels=2
> c1 1 queue.declare queue="sa.quorum" durable arguments={x-queue-type="quorum" x-single-active-consumer=true}
< c1 1 queue.declare_ok
> c1 1 basic.consume queue="sa.quorum" consumer_tag="low"
< c1 1 basic.consume_ok
> c1 1 basic.publish exchange="" routing_key="sa.quorum" body="m1"
< c1 1 basic.deliver consumer_tag="low" delivery_tag=1 body="m1"
> c1 2 basic.consume queue="sa.quorum" consumer_tag="high" arguments={x-priority=1}
< c1 2 basic.consume_ok
> c1 2 basic.publish exchange="" routing_key="sa.quorum" body="m2"
differs quorum-single-active-priority
	quiet "sa.quorum"
	> c1 1 basic.ack delivery_tag=1
	< c1 2 basic.deliver consumer_tag="high" delivery_tag=1 body="m2"
oracle
	< c1 1 basic.deliver consumer_tag="low" delivery_tag=2 body="m2"
	> c1 1 basic.ack delivery_tag=2 multiple
> c1 2 basic.cancel consumer_tag="high"
< c1 2 basic.cancel_ok
> c1 2 basic.publish exchange="" routing_key="sa.quorum" body="m3"
< c1 1 basic.deliver consumer_tag="low" body="m3"
