# Exchanges and bindings: what may be declared, compared, bound and deleted (amqp.md 4.4, 5.1 to 5.5).

set default "operation not permitted on the default exchange"

== the predeclared exchanges
open
for name "amq.direct" "amq.fanout" "amq.topic" "amq.headers" "amq.match" "amq.rabbitmq.trace"
	> exchange.declare exchange=$name passive
	< exchange.declare_ok
> exchange.declare exchange="amq.direct" type="direct" durable
< exchange.declare_ok
> exchange.declare exchange="amq.fanout" type="fanout" durable
< exchange.declare_ok
> exchange.declare exchange="amq.topic" type="topic" durable
< exchange.declare_ok
> exchange.declare exchange="amq.headers" type="headers" durable
< exchange.declare_ok
> exchange.declare exchange="amq.match" type="headers" durable
< exchange.declare_ok
> exchange.declare exchange="amq.rabbitmq.trace" type="topic" durable internal
< exchange.declare_ok

== a missing exchange
open
> queue.declare queue="x.q" exclusive
< queue.declare_ok
> exchange.declare exchange="x.nope" type="direct" passive
soft 404 exchange.declare "no exchange 'x.nope' in vhost '/'"
> basic.publish exchange="x.nope" routing_key="k" body="x"
soft 404 basic.publish "no exchange 'x.nope' in vhost '/'"
> queue.bind queue="x.q" exchange="x.nope"
soft 404 queue.bind "no exchange 'x.nope' in vhost '/'"
> exchange.bind destination="amq.fanout" source="x.nope"
soft 404 exchange.bind "no exchange 'x.nope' in vhost '/'"
> exchange.bind destination="x.nope" source="amq.fanout"
soft 404 exchange.bind "no exchange 'x.nope' in vhost '/'"

== when both ends are missing the source is named
open
> exchange.bind destination="x.nodest" source="x.nosource"
soft 404 exchange.bind "no exchange 'x.nosource' in vhost '/'"
> queue.bind queue="x.noqueue" exchange="x.nosource"
soft 404 queue.bind "no exchange 'x.nosource' in vhost '/'"

== a missing queue
open
> queue.bind queue="x.noqueue" exchange="amq.direct"
soft 404 queue.bind "no queue 'x.noqueue' in vhost '/'"

== an unknown type
open
> exchange.declare exchange="x.foo" type="foo"
differs unknown-exchange-type
	soft 406 exchange.declare "unknown exchange type 'foo'"
oracle
	hard 503 exchange.declare ~"(unknown|invalid) exchange type 'foo'"
open
> exchange.declare exchange="x.foo" type=""
differs unknown-exchange-type
	soft 406 exchange.declare "unknown exchange type ''"
oracle
	hard 503 exchange.declare ~"(unknown|invalid) exchange type ''"

== the type is looked at before the name
open
> exchange.declare exchange="" type="foo"
differs unknown-exchange-type
	soft 406 exchange.declare "unknown exchange type 'foo'"
oracle
	hard 503 exchange.declare ~"(unknown|invalid) exchange type 'foo'"

== nothing but publishing is allowed on the default exchange
open
> queue.declare queue="x.q" exclusive
< queue.declare_ok
> exchange.declare exchange="" type="direct" durable
soft 403 exchange.declare $default
> exchange.declare exchange="" passive
soft 403 exchange.declare $default
> exchange.delete exchange=""
soft 403 exchange.delete $default
> queue.bind queue="x.q" exchange="" routing_key="k"
soft 403 queue.bind $default
> queue.unbind queue="x.q" exchange="" routing_key="x.q"
soft 403 queue.unbind $default
> exchange.bind destination="amq.fanout" source="" routing_key="k"
soft 403 exchange.bind $default
> exchange.bind destination="" source="amq.fanout" routing_key="k"
soft 403 exchange.bind $default
> exchange.unbind destination="amq.fanout" source="" routing_key="k"
soft 403 exchange.unbind $default
> exchange.unbind destination="" source="amq.fanout" routing_key="k"
soft 403 exchange.unbind $default

== names that are reserved
open
> exchange.declare exchange="amq.mine" type="direct"
soft 403 exchange.declare "exchange name 'amq.mine' contains reserved prefix 'amq.*'"
> exchange.declare exchange="amq.mine" passive
soft 404 exchange.declare "no exchange 'amq.mine' in vhost '/'"
> exchange.declare exchange="amq." type="direct"
soft 403 exchange.declare "exchange name 'amq.' contains reserved prefix 'amq.*'"
> exchange.declare exchange="amqp.mine" type="direct"
< exchange.declare_ok
> exchange.declare exchange="AMQ.mine" type="direct"
< exchange.declare_ok

