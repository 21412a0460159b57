# Deliveries that are unacknowledged for too long: x-consumer-timeout (amqp.md 7.11). RabbitMQ looks once a minute,
# and 3.10 knows the limit of its configuration only.

== [slow] what is late goes back, and its consumer lives
open
> queue.declare queue="at.late" arguments={x-consumer-timeout=700}
< queue.declare_ok
> basic.qos prefetch_count=1
< basic.qos_ok
> basic.consume queue="at.late" consumer_tag="t"
< basic.consume_ok
> basic.publish exchange="" routing_key="at.late" body="m"
< basic.deliver consumer_tag="t" delivery_tag=1 redelivered=false body="m"
differs consumer-timeout
	pause 1
	< basic.deliver consumer_tag="t" delivery_tag=2 redelivered body="m"
	# The client could not know.
	> basic.ack delivery_tag=1
	sync
	> basic.ack delivery_tag=2
	pause 1
	quiet "at.late"
	> basic.ack delivery_tag=2
	soft 406 basic.ack "unknown delivery tag 2"
oracle
	pause 1
	quiet "at.late"
	> basic.ack delivery_tag=1
	quiet "at.late"

== [slow] of basic.get
open
> queue.declare queue="at.get" arguments={x-consumer-timeout=700}
< queue.declare_ok
> basic.publish exchange="" routing_key="at.get" body="m"
> basic.get queue="at.get"
< basic.get_ok delivery_tag=1 body="m"
pause 1.2
> basic.get queue="at.get"
differs consumer-timeout
	< basic.get_ok delivery_tag=2 redelivered body="m"
oracle
	< basic.get_empty

== [slow] a consumer's own limit
open channels=2
> c1 1 queue.declare queue="at.consumer"
< c1 1 queue.declare_ok
> c1 1 basic.qos prefetch_count=1
< c1 1 basic.qos_ok
> c1 1 basic.consume queue="at.consumer" consumer_tag="t" arguments={x-consumer-timeout=700}
< c1 1 basic.consume_ok
> c1 1 basic.publish exchange="" routing_key="at.consumer" body="m1"
< c1 1 basic.deliver consumer_tag="t" delivery_tag=1 body="m1"
> c1 1 basic.cancel consumer_tag="t"
< c1 1 basic.cancel_ok
> c1 2 basic.consume queue="at.consumer" consumer_tag="u"
< c1 2 basic.consume_ok
differs consumer-timeout
	pause 1
	< c1 2 basic.deliver consumer_tag="u" delivery_tag=1 redelivered body="m1"
oracle
	pause 1
	quiet "at.consumer"
