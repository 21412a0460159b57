# Retries with back-off: x-retry-max and its kin, arguments of Pannier's own. RabbitMQ takes them for some that it does
# not know.

== [slow] a message that is given back waits, and comes with the count of its failures
open
> queue.declare queue="rt.a" exclusive arguments={x-retry-max=2 x-retry-initial=300 x-retry-jitter=0 x-dead-letter-exchange="" x-dead-letter-routing-key="rt.dead"}
< queue.declare_ok
> queue.declare queue="rt.dead" exclusive
< queue.declare_ok
differs retries
	> basic.publish exchange="" routing_key="rt.a" props={headers={a=1}} body="m"
	> basic.get queue="rt.a"
	< basic.get_ok delivery_tag=1 redelivered=false props={headers={a=1}} body="m"
	> basic.nack delivery_tag=1 requeue
	sync "rt.a"
	> basic.get queue="rt.a"
	< basic.get_empty
	pause 0.5
	> basic.get queue="rt.a"
	< basic.get_ok delivery_tag=2 redelivered=false exchange="" routing_key="rt.a" props={headers={a=1 x-failure-count=l:1}} body="m"
	> basic.reject delivery_tag=2 requeue
	pause 0.4
	> basic.get queue="rt.a"
	< basic.get_empty
	pause 0.4
	> basic.get queue="rt.a"
	< basic.get_ok delivery_tag=3 props={headers={a=1 x-failure-count=l:2}} body="m"
	# That was its last retry.
	> basic.nack delivery_tag=3 requeue
	sync "rt.a" "rt.dead"
	> basic.get queue="rt.dead" no_ack
	< basic.get_ok routing_key="rt.dead" props={headers=~{a=1 x-failure-count=l:3 x-first-death-reason="delivery_limit" x-death=[~{queue="rt.a" reason="delivery_limit" count=l:1}]}} body="m"
	> queue.declare queue="rt.a" passive
	< queue.declare_ok message_count=0

== [slow] only what failed is charged
open
> queue.declare queue="rt.b" exclusive arguments={x-retry-max=1 x-retry-initial=300 x-retry-jitter=0}
< queue.declare_ok
differs retries
	for body "m1" "m2" "m3"
		> basic.publish exchange="" routing_key="rt.b" body=$body
		> basic.get queue="rt.b"
		< basic.get_ok body=$body
	# What basic.recover brings back has its place.
	> basic.recover requeue
	< basic.recover_ok
	> basic.get queue="rt.b"
	< basic.get_ok delivery_tag=4 redelivered props={} body="m1"
	> basic.get queue="rt.b"
	< basic.get_ok delivery_tag=5 redelivered props={} body="m2"
	# Each of several failed.
	> basic.nack delivery_tag=5 multiple requeue
	> basic.get queue="rt.b"
	< basic.get_ok delivery_tag=6 redelivered props={} body="m3"
	> basic.get queue="rt.b"
	< basic.get_empty
	pause 0.5
	> basic.get queue="rt.b"
	< basic.get_ok delivery_tag=7 props={headers={x-failure-count=l:1}} body="m1"
	> basic.get queue="rt.b"
	< basic.get_ok delivery_tag=8 props={headers={x-failure-count=l:1}} body="m2"
	# So does what a channel had that ends.
	> channel.close
	< channel.close_ok
	> channel.open
	< channel.open_ok
	> basic.get queue="rt.b"
	< basic.get_ok delivery_tag=1 redelivered props={} body="m3"
	> basic.get queue="rt.b"
	< basic.get_ok delivery_tag=2 redelivered props={headers={x-failure-count=l:1}} body="m1"

== [slow] a delivery that is unacknowledged for too long has failed
open
> queue.declare queue="rt.c" exclusive arguments={x-retry-max=5 x-retry-initial=100 x-retry-jitter=0 x-consumer-timeout=400}
< queue.declare_ok
> basic.qos prefetch_count=1
< basic.qos_ok
> basic.consume queue="rt.c" consumer_tag="t"
< basic.consume_ok
> basic.publish exchange="" routing_key="rt.c" body="m"
< basic.deliver delivery_tag=1 redelivered=false props={} body="m"
differs retries
	pause 0.8
	< basic.deliver delivery_tag=2 redelivered=false props={headers={x-failure-count=l:1}} body="m"
	> basic.ack delivery_tag=2
	sync