== system exchanges are not deleted
open
> exchange.delete exchange="amq.topic"
soft 403 exchange.delete "deletion of system exchange 'amq.topic' in vhost '/' not allowed"
> exchange.delete exchange="amq.nope"
soft 403 exchange.delete "deletion of system exchange 'amq.nope' in vhost '/' not allowed"

== nobody publishes to an internal exchange
open
> exchange.declare exchange="x.internal" type="fanout" internal
< exchange.declare_ok
> basic.publish exchange="x.internal" routing_key="" body="x"
soft 403 basic.publish "cannot publish to internal exchange 'x.internal' in vhost '/'"
> basic.publish exchange="amq.rabbitmq.trace" routing_key="" body="x"
soft 403 basic.publish "cannot publish to internal exchange 'amq.rabbitmq.trace' in vhost '/'"

== the same declaration again
open
> exchange.declare exchange="x.again" type="topic" durable auto_delete internal arguments={foo=1}
< exchange.declare_ok
> exchange.declare exchange="x.again" type="topic" durable auto_delete internal arguments={foo=1}
< exchange.declare_ok
> exchange.declare exchange="x.again" type="topic" durable auto_delete internal
< exchange.declare_ok
> exchange.declare exchange="x.again" type="topic" durable auto_delete internal arguments={foo="bar" x-other=2}
< exchange.declare_ok
> exchange.declare exchange="x.again" type="nonsense" passive
< exchange.declare_ok

== another declaration of the same name
open
> exchange.declare exchange="x.other" type="direct" durable
< exchange.declare_ok
> exchange.declare exchange="x.other" type="fanout"
soft 406 exchange.declare "inequivalent arg 'type' for exchange 'x.other' in vhost '/': received 'fanout' but current is 'direct'"
> exchange.declare exchange="x.other" type="direct" auto_delete
soft 406 exchange.declare "inequivalent arg 'durable' for exchange 'x.other' in vhost '/': received 'false' but current is 'true'"
> exchange.declare exchange="x.other" type="direct" durable auto_delete internal
soft 406 exchange.declare "inequivalent arg 'auto_delete' for exchange 'x.other' in vhost '/': received 'true' but current is 'false'"
> exchange.declare exchange="x.other" type="direct" durable internal
soft 406 exchange.declare "inequivalent arg 'internal' for exchange 'x.other' in vhost '/': received 'true' but current is 'false'"
> exchange.declare exchange="x.other" type="direct" durable arguments={alternate-exchange="amq.fanout"}
soft 406 exchange.declare "inequivalent arg 'alternate-exchange' for exchange 'x.other' in vhost '/': received the value 'amq.fanout' of type 'longstr' but current is none"
> exchange.declare exchange="amq.topic" type="topic"
soft 406 exchange.declare "inequivalent arg 'durable' for exchange 'amq.topic' in vhost '/': received 'false' but current is 'true'"

== another alternate exchange
open
> exchange.declare exchange="x.ae" type="direct" arguments={alternate-exchange="one"}
< exchange.declare_ok
> exchange.declare exchange="x.ae" type="direct" arguments={alternate-exchange="one"}
< exchange.declare_ok
> exchange.declare exchange="x.ae" type="direct" arguments={alternate-exchange="two"}
soft 406 exchange.declare "inequivalent arg 'alternate-exchange' for exchange 'x.ae' in vhost '/': received 'two' but current is 'one'"
> exchange.declare exchange="x.ae" type="direct"
soft 406 exchange.declare "inequivalent arg 'alternate-exchange' for exchange 'x.ae' in vhost '/': received none but current is the value 'one' of type 'longstr'"

== an alternate exchange that is no string
open
> exchange.declare exchange="x.ae" type="direct" arguments={alternate-exchange=5}
soft 406 exchange.declare "invalid type 'signedint' for arg 'alternate-exchange' in exchange 'x.ae' in vhost '/'"

== no-wait leaves out the answers
open
> exchange.declare exchange="x.nowait" type="fanout" nowait
> exchange.declare exchange="x.nowait2" type="fanout" nowait
> queue.declare queue="x.q" exclusive nowait
> exchange.bind destination="x.nowait2" source="x.nowait" nowait
> queue.bind queue="x.q" exchange="x.nowait2" nowait
> basic.publish exchange="x.nowait" routing_key="" body="m"
sync "x.q"
> basic.get queue="x.q" no_ack
< basic.get_ok body="m"
> exchange.unbind destination="x.nowait2" source="x.nowait" nowait
> exchange.delete exchange="x.nowait" nowait
> exchange.delete exchange="x.nowait" nowait
> exchange.declare exchange="x.nowait" passive
soft 404 exchange.declare "no exchange 'x.nowait' in vhost '/'"

== errors come with no-wait too
open
> exchange.declare exchange="amq.mine" type="direct" nowait
soft 403 exchange.declare "exchange name 'amq.mine' contains reserved prefix 'amq.*'"

