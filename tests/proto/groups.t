# Message groups: x-group-by, an argument of Pannier's own. RabbitMQ takes it for one that it does not know.

== a key stays with one consumer while something of it is unacked
open channels=3
> c1 1 queue.declare queue="g.a" exclusive arguments={x-group-by="k"}
< c1 1 queue.declare_ok
> c1 1 basic.qos prefetch_count=2
< c1 1 basic.qos_ok
> c1 1 basic.consume queue="g.a" consumer_tag="t1"
< c1 1 basic.consume_ok
> c1 2 basic.consume queue="g.a" consumer_tag="t2"
< c1 2 basic.consume_ok
differs message-groups
	> c1 3 basic.publish exchange="" routing_key="g.a" props={headers={k="x"}} body="x1"
	> c1 3 basic.publish exchange="" routing_key="g.a" props={headers={k="x"}} body="x2"
	> c1 3 basic.publish exchange="" routing_key="g.a" props={headers={k="x"}} body="x3"
	> c1 3 basic.publish exchange="" routing_key="g.a" props={headers={k=5}} body="5a"
	> c1 3 basic.publish exchange="" routing_key="g.a" props={headers={k="5"}} body="5b"
	> c1 3 basic.publish exchange="" routing_key="g.a" body="none"
	< c1 1 basic.deliver delivery_tag=1 body="x1"
	< c1 1 basic.deliver delivery_tag=2 body="x2"
	< c1 2 basic.deliver delivery_tag=1 body="5a"
	< c1 2 basic.deliver delivery_tag=2 body="5b"
	< c1 2 basic.deliver delivery_tag=3 body="none"
	quiet "g.a"
	> c1 3 queue.declare queue="g.a" passive
	< c1 3 queue.declare_ok message_count=1 consumer_count=2
	> c1 1 basic.ack delivery_tag=1
	< c1 1 basic.deliver delivery_tag=3 body="x3"
	# All of x is settled, and the key is free.
	> c1 1 basic.ack delivery_tag=3 multiple
	sync c1 1 "g.a"
	> c1 3 basic.publish exchange="" routing_key="g.a" props={headers={k="x"}} body="x4"
	< c1 2 basic.deliver delivery_tag=4 body="x4"

== the end of a consumer's channel: what comes back goes first
open channels=3
> c1 1 queue.declare queue="g.a" exclusive arguments={x-group-by="k"}
< c1 1 queue.declare_ok
> c1 1 basic.qos prefetch_count=2
< c1 1 basic.qos_ok
> c1 1 basic.consume queue="g.a" consumer_tag="t1"
< c1 1 basic.consume_ok
> c1 2 basic.consume queue="g.a" consumer_tag="t2"
< c1 2 basic.consume_ok
differs message-groups
	> c1 3 basic.publish exchange="" routing_key="g.a" props={headers={k="x"}} body="x1"
	> c1 3 basic.publish exchange="" routing_key="g.a" props={headers={k="x"}} body="x2"
	> c1 3 basic.publish exchange="" routing_key="g.a" props={headers={k="x"}} body="x3"
	< c1 1 basic.deliver delivery_tag=1 body="x1"
	< c1 1 basic.deliver delivery_tag=2 body="x2"
	# Cancelled it keeps its key, until what it has is settled or comes back.
	> c1 1 basic.cancel consumer_tag="t1"
	< c1 1 basic.cancel_ok
	quiet "g.a"
	> c1 1 channel.close reply_code=200 reply_text="bye"
	< c1 1 channel.close_ok
	< c1 2 basic.deliver delivery_tag=1 redelivered body="x1"
	< c1 2 basic.deliver delivery_tag=2 redelivered body="x2"
	< c1 2 basic.deliver delivery_tag=3 redelivered=false body="x3"

== basic.get passes by keys that consumers have, and holds its own from them
open channels=2
> c1 1 queue.declare queue="g.a" exclusive arguments={x-group-by="k"}
< c1 1 queue.declare_ok
> c1 1 basic.qos prefetch_count=1
< c1 1 basic.qos_ok
> c1 1 basic.consume queue="g.a" consumer_tag="t1"
< c1 1 basic.consume_ok
differs message-groups
	> c1 2 basic.publish exchange="" routing_key="g.a" props={headers={k="x"}} body="x1"
	> c1 2 basic.publish exchange="" routing_key="g.a" props={headers={k="x"}} body="x2"
	> c1 2 basic.publish exchange="" routing_key="g.a" props={headers={k="y"}} body="y1"
	> c1 2 basic.publish exchange="" routing_key="g.a" props={headers={k="y"}} body="y2"
	< c1 1 basic.deliver delivery_tag=1 body="x1"
	sync c1 2 "g.a"
	> c1 2 basic.get queue="g.a"
	< c1 2 basic.get_ok delivery_tag=1 body="y1" message_count=2
	> c1 1 basic.ack delivery_tag=1
	< c1 1 basic.deliver delivery_tag=2 body="x2"
	> c1 1 basic.ack delivery_tag=2
	quiet "g.a"
	> c1 2 basic.get queue="g.a"
	< c1 2 basic.get_ok delivery_tag=2 body="y2" message_count=0
	> c1 2 basic.nack delivery_tag=2 multiple requeue
	< c1 1 basic.deliver delivery_tag=3 redelivered body="y1"
	> c1 2 basic.get queue="g.a"
	< c1 2 basic.get_empty

== the argument is a string, and the same in each declaration
open
> queue.declare queue="g.a" exclusive arguments={x-group-by=5}
differs message-groups
	soft 406 queue.declare "invalid arg 'x-group-by' for queue 'g.a' in vhost '/': {unacceptable_type,signedint}"
	> queue.declare queue="g.a" exclusive arguments={x-group-by="k"}
	< queue.declare_ok
	> queue.declare queue="g.a" exclusive arguments={x-group-by="j"}
	soft 406 queue.declare "inequivalent arg 'x-group-by' for queue 'g.a' in vhost '/': received 'j' but current is 'k'"
oracle
	< queue.declare_ok

== with a single active consumer it changes nothing
open channels=2
> c1 1 queue.declare queue="g.a" exclusive arguments={x-group-by="k" x-single-active-consumer=true}
< c1 1 queue.declare_ok
> c1 1 basic.consume queue="g.a" consumer_tag="t1"
< c1 1 basic.consume_ok
> c1 2 basic.consume queue="g.a" consumer_tag="t2"
< c1 2 basic.consume_ok
> c1 1 basic.publish exchange="" routing_key="g.a" props={headers={k="x"}} body="x1"
< c1 1 basic.deliver delivery_tag=1 body="x1"
> c1 1 basic.cancel consumer_tag="t1"
< c1 1 basic.cancel_ok
> c1 1 basic.publish exchange="" routing_key="g.a" props={headers={k="x"}} body="x2"
< c1 2 basic.deliver delivery_tag=1 body="x2"