== [slow] in a transaction it has failed with the commit
open
> queue.declare queue="rt.d" exclusive arguments={x-retry-max=1 x-retry-initial=100 x-retry-exhausted="drop" x-retry-jitter=0}
< queue.declare_ok
> tx.select
< tx.select_ok
> basic.publish exchange="" routing_key="rt.d" body="m"
> tx.commit
< tx.commit_ok
> basic.get queue="rt.d"
< basic.get_ok delivery_tag=1 body="m"
> basic.nack delivery_tag=1 requeue
> tx.rollback
< tx.rollback_ok
> basic.nack delivery_tag=1 requeue
> tx.commit
< tx.commit_ok
differs retries
	> basic.get queue="rt.d"
	< basic.get_empty
	pause 0.3
	> basic.get queue="rt.d"
	< basic.get_ok delivery_tag=2 props={headers={x-failure-count=l:1}} body="m"

== [slow] with groups the key is free while the message waits
open channels=2
> c1 1 queue.declare queue="rt.e" exclusive arguments={x-retry-max=3 x-retry-initial=200 x-retry-jitter=0 x-group-by="k"}
< c1 1 queue.declare_ok
> c1 1 basic.consume queue="rt.e" consumer_tag="t1"
< c1 1 basic.consume_ok
differs retries
	> c1 1 basic.publish exchange="" routing_key="rt.e" props={headers={k="x"}} body="x1"
	< c1 1 basic.deliver delivery_tag=1 body="x1"
	> c1 1 basic.nack delivery_tag=1 requeue
	> c1 1 basic.cancel consumer_tag="t1"
	< c1 1 basic.cancel_ok
	> c1 2 basic.consume queue="rt.e" consumer_tag="t2"
	< c1 2 basic.consume_ok
	> c1 1 basic.publish exchange="" routing_key="rt.e" props={headers={k="x"}} body="x2"
	< c1 2 basic.deliver delivery_tag=1 body="x2"
	pause 0.4
	< c1 2 basic.deliver delivery_tag=2 props={headers={k="x" x-failure-count=l:1}} body="x1"

== [slow] a single active consumer gets it again
open channels=2
> c1 1 queue.declare queue="rt.f" exclusive arguments={x-retry-max=3 x-retry-initial=200 x-retry-jitter=0 x-single-active-consumer=true}
< c1 1 queue.declare_ok
> c1 1 basic.consume queue="rt.f" consumer_tag="t1"
< c1 1 basic.consume_ok
> c1 2 basic.consume queue="rt.f" consumer_tag="t2"
< c1 2 basic.consume_ok
> c1 1 basic.publish exchange="" routing_key="rt.f" body="m"
< c1 1 basic.deliver delivery_tag=1 body="m"
differs retries
	> c1 1 basic.nack delivery_tag=1 requeue
	pause 0.4
	< c1 1 basic.deliver delivery_tag=2 redelivered=false props={headers={x-failure-count=l:1}} body="m"

== arguments that make no sense
differs retries
	for value -1 "3"
		open
		> queue.declare queue="rt.g" exclusive arguments={x-retry-max=$value}
		soft 406 queue.declare ~"invalid arg 'x-retry-max' for queue 'rt.g' in vhost '/': .*"
	open
	> queue.declare queue="rt.g" exclusive arguments={x-retry-max=3 x-retry-jitter=d:1.5}
	soft 406 queue.declare "invalid arg 'x-retry-jitter' for queue 'rt.g' in vhost '/': \"expected a number from 0 to 1, got 1.5\""
	> queue.declare queue="rt.g" exclusive arguments={x-retry-max=3 x-retry-multiplier=d:0.5}
	soft 406 queue.declare "invalid arg 'x-retry-multiplier' for queue 'rt.g' in vhost '/': \"expected a number from 1 to 1000, got 0.5\""
	> queue.declare queue="rt.g" exclusive arguments={x-retry-max=3 x-retry-exhausted="lose"}
	soft 406 queue.declare "invalid arg 'x-retry-exhausted' for queue 'rt.g' in vhost '/': invalid_retry_exhausted"