== deleting what is not there succeeds
open
> exchange.delete exchange="x.nope"
< exchange.delete_ok
> exchange.delete exchange="x.nope" if_unused
< exchange.delete_ok

== an exchange in use
open
> exchange.declare exchange="x.used" type="fanout"
< exchange.declare_ok
> queue.declare queue="x.q" exclusive
< queue.declare_ok
> queue.bind queue="x.q" exchange="x.used"
< queue.bind_ok
> exchange.delete exchange="x.used" if_unused
soft 406 exchange.delete "exchange 'x.used' in vhost '/' in use"
> queue.unbind queue="x.q" exchange="x.used"
< queue.unbind_ok
> exchange.delete exchange="x.used" if_unused
< exchange.delete_ok

== being a destination is no use
open
> exchange.declare exchange="x.dest" type="fanout"
< exchange.declare_ok
> exchange.bind destination="x.dest" source="amq.fanout"
< exchange.bind_ok
> exchange.delete exchange="x.dest" if_unused
< exchange.delete_ok

== line ends are taken out of names
open
> exchange.declare exchange="x.\r\nline" type="fanout"
< exchange.declare_ok
> exchange.declare exchange="x.line" passive
< exchange.declare_ok
> queue.declare queue="x.\nq" exclusive
< queue.declare_ok queue="x.q"
> queue.bind queue="x.q\r" exchange="x.\nline"
< queue.bind_ok
> basic.publish exchange="x.line" routing_key="" body="m"
sync "x.q"
> basic.get queue="x.q" no_ack
< basic.get_ok body="m"
> queue.unbind queue="x.\rq" exchange="x.li\nne"
< queue.unbind_ok
> exchange.delete exchange="\nx.line" if_unused
< exchange.delete_ok
> basic.publish exchange="x.\nline" routing_key="" body="m"
soft 404 basic.publish ~"no exchange 'x\.\nline' in vhost '/'"

== an auto-delete exchange goes with its last binding
open
for kind "unbind" "delete"
	> exchange.declare exchange="x.auto" type="direct" auto_delete
	< exchange.declare_ok
	> queue.declare queue="x.q" exclusive
	< queue.declare_ok
	> queue.bind queue="x.q" exchange="x.auto" routing_key="a"
	< queue.bind_ok
	> queue.bind queue="x.q" exchange="x.auto" routing_key="b"
	< queue.bind_ok
	> queue.unbind queue="x.q" exchange="x.auto" routing_key="a"
	< queue.unbind_ok
	> exchange.declare exchange="x.auto" passive
	< exchange.declare_ok
	> queue.unbind queue="x.q" exchange="x.auto" routing_key="b"
	< queue.unbind_ok
	> exchange.declare exchange="x.auto" passive
	soft 404 exchange.declare "no exchange 'x.auto' in vhost '/'"

== also when the queue is deleted, and in a chain
open
> exchange.declare exchange="x.auto1" type="fanout" auto_delete
< exchange.declare_ok
> exchange.declare exchange="x.auto2" type="fanout" auto_delete
< exchange.declare_ok
> exchange.bind destination="x.auto2" source="x.auto1"
< exchange.bind_ok
> queue.declare queue="x.q" exclusive
< queue.declare_ok
> queue.bind queue="x.q" exchange="x.auto2"
< queue.bind_ok
> queue.delete queue="x.q"
< queue.delete_ok
> exchange.declare exchange="x.auto2" passive
soft 404 exchange.declare "no exchange 'x.auto2' in vhost '/'"
> exchange.declare exchange="x.auto1" passive
soft 404 exchange.declare "no exchange 'x.auto1' in vhost '/'"

== an auto-delete exchange that never had a binding stays, as one that was only a destination
open
> exchange.declare exchange="x.stays" type="fanout" auto_delete
< exchange.declare_ok
> exchange.bind destination="x.stays" source="amq.fanout"
< exchange.bind_ok
> exchange.unbind destination="x.stays" source="amq.fanout"
< exchange.unbind_ok
> exchange.declare exchange="x.stays" passive
< exchange.declare_ok

== unbinding what is not there succeeds
open
> queue.declare queue="x.q" exclusive
< queue.declare_ok
> queue.unbind queue="x.q" exchange="amq.direct" routing_key="nope"
< queue.unbind_ok
> queue.unbind queue="x.q" exchange="x.nope" routing_key="nope"
< queue.unbind_ok
> queue.unbind queue="x.noqueue" exchange="amq.direct" routing_key="nope"
< queue.unbind_ok
> exchange.unbind destination="x.nope" source="amq.direct" routing_key="nope"
< exchange.unbind_ok
> exchange.unbind destination="amq.direct" source="x.nope" routing_key="nope"
< exchange.unbind_ok

