# Priorities of messages (amqp.md 6.10).
# RabbitMQ's queues work beside the channels, so "sync" goes by the queues before anybody looks. It delivers what comes
# to an idle consumer one by one: what is to be in order of priority is there before somebody consumes.

== highest first, and in order inside a priority
open
> queue.declare queue="p.q" exclusive arguments={x-max-priority=5}
< queue.declare_ok
> basic.publish exchange="" routing_key="p.q" props={priority=1} body="1a"
> basic.publish exchange="" routing_key="p.q" props={priority=5} body="5a"
> basic.publish exchange="" routing_key="p.q" body="0a"
> basic.publish exchange="" routing_key="p.q" props={priority=3} body="3a"
> basic.publish exchange="" routing_key="p.q" props={priority=0} body="0b"
> basic.publish exchange="" routing_key="p.q" props={priority=5} body="5b"
> basic.publish exchange="" routing_key="p.q" props={priority=1} body="1b"
sync "p.q"
> queue.declare queue="p.q" passive
< queue.declare_ok message_count=7
> basic.get queue="p.q" no_ack
< basic.get_ok body="5a" message_count=6
> basic.consume queue="p.q" no_ack consumer_tag="t"
< basic.consume_ok
for m "5b" "3a" "1a" "1b" "0a" "0b"
	< basic.deliver body=$m
quiet "p.q"

== above the highest priority: counts as that, and is delivered as it was published
open
> queue.declare queue="p.q" exclusive arguments={x-max-priority=3}
< queue.declare_ok
> basic.publish exchange="" routing_key="p.q" props={priority=2} body="2"
> basic.publish exchange="" routing_key="p.q" props={priority=255} body="255"
> basic.publish exchange="" routing_key="p.q" props={priority=3} body="3"
> basic.publish exchange="" routing_key="p.q" props={priority=4} body="4"
sync "p.q"
> basic.get queue="p.q" no_ack
< basic.get_ok props={priority=255} body="255"
> basic.get queue="p.q" no_ack
< basic.get_ok props={priority=3} body="3"
> basic.get queue="p.q" no_ack
< basic.get_ok props={priority=4} body="4"
> basic.get queue="p.q" no_ack
< basic.get_ok props={priority=2} body="2"
> basic.get queue="p.q" no_ack
< basic.get_empty

== x-max-priority=0 is one level
open
> queue.declare queue="p.q" exclusive arguments={x-max-priority=0}
< queue.declare_ok
> basic.publish exchange="" routing_key="p.q" body="0"
> basic.publish exchange="" routing_key="p.q" props={priority=1} body="1"
> basic.publish exchange="" routing_key="p.q" props={priority=9} body="9"
sync "p.q"
for m "0" "1" "9"
	> basic.get queue="p.q" no_ack
	< basic.get_ok body=$m

== x-max-priority=1 is two
open
> queue.declare queue="p.q" exclusive arguments={x-max-priority=1}
< queue.declare_ok
> basic.publish exchange="" routing_key="p.q" body="0"
> basic.publish exchange="" routing_key="p.q" props={priority=1} body="1"
> basic.publish exchange="" routing_key="p.q" props={priority=9} body="9"
sync "p.q"
for m "1" "9" "0"
	> basic.get queue="p.q" no_ack
	< basic.get_ok body=$m

== x-max-priority=255 is 256
open
> queue.declare queue="p.q" exclusive arguments={x-max-priority=255}
< queue.declare_ok
for n 0 254 255 1 128
	> basic.publish exchange="" routing_key="p.q" props={priority=$n} body="${n}"
sync "p.q"
for m "255" "254" "128" "1" "0"
	> basic.get queue="p.q" no_ack
	< basic.get_ok body=$m

== without x-max-priority a priority means nothing
open
> queue.declare queue="p.q" exclusive
< queue.declare_ok
for n 1..4
	> basic.publish exchange="" routing_key="p.q" props={priority=$n} body="${n}"
