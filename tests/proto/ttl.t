# How long messages may wait: x-message-ttl, the property expiration, and both (amqp.md 6.9).

== what waits longer than its queue allows is gone
open
> queue.declare queue="t.q" exclusive arguments={x-message-ttl=200}
< queue.declare_ok
> queue.declare queue="t.dead" exclusive
< queue.declare_ok
> queue.declare queue="t.clock" exclusive arguments={x-message-ttl=400 x-dead-letter-exchange="" x-dead-letter-routing-key="t.dead"}
< queue.declare_ok
> basic.consume queue="t.dead" consumer_tag="clock" no_ack
< basic.consume_ok
for i 1..3
	> basic.publish exchange="" routing_key="t.q" body="m${i}"
> basic.publish exchange="" routing_key="t.clock" body="later"
sync "t.q"
> queue.declare queue="t.q" passive
< queue.declare_ok message_count=3
< basic.deliver consumer_tag="clock" body="later"
> queue.declare queue="t.q" passive
< queue.declare_ok message_count=0
> basic.get queue="t.q"
< basic.get_empty
> queue.delete queue="t.q" if_empty
< queue.delete_ok message_count=0

== what its queue lets die is a letter: reason, order, and nothing of an expiration
open
> queue.declare queue="t.dead" exclusive
< queue.declare_ok
> queue.declare queue="t.q" exclusive arguments={x-message-ttl=200 x-dead-letter-exchange="" x-dead-letter-routing-key="t.dead"}
< queue.declare_ok
> queue.bind queue="t.q" exchange="amq.direct" routing_key="t"
< queue.bind_ok
> basic.consume queue="t.dead" consumer_tag="d" no_ack
< basic.consume_ok
for i 1..20
	> basic.publish exchange="amq.direct" routing_key="t" body="m${i}" props={headers={number=$i}}
for i 1..20
	< basic.deliver consumer_tag="d" delivery_tag=$i exchange="" routing_key="t.dead" body="m${i}" props={headers=~{number=$i \
	  x-death=[all{count=l:1 reason="expired" queue="t.q" time=T:~"1[0-9]{9}" exchange="amq.direct" routing-keys=["t"]}] \
	  x-first-death-reason="expired" x-first-death-queue="t.q" x-first-death-exchange="amq.direct"}}
> queue.declare queue="t.q" passive
< queue.declare_ok message_count=0
quiet "t.q" "t.dead"

== a message's own expiration, which its letter has no more
open
> queue.declare queue="t.dead" exclusive
< queue.declare_ok
> queue.declare queue="t.q" exclusive arguments={x-dead-letter-exchange="" x-dead-letter-routing-key="t.dead"}
< queue.declare_ok
> basic.consume queue="t.dead" consumer_tag="d" no_ack
< basic.consume_ok
> basic.publish exchange="" routing_key="t.q" props={expiration="150" priority=3 message_id="id"} body="m"
differs original-expiration-first
	< basic.deliver body="m" props={priority=3 message_id="id" headers=~{x-death=[{original-expiration="150" count=l:1 \
	  reason="expired" queue="t.q" time=T:~"1[0-9]{9}" exchange="" routing-keys=["t.q"]}]}}
oracle
	< basic.deliver body="m" props={priority=3 message_id="id" headers=~{x-death=[{count=l:1 \
	  reason="expired" queue="t.q" time=T:~"1[0-9]{9}" exchange="" routing-keys=["t.q"] original-expiration="150"}]}}
> queue.declare queue="t.q" passive
< queue.declare_ok message_count=0

== of the two limits the smaller one counts
open
> queue.declare queue="t.dead" exclusive
< queue.declare_ok
> queue.declare queue="t.long" exclusive arguments={x-message-ttl=60000 x-dead-letter-exchange="" x-dead-letter-routing-key="t.dead"}
< queue.declare_ok
> queue.declare queue="t.short" exclusive arguments={x-message-ttl=150 x-dead-letter-exchange="" x-dead-letter-routing-key="t.dead"}
< queue.declare_ok
> basic.consume queue="t.dead" consumer_tag="d" no_ack
< basic.consume_ok
> basic.publish exchange="" routing_key="t.long" props={expiration="150"} body="m"
< basic.deliver consumer_tag="d" body="m" props={headers=~{x-death=[~{original-expiration="150" reason="expired" queue="t.long"}]}}
> basic.publish exchange="" routing_key="t.short" props={expiration="60000"} body="m"
< basic.deliver consumer_tag="d" body="m" props={headers=~{x-death=[~{original-expiration="60000" reason="expired" queue="t.short"}]}}

