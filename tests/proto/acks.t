# Acknowledging, rejecting and recovering what was delivered (amqp.md 7.9).

== tags that were not delivered
open
> basic.ack delivery_tag=1
soft 406 basic.ack "unknown delivery tag 1"
> basic.nack delivery_tag=99
soft 406 basic.nack "unknown delivery tag 99"
> basic.reject delivery_tag=18446744073709551615
soft 406 basic.reject "unknown delivery tag 18446744073709551615"
> basic.ack delivery_tag=0
soft 406 basic.ack "unknown delivery tag 0"
> basic.nack delivery_tag=0
soft 406 basic.nack "unknown delivery tag 0"
> basic.reject delivery_tag=0
soft 406 basic.reject "unknown delivery tag 0"
> basic.ack delivery_tag=5 multiple
soft 406 basic.ack "unknown delivery tag 5"
> basic.nack delivery_tag=5 multiple requeue
soft 406 basic.nack "unknown delivery tag 5"

== tag 0 with multiple means all, also when there are none
open
> basic.ack delivery_tag=0 multiple
> basic.nack delivery_tag=0 multiple
quiet
> queue.declare queue="k.a" exclusive
< queue.declare_ok
for i 1..3
	> basic.publish exchange="" routing_key="k.a" body="m${i}"
sync "k.a"
for i 1..3
	> basic.get queue="k.a"
	< basic.get_ok delivery_tag=$i
> basic.ack delivery_tag=0 multiple
sync
> basic.ack delivery_tag=3
soft 406 basic.ack "unknown delivery tag 3"

== twice
open
> queue.declare queue="k.a" exclusive
< queue.declare_ok
> basic.publish exchange="" routing_key="k.a" body="m"
sync "k.a"
> basic.get queue="k.a"
< basic.get_ok delivery_tag=1
> basic.ack delivery_tag=1
> basic.ack delivery_tag=1
soft 406 basic.ack "unknown delivery tag 1"

== what was delivered without acknowledgement is not known
open
> queue.declare queue="k.a" exclusive
< queue.declare_ok
> basic.publish exchange="" routing_key="k.a" body="m"
sync "k.a"
> basic.get queue="k.a" no_ack
< basic.get_ok delivery_tag=1
> basic.ack delivery_tag=1
soft 406 basic.ack "unknown delivery tag 1"

== a tag is the channel's
open channels=2
> c1 1 queue.declare queue="k.a" exclusive
< c1 1 queue.declare_ok
> c1 1 basic.publish exchange="" routing_key="k.a" body="m"
sync c1 1 "k.a"
> c1 1 basic.get queue="k.a"
< c1 1 basic.get_ok delivery_tag=1
> c1 2 basic.ack delivery_tag=1
soft c1 2 406 basic.ack "unknown delivery tag 1"
> c1 1 basic.ack delivery_tag=1

== multiple stops at its tag, and that tag must be outstanding
open
> queue.declare queue="k.a" exclusive
< queue.declare_ok
for i 1..5
	> basic.publish exchange="" routing_key="k.a" body="m${i}"
sync "k.a"
for i 1..5
	> basic.get queue="k.a"
	< basic.get_ok delivery_tag=$i
> basic.ack delivery_tag=3
> basic.ack delivery_tag=2 multiple
sync
> basic.ack delivery_tag=3 multiple
soft 406 basic.ack "unknown delivery tag 3"
> queue.declare queue="k.a" passive
< queue.declare_ok message_count=2
for i 4..5
	> basic.get queue="k.a"
	< basic.get_ok body="m${i}" redelivered

== nack with requeue puts back at the old place
open
> queue.declare queue="k.a" exclusive
< queue.declare_ok
for i 1..5
	> basic.publish exchange="" routing_key="k.a" body="m${i}"
sync "k.a"
for i 1..4
	> basic.get queue="k.a"
	< basic.get_ok delivery_tag=$i body="m${i}"
> basic.nack delivery_tag=3 requeue
> basic.reject delivery_tag=1 requeue
> basic.nack delivery_tag=2
sync "k.a"
> basic.get queue="k.a"
< basic.get_ok body="m1" redelivered message_count=2 delivery_tag=5
> basic.get queue="k.a"
< basic.get_ok body="m3" redelivered message_count=1
> basic.get queue="k.a"
< basic.get_ok body="m5" message_count=0
> basic.get queue="k.a"
< basic.get_empty

== nack with multiple and requeue keeps the order
open
> queue.declare queue="k.a" exclusive
< queue.declare_ok
for i 1..5
	> basic.publish exchange="" routing_key="k.a" body="m${i}"