sync "p.q"
for n 1..4
	> basic.get queue="p.q" no_ack
	< basic.get_ok props={priority=$n} body="${n}"

== prefetch: what comes meanwhile is next
open channels=2
> queue.declare queue="p.q" exclusive arguments={x-max-priority=9}
< queue.declare_ok
> basic.qos prefetch_count=1
< basic.qos_ok
for n 1 7 4
	> basic.publish exchange="" routing_key="p.q" props={priority=$n} body="${n}"
sync "p.q"
> basic.consume queue="p.q" consumer_tag="t"
< basic.consume_ok
< basic.deliver delivery_tag=1 body="7"
> 2 basic.publish exchange="" routing_key="p.q" props={priority=9} body="9"
> 2 basic.publish exchange="" routing_key="p.q" props={priority=2} body="2"
sync 2 "p.q"
> basic.ack delivery_tag=1
< basic.deliver delivery_tag=2 body="9"
> basic.ack delivery_tag=2
< basic.deliver delivery_tag=3 body="4"
> basic.ack delivery_tag=3
< basic.deliver delivery_tag=4 body="2"
> basic.ack delivery_tag=4
< basic.deliver delivery_tag=5 body="1"
> basic.ack delivery_tag=5
quiet "p.q"

== requeued messages go back to their own place
open
> queue.declare queue="p.q" exclusive arguments={x-max-priority=9}
< queue.declare_ok
> basic.publish exchange="" routing_key="p.q" props={priority=2} body="2a"
> basic.publish exchange="" routing_key="p.q" props={priority=8} body="8a"
> basic.publish exchange="" routing_key="p.q" props={priority=8} body="8b"
> basic.publish exchange="" routing_key="p.q" props={priority=2} body="2b"
sync "p.q"
for m "8a" "8b" "2a"
	> basic.get queue="p.q"
	< basic.get_ok body=$m
> basic.publish exchange="" routing_key="p.q" props={priority=8} body="8c"
sync "p.q"
# One, then all that is left of the three.
> basic.nack delivery_tag=2 requeue
> basic.nack delivery_tag=3 multiple requeue
sync "p.q"
> queue.declare queue="p.q" passive
< queue.declare_ok message_count=5
for m "8a" "8b"
	> basic.get queue="p.q" no_ack
	< basic.get_ok redelivered body=$m
> basic.get queue="p.q" no_ack
< basic.get_ok redelivered=false body="8c"
> basic.get queue="p.q" no_ack
< basic.get_ok redelivered body="2a"
> basic.get queue="p.q" no_ack
< basic.get_ok redelivered=false body="2b"

== the end of a channel gives back to all priorities
open channels=2
> 2 queue.declare queue="p.q" exclusive arguments={x-max-priority=9}
< 2 queue.declare_ok
for n 1 7 4
	> 2 basic.publish exchange="" routing_key="p.q" props={priority=$n} body="${n}"
sync 2 "p.q"
> basic.consume queue="p.q" consumer_tag="t"
< basic.consume_ok
for m "7" "4" "1"
	< basic.deliver body=$m
> channel.close reply_code=200 reply_text="bye"
< channel.close_ok
> 2 basic.consume queue="p.q" consumer_tag="t"
< 2 basic.consume_ok
for m "7" "4" "1"
	< 2 basic.deliver redelivered body=$m

== purge and delete count all priorities
open
> queue.declare queue="p.q" exclusive arguments={x-max-priority=9}
< queue.declare_ok
for n 0 3 3 9
	> basic.publish exchange="" routing_key="p.q" props={priority=$n} body="${n}"
sync "p.q"
> queue.delete queue="p.q" if_empty
soft 406 queue.delete "queue 'p.q' in vhost '/' not empty"
> queue.purge queue="p.q"
< queue.purge_ok message_count=4
> basic.get queue="p.q"
< basic.get_empty
for n 2 5
	> basic.publish exchange="" routing_key="p.q" props={priority=$n} body="${n}"
