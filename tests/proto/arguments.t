# x-arguments of queues and consumers: what is refused and how it is compared (amqp.md 6.3, 6.4).

set at "queue 'a.q' in vhost '/'"

== values that are accepted
open
for value 0 1 B:255 l:315360000000 u:5 i:5
	> queue.declare queue="a.ttl" exclusive arguments={x-message-ttl=$value}
	< queue.declare_ok
	> queue.delete queue="a.ttl"
	< queue.delete_ok
> queue.declare queue="a.all" exclusive arguments={x-expires=100000 x-max-length=0 x-max-length-bytes=l:1000000000000 x-overflow="reject-publish" x-dead-letter-exchange="" x-dead-letter-routing-key="" x-max-priority=10 x-single-active-consumer=true x-queue-type="classic" x-queue-mode="lazy" x-queue-version=2 x-queue-master-locator="client-local"}
< queue.declare_ok
for value "drop-head" "reject-publish" "reject-publish-dlx"
	> queue.declare queue="a.${value}" exclusive arguments={x-overflow=$value}
	< queue.declare_ok

== arguments that nobody knows are kept and ignored
open
> queue.declare queue="a.unknown" exclusive arguments={foo="bar" x-foo=1 x-match="all" x-ha-policy="all" x-ha-policy-params=["a"]}
< queue.declare_ok
> queue.declare queue="a.unknown" exclusive
< queue.declare_ok
> queue.declare queue="a.unknown" exclusive arguments={x-foo=2}
< queue.declare_ok

== x-message-ttl
open
> queue.declare queue="a.q" arguments={x-message-ttl=-1}
soft 406 queue.declare "invalid arg 'x-message-ttl' for ${at}: {value_negative,-1}"
> queue.declare queue="a.q" arguments={x-message-ttl=l:315360000001}
soft 406 queue.declare "invalid arg 'x-message-ttl' for ${at}: {value_too_large,315360000001}"
> queue.declare queue="a.q" arguments={x-message-ttl="5"}
soft 406 queue.declare "invalid arg 'x-message-ttl' for ${at}: \"expected integer, got longstr\""
> queue.declare queue="a.q" arguments={x-message-ttl=true}
soft 406 queue.declare "invalid arg 'x-message-ttl' for ${at}: \"expected integer, got bool\""
> queue.declare queue="a.q" arguments={x-message-ttl=d:5.5}
soft 406 queue.declare "invalid arg 'x-message-ttl' for ${at}: \"expected integer, got double\""
> queue.declare queue="a.q" arguments={x-message-ttl=V}
soft 406 queue.declare "invalid arg 'x-message-ttl' for ${at}: \"expected integer, got void\""
> queue.declare queue="a.q" arguments={x-message-ttl=T:5}
soft 406 queue.declare "invalid arg 'x-message-ttl' for ${at}: \"expected integer, got timestamp\""

== x-expires
open
> queue.declare queue="a.q" arguments={x-expires=0}
soft 406 queue.declare "invalid arg 'x-expires' for ${at}: {value_zero,0}"
> queue.declare queue="a.q" arguments={x-expires=-1}
soft 406 queue.declare "invalid arg 'x-expires' for ${at}: {value_negative,-1}"
> queue.declare queue="a.q" arguments={x-expires=l:315360000001}
soft 406 queue.declare "invalid arg 'x-expires' for ${at}: {value_too_large,315360000001}"
> queue.declare queue="a.q" arguments={x-expires="5"}
soft 406 queue.declare "invalid arg 'x-expires' for ${at}: \"expected integer, got longstr\""

== x-max-length and x-max-length-bytes
open
for name "x-max-length" "x-max-length-bytes"
	> queue.declare queue="a.q" arguments={"${name}"=-1}
	soft 406 queue.declare "invalid arg '${name}' for ${at}: {value_negative,-1}"
	> queue.declare queue="a.q" arguments={"${name}"="5"}
	soft 406 queue.declare "invalid arg '${name}' for ${at}: \"expected integer, got longstr\""

