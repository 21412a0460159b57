# Queues that count how often a message comes back: quorum queues, x-delivery-limit and x-delivery-count (amqp.md 6.12).

== x-delivery-count, by consume
open
> queue.declare queue="q.q" durable arguments={x-queue-type="quorum"}
< queue.declare_ok
> basic.qos prefetch_count=10
< basic.qos_ok
> basic.consume queue="q.q" consumer_tag="c"
< basic.consume_ok
> basic.publish exchange="" routing_key="q.q" props={headers={mine=1} message_id="id"} body="m"
< basic.deliver delivery_tag=1 body="m" props={headers={mine=1} message_id="id"}
> basic.reject delivery_tag=1 requeue
< basic.deliver delivery_tag=2 redelivered body="m" props={headers=all{mine=1 x-delivery-count=l:1} message_id="id"}
> basic.nack delivery_tag=2 requeue
< basic.deliver delivery_tag=3 redelivered body="m" props={headers=all{mine=1 x-delivery-count=l:2} message_id="id"}
> basic.nack delivery_tag=0 multiple requeue
< basic.deliver delivery_tag=4 redelivered body="m" props={headers=all{mine=1 x-delivery-count=l:3} message_id="id"}
> basic.ack delivery_tag=4

== x-delivery-count, by get
open
> queue.declare queue="q.q" durable arguments={x-queue-type="quorum"}
< queue.declare_ok
> confirm.select
< confirm.select_ok
> basic.publish exchange="" routing_key="q.q" body="m"
confirms acks=1
> basic.get queue="q.q"
differs count-of-first-get
	< basic.get_ok delivery_tag=1 body="m" props={}
oracle
	< basic.get_ok delivery_tag=1 body="m" props={headers={x-delivery-count=l:0}}
> basic.nack delivery_tag=1 requeue
sync "q.q"
> basic.get queue="q.q"
< basic.get_ok delivery_tag=2 redelivered body="m" props={headers={x-delivery-count=l:1}}
> basic.reject delivery_tag=2 requeue
sync "q.q"
> basic.get queue="q.q" no_ack
< basic.get_ok delivery_tag=3 redelivered body="m" props={headers={x-delivery-count=l:2}}

== a channel that closes counts too
open channels=2
> queue.declare queue="q.q" durable arguments={x-queue-type="quorum"}
< queue.declare_ok
> basic.publish exchange="" routing_key="q.q" body="m"
> c1 2 basic.consume queue="q.q" consumer_tag="c"
< c1 2 basic.consume_ok
< c1 2 basic.deliver delivery_tag=1 body="m" props={}
close c1 2
> basic.consume queue="q.q" consumer_tag="d"
< basic.consume_ok
< basic.deliver delivery_tag=1 redelivered body="m" props={headers={x-delivery-count=l:1}}
> basic.recover requeue
< basic.recover_ok
< basic.deliver delivery_tag=2 redelivered body="m" props={headers={x-delivery-count=l:2}}
> basic.ack delivery_tag=2

== a header of that name that a publisher gives
open
> queue.declare queue="q.q" durable arguments={x-queue-type="quorum"}
< queue.declare_ok
> basic.consume queue="q.q" consumer_tag="c"
< basic.consume_ok
> basic.publish exchange="" routing_key="q.q" props={headers={x-delivery-count=77}} body="m"
< basic.deliver delivery_tag=1 body="m" props={headers={x-delivery-count=77}}
> basic.reject delivery_tag=1 requeue
< basic.deliver delivery_tag=2 redelivered body="m" props={headers={x-delivery-count=l:1}}
> basic.ack delivery_tag=2

== classic queues do not count
open
> queue.declare queue="q.classic" exclusive
< queue.declare_ok
> basic.consume queue="q.classic" consumer_tag="c"
< basic.consume_ok
> basic.publish exchange="" routing_key="q.classic" body="m"
< basic.deliver delivery_tag=1 body="m" props={}
> basic.reject delivery_tag=1 requeue
< basic.deliver delivery_tag=2 redelivered body="m" props={}
> basic.ack delivery_tag=2

