# Declaring, comparing, purging and deleting queues (amqp.md 4.4, 6.1, 6.2, 6.5 to 6.7).

set locked "cannot obtain exclusive access to locked queue 'q.x' in vhost '/'. It could be originally declared on another connection or the exclusive property value does not match that of the original declaration."

== a queue, declared and counted
open
> queue.declare queue="q.a"
< queue.declare_ok queue="q.a" message_count=0 consumer_count=0
> basic.publish exchange="" routing_key="q.a" body="m"
> basic.publish exchange="" routing_key="q.a" body="m"
sync "q.a"
> queue.declare queue="q.a"
< queue.declare_ok message_count=2 consumer_count=0
> basic.get queue="q.a"
< basic.get_ok message_count=1
> queue.declare queue="q.a" passive
< queue.declare_ok queue="q.a" message_count=1 consumer_count=0
> basic.consume queue="q.a" consumer_tag="t"
< basic.consume_ok
< basic.deliver
> queue.declare queue="q.a" passive
< queue.declare_ok message_count=0 consumer_count=1

== a missing queue
open
> queue.declare queue="q.nope" passive
soft 404 queue.declare "no queue 'q.nope' in vhost '/'"
> queue.purge queue="q.nope"
soft 404 queue.purge "no queue 'q.nope' in vhost '/'"
> basic.consume queue="q.nope"
soft 404 basic.consume "no queue 'q.nope' in vhost '/'"
> basic.get queue="q.nope"
soft 404 basic.get "no queue 'q.nope' in vhost '/'"
> queue.delete queue="q.nope"
< queue.delete_ok message_count=0
> queue.delete queue="q.nope" if_empty if_unused
< queue.delete_ok message_count=0

== a passive declare of the empty name
open
> queue.declare queue="" passive
soft 404 queue.declare "no queue '' in vhost '/'"
> queue.declare queue="q.a" exclusive
< queue.declare_ok
> queue.declare queue="" passive
soft 404 queue.declare "no queue '' in vhost '/'"

== no queue was declared on this channel
open
> queue.bind queue="" exchange="amq.direct" routing_key="k"
soft 404 queue.bind "no previously declared queue"
> queue.unbind queue="" exchange="amq.direct" routing_key="k"
soft 404 queue.unbind "no previously declared queue"
> queue.purge queue=""
soft 404 queue.purge "no previously declared queue"
> queue.delete queue=""
soft 404 queue.delete "no previously declared queue"
> basic.consume queue=""
soft 404 basic.consume "no previously declared queue"
> basic.get queue=""
soft 404 basic.get "no previously declared queue"

== the last declared queue is the channel's
open channels=2
> c1 1 queue.declare queue="q.a" exclusive
< c1 1 queue.declare_ok
> c1 2 basic.get queue=""
soft c1 2 404 basic.get "no previously declared queue"
> c1 2 queue.declare queue="q.a" passive
< c1 2 queue.declare_ok
> c1 2 basic.get queue=""
< c1 2 basic.get_empty
> c1 1 queue.declare queue="q.b" exclusive
< c1 1 queue.declare_ok
> c1 2 basic.publish exchange="" routing_key="q.a" body="a"
sync c1 2 "q.a"
> c1 1 queue.purge queue=""
< c1 1 queue.purge_ok message_count=0
> c1 2 queue.purge queue=""
< c1 2 queue.purge_ok message_count=1

== it is not forgotten when it is deleted
open
> queue.declare queue="q.a" exclusive
< queue.declare_ok
> queue.delete queue=""
< queue.delete_ok
> basic.get queue=""
soft 404 basic.get "no queue 'q.a' in vhost '/'"

== names made by the server
open
> queue.declare queue="" exclusive
< queue.declare_ok queue=~"amq\.gen-[A-Za-z0-9_-]{22}"->$one
> queue.declare queue="" exclusive
< queue.declare_ok queue=~"amq\.gen-[A-Za-z0-9_-]{22}"->$two
differ $one $two
> basic.publish exchange="" routing_key=$two body="m"
> basic.get queue="" no_ack
< basic.get_ok routing_key=$two
> queue.declare queue=$one exclusive
soft 403 queue.declare "queue name '${one}' contains reserved prefix 'amq.*'"
> queue.declare queue=$one passive
< queue.declare_ok queue=$one
> queue.delete queue=$one
< queue.delete_ok
> queue.declare queue="" nowait
> basic.get queue="" no_ack
< basic.get_empty
> queue.delete queue=""
< queue.delete_ok

== names that are reserved
open
> queue.declare queue="amq.mine"
soft 403 queue.declare "queue name 'amq.mine' contains reserved prefix 'amq.*'"
> queue.declare queue="amq.mine" passive
soft 404 queue.declare "no queue 'amq.mine' in vhost '/'"
> queue.declare queue="amqp.mine" exclusive
< queue.declare_ok

