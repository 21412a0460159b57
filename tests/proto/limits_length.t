# Limits on the length of a queue: messages, octets, and what happens when it is full (amqp.md 6.8).
# RabbitMQ's queues work beside the channels, so "sync" goes by the queues before anybody looks.

== drop-head: the oldest go
open
> queue.declare queue="l.q" exclusive arguments={x-max-length=3}
< queue.declare_ok
for m "m1" "m2" "m3" "m4" "m5"
	> basic.publish exchange="" routing_key="l.q" body=$m
sync "l.q"
for m "m3" "m4" "m5"
	> basic.get queue="l.q" no_ack
	< basic.get_ok body=$m
> basic.get queue="l.q"
< basic.get_empty

== drop-head is confirmed, and says nothing to the publisher
open
> queue.declare queue="l.q" exclusive arguments={x-max-length=1 x-overflow="drop-head"}
< queue.declare_ok
> confirm.select
< confirm.select_ok
for i 1..5
	> basic.publish exchange="" routing_key="l.q" mandatory body="m${i}"
confirms acks=1..5
> queue.purge queue="l.q"
< queue.purge_ok message_count=1

== drop-head of persistent messages in a durable queue
open
> queue.declare queue="l.durable" durable arguments={x-max-length=2}
< queue.declare_ok
> confirm.select
< confirm.select_ok
for i 1..6
	> basic.publish exchange="" routing_key="l.durable" props={delivery_mode=2} body="m${i}"
confirms acks=1..6
for m "m5" "m6"
	> basic.get queue="l.durable" no_ack
	< basic.get_ok body=$m
> basic.get queue="l.durable"
< basic.get_empty

== octets: those of bodies, as many messages as must go
open
> queue.declare queue="l.q" exclusive arguments={x-max-length-bytes=10}
< queue.declare_ok
for m "aaaa" "bbbb" "cc"
	> basic.publish exchange="" routing_key="l.q" props={headers={h=100*"x"}} body=$m
sync "l.q"
> queue.declare queue="l.q" passive
< queue.declare_ok message_count=3
> basic.publish exchange="" routing_key="l.q" body="dddd"
sync "l.q"
> queue.declare queue="l.q" passive
< queue.declare_ok message_count=3
> basic.publish exchange="" routing_key="l.q" body=""
sync "l.q"
> queue.declare queue="l.q" passive
< queue.declare_ok message_count=4
> basic.publish exchange="" routing_key="l.q" body="eeeeeeeee"
sync "l.q"
> queue.declare queue="l.q" passive
< queue.declare_ok message_count=2
> basic.get queue="l.q" no_ack
< basic.get_ok body=""
> basic.get queue="l.q" no_ack
< basic.get_ok body="eeeeeeeee"

== a message that is larger than all octets drops the others and itself
open
> queue.declare queue="l.q" exclusive arguments={x-max-length-bytes=5}
< queue.declare_ok
> confirm.select
< confirm.select_ok
> basic.publish exchange="" routing_key="l.q" body="aaa"
> basic.publish exchange="" routing_key="l.q" body="bbbbbb"
confirms acks=1..2
> basic.get queue="l.q"
< basic.get_empty

== both limits: the one that is reached first
open
> queue.declare queue="l.q" exclusive arguments={x-max-length=2 x-max-length-bytes=6}
< queue.declare_ok
for m "a" "b" "c"
	> basic.publish exchange="" routing_key="l.q" body=$m
sync "l.q"
> queue.declare queue="l.q" passive
< queue.declare_ok message_count=2
> basic.publish exchange="" routing_key="l.q" body="dddddd"
sync "l.q"
> basic.get queue="l.q" no_ack
< basic.get_ok body="dddddd" message_count=0

== length 0 without a consumer
open
> queue.declare queue="l.q" exclusive arguments={x-max-length=0}
< queue.declare_ok
> confirm.select
< confirm.select_ok
> basic.publish exchange="" routing_key="l.q" mandatory body="m"
confirms acks=1
> basic.get queue="l.q"
< basic.get_empty

== length 0 with a waiting consumer
open channels=2
> queue.declare queue="l.q" exclusive arguments={x-max-length=0}
< queue.declare_ok
> c1 2 basic.qos prefetch_count=2
< c1 2 basic.qos_ok
> c1 2 basic.consume queue="l.q" consumer_tag="t"
< c1 2 basic.consume_ok
for m "m1" "m2" "m3"
	> basic.publish exchange="" routing_key="l.q" body=$m
	sync "l.q"
