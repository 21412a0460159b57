# Direct reply-to (amqp.md 7.12).

== the consumer
open
> basic.consume queue="amq.rabbitmq.reply-to"
soft 406 basic.consume "reply consumer cannot acknowledge"
> basic.consume queue="amq.rabbitmq.reply-to" consumer_tag="t" no_ack
< basic.consume_ok consumer_tag="t"
> basic.consume queue="amq.rabbitmq.reply-to" consumer_tag="u" no_ack
soft 406 basic.consume "reply consumer already set"

== a request and its reply
open c1
open c2
> c2 1 queue.declare queue="d.requests" exclusive
< c2 1 queue.declare_ok
> c1 1 basic.consume queue="amq.rabbitmq.reply-to" consumer_tag="t" no_ack
< c1 1 basic.consume_ok
> c1 1 basic.publish exchange="" routing_key="d.requests" props={reply_to="amq.rabbitmq.reply-to" correlation_id="7"} body="ask"
sync c1 1
sync c2 1 "d.requests"
> c2 1 basic.get queue="d.requests" no_ack
< c2 1 basic.get_ok body="ask" props=~{correlation_id="7" reply_to=~"amq\.rabbitmq\.reply-to\..{20,}"->$to}
> c2 1 queue.declare queue=$to passive
< c2 1 queue.declare_ok queue=$to message_count=0 consumer_count=1
> c2 1 basic.publish exchange="" routing_key=$to props={correlation_id="7"} body="answer"
< c1 1 basic.deliver consumer_tag="t" delivery_tag=1 exchange="" routing_key=$to body="answer" props={correlation_id="7"}
> c1 1 basic.cancel consumer_tag="t"
< c1 1 basic.cancel_ok
> c2 1 queue.declare queue=$to passive
soft c2 1 404 queue.declare "no queue '${to}' in vhost '/'"
> c2 1 confirm.select
< c2 1 confirm.select_ok
> c2 1 basic.publish exchange="" routing_key=$to body="late"
confirms c2 1 acks=1

== a request without a consumer
open
> basic.publish exchange="" routing_key="d.none" props={reply_to="amq.rabbitmq.reply-to"} body="m"
soft 406 basic.publish "fast reply consumer does not exist"

== asking for the feature
open
> queue.declare queue="amq.rabbitmq.reply-to" passive
< queue.declare_ok queue="amq.rabbitmq.reply-to" message_count=0 consumer_count=1

== the same tag twice
open
> basic.consume queue="amq.rabbitmq.reply-to" consumer_tag="t" no_ack
< basic.consume_ok consumer_tag="t"
> basic.consume queue="amq.rabbitmq.reply-to" consumer_tag="t" no_ack
soft 406 basic.consume "reply consumer already set"