== 0 without a consumer: dead at once, and confirmed
open
> confirm.select
< confirm.select_ok
> queue.declare queue="t.dead" exclusive
< queue.declare_ok
> queue.declare queue="t.zero" exclusive arguments={x-message-ttl=0 x-dead-letter-exchange="" x-dead-letter-routing-key="t.dead"}
< queue.declare_ok
> queue.declare queue="t.q" exclusive arguments={x-dead-letter-exchange="" x-dead-letter-routing-key="t.dead"}
< queue.declare_ok
> basic.consume queue="t.dead" consumer_tag="d" no_ack
< basic.consume_ok
> basic.publish exchange="" routing_key="t.zero" mandatory body="a"
any_order
	< basic.ack delivery_tag=1
	< basic.deliver consumer_tag="d" body="a" props={headers=~{x-death=[all{count=l:1 reason="expired" queue="t.zero" time=T:~".*" exchange="" routing-keys=["t.zero"]}]}}
> basic.publish exchange="" routing_key="t.q" mandatory props={expiration="0"} body="b"
any_order
	< basic.ack delivery_tag=2
	< basic.deliver consumer_tag="d" body="b" props={headers=~{x-death=[~{reason="expired" queue="t.q" original-expiration="0"}]}}
for q "t.zero" "t.q"
	> basic.get queue=$q
	< basic.get_empty
	> queue.declare queue=$q passive
	< queue.declare_ok message_count=0

== 0 with a consumer that waits: it gets it
open channels=2
> confirm.select
< confirm.select_ok
> queue.declare queue="t.dead" exclusive
< queue.declare_ok
> queue.declare queue="t.zero" exclusive arguments={x-message-ttl=0 x-dead-letter-exchange="" x-dead-letter-routing-key="t.dead"}
< queue.declare_ok
> queue.declare queue="t.q" exclusive arguments={x-dead-letter-exchange="" x-dead-letter-routing-key="t.dead"}
< queue.declare_ok
for q "t.zero" "t.q"
	> c1 2 basic.consume queue=$q consumer_tag=$q
	< c1 2 basic.consume_ok
> basic.publish exchange="" routing_key="t.zero" body="a"
< c1 2 basic.deliver consumer_tag="t.zero" delivery_tag=1 body="a"
< basic.ack delivery_tag=1
> basic.publish exchange="" routing_key="t.q" props={expiration="0"} body="b"
< c1 2 basic.deliver consumer_tag="t.q" delivery_tag=2 body="b" props={expiration="0"}
< basic.ack delivery_tag=2
quiet "t.dead"
> basic.get queue="t.dead"
< basic.get_empty
# What was delivered in time is no concern of the limit until it comes back: then it is too late.
> c1 2 basic.reject delivery_tag=1 requeue
> c1 2 basic.nack delivery_tag=2 requeue
> basic.consume queue="t.dead" consumer_tag="d" no_ack
< basic.consume_ok
any_order
	< basic.deliver body="a" props={headers=~{x-death=[~{reason="expired" queue="t.zero"}]}}
	< basic.deliver body="b" props={headers=~{x-death=[~{reason="expired" queue="t.q" original-expiration="0"}]}}

== 0 in a durable queue, for the first consumer that it ever had
open channels=2
> queue.declare queue="t.first" durable arguments={x-message-ttl=0}
< queue.declare_ok
> basic.consume queue="t.first" consumer_tag="c"
> basic.publish exchange="" routing_key="t.first" props={delivery_mode=2} body="m"
< basic.consume_ok
< basic.deliver body="m"
> basic.ack delivery_tag=1

== 0 and a consumer without credit: it does not get it
open channels=2
> queue.declare queue="t.dead" exclusive
< queue.declare_ok
> queue.declare queue="t.zero" exclusive arguments={x-message-ttl=0 x-dead-letter-exchange="" x-dead-letter-routing-key="t.dead"}
< queue.declare_ok
> c1 2 basic.qos prefetch_count=2
< c1 2 basic.qos_ok
> c1 2 basic.consume queue="t.zero" consumer_tag="z"
< c1 2 basic.consume_ok
> basic.consume queue="t.dead" consumer_tag="d" no_ack
< basic.consume_ok
for i 1..4
	> basic.publish exchange="" routing_key="t.zero" body="m${i}"