== the same declaration again
open
> queue.declare queue="q.same" durable auto_delete arguments={x-max-length=5 other="x"}
< queue.declare_ok
> queue.declare queue="q.same" durable auto_delete arguments={x-max-length=5 other="x"}
< queue.declare_ok queue="q.same" message_count=0 consumer_count=0
> queue.declare queue="q.same" durable passive exclusive
< queue.declare_ok
> queue.declare queue="q.same" durable auto_delete arguments={x-max-length=5 other="x"} nowait
quiet

== another declaration of the same name
open
> queue.declare queue="q.other" durable
< queue.declare_ok
> queue.declare queue="q.other"
soft 406 queue.declare "inequivalent arg 'durable' for queue 'q.other' in vhost '/': received 'false' but current is 'true'"
> queue.declare queue="q.other" auto_delete
soft 406 queue.declare "inequivalent arg 'durable' for queue 'q.other' in vhost '/': received 'false' but current is 'true'"
> queue.declare queue="q.other" durable auto_delete
soft 406 queue.declare "inequivalent arg 'auto_delete' for queue 'q.other' in vhost '/': received 'true' but current is 'false'"

== exclusive declared again without the bit, and the other way round
open
> queue.declare queue="q.x" exclusive
< queue.declare_ok
> queue.declare queue="q.x"
soft 405 queue.declare $locked
> queue.declare queue="q.x" exclusive
< queue.declare_ok
> queue.delete queue="q.x"
< queue.delete_ok
> queue.declare queue="q.x"
< queue.declare_ok
> queue.declare queue="q.x" exclusive
soft 405 queue.declare $locked

== the durable bit of an exclusive queue does not matter
open
> queue.declare queue="q.x" exclusive durable
< queue.declare_ok
> queue.declare queue="q.x" exclusive
< queue.declare_ok

== another connection's exclusive queue
open c1
open c2
> c1 1 queue.declare queue="q.x" exclusive
< c1 1 queue.declare_ok
> c2 1 queue.declare queue="q.x" exclusive
soft c2 1 405 queue.declare $locked
> c2 1 queue.declare queue="q.x"
soft c2 1 405 queue.declare $locked
> c2 1 queue.declare queue="q.x" passive
soft c2 1 405 queue.declare $locked
> c2 1 queue.bind queue="q.x" exchange="amq.fanout"
soft c2 1 405 queue.bind $locked
> c2 1 basic.consume queue="q.x"
soft c2 1 405 basic.consume $locked
> c2 1 basic.get queue="q.x"
soft c2 1 405 basic.get $locked
> c2 1 queue.purge queue="q.x"
soft c2 1 405 queue.purge $locked
> c2 1 queue.delete queue="q.x"
soft c2 1 405 queue.delete $locked
> c2 1 basic.publish exchange="" routing_key="q.x" mandatory body="m"
sync c2 1
sync c1 1 "q.x"
> c1 1 basic.get queue="q.x" no_ack
< c1 1 basic.get_ok body="m"

== an exclusive queue serves all channels of its connection
open channels=2
> c1 1 queue.declare queue="q.x" exclusive
< c1 1 queue.declare_ok
> c1 2 queue.declare queue="q.x" exclusive
< c1 2 queue.declare_ok
> c1 2 basic.consume queue="q.x" consumer_tag="t"
< c1 2 basic.consume_ok
close c1 1
> c1 2 queue.declare queue="q.x" passive
< c1 2 queue.declare_ok consumer_count=1

== purge
open
> queue.declare queue="q.a" exclusive
< queue.declare_ok
for i 1..3
	> basic.publish exchange="" routing_key="q.a" body="m${i}"
sync "q.a"
> basic.get queue="q.a"
< basic.get_ok body="m1" delivery_tag=1
> queue.purge queue="q.a"
< queue.purge_ok message_count=2
> basic.nack delivery_tag=1 requeue
sync "q.a"
> queue.purge queue="q.a" nowait
> queue.purge queue="q.a"
< queue.purge_ok message_count=0

== delete counts what was ready
open
> queue.declare queue="q.a"
< queue.declare_ok
for i 1..3
	> basic.publish exchange="" routing_key="q.a" body="m${i}"
sync "q.a"
> basic.get queue="q.a"
< basic.get_ok delivery_tag=1
> queue.delete queue="q.a"
< queue.delete_ok message_count=2
> basic.ack delivery_tag=1
sync
> queue.declare queue="q.a" passive
soft 404 queue.declare "no queue 'q.a' in vhost '/'"