< c1 2 basic.deliver body="m1" delivery_tag=1
< c1 2 basic.deliver body="m2" delivery_tag=2
> c1 2 basic.ack delivery_tag=2 multiple
sync c1 2 "l.q"
> basic.publish exchange="" routing_key="l.q" body="m4"
< c1 2 basic.deliver body="m4" delivery_tag=3

== octets 0: empty bodies stay
open
> queue.declare queue="l.q" exclusive arguments={x-max-length-bytes=0}
< queue.declare_ok
> basic.publish exchange="" routing_key="l.q" props={message_id="empty"} body=""
> basic.publish exchange="" routing_key="l.q" body="m"
sync "l.q"
> queue.purge queue="l.q"
< queue.purge_ok message_count=0
> basic.publish exchange="" routing_key="l.q" props={message_id="empty"} body=""
> queue.purge queue="l.q"
< queue.purge_ok message_count=1

== unacked messages do not count
open channels=2
> queue.declare queue="l.q" exclusive arguments={x-max-length=2}
< queue.declare_ok
> basic.publish exchange="" routing_key="l.q" body="m1"
> basic.publish exchange="" routing_key="l.q" body="m2"
sync "l.q"
> c1 2 basic.get queue="l.q"
< c1 2 basic.get_ok body="m1"
> c1 2 basic.get queue="l.q"
< c1 2 basic.get_ok body="m2"
> basic.publish exchange="" routing_key="l.q" body="m3"
> basic.publish exchange="" routing_key="l.q" body="m4"
sync "l.q"
> queue.declare queue="l.q" passive
< queue.declare_ok message_count=2
> c1 2 basic.ack delivery_tag=2 multiple
sync c1 2
> queue.purge queue="l.q"
< queue.purge_ok message_count=2

== what comes back over the limit is the oldest and goes
open channels=2
> queue.declare queue="l.q" exclusive arguments={x-max-length=2}
< queue.declare_ok
for m "m1" "m2" "m3"
	> basic.publish exchange="" routing_key="l.q" body=$m
sync "l.q"
> c1 2 basic.get queue="l.q"
< c1 2 basic.get_ok body="m2" delivery_tag=1
> basic.publish exchange="" routing_key="l.q" body="m4"
sync "l.q"
> c1 2 basic.reject delivery_tag=1 requeue
sync c1 2 "l.q"
for m "m3" "m4"
	> basic.get queue="l.q" no_ack
	< basic.get_ok body=$m
> basic.get queue="l.q"
< basic.get_empty

== what comes back is handed out before anything goes
open channels=3
> queue.declare queue="l.q" exclusive arguments={x-max-length=1}
< queue.declare_ok
> basic.publish exchange="" routing_key="l.q" body="m1"
sync "l.q"
> c1 2 basic.get queue="l.q"
< c1 2 basic.get_ok body="m1"
> c1 3 basic.qos prefetch_count=1
< c1 3 basic.qos_ok
> c1 3 basic.consume queue="l.q" consumer_tag="t"
< c1 3 basic.consume_ok
> c1 2 basic.reject delivery_tag=1 requeue
< c1 3 basic.deliver body="m1" redelivered
> queue.purge queue="l.q"
< queue.purge_ok message_count=0

== reject-publish with confirms
open
> queue.declare queue="l.q" exclusive arguments={x-max-length=2 x-overflow="reject-publish"}
< queue.declare_ok
> confirm.select
< confirm.select_ok
for i 1..2
	> basic.publish exchange="" routing_key="l.q" body="m${i}"
confirms acks=1..2
> basic.publish exchange="" routing_key="l.q" body="m3"
confirms nacks=3
> basic.publish exchange="" routing_key="l.q" mandatory body="m4"
confirms nacks=4
> basic.get queue="l.q" no_ack
< basic.get_ok body="m1" message_count=1
> basic.publish exchange="" routing_key="l.q" body="m5"
confirms acks=5
> queue.purge queue="l.q"
< queue.purge_ok message_count=2

== reject-publish: acks and nacks of one burst
open
> queue.declare queue="l.q" exclusive arguments={x-max-length=3 x-overflow="reject-publish"}
< queue.declare_ok
> confirm.select
< confirm.select_ok
for i 1..6
	> basic.publish exchange="" routing_key="l.q" body="m${i}"