for i 1..2
	< c1 2 basic.deliver consumer_tag="z" delivery_tag=$i body="m${i}"
for i 3..4
	< c1 1 basic.deliver consumer_tag="d" body="m${i}"
> c1 2 basic.ack delivery_tag=2 multiple
quiet "t.zero"
> basic.publish exchange="" routing_key="t.zero" body="m5"
< c1 2 basic.deliver consumer_tag="z" delivery_tag=3 body="m5"

== a consumer that frees its credit after the deadline gets what is younger
open channels=2
> queue.declare queue="t.dead" exclusive
< queue.declare_ok
> queue.declare queue="t.q" exclusive arguments={x-message-ttl=300 x-dead-letter-exchange="" x-dead-letter-routing-key="t.dead"}
< queue.declare_ok
> basic.consume queue="t.dead" consumer_tag="d" no_ack
< basic.consume_ok
> c1 2 basic.qos prefetch_count=1
< c1 2 basic.qos_ok
> c1 2 basic.consume queue="t.q" consumer_tag="w"
< c1 2 basic.consume_ok
> basic.publish exchange="" routing_key="t.q" body="held"
< c1 2 basic.deliver delivery_tag=1 body="held"
> basic.publish exchange="" routing_key="t.q" body="late"
< c1 1 basic.deliver consumer_tag="d" body="late"
# It holds the first one for as long as it likes.
> queue.declare queue="t.q" passive
< queue.declare_ok message_count=0 consumer_count=1
> c1 2 basic.ack delivery_tag=1
> basic.publish exchange="" routing_key="t.q" body="fresh"
< c1 2 basic.deliver delivery_tag=2 body="fresh"
quiet "t.q" "t.dead"

== the deadline stays when a message is requeued
open channels=2
> queue.declare queue="t.dead" exclusive
< queue.declare_ok
> queue.declare queue="t.clock.dead" exclusive
< queue.declare_ok
> queue.declare queue="t.q" exclusive arguments={x-message-ttl=900 x-dead-letter-exchange="" x-dead-letter-routing-key="t.dead"}
< queue.declare_ok
> queue.declare queue="t.clock" exclusive arguments={x-message-ttl=600 x-dead-letter-exchange="" x-dead-letter-routing-key="t.clock.dead"}
< queue.declare_ok
> c1 2 basic.consume queue="t.clock.dead" consumer_tag="clock" no_ack
< c1 2 basic.consume_ok
> c1 2 basic.consume queue="t.dead" consumer_tag="d" no_ack
< c1 2 basic.consume_ok
> basic.publish exchange="" routing_key="t.q" body="m"
> basic.publish exchange="" routing_key="t.clock" body="tick"
sync "t.q"
> basic.get queue="t.q"
< basic.get_ok body="m" delivery_tag=1
< c1 2 basic.deliver consumer_tag="clock" body="tick"
# Were its time to begin again at the requeue, the clock's second message would come first.
> basic.reject delivery_tag=1 requeue
> basic.publish exchange="" routing_key="t.clock" body="tock"
< c1 2 basic.deliver consumer_tag="d" body="m" props={headers=~{x-death=[~{count=l:1 reason="expired"}]}}
< c1 2 basic.deliver consumer_tag="clock" body="tock"

== what comes back after its deadline dies at once
open channels=2
> queue.declare queue="t.dead" exclusive
< queue.declare_ok
> queue.declare queue="t.clock.dead" exclusive
< queue.declare_ok
> queue.declare queue="t.q" exclusive arguments={x-message-ttl=200 x-dead-letter-exchange="" x-dead-letter-routing-key="t.dead"}
< queue.declare_ok
> queue.declare queue="t.clock" exclusive arguments={x-message-ttl=300 x-dead-letter-exchange="" x-dead-letter-routing-key="t.clock.dead"}
< queue.declare_ok
> basic.consume queue="t.clock.dead" consumer_tag="clock" no_ack
< basic.consume_ok
for i 1..3
	> basic.publish exchange="" routing_key="t.q" body="m${i}"
sync "t.q"
for i 1..3
	> c1 2 basic.get queue="t.q"
	< c1 2 basic.get_ok body="m${i}" delivery_tag=$i