sync "p.q"
> queue.delete queue="p.q"
< queue.delete_ok message_count=2

== a full queue drops the oldest of the highest priority first
open
> queue.declare queue="p.dead" exclusive
< queue.declare_ok
> queue.declare queue="p.q" exclusive arguments={x-max-priority=10 x-max-length=3 x-dead-letter-exchange="" x-dead-letter-routing-key="p.dead"}
< queue.declare_ok
for n 1 5 3 2 5
	> basic.publish exchange="" routing_key="p.q" props={priority=$n} body="${n}"
sync "p.q" "p.dead"
for m "3" "2" "1"
	> basic.get queue="p.q" no_ack
	< basic.get_ok body=$m
> basic.get queue="p.q"
< basic.get_empty
for m "5" "5"
	> basic.get queue="p.dead" no_ack
	< basic.get_ok props={priority=5 headers=~{x-first-death-queue="p.q" x-first-death-reason="maxlen"}} body=$m
> basic.get queue="p.dead"
< basic.get_empty

== reject-publish counts all priorities
open
> queue.declare queue="p.q" exclusive arguments={x-max-priority=10 x-max-length=2 x-overflow="reject-publish"}
< queue.declare_ok
> confirm.select
< confirm.select_ok
for n 1 6
	> basic.publish exchange="" routing_key="p.q" props={priority=$n} body="${n}"
confirms acks=1..2
for n 9 0
	> basic.publish exchange="" routing_key="p.q" props={priority=$n} body="${n}"
confirms nacks=3..4
for m "6" "1"
	> basic.get queue="p.q" no_ack
	< basic.get_ok body=$m
> basic.get queue="p.q"
< basic.get_empty

== dead letters are of the queue, and keep their priority
open
> queue.declare queue="p.dead" exclusive arguments={x-max-priority=10}
< queue.declare_ok
> queue.declare queue="p.q" exclusive arguments={x-max-priority=10 x-dead-letter-exchange="" x-dead-letter-routing-key="p.dead"}
< queue.declare_ok
for n 2 7
	> basic.publish exchange="" routing_key="p.q" props={priority=$n} body="${n}"
sync "p.q"
> basic.get queue="p.q"
< basic.get_ok delivery_tag=1 body="7"
> basic.get queue="p.q"
< basic.get_ok delivery_tag=2 body="2"
> basic.reject delivery_tag=2
> basic.reject delivery_tag=1
sync "p.q" "p.dead"
> basic.get queue="p.dead" no_ack
< basic.get_ok props={priority=7 headers=~{x-death=[~{queue="p.q" reason="rejected" count=l:1}]}} body="7"
> basic.get queue="p.dead" no_ack
< basic.get_ok props={priority=2 headers=~{x-death=[~{queue="p.q" reason="rejected" count=l:1}]}} body="2"

== [slow] messages of any priority expire
open
> queue.declare queue="p.ttl.dead" exclusive
< queue.declare_ok
> queue.declare queue="p.ttl" exclusive arguments={x-max-priority=10 x-message-ttl=700 x-dead-letter-exchange="" x-dead-letter-routing-key="p.ttl.dead"}
< queue.declare_ok
> basic.publish exchange="" routing_key="p.ttl" props={priority=9} body="9"
> basic.publish exchange="" routing_key="p.ttl" props={priority=1 expiration="100"} body="1"
> basic.publish exchange="" routing_key="p.ttl" body="0"
sync "p.ttl"
> queue.declare queue="p.ttl" passive
< queue.declare_ok message_count=3
pause 0.4
# It is behind one of a higher priority.
> queue.declare queue="p.ttl" passive
differs ttl-anywhere
	< queue.declare_ok message_count=2
oracle
	< queue.declare_ok message_count=3