> basic.publish exchange="" routing_key="l.none" body="m7"
confirms acks=1..3,7 nacks=4..6

== reject-publish of persistent messages
open
> queue.declare queue="l.durable" durable arguments={x-max-length=2 x-overflow="reject-publish"}
< queue.declare_ok
> confirm.select
< confirm.select_ok
for i 1..6
	> basic.publish exchange="" routing_key="l.durable" props={delivery_mode=2} body="m${i}"
confirms acks=1..2 nacks=3..6
for m "m1" "m2"
	> basic.get queue="l.durable" no_ack
	< basic.get_ok body=$m
> basic.get queue="l.durable"
< basic.get_empty

== reject-publish without confirms: no word, mandatory or not
open
> queue.declare queue="l.q" exclusive arguments={x-max-length=1 x-overflow="reject-publish"}
< queue.declare_ok
for m "m1" "m2" "m3"
	> basic.publish exchange="" routing_key="l.q" mandatory body=$m
quiet "l.q"
> basic.get queue="l.q" no_ack
< basic.get_ok body="m1" message_count=0

== reject-publish with length 0 refuses though a consumer waits
open channels=2
> queue.declare queue="l.q" exclusive arguments={x-max-length=0 x-overflow="reject-publish"}
< queue.declare_ok
> c1 2 basic.consume queue="l.q" consumer_tag="t" no_ack
< c1 2 basic.consume_ok
> confirm.select
< confirm.select_ok
> basic.publish exchange="" routing_key="l.q" body="m1"
confirms nacks=1
quiet c1 2 "l.q"

== reject-publish with octets: before or behind the limit
open
> queue.declare queue="l.q" exclusive arguments={x-max-length-bytes=5 x-overflow="reject-publish"}
< queue.declare_ok
> confirm.select
< confirm.select_ok
> basic.publish exchange="" routing_key="l.q" body="aaa"
> basic.publish exchange="" routing_key="l.q" body="bbb"
> basic.publish exchange="" routing_key="l.q" body="cc"
> basic.publish exchange="" routing_key="l.q" body=""
> basic.publish exchange="" routing_key="l.q" body="d"
confirms acks=1,3,4 nacks=2,5

== requeue into a full queue that rejects
open channels=2
> queue.declare queue="l.q" exclusive arguments={x-max-length=1 x-overflow="reject-publish"}
< queue.declare_ok
> basic.publish exchange="" routing_key="l.q" body="m1"
sync "l.q"
> c1 2 basic.get queue="l.q"
< c1 2 basic.get_ok body="m1"
> basic.publish exchange="" routing_key="l.q" body="m2"
sync "l.q"
> c1 2 basic.reject delivery_tag=1 requeue
sync c1 2 "l.q"
> confirm.select
< confirm.select_ok
> basic.publish exchange="" routing_key="l.q" body="m3"
confirms nacks=1
> basic.get queue="l.q" no_ack
< basic.get_ok body="m1" redelivered
> basic.get queue="l.q" no_ack
< basic.get_ok body="m2" message_count=0

== reject-publish-dlx: refused and dead-lettered
open
> queue.declare queue="l.dead" exclusive
< queue.declare_ok
> queue.declare queue="l.q" exclusive arguments={x-max-length=1 x-overflow="reject-publish-dlx" x-dead-letter-exchange="" x-dead-letter-routing-key="l.dead"}
< queue.declare_ok
> confirm.select
< confirm.select_ok
> basic.publish exchange="" routing_key="l.q" body="m1"
> basic.publish exchange="" routing_key="l.q" body="m2"
confirms acks=1 nacks=2
sync "l.q" "l.dead"
> basic.get queue="l.dead" no_ack
< basic.get_ok exchange="" routing_key="l.dead" body="m2" message_count=0 props=~{headers=~{ \
  x-death=[~{queue="l.q" reason="maxlen" count=l:1 exchange="" routing-keys=["l.q"]}]}}
> basic.get queue="l.q" no_ack
< basic.get_ok body="m1" message_count=0

== reject-publish with a dead letter exchange: nothing is dead-lettered
open
> queue.declare queue="l.dead" exclusive
< queue.declare_ok
> queue.declare queue="l.q" exclusive arguments={x-max-length=1 x-overflow="reject-publish" x-dead-letter-exchange="" x-dead-letter-routing-key="l.dead"}
< queue.declare_ok
> basic.publish exchange="" routing_key="l.q" body="m1"
> basic.publish exchange="" routing_key="l.q" body="m2"
sync "l.q" "l.dead"
> basic.get queue="l.dead"
< basic.get_empty