> basic.publish exchange="" routing_key="t.clock" body="tick"
< basic.deliver consumer_tag="clock" body="tick"
# Unacknowledged it does not expire.
> basic.get queue="t.dead"
< basic.get_empty
> c1 2 basic.nack delivery_tag=3 multiple requeue
> c1 2 basic.get queue="t.q"
< c1 2 basic.get_empty
sync "t.dead"
for i 1..3
	> basic.get queue="t.dead" no_ack
	< basic.get_ok body="m${i}" props={headers=~{x-death=[~{count=l:1 reason="expired" queue="t.q"}]}}

== a channel that closes gives back what is too late
open channels=2
> queue.declare queue="t.dead" exclusive
< queue.declare_ok
> queue.declare queue="t.q" exclusive arguments={x-message-ttl=150 x-dead-letter-exchange="" x-dead-letter-routing-key="t.dead"}
< queue.declare_ok
> queue.declare queue="t.clock" exclusive arguments={x-message-ttl=300 x-dead-letter-exchange="" x-dead-letter-routing-key="t.dead"}
< queue.declare_ok
> basic.publish exchange="" routing_key="t.q" body="m"
sync "t.q"
> c1 2 basic.get queue="t.q"
< c1 2 basic.get_ok body="m"
> basic.consume queue="t.dead" consumer_tag="d" no_ack
< basic.consume_ok
> basic.publish exchange="" routing_key="t.clock" body="tick"
< basic.deliver body="tick"
close c1 2
< basic.deliver body="m" props={headers=~{x-death=[~{reason="expired" queue="t.q"}]}}

== an expiration behind a message that may wait
open channels=2
> queue.declare queue="t.dead" exclusive
< queue.declare_ok
> queue.declare queue="t.clock" exclusive arguments={x-message-ttl=400 x-dead-letter-exchange="" x-dead-letter-routing-key="t.clock.dead"}
< queue.declare_ok
> queue.declare queue="t.clock.dead" exclusive
< queue.declare_ok
> queue.declare queue="t.q" exclusive arguments={x-dead-letter-exchange="" x-dead-letter-routing-key="t.dead"}
< queue.declare_ok
> c1 2 basic.consume queue="t.clock.dead" consumer_tag="clock" no_ack
< c1 2 basic.consume_ok
> c1 2 basic.consume queue="t.dead" consumer_tag="d" no_ack
< c1 2 basic.consume_ok
> basic.publish exchange="" routing_key="t.q" body="first"
> basic.publish exchange="" routing_key="t.q" props={expiration="200"} body="short"
> basic.publish exchange="" routing_key="t.q" body="last"
> basic.publish exchange="" routing_key="t.clock" body="tick"
differs ttl-anywhere
	< c1 2 basic.deliver consumer_tag="d" body="short"
	< c1 2 basic.deliver consumer_tag="clock" body="tick"
	> queue.declare queue="t.q" passive
	< queue.declare_ok message_count=2
	> basic.get queue="t.q" no_ack
	< basic.get_ok body="first" message_count=1
oracle
	< c1 2 basic.deliver consumer_tag="clock" body="tick"
	> queue.declare queue="t.q" passive
	< queue.declare_ok message_count=3
	> basic.get queue="t.q" no_ack
	< basic.get_ok body="first" message_count=1
	< c1 2 basic.deliver consumer_tag="d" body="short"
> basic.get queue="t.q" no_ack
< basic.get_ok body="last" message_count=0

== expirations of different length, the shortest last
open channels=2
> queue.declare queue="t.dead" exclusive
< queue.declare_ok
> queue.declare queue="t.q" exclusive arguments={x-dead-letter-exchange="" x-dead-letter-routing-key="t.dead"}
< queue.declare_ok
> basic.consume queue="t.dead" consumer_tag="d" no_ack
< basic.consume_ok
> basic.publish exchange="" routing_key="t.q" props={expiration="600"} body="long"
> basic.publish exchange="" routing_key="t.q" props={expiration="400"} body="middle"
> basic.publish exchange="" routing_key="t.q" props={expiration="200"} body="short"
differs ttl-anywhere
	< basic.deliver body="short"
	< basic.deliver body="middle"
	< basic.deliver body="long"
oracle
	< basic.deliver body="long"
	< basic.deliver body="middle"
	< basic.deliver body="short"

== purge of what waits, and nothing dies afterwards
open
> queue.declare queue="t.dead" exclusive
< queue.declare_ok
> queue.declare queue="t.q" exclusive arguments={x-message-ttl=250 x-dead-letter-exchange="" x-dead-letter-routing-key="t.dead"}
< queue.declare_ok
> basic.consume queue="t.dead" consumer_tag="d" no_ack
< basic.consume_ok
for i 1..3
	> basic.publish exchange="" routing_key="t.q" props={expiration="200"} body="purged"