== delete with if-empty and if-unused
open
> queue.declare queue="q.a"
< queue.declare_ok
> basic.publish exchange="" routing_key="q.a" body="m"
sync "q.a"
> queue.delete queue="q.a" if_empty
soft 406 queue.delete "queue 'q.a' in vhost '/' not empty"
> basic.get queue="q.a"
< basic.get_ok delivery_tag=1
> basic.consume queue="q.a" consumer_tag="t"
< basic.consume_ok
> queue.delete queue="q.a" if_unused
soft 406 queue.delete "queue 'q.a' in vhost '/' in use"
sync "q.a"
> queue.delete queue="q.a" if_unused
< queue.delete_ok message_count=1

== not empty is found before in use
open
> queue.declare queue="q.a"
< queue.declare_ok
> basic.qos prefetch_count=1
< basic.qos_ok
> basic.consume queue="q.a" consumer_tag="t"
< basic.consume_ok
> basic.publish exchange="" routing_key="q.a" body="m1"
> basic.publish exchange="" routing_key="q.a" body="m2"
< basic.deliver
sync "q.a"
> queue.delete queue="q.a" if_empty if_unused
soft 406 queue.delete "queue 'q.a' in vhost '/' not empty"

== unacknowledged messages do not make a queue not empty
open
> queue.declare queue="q.a"
< queue.declare_ok
> basic.publish exchange="" routing_key="q.a" body="m1"
sync "q.a"
> basic.get queue="q.a"
< basic.get_ok
> queue.delete queue="q.a" if_empty if_unused
< queue.delete_ok message_count=0

== delete without an answer
open
> queue.declare queue="q.a"
< queue.declare_ok
> queue.delete queue="q.a" nowait
> queue.declare queue="q.a" passive
soft 404 queue.declare "no queue 'q.a' in vhost '/'"

== consumers of a deleted queue are told
open c1
open c2
> c1 1 queue.declare queue="q.a"
< c1 1 queue.declare_ok
> c1 1 basic.consume queue="q.a" consumer_tag="one"
< c1 1 basic.consume_ok
> c2 1 basic.consume queue="q.a" consumer_tag="two"
< c2 1 basic.consume_ok
> c1 1 queue.delete queue="q.a"
< c1 1 queue.delete_ok
< c1 1 basic.cancel consumer_tag="one" nowait
< c2 1 basic.cancel consumer_tag="two" nowait
> c1 1 basic.consume queue="q.a" consumer_tag="one"
soft c1 1 404 basic.consume "no queue 'q.a' in vhost '/'"

== but not those who do not know what to do with it
open capabilities={}
> queue.declare queue="q.a"
< queue.declare_ok
> basic.consume queue="q.a" consumer_tag="one"
< basic.consume_ok
> queue.delete queue="q.a"
< queue.delete_ok
quiet

== an auto-delete queue goes with its last consumer
open c1 channels=2
> c1 1 queue.declare queue="q.auto" auto_delete
< c1 1 queue.declare_ok
> c1 1 basic.get queue="q.auto"
< c1 1 basic.get_empty
> c1 1 basic.consume queue="q.auto" consumer_tag="a"
< c1 1 basic.consume_ok
> c1 2 basic.consume queue="q.auto" consumer_tag="b"
< c1 2 basic.consume_ok
> c1 1 basic.cancel consumer_tag="a"
< c1 1 basic.cancel_ok
> c1 1 queue.declare queue="q.auto" passive
< c1 1 queue.declare_ok consumer_count=1
> c1 2 basic.cancel consumer_tag="b"
< c1 2 basic.cancel_ok
> c1 1 queue.declare queue="q.auto" passive
soft c1 1 404 queue.declare "no queue 'q.auto' in vhost '/'"

== also when the channel or the connection of that consumer ends
open c1
open c2 channels=2
> c1 1 queue.declare queue="q.auto" auto_delete
< c1 1 queue.declare_ok
> c2 1 basic.consume queue="q.auto" consumer_tag="a"
< c2 1 basic.consume_ok
close c2 1
> c1 1 queue.declare queue="q.auto" passive
soft c1 1 404 queue.declare "no queue 'q.auto' in vhost '/'"
> c1 1 queue.declare queue="q.auto" auto_delete
< c1 1 queue.declare_ok
> c2 2 basic.consume queue="q.auto" consumer_tag="a"
< c2 2 basic.consume_ok
close c2
> c1 1 queue.declare queue="q.auto" passive
soft c1 1 404 queue.declare "no queue 'q.auto' in vhost '/'"

== a queue that lives on keeps its messages and order
open c1
open c2
> c1 1 queue.declare queue="q.keeps"
< c1 1 queue.declare_ok
for i 1..5
	> c1 1 basic.publish exchange="" routing_key="q.keeps" body="m${i}"
close c1
> c2 1 queue.declare queue="q.keeps"
< c2 1 queue.declare_ok message_count=5
for i 1..5
	> c2 1 basic.get queue="q.keeps" no_ack
	< c2 1 basic.get_ok body="m${i}" delivery_tag=$i