pause 0.6
> queue.declare queue="p.ttl" passive
< queue.declare_ok message_count=0
sync "p.ttl" "p.ttl.dead"
for i 1..3
	> basic.get queue="p.ttl.dead" no_ack
	< basic.get_ok
> basic.get queue="p.ttl.dead" no_ack
< basic.get_empty

== durable: persistent messages of all priorities
open
> queue.declare queue="p.durable" durable arguments={x-max-priority=10}
< queue.declare_ok
> confirm.select
< confirm.select_ok
for n 0 10 4 10
	> basic.publish exchange="" routing_key="p.durable" props={delivery_mode=2 priority=$n} body="${n}"
confirms acks=1..4
> basic.publish exchange="" routing_key="p.durable" props={priority=7} body="7"
confirms acks=5
for m "10" "10" "7" "4" "0"
	> basic.get queue="p.durable"
	< basic.get_ok body=$m
> basic.ack delivery_tag=0 multiple
> queue.delete queue="p.durable"
< queue.delete_ok message_count=0

== a transaction
open
> queue.declare queue="p.q" exclusive arguments={x-max-priority=10}
< queue.declare_ok
> tx.select
< tx.select_ok
for n 1 5 3
	> basic.publish exchange="" routing_key="p.q" props={priority=$n} body="${n}"
> basic.get queue="p.q"
< basic.get_empty
> tx.commit
< tx.commit_ok
sync "p.q"
> basic.get queue="p.q"
< basic.get_ok delivery_tag=1 body="5"
> basic.get queue="p.q"
< basic.get_ok delivery_tag=2 body="3"
> basic.ack delivery_tag=2
> basic.nack delivery_tag=1 requeue
> tx.commit
< tx.commit_ok
sync "p.q"
> basic.get queue="p.q" no_ack
< basic.get_ok redelivered body="5"
> basic.get queue="p.q" no_ack
< basic.get_ok body="1"
> basic.get queue="p.q" no_ack
< basic.get_empty
> tx.rollback
< tx.rollback_ok

== a fanout to queues with other levels
open
> exchange.declare exchange="p.x" type="fanout" auto_delete
< exchange.declare_ok
> queue.declare queue="p.a" exclusive arguments={x-max-priority=1}
< queue.declare_ok
> queue.declare queue="p.b" exclusive arguments={x-max-priority=9}
< queue.declare_ok
> queue.declare queue="p.c" exclusive
< queue.declare_ok
for q "p.a" "p.b" "p.c"
	> queue.bind queue=$q exchange="p.x"
	< queue.bind_ok
for n 0 3 6
	> basic.publish exchange="p.x" routing_key="" props={priority=$n} body="${n}"
sync "p.a" "p.b" "p.c"
for m "3" "6" "0"
	> basic.get queue="p.a" no_ack
	< basic.get_ok body=$m
for m "6" "3" "0"
	> basic.get queue="p.b" no_ack
	< basic.get_ok body=$m
for m "0" "3" "6"
	> basic.get queue="p.c" no_ack
	< basic.get_ok body=$m

== together with groups
open
differs priority-groups
	> queue.declare queue="p.g" exclusive arguments={x-max-priority=5 x-group-by="k"}
	soft 406 queue.declare "invalid arg 'x-group-by' for queue 'p.g' in vhost '/': not together with 'x-max-priority'"
oracle
	> queue.declare queue="p.g" exclusive arguments={x-max-priority=5 x-group-by="k"}
	< queue.declare_ok

== another number of priorities
open
> queue.declare queue="p.q" exclusive arguments={x-max-priority=5}
< queue.declare_ok
> queue.declare queue="p.q" exclusive arguments={x-max-priority=6}
soft 406 queue.declare ~"inequivalent arg 'x-max-priority' for queue 'p.q' in vhost '/': received .*6.* but current is .*5.*"
> queue.declare queue="p.q" exclusive arguments={x-max-priority=l:5}
< queue.declare_ok