> queue.purge queue="t.q"
< queue.purge_ok message_count=3
> basic.publish exchange="" routing_key="t.q" body="one"
< basic.deliver body="one"
> queue.purge queue="t.q"
< queue.purge_ok message_count=0
quiet "t.q" "t.dead"

== work rejects to a queue that waits, and that expires back to work
open
> queue.declare queue="t.work" exclusive arguments={x-dead-letter-exchange="" x-dead-letter-routing-key="t.wait"}
< queue.declare_ok
> queue.declare queue="t.wait" exclusive arguments={x-message-ttl=100 x-dead-letter-exchange="" x-dead-letter-routing-key="t.work"}
< queue.declare_ok
> basic.consume queue="t.work" consumer_tag="w"
< basic.consume_ok
> basic.publish exchange="" routing_key="t.work" props={correlation_id="c"} body="job"
< basic.deliver delivery_tag=1 body="job" props={correlation_id="c"}
> basic.reject delivery_tag=1
for tag 2..5
	< basic.deliver delivery_tag=$tag exchange="" routing_key="t.work" body="job" props=~{correlation_id="c" \
	  headers=~{x-first-death-reason="rejected" x-first-death-queue="t.work"}}
	> basic.nack delivery_tag=$tag
< basic.deliver delivery_tag=6 body="job" props=~{headers=~{x-death=[ \
  all{count=l:5 reason="expired" queue="t.wait" time=T:~".*" exchange="" routing-keys=["t.wait"]} \
  all{count=l:5 reason="rejected" queue="t.work" time=T:~".*" exchange="" routing-keys=["t.work"]}]}}
> basic.ack delivery_tag=6
> queue.declare queue="t.wait" passive
< queue.declare_ok message_count=0

== a queue that expires into itself: the message is gone
open
> queue.declare queue="t.dead" exclusive
< queue.declare_ok
> queue.declare queue="t.q" exclusive arguments={x-message-ttl=100 x-dead-letter-exchange="amq.fanout"}
< queue.declare_ok
> queue.bind queue="t.q" exchange="amq.fanout" routing_key=""
< queue.bind_ok
> queue.bind queue="t.dead" exchange="amq.fanout" routing_key=""
< queue.bind_ok
> basic.consume queue="t.dead" consumer_tag="d" no_ack
< basic.consume_ok
> basic.publish exchange="" routing_key="t.q" body="m"
< basic.deliver body="m"
> queue.declare queue="t.q" passive
< queue.declare_ok message_count=0
quiet "t.q" "t.dead"

== a chain of queues: in each its time begins anew, with an expiration only in the first
open
> queue.declare queue="t.end" exclusive
< queue.declare_ok
> queue.declare queue="t.second" exclusive arguments={x-message-ttl=300 x-dead-letter-exchange="" x-dead-letter-routing-key="t.end"}
< queue.declare_ok
> queue.declare queue="t.first" exclusive arguments={x-message-ttl=300 x-dead-letter-exchange="" x-dead-letter-routing-key="t.second"}
< queue.declare_ok
> basic.consume queue="t.end" consumer_tag="d" no_ack
< basic.consume_ok
> basic.publish exchange="" routing_key="t.first" props={expiration="100"} body="m"
< basic.deliver body="m" props={headers=~{x-death=[ \
  all{count=l:1 reason="expired" queue="t.second" time=T:~".*" exchange="" routing-keys=["t.second"]} \
  all{original-expiration="100" count=l:1 reason="expired" queue="t.first" time=T:~".*" exchange="" routing-keys=["t.first"]}]}}

== a transaction: the time begins with the commit
open channels=2
> queue.declare queue="t.dead" exclusive
< queue.declare_ok
> queue.declare queue="t.clock" exclusive arguments={x-message-ttl=300 x-dead-letter-exchange="" x-dead-letter-routing-key="t.dead"}
< queue.declare_ok
> queue.declare queue="t.short" exclusive
< queue.declare_ok
> basic.consume queue="t.dead" consumer_tag="d" no_ack
< basic.consume_ok
> c1 2 tx.select
< c1 2 tx.select_ok
> c1 2 basic.publish exchange="" routing_key="t.short" props={expiration="250"} body="m"
> basic.publish exchange="" routing_key="t.clock" body="tick"
< basic.deliver body="tick"
> c1 2 tx.commit
< c1 2 tx.commit_ok
> basic.get queue="t.short" no_ack
< basic.get_ok body="m"