== x-overflow
open
> queue.declare queue="a.q" arguments={x-overflow="foo"}
soft 406 queue.declare "invalid arg 'x-overflow' for ${at}: invalid_overflow"
> queue.declare queue="a.q" arguments={x-overflow=1}
soft 406 queue.declare "invalid arg 'x-overflow' for ${at}: {unacceptable_type,signedint}"

== x-dead-letter-exchange and its routing key
open
> queue.declare queue="a.q" arguments={x-dead-letter-exchange=1}
soft 406 queue.declare "invalid type 'signedint' for arg 'x-dead-letter-exchange' in ${at}"
> queue.declare queue="a.q" arguments={x-dead-letter-routing-key="k"}
soft 406 queue.declare "invalid arg 'x-dead-letter-routing-key' for ${at}: routing_key_but_no_dlx_defined"
> queue.declare queue="a.q" arguments={x-dead-letter-exchange="x" x-dead-letter-routing-key=1}
soft 406 queue.declare "invalid arg 'x-dead-letter-routing-key' for ${at}: {unacceptable_type,signedint}"

== x-max-priority
open
> queue.declare queue="a.q" arguments={x-max-priority=256}
soft 406 queue.declare "invalid arg 'x-max-priority' for ${at}: {max_value_exceeded,256}"
> queue.declare queue="a.q" arguments={x-max-priority=-1}
soft 406 queue.declare "invalid arg 'x-max-priority' for ${at}: {value_negative,-1}"
> queue.declare queue="a.q" arguments={x-max-priority="5"}
soft 406 queue.declare "invalid arg 'x-max-priority' for ${at}: \"expected integer, got longstr\""

== x-single-active-consumer
open
> queue.declare queue="a.q" arguments={x-single-active-consumer="true"}
soft 406 queue.declare "invalid arg 'x-single-active-consumer' for ${at}: {unacceptable_type,longstr}"
> queue.declare queue="a.q" arguments={x-single-active-consumer=1}
soft 406 queue.declare "invalid arg 'x-single-active-consumer' for ${at}: {unacceptable_type,signedint}"

== x-queue-type
open
> queue.declare queue="a.q" arguments={x-queue-type="foo"}
soft 406 queue.declare "invalid arg 'x-queue-type' for ${at}: \"unsupported queue type 'foo'\""
> queue.declare queue="a.q" arguments={x-queue-type=1}
soft 406 queue.declare "invalid arg 'x-queue-type' for ${at}: {unacceptable_type,signedint}"

== streams do not exist yet
open
> queue.declare queue="a.stream" durable arguments={x-queue-type="stream"}
differs no-streams
	soft 406 queue.declare "invalid arg 'x-queue-type' for queue 'a.stream' in vhost '/': \"unsupported queue type 'stream'\""
oracle
	< queue.declare_ok

== arguments of other queue types
open
> queue.declare queue="a.limit" exclusive arguments={x-delivery-limit=5}
differs delivery-limit
	< queue.declare_ok
oracle
	soft 406 queue.declare "invalid arg 'x-delivery-limit' for queue 'a.limit' in vhost '/' of queue type rabbit_classic_queue"
> queue.declare queue="a.q" arguments={x-max-age="1h"}
soft 406 queue.declare "invalid arg 'x-max-age' for ${at} of queue type rabbit_classic_queue"

== quorum queues are what they must be
open
> queue.declare queue="a.q" arguments={x-queue-type="quorum"}
soft 406 queue.declare "invalid property 'non-durable' for ${at}"
> queue.declare queue="a.q" durable auto_delete arguments={x-queue-type="quorum"}
soft 406 queue.declare "invalid property 'auto-delete' for ${at}"
> queue.declare queue="a.q" durable exclusive arguments={x-queue-type="quorum"}
soft 406 queue.declare "invalid property 'exclusive-owner' for ${at}"
> queue.declare queue="" durable arguments={x-queue-type="quorum"}
soft 406 queue.declare "Cannot declare a server-named queue for type rabbit_quorum_queue"
> queue.declare queue="a.q" durable arguments={x-queue-type="quorum" x-max-priority=5}
soft 406 queue.declare "invalid arg 'x-max-priority' for ${at} of queue type rabbit_quorum_queue"

