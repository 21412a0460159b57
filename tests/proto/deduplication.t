# Deduplication (amqp.md 5.8): arguments of LavinMQ, and a type of exchange of a plugin for RabbitMQ. RabbitMQ by itself
# takes the arguments for some that it does not know.

== an exchange knows a value: confirmed, and returned when it is mandatory
open
> exchange.declare exchange="dd.x" type="direct" arguments={x-message-deduplication=true}
< exchange.declare_ok
> queue.declare queue="dd.q" exclusive
< queue.declare_ok
> queue.bind queue="dd.q" exchange="dd.x" routing_key="k"
< queue.bind_ok
> confirm.select
< confirm.select_ok
differs deduplication
	> basic.publish exchange="dd.x" routing_key="k" props={headers={x-deduplication-header="a"}} body="m1"
	> basic.publish exchange="dd.x" routing_key="k" props={headers={x-deduplication-header="a"}} body="m2"
	> basic.publish exchange="dd.x" routing_key="k" props={headers={x-deduplication-header="b"}} body="m3"
	> basic.publish exchange="dd.x" routing_key="k" body="m4"
	confirms acks=1..4
	> basic.publish exchange="dd.x" routing_key="k" mandatory props={headers={x-deduplication-header="b"}} body="m5"
	< basic.return reply_code=312 reply_text="NO_ROUTE" exchange="dd.x" routing_key="k" body="m5"
	confirms acks=5
	> queue.declare queue="dd.q" passive
	< queue.declare_ok message_count=3
	> basic.get queue="dd.q" no_ack
	< basic.get_ok body="m1"
	> basic.get queue="dd.q" no_ack
	< basic.get_ok body="m3"
	> basic.get queue="dd.q" no_ack
	< basic.get_ok body="m4"
	# also when the first one is gone
	> basic.publish exchange="dd.x" routing_key="k" props={headers={x-deduplication-header="a"}} body="m6"
	confirms acks=6
	> basic.get queue="dd.q" no_ack
	< basic.get_empty

== a message without a queue may be sent again
open
> exchange.declare exchange="dd.x" type="direct" arguments={x-message-deduplication=true}
< exchange.declare_ok
> queue.declare queue="dd.q" exclusive
< queue.declare_ok
differs deduplication
	> basic.publish exchange="dd.x" routing_key="k" mandatory props={headers={x-deduplication-header="a"}} body="m1"
	< basic.return reply_code=312 body="m1"
	> queue.bind queue="dd.q" exchange="dd.x" routing_key="k"
	< queue.bind_ok
	> basic.publish exchange="dd.x" routing_key="k" props={headers={x-deduplication-header="a"}} body="m1"
	> basic.publish exchange="dd.x" routing_key="k" props={headers={x-deduplication-header="a"}} body="m1"
	> basic.get queue="dd.q" no_ack
	< basic.get_ok body="m1" message_count=0

== what a queue refuses may be sent again
open
> queue.declare queue="dd.q" exclusive arguments={x-message-deduplication=true x-cache-size=10 x-max-length=1 x-overflow="reject-publish"}
< queue.declare_ok
> confirm.select
< confirm.select_ok
differs deduplication
	> basic.publish exchange="" routing_key="dd.q" props={headers={x-deduplication-header=1}} body="m1"
	> basic.publish exchange="" routing_key="dd.q" props={headers={x-deduplication-header=2}} body="m2"
	> basic.publish exchange="" routing_key="dd.q" props={headers={x-deduplication-header=1}} body="m3"
	confirms acks=1,3 nacks=2
	> basic.get queue="dd.q" no_ack
	< basic.get_ok body="m1"
	> basic.publish exchange="" routing_key="dd.q" props={headers={x-deduplication-header=l:2}} body="m4"
	> basic.publish exchange="" routing_key="dd.q" props={headers={x-deduplication-header=l:1}} body="m5"
	confirms acks=4,5
	> basic.get queue="dd.q" no_ack
	< basic.get_ok body="m4" message_count=0