== a full queue drops the oldest and lets the others expire
open
> queue.declare queue="t.dead" exclusive
< queue.declare_ok
> queue.declare queue="t.q" exclusive arguments={x-message-ttl=250 x-max-length=2 x-dead-letter-exchange="" x-dead-letter-routing-key="t.dead"}
< queue.declare_ok
> basic.consume queue="t.dead" consumer_tag="d" no_ack
< basic.consume_ok
for i 1..4
	> basic.publish exchange="" routing_key="t.q" body="m${i}"
for i 1..2
	< basic.deliver body="m${i}" props={headers=~{x-death=[~{reason="maxlen"}]}}
for i 3..4
	< basic.deliver body="m${i}" props={headers=~{x-death=[~{reason="expired"}]}}

== without an exchange for letters expired ones are dropped, and a letter may go nowhere
open
> queue.declare queue="t.clock.dead" exclusive
< queue.declare_ok
> queue.declare queue="t.clock" exclusive arguments={x-message-ttl=200 x-dead-letter-exchange="" x-dead-letter-routing-key="t.clock.dead"}
< queue.declare_ok
> queue.declare queue="t.none" exclusive arguments={x-message-ttl=100}
< queue.declare_ok
> queue.declare queue="t.nowhere" exclusive arguments={x-message-ttl=100 x-dead-letter-exchange="" x-dead-letter-routing-key="t.not.there"}
< queue.declare_ok
> queue.declare queue="t.missing" exclusive arguments={x-message-ttl=100 x-dead-letter-exchange="t.not.there"}
< queue.declare_ok
> basic.consume queue="t.clock.dead" consumer_tag="clock" no_ack
< basic.consume_ok
for q "t.none" "t.nowhere" "t.missing" "t.clock"
	> basic.publish exchange="" routing_key=$q mandatory body="m"
< basic.deliver body="m"
for q "t.none" "t.nowhere" "t.missing"
	> queue.declare queue=$q passive
	< queue.declare_ok message_count=0
quiet "t.clock.dead"

== persistent messages in a durable queue
open
> queue.declare queue="t.durable.dead" durable
< queue.declare_ok
> queue.declare queue="t.durable" durable arguments={x-message-ttl=200 x-dead-letter-exchange="" x-dead-letter-routing-key="t.durable.dead"}
< queue.declare_ok
> confirm.select
< confirm.select_ok
for i 1..5
	> basic.publish exchange="" routing_key="t.durable" props={delivery_mode=2} body="m${i}"
confirms acks=1..5
> basic.consume queue="t.durable.dead" consumer_tag="d" no_ack
< basic.consume_ok
for i 1..5
	< basic.deliver body="m${i}" props=~{delivery_mode=2 headers=~{x-death=[~{reason="expired" count=l:1}]}}
> queue.declare queue="t.durable" passive
< queue.declare_ok message_count=0

== [slow] not before its time
open channels=2
> queue.declare queue="ts.dead" exclusive
< queue.declare_ok
> queue.declare queue="ts.q" exclusive arguments={x-message-ttl=3000 x-dead-letter-exchange="" x-dead-letter-routing-key="ts.dead"}
< queue.declare_ok
> queue.declare queue="ts.own" exclusive arguments={x-dead-letter-exchange="" x-dead-letter-routing-key="ts.dead"}
< queue.declare_ok
> basic.publish exchange="" routing_key="ts.q" body="m"
> basic.publish exchange="" routing_key="ts.own" props={expiration="3000"} body="m"
pause 1.5
for q "ts.q" "ts.own"
	> basic.get queue=$q
	< basic.get_ok body="m" message_count=0
	> c1 2 queue.declare queue=$q passive
	< c1 2 queue.declare_ok message_count=0
> basic.nack delivery_tag=0 multiple requeue
sync "ts.q" "ts.own"
pause 0.3
for q "ts.q" "ts.own"
	> c1 2 queue.declare queue=$q passive
	< c1 2 queue.declare_ok message_count=1
pause 1.7
for q "ts.q" "ts.own"
	> c1 2 queue.declare queue=$q passive
	< c1 2 queue.declare_ok message_count=0
	> basic.get queue="ts.dead" no_ack
	< basic.get_ok body="m"