sync "k.a"
for i 1..4
	> basic.get queue="k.a"
	< basic.get_ok
> basic.nack delivery_tag=3 multiple requeue
sync "k.a"
for i 1..3
	> basic.get queue="k.a"
	< basic.get_ok body="m${i}" redelivered
> basic.get queue="k.a"
< basic.get_ok body="m5"

== nack and reject without requeue drop
open
> queue.declare queue="k.a" exclusive
< queue.declare_ok
for i 1..3
	> basic.publish exchange="" routing_key="k.a" body="m${i}"
sync "k.a"
for i 1..3
	> basic.get queue="k.a"
	< basic.get_ok
> basic.reject delivery_tag=1
> basic.nack delivery_tag=3 multiple
sync "k.a"
> basic.get queue="k.a"
< basic.get_empty

== redelivered stays for ever
open
> queue.declare queue="k.a" exclusive
< queue.declare_ok
> basic.publish exchange="" routing_key="k.a" body="m"
> basic.get queue="k.a"
< basic.get_ok delivery_tag=1
for i 1..3
	> basic.nack delivery_tag=$i requeue
	sync "k.a"
	> basic.get queue="k.a"
	< basic.get_ok redelivered

== requeued messages go to another consumer, or to the same
open channels=2
> c1 1 queue.declare queue="k.a" exclusive
< c1 1 queue.declare_ok
> c1 1 basic.qos prefetch_count=1
< c1 1 basic.qos_ok
> c1 2 basic.qos prefetch_count=1
< c1 2 basic.qos_ok
> c1 1 basic.consume queue="k.a" consumer_tag="a"
< c1 1 basic.consume_ok
> c1 1 basic.publish exchange="" routing_key="k.a" body="m1"
< c1 1 basic.deliver body="m1" delivery_tag=1
> c1 2 basic.consume queue="k.a" consumer_tag="b"
< c1 2 basic.consume_ok
close c1 1
< c1 2 basic.deliver body="m1" delivery_tag=1 redelivered
> c1 2 basic.reject delivery_tag=1 requeue
< c1 2 basic.deliver body="m1" delivery_tag=2 redelivered

== recover without requeue is not implemented
open
> basic.recover
hard 540 basic.recover "requeue=false"
open
> basic.recover_async
hard 540 basic.recover_async "requeue=false"

== recover puts everything of the channel back
open
> queue.declare queue="k.a" exclusive
< queue.declare_ok
> queue.declare queue="k.b" exclusive
< queue.declare_ok
for i 1..3
	> basic.publish exchange="" routing_key="k.a" body="m${i}"
> basic.publish exchange="" routing_key="k.b" body="other"
sync "k.a" "k.b"
> basic.get queue="k.b"
< basic.get_ok delivery_tag=1
> basic.consume queue="k.a" consumer_tag="t"
< basic.consume_ok
for i 2..4
	< basic.deliver delivery_tag=$i
> basic.ack delivery_tag=3
> basic.recover requeue
< basic.recover_ok
< basic.deliver delivery_tag=5 body="m1" redelivered
< basic.deliver delivery_tag=6 body="m3" redelivered
sync "k.b"
> basic.get queue="k.b"
< basic.get_ok body="other" redelivered delivery_tag=7
> basic.ack delivery_tag=2
soft 406 basic.ack "unknown delivery tag 2"

== recover-async has no answer
open
> queue.declare queue="k.a" exclusive
< queue.declare_ok
> basic.publish exchange="" routing_key="k.a" body="m"
> basic.consume queue="k.a" consumer_tag="t"
< basic.consume_ok
< basic.deliver body="m" delivery_tag=1
> basic.recover_async requeue
< basic.deliver body="m" delivery_tag=2 redelivered

== recover with nothing outstanding
open
> basic.recover requeue
< basic.recover_ok

== cancelling leaves messages outstanding; they can be acknowledged
open
> queue.declare queue="k.a" exclusive
< queue.declare_ok
> basic.publish exchange="" routing_key="k.a" body="m1"
> basic.publish exchange="" routing_key="k.a" body="m2"
> basic.consume queue="k.a" consumer_tag="t"
< basic.consume_ok
< basic.deliver delivery_tag=1
< basic.deliver delivery_tag=2
> basic.cancel consumer_tag="t"
< basic.cancel_ok
> queue.declare queue="k.a" passive
< queue.declare_ok message_count=0 consumer_count=0
> basic.ack delivery_tag=1
sync "k.a"
> basic.nack delivery_tag=2 requeue
sync "k.a"
> queue.purge queue="k.a"
< queue.purge_ok message_count=1