== x-delivery-limit: back so often, then it is a letter
open channels=2
> queue.declare queue="q.dead" durable
< queue.declare_ok
> queue.declare queue="q.q" durable arguments={x-queue-type="quorum" x-delivery-limit=2 x-dead-letter-exchange="" x-dead-letter-routing-key="q.dead"}
< queue.declare_ok
> c1 2 basic.consume queue="q.dead" consumer_tag="d" no_ack
< c1 2 basic.consume_ok
> basic.consume queue="q.q" consumer_tag="c"
< basic.consume_ok
> basic.publish exchange="" routing_key="q.q" props={message_id="id"} body="m"
< basic.deliver delivery_tag=1 body="m" props={message_id="id"}
> basic.reject delivery_tag=1 requeue
< basic.deliver delivery_tag=2 redelivered body="m" props={message_id="id" headers={x-delivery-count=l:1}}
> basic.nack delivery_tag=2 requeue
< basic.deliver delivery_tag=3 redelivered body="m" props={message_id="id" headers={x-delivery-count=l:2}}
> basic.nack delivery_tag=3 requeue
differs last-death
	< c1 2 basic.deliver exchange="" routing_key="q.dead" body="m" props={message_id="id" headers=all{ \
	  x-death=[all{count=l:1 reason="delivery_limit" queue="q.q" time=T:~"1[0-9]{9}" exchange="" routing-keys=["q.q"]}] \
	  x-first-death-reason="delivery_limit" x-first-death-queue="q.q" x-first-death-exchange="" \
	  x-last-death-reason="delivery_limit" x-last-death-queue="q.q" x-last-death-exchange=""}}
oracle
	< c1 2 basic.deliver exchange="" routing_key="q.dead" body="m" props={message_id="id" headers=all{ \
	  x-death=[all{count=l:1 reason="delivery_limit" queue="q.q" time=T:~"1[0-9]{9}" exchange="" routing-keys=["q.q"]}] \
	  x-first-death-reason="delivery_limit" x-first-death-queue="q.q" x-first-death-exchange=""}}
quiet "q.q" "q.dead"

== x-delivery-limit without a place for letters: it is gone
open
> queue.declare queue="q.q" durable arguments={x-queue-type="quorum" x-delivery-limit=1}
< queue.declare_ok
> basic.consume queue="q.q" consumer_tag="c"
< basic.consume_ok
for body "one" "two"
	> basic.publish exchange="" routing_key="q.q" body=$body
	< basic.deliver delivery_tag=~"[0-9]+"->$tag body=$body
	> basic.reject delivery_tag=$tag requeue
	< basic.deliver delivery_tag=~"[0-9]+"->$tag redelivered body=$body
	> basic.reject delivery_tag=$tag requeue
	quiet "q.q"

== a limit of 0: no second time
open channels=2
> queue.declare queue="q.dead" durable
< queue.declare_ok
> queue.declare queue="q.q" durable arguments={x-queue-type="quorum" x-delivery-limit=0 x-dead-letter-exchange="" x-dead-letter-routing-key="q.dead"}
< queue.declare_ok
> c1 2 basic.consume queue="q.dead" consumer_tag="d" no_ack
< c1 2 basic.consume_ok
> basic.publish exchange="" routing_key="q.q" body="m"
> basic.consume queue="q.q" consumer_tag="c"
< basic.consume_ok
< basic.deliver delivery_tag=1 body="m"
> basic.nack delivery_tag=1 requeue
< c1 2 basic.deliver body="m" props={headers=~{x-death=[~{reason="delivery_limit" count=l:1}]}}