== a quorum queue
open
> queue.declare queue="a.quorum" durable arguments={x-queue-type="quorum" x-delivery-limit=5 x-quorum-initial-group-size=3}
< queue.declare_ok queue="a.quorum" message_count=0
> queue.declare queue="a.quorum" durable arguments={x-queue-type="classic"}
soft 406 queue.declare "inequivalent arg 'x-queue-type' for queue 'a.quorum' in vhost '/': received 'classic' but current is 'quorum'"

== arguments that 4.x made meaningless
open
> queue.declare queue="a.mode" exclusive arguments={x-queue-mode="foo"}
differs meaningless-arguments
	< queue.declare_ok
oracle
	soft 406 queue.declare "invalid arg 'x-queue-mode' for queue 'a.mode' in vhost '/': \"unsupported queue mode 'foo'\""
> queue.declare queue="a.version" exclusive arguments={x-queue-version=3}
soft 406 queue.declare "invalid arg 'x-queue-version' for queue 'a.version' in vhost '/': \"unsupported queue version '3'\""

== one side has the argument and the other has not
open
> queue.declare queue="a.q" arguments={x-message-ttl=5}
< queue.declare_ok
> queue.declare queue="a.q"
soft 406 queue.declare "inequivalent arg 'x-message-ttl' for ${at}: received none but current is the value '5' of type 'signedint'"
> queue.declare queue="a.q" arguments={x-message-ttl=5 x-max-length=7}
soft 406 queue.declare "inequivalent arg 'x-max-length' for ${at}: received the value '7' of type 'signedint' but current is none"
> queue.declare queue="a.q" arguments={x-message-ttl=l:5 x-overflow="drop-head"}
soft 406 queue.declare "inequivalent arg 'x-overflow' for ${at}: received the value 'drop-head' of type 'longstr' but current is none"

== both have it, with other values
open
> queue.declare queue="a.q" arguments={x-max-length=10 x-single-active-consumer=true}
< queue.declare_ok
> queue.declare queue="a.q" arguments={x-max-length=20 x-single-active-consumer=true}
soft 406 queue.declare "inequivalent arg 'x-max-length' for ${at}: received '20' but current is '10'"
> queue.declare queue="a.q" arguments={x-max-length=10 x-single-active-consumer=false}
soft 406 queue.declare "inequivalent arg 'x-single-active-consumer' for ${at}: received 'false' but current is 'true'"

== integers of every width are equal
open
> queue.declare queue="a.q" arguments={x-max-length=10}
< queue.declare_ok
for value b:10 B:10 s:10 u:10 I:10 i:10 l:10 L:10
	> queue.declare queue="a.q" arguments={x-max-length=$value}
	< queue.declare_ok

== but a text is no integer
open
> queue.declare queue="a.q" arguments={x-max-length=10}
< queue.declare_ok
> queue.declare queue="a.q" arguments={x-max-length="10"}
soft 406 queue.declare "inequivalent arg 'x-max-length' for ${at}: received '10' but current is '10'"

== x-queue-type classic equals none
open
> queue.declare queue="a.q" arguments={x-queue-type="classic"}
< queue.declare_ok
> queue.declare queue="a.q"
< queue.declare_ok
> queue.declare queue="a.other"
< queue.declare_ok
> queue.declare queue="a.other" arguments={x-queue-type="classic"}
< queue.declare_ok

== x-priority of a consumer
open
> queue.declare queue="a.q" exclusive
< queue.declare_ok
> basic.consume queue="a.q" consumer_tag="a" arguments={x-priority=l:-5 x-foo="bar"}
< basic.consume_ok
> basic.consume queue="a.q" arguments={x-priority="5"}
soft 406 basic.consume "invalid arg 'x-priority' for ${at}: \"expected integer, got longstr\""
> basic.consume queue="a.q" consumer_tag="b" arguments={x-cancel-on-ha-failover=true}
< basic.consume_ok
> basic.consume queue="a.q" arguments={x-stream-offset="first"}
soft 406 basic.consume "invalid arg 'x-stream-offset' for ${at} of queue type rabbit_classic_queue"