== one of several queues refuses
open
> exchange.declare exchange="l.x" type="fanout"
< exchange.declare_ok
> queue.declare queue="l.full" exclusive arguments={x-max-length=1 x-overflow="reject-publish"}
< queue.declare_ok
> queue.declare queue="l.drops" exclusive arguments={x-max-length=1}
< queue.declare_ok
> queue.declare queue="l.plain" durable
< queue.declare_ok
for q "l.full" "l.drops" "l.plain"
	> queue.bind queue=$q exchange="l.x"
	< queue.bind_ok
> confirm.select
< confirm.select_ok
for i 1..2
	> basic.publish exchange="l.x" routing_key="" mandatory props={delivery_mode=2} body="m${i}"
confirms acks=1 nacks=2
> basic.get queue="l.full" no_ack
< basic.get_ok body="m1" message_count=0
> basic.get queue="l.drops" no_ack
< basic.get_ok body="m2" message_count=0
> queue.purge queue="l.plain"
< queue.purge_ok message_count=2

== tx.commit into a full queue that drops
open
> queue.declare queue="l.q" exclusive arguments={x-max-length=2}
< queue.declare_ok
> tx.select
< tx.select_ok
for m "m1" "m2" "m3"
	> basic.publish exchange="" routing_key="l.q" body=$m
> tx.commit
< tx.commit_ok
for m "m2" "m3"
	> basic.get queue="l.q" no_ack
	< basic.get_ok body=$m

== tx.commit into a full queue that rejects: the rest is done
open channels=2
> c1 2 queue.declare queue="l.q" exclusive arguments={x-max-length=2 x-overflow="reject-publish"}
< c1 2 queue.declare_ok
> c1 2 queue.declare queue="l.other" exclusive
< c1 2 queue.declare_ok
> c1 2 basic.publish exchange="" routing_key="l.other" body="old"
sync c1 2 "l.other"
> tx.select
< tx.select_ok
> basic.get queue="l.other"
< basic.get_ok body="old"
for m "m1" "m2" "m3"
	> basic.publish exchange="" routing_key="l.q" body=$m
> basic.publish exchange="" routing_key="l.other" body="m4"
> basic.ack delivery_tag=1
> tx.commit
soft 406 tx.commit "partial tx completion"
sync c1 2 "l.q" "l.other"
for m "m1" "m2"
	> c1 2 basic.get queue="l.q" no_ack
	< c1 2 basic.get_ok body=$m
> c1 2 basic.get queue="l.other" no_ack
< c1 2 basic.get_ok body="m4" message_count=0
# the channel is a new one
> tx.commit
soft 406 tx.commit "channel is not transactional"

== the same arguments again, and others
open
> queue.declare queue="l.q" exclusive arguments={x-max-length=2 x-max-length-bytes=100 x-overflow="reject-publish"}
< queue.declare_ok
> queue.declare queue="l.q" exclusive arguments={x-overflow="reject-publish" x-max-length=l:2 x-max-length-bytes=s:100}
< queue.declare_ok
> queue.declare queue="l.q" exclusive arguments={x-max-length=3 x-max-length-bytes=100 x-overflow="reject-publish"}
soft 406 queue.declare "inequivalent arg 'x-max-length' for queue 'l.q' in vhost '/': received '3' but current is '2'"
> queue.declare queue="l.q" exclusive arguments={x-max-length=2 x-max-length-bytes=101 x-overflow="reject-publish"}
soft 406 queue.declare "inequivalent arg 'x-max-length-bytes' for queue 'l.q' in vhost '/': received '101' but current is '100'"
> queue.declare queue="l.q" exclusive arguments={x-max-length=2 x-max-length-bytes=100 x-overflow="drop-head"}
soft 406 queue.declare "inequivalent arg 'x-overflow' for queue 'l.q' in vhost '/': received 'drop-head' but current is 'reject-publish'"
> queue.declare queue="l.q" exclusive arguments={x-max-length=2 x-max-length-bytes=100}
soft 406 queue.declare "inequivalent arg 'x-overflow' for queue 'l.q' in vhost '/': received none but current is the value 'reject-publish' of type 'longstr'"