== the same binding twice is one binding
open
> queue.declare queue="x.q" exclusive
< queue.declare_ok
> exchange.declare exchange="x.twice" type="direct"
< exchange.declare_ok
for i 1..2
	> queue.bind queue="x.q" exchange="x.twice" routing_key="k" arguments={a=1}
	< queue.bind_ok
> queue.unbind queue="x.q" exchange="x.twice" routing_key="k" arguments={a=1}
< queue.unbind_ok
> basic.publish exchange="x.twice" routing_key="k" mandatory body="m"
< basic.return reply_code=312

== with other arguments it is another binding, and unbound apart
open
> queue.declare queue="x.q" exclusive
< queue.declare_ok
> exchange.declare exchange="x.apart" type="direct"
< exchange.declare_ok
> queue.bind queue="x.q" exchange="x.apart" routing_key="k"
< queue.bind_ok
> queue.bind queue="x.q" exchange="x.apart" routing_key="k" arguments={a=1}
< queue.bind_ok
> queue.unbind queue="x.q" exchange="x.apart" routing_key="k" arguments={a=2}
< queue.unbind_ok
> queue.unbind queue="x.q" exchange="x.apart" routing_key="k"
< queue.unbind_ok
> basic.publish exchange="x.apart" routing_key="k" mandatory body="m"
sync "x.q"
> basic.get queue="x.q" no_ack
< basic.get_ok body="m" message_count=0
> queue.unbind queue="x.q" exchange="x.apart" routing_key="k" arguments={a=1}
< queue.unbind_ok
> basic.publish exchange="x.apart" routing_key="k" mandatory body="m"
< basic.return reply_code=312

== the order of a binding's arguments does not matter
open
> queue.declare queue="x.q" exclusive
< queue.declare_ok
> exchange.declare exchange="x.order" type="direct"
< exchange.declare_ok
> queue.bind queue="x.q" exchange="x.order" routing_key="k" arguments={a=1 b="x"}
< queue.bind_ok
> queue.unbind queue="x.q" exchange="x.order" routing_key="k" arguments={b="x" a=1}
< queue.unbind_ok
> basic.publish exchange="x.order" routing_key="k" mandatory body="m"
< basic.return reply_code=312

== binding another connection's exclusive queue; unbinding it, where there is such a binding
open c1
open c2
> c1 1 queue.declare queue="x.theirs" exclusive
< c1 1 queue.declare_ok
> c2 1 queue.bind queue="x.theirs" exchange="amq.direct" routing_key="k"
soft c2 1 405 queue.bind "cannot obtain exclusive access to locked queue 'x.theirs' in vhost '/'. It could be originally declared on another connection or the exclusive property value does not match that of the original declaration."
> c2 1 queue.unbind queue="x.theirs" exchange="amq.direct" routing_key="k"
< c2 1 queue.unbind_ok
> c1 1 queue.bind queue="x.theirs" exchange="amq.direct" routing_key="k"
< c1 1 queue.bind_ok
> c2 1 queue.unbind queue="x.theirs" exchange="amq.direct" routing_key="k"
soft c2 1 405 queue.unbind "cannot obtain exclusive access to locked queue 'x.theirs' in vhost '/'. It could be originally declared on another connection or the exclusive property value does not match that of the original declaration."

== x-match of a headers exchange
open
> queue.declare queue="x.q" exclusive
< queue.declare_ok
for value "all" "any" "all-with-x" "any-with-x"
	> queue.bind queue="x.q" exchange="amq.headers" arguments={x-match=$value}
	< queue.bind_ok
> queue.bind queue="x.q" exchange="amq.headers" arguments={x-match="foo"}
soft 406 queue.bind "Invalid x-match field value <<\"foo\">>; expected all, any, all-with-x, or any-with-x"
> queue.bind queue="x.q" exchange="amq.headers" arguments={x-match=1}
soft 406 queue.bind "Invalid x-match field type signedint (value 1); expected longstr"

== other types take any arguments
open
> queue.declare queue="x.q" exclusive
< queue.declare_ok
for name "amq.direct" "amq.fanout" "amq.topic"
	> queue.bind queue="x.q" exchange=$name arguments={x-match="foo"}
	< queue.bind_ok

== exchanges live on without their maker, bindings of exclusive queues do not
open c1
open c2
> c1 1 exchange.declare exchange="x.lives" type="fanout"
< c1 1 exchange.declare_ok
> c1 1 queue.declare queue="x.q" exclusive
< c1 1 queue.declare_ok
> c1 1 queue.bind queue="x.q" exchange="x.lives"
< c1 1 queue.bind_ok
close c1
> c2 1 exchange.delete exchange="x.lives" if_unused
< c2 1 exchange.delete_ok
