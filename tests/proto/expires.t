# The end of queues that nobody uses: x-expires (amqp.md 6.6).

== [slow] an unused queue goes, with what is in it
open
> queue.declare queue="ex.unused" durable arguments={x-expires=1000 x-dead-letter-exchange="" x-dead-letter-routing-key="ex.dead"}
< queue.declare_ok
> queue.declare queue="ex.dead" exclusive
< queue.declare_ok
> queue.bind queue="ex.unused" exchange="amq.direct" routing_key="ex"
< queue.bind_ok
> basic.publish exchange="amq.direct" routing_key="ex" mandatory body="m"
quiet "ex.unused"
# That looked at it; the publishes from here on do not.
pause 0.5
> basic.publish exchange="amq.direct" routing_key="ex" mandatory body="m"
pause 0.2
> basic.publish exchange="amq.direct" routing_key="ex" mandatory body="m"
pause 1.3
> basic.publish exchange="amq.direct" routing_key="ex" mandatory body="m"
< basic.return reply_code=312 exchange="amq.direct" routing_key="ex" body="m"
> queue.declare queue="ex.unused" passive
soft 404 queue.declare "no queue 'ex.unused' in vhost '/'"
> basic.get queue="ex.dead"
< basic.get_empty

== [slow] declaring it and basic.get are uses
open
> queue.declare queue="ex.used" arguments={x-expires=2000}
< queue.declare_ok
pause 1.2
> queue.declare queue="ex.used" passive
< queue.declare_ok
pause 1.2
> queue.declare queue="ex.used" arguments={x-expires=2000}
< queue.declare_ok
pause 1.2
> basic.get queue="ex.used"
< basic.get_empty
pause 1.2
> basic.publish exchange="" routing_key="ex.used" mandatory body="m"
> basic.get queue="ex.used"
< basic.get_ok body="m"
pause 1.2
> basic.publish exchange="" routing_key="ex.used" mandatory body="m"
sync
pause 2
> basic.publish exchange="" routing_key="ex.used" mandatory body="m"
< basic.return reply_code=312
# What was delivered of it can still be settled.
> basic.ack delivery_tag=1
sync

== [slow] while it has consumers it stays
open
> queue.declare queue="ex.consumed" arguments={x-expires=700}
< queue.declare_ok
> basic.consume queue="ex.consumed" consumer_tag="t"
< basic.consume_ok
pause 2
> basic.publish exchange="" routing_key="ex.consumed" mandatory body="m"
< basic.deliver consumer_tag="t" delivery_tag=1 body="m"
> basic.cancel consumer_tag="t"
< basic.cancel_ok
pause 0.1
> queue.declare queue="ex.consumed" passive
< queue.declare_ok
pause 1.7
> queue.declare queue="ex.consumed" passive
soft 404 queue.declare "no queue 'ex.consumed' in vhost '/'"