== a queue knows what it has: no return, and a confirm
open channels=2
> c1 1 queue.declare queue="dd.q" exclusive arguments={x-message-deduplication=true}
< c1 1 queue.declare_ok
> c1 2 confirm.select
< c1 2 confirm.select_ok
differs deduplication
	> c1 2 basic.publish exchange="" routing_key="dd.q" mandatory props={headers={x-deduplication-header="a"}} body="m1"
	> c1 2 basic.publish exchange="" routing_key="dd.q" mandatory props={headers={x-deduplication-header="a"}} body="m2"
	confirms c1 2 acks=1..2
	> c1 1 basic.get queue="dd.q"
	< c1 1 basic.get_ok delivery_tag=1 body="m1" message_count=0
	# unacknowledged it is there still
	> c1 2 basic.publish exchange="" routing_key="dd.q" props={headers={x-deduplication-header="a"}} body="m3"
	confirms c1 2 acks=3
	> c1 1 basic.get queue="dd.q"
	< c1 1 basic.get_empty
	> c1 1 basic.ack delivery_tag=1
	sync c1 1 "dd.q"
	> c1 2 basic.publish exchange="" routing_key="dd.q" props={headers={x-deduplication-header="a"}} body="m4"
	confirms c1 2 acks=4
	> c1 1 basic.get queue="dd.q" no_ack
	< c1 1 basic.get_ok body="m4"

== the plugin's type is a fanout
open
differs deduplication
	> exchange.declare exchange="dd.x" type="x-message-deduplication" arguments={x-cache-size=2 x-cache-persistence="memory"}
	< exchange.declare_ok
	> queue.declare queue="dd.q" exclusive
	< queue.declare_ok
	> queue.bind queue="dd.q" exchange="dd.x" routing_key="whatever"
	< queue.bind_ok
	for value "a" "a" "b" "c" "b" "a"
		> basic.publish exchange="dd.x" routing_key="" props={headers={x-deduplication-header=$value}} body=$value
	for value "a" "b" "c" "a"
		> basic.get queue="dd.q" no_ack
		< basic.get_ok body=$value
	> basic.get queue="dd.q" no_ack
	< basic.get_empty

== the plugin's type, bad arguments
open
differs deduplication
	> exchange.declare exchange="dd.x" type="x-message-deduplication"
	soft 406 exchange.declare "Missing or invalid argument, 'x-cache-size' must be an integer greater than 0, and 16777216 at most in exchange 'dd.x' in vhost '/'"
	> exchange.declare exchange="dd.x" type="x-message-deduplication" arguments={x-cache-size=0}
	soft 406 exchange.declare "Invalid argument, 'x-cache-size' must be an integer greater than 0, and 16777216 at most in exchange 'dd.x' in vhost '/'"
	> exchange.declare exchange="dd.x" type="fanout" arguments={x-message-deduplication=true x-cache-ttl="soon"}
	soft 406 exchange.declare "Invalid argument, 'x-cache-ttl' must be an integer greater than 0 in exchange 'dd.x' in vhost '/'"
	> queue.declare queue="dd.q" exclusive arguments={x-message-deduplication="yes"}
	soft 406 queue.declare "invalid arg 'x-message-deduplication' for queue 'dd.q' in vhost '/': {unacceptable_type,longstr}"

== in a transaction it counts at the commit
open channels=2
> c1 1 exchange.declare exchange="dd.x" type="fanout" arguments={x-message-deduplication=true}
< c1 1 exchange.declare_ok
> c1 1 queue.declare queue="dd.q" exclusive
< c1 1 queue.declare_ok
> c1 1 queue.bind queue="dd.q" exchange="dd.x" routing_key=""
< c1 1 queue.bind_ok
> c1 1 tx.select
< c1 1 tx.select_ok
> c1 2 tx.select
< c1 2 tx.select_ok
differs deduplication
	# rolled back it was never sent
	> c1 1 basic.publish exchange="dd.x" routing_key="" props={headers={x-deduplication-header="a"}} body="m1"
	> c1 1 tx.rollback
	< c1 1 tx.rollback_ok
	> c1 1 basic.publish exchange="dd.x" routing_key="" props={headers={x-deduplication-header="a"}} body="m2"
	> c1 1 basic.publish exchange="dd.x" routing_key="" mandatory props={headers={x-deduplication-header="a"}} body="m3"
	sync c1 1
	# whoever commits first is not the duplicate
	> c1 2 basic.publish exchange="dd.x" routing_key="" props={headers={x-deduplication-header="a"}} body="m4"
	> c1 2 basic.publish exchange="dd.x" routing_key="" props={headers={x-deduplication-header="b"}} body="m5"
	> c1 2 tx.commit
	< c1 2 tx.commit_ok
	> c1 1 tx.commit
	< c1 1 basic.return reply_code=312 body="m3"
	< c1 1 tx.commit_ok
	> c1 1 basic.get queue="dd.q" no_ack
	< c1 1 basic.get_ok body="m4"
	> c1 1 basic.get queue="dd.q" no_ack
	< c1 1 basic.get_ok body="m5" message_count=0