== with a limit, a channel that closes counts as well
open channels=2
> queue.declare queue="q.dead" durable
< queue.declare_ok
> queue.declare queue="q.q" durable arguments={x-queue-type="quorum" x-delivery-limit=1 x-dead-letter-exchange="" x-dead-letter-routing-key="q.dead"}
< queue.declare_ok
> basic.publish exchange="" routing_key="q.q" body="m"
for count 1..2
	> c1 2 basic.consume queue="q.q" consumer_tag="c"
	< c1 2 basic.consume_ok
	< c1 2 basic.deliver delivery_tag=1 redelivered=~"." body="m"
	close c1 2
	channel c1 2
> basic.consume queue="q.dead" consumer_tag="d" no_ack
< basic.consume_ok
< basic.deliver body="m" props={headers=~{x-death=[~{reason="delivery_limit" queue="q.q"}]}}

== rejected without requeue it dies as rejected
open channels=2
> queue.declare queue="q.dead" durable
< queue.declare_ok
> queue.declare queue="q.q" durable arguments={x-queue-type="quorum" x-delivery-limit=5 x-dead-letter-exchange="" x-dead-letter-routing-key="q.dead"}
< queue.declare_ok
> c1 2 basic.consume queue="q.dead" consumer_tag="d" no_ack
< c1 2 basic.consume_ok
> basic.consume queue="q.q" consumer_tag="c"
< basic.consume_ok
> basic.publish exchange="" routing_key="q.q" body="m"
< basic.deliver delivery_tag=1 body="m"
> basic.reject delivery_tag=1 requeue
< basic.deliver delivery_tag=2 redelivered body="m" props={headers={x-delivery-count=l:1}}
> basic.reject delivery_tag=2
differs last-death
	< c1 2 basic.deliver body="m" props={headers=all{ \
	  x-death=[~{reason="rejected" count=l:1 queue="q.q"}] \
	  x-first-death-reason="rejected" x-first-death-queue="q.q" x-first-death-exchange="" \
	  x-last-death-reason="rejected" x-last-death-queue="q.q" x-last-death-exchange=""}}
oracle
	< c1 2 basic.deliver body="m" props={headers=all{ \
	  x-death=[~{reason="rejected" count=l:1 queue="q.q"}] \
	  x-first-death-reason="rejected" x-first-death-queue="q.q" x-first-death-exchange=""}}

== what comes back comes before what is younger
open
> queue.declare queue="q.q" durable arguments={x-queue-type="quorum"}
< queue.declare_ok
> basic.qos prefetch_count=1
< basic.qos_ok
for i 1..3
	> basic.publish exchange="" routing_key="q.q" body="m${i}"
sync "q.q"
> basic.consume queue="q.q" consumer_tag="c"
< basic.consume_ok
< basic.deliver delivery_tag=1 body="m1"
> basic.reject delivery_tag=1 requeue
differs quorum-requeue-place
	< basic.deliver delivery_tag=2 redelivered body="m1"
	> basic.ack delivery_tag=2
	< basic.deliver delivery_tag=3 body="m2"
	> basic.ack delivery_tag=3
	< basic.deliver delivery_tag=4 body="m3"
oracle
	< basic.deliver delivery_tag=2 body="m2"
	> basic.ack delivery_tag=2
	< basic.deliver delivery_tag=3 body="m3"
	> basic.ack delivery_tag=3
	< basic.deliver delivery_tag=4 redelivered body="m1"
> basic.ack delivery_tag=4

== message TTL of a quorum queue
open
> queue.declare queue="q.dead" durable
< queue.declare_ok
> queue.declare queue="q.q" durable arguments={x-queue-type="quorum" x-message-ttl=200 x-dead-letter-exchange="" x-dead-letter-routing-key="q.dead"}
< queue.declare_ok
> basic.consume queue="q.dead" consumer_tag="d" no_ack
< basic.consume_ok
for i 1..3
	> basic.publish exchange="" routing_key="q.q" body="m${i}"
for i 1..3
	< basic.deliver body="m${i}" props={headers=~{x-death=[~{reason="expired" queue="q.q"}]}}
