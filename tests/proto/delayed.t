# Exchanges of the type x-delayed-message, which RabbitMQ 3.10.8 has as a plugin that is not there.

== without the type that it routes as, or with one that is none
open
differs delayed-messages
	> exchange.declare exchange="d.bad" type="x-delayed-message"
	soft 406 exchange.declare "Invalid argument, 'x-delayed-type' must be an existing exchange type"
	for type "none" "x-delayed-message" ""
		> exchange.declare exchange="d.bad" type="x-delayed-message" arguments={x-delayed-type=$type}
		soft 406 exchange.declare "Invalid argument, 'x-delayed-type' must be an existing exchange type"
	> exchange.declare exchange="d.bad" type="x-delayed-message" arguments={x-delayed-type=5}
	soft 406 exchange.declare "Invalid argument, 'x-delayed-type' must be an existing exchange type"
	> exchange.declare exchange="d.bad" type="x-delayed-message" arguments={x-delayed-type="x-consistent-hash" hash-property="no"}
	soft 406 exchange.declare "Unsupported property: no"
oracle
	> exchange.declare exchange="d.bad" type="x-delayed-message"
	hard 503 exchange.declare "unknown exchange type 'x-delayed-message'"

== declared again
open
differs delayed-messages
	> exchange.declare exchange="d.x" type="x-delayed-message" arguments={x-delayed-type="topic"}
	< exchange.declare_ok
	> exchange.declare exchange="d.x" type="x-delayed-message" arguments={x-delayed-type="topic"}
	< exchange.declare_ok
	# As the plugin: what it routes as is not compared.
	> exchange.declare exchange="d.x" type="x-delayed-message" arguments={x-delayed-type="fanout"}
	< exchange.declare_ok
	> exchange.declare exchange="d.x" type="topic" arguments={x-delayed-type="topic"}
	soft 406 exchange.declare "inequivalent arg 'type' for exchange 'd.x' in vhost '/': received 'topic' but current is ''x-delayed-message''"
	> exchange.delete exchange="d.x" if_unused
	< exchange.delete_ok

== [slow] a message is held back, and comes with its delay negated
open
differs delayed-messages
	> exchange.declare exchange="d.h" type="x-delayed-message" arguments={x-delayed-type="direct"}
	< exchange.declare_ok
	> queue.declare queue="d.h" exclusive
	< queue.declare_ok
	> queue.bind queue="d.h" exchange="d.h" routing_key="k"
	< queue.bind_ok
	> basic.consume queue="d.h" no_ack consumer_tag="t"
	< basic.consume_ok
	> basic.publish exchange="d.h" routing_key="k" props={headers={x-delay=1500 other="o"}} body="late"
	> basic.publish exchange="d.h" routing_key="k" props={headers={x-delay=l:1000}} body="sooner"
	> basic.publish exchange="d.h" routing_key="k" props={headers={x-delay="500"}} body="text"
	> basic.publish exchange="d.h" routing_key="k" body="now"
	< basic.deliver exchange="d.h" routing_key="k" body="now"
	quiet "d.h"
	pause 0.3
	quiet "d.h"
	< basic.deliver exchange="d.h" routing_key="k" props={headers={x-delay=-500}} body="text"
	< basic.deliver exchange="d.h" routing_key="k" props={headers={x-delay=l:-1000}} body="sooner"
	< basic.deliver exchange="d.h" routing_key="k" redelivered=false props={headers={x-delay=-1500 other="o"}} body="late"
	> exchange.delete exchange="d.h"
	< exchange.delete_ok

== what is no delay
open
differs delayed-messages
	> exchange.declare exchange="d.n" type="x-delayed-message" arguments={x-delayed-type="fanout"}
	< exchange.declare_ok
	> queue.declare queue="d.n" exclusive
	< queue.declare_ok
	> queue.bind queue="d.n" exchange="d.n" routing_key=""
	< queue.bind_ok
	> basic.consume queue="d.n" no_ack consumer_tag="t"
	< basic.consume_ok
	for value "" "soon" "10s" "1.5" "-5" " 5"
		> basic.publish exchange="d.n" routing_key="" props={headers={x-delay=$value}} body=$value
		< basic.deliver props={headers={x-delay=$value}} body=$value
	> basic.publish exchange="d.n" routing_key="" props={headers={x-delay=0}} body="zero"
	< basic.deliver props={headers={x-delay=0}} body="zero"
	> basic.publish exchange="d.n" routing_key="" props={headers={x-delay=-60000}} body="negative"
	< basic.deliver props={headers={x-delay=-60000}} body="negative"
	> basic.publish exchange="d.n" routing_key="" props={headers={x-delay=true}} body="boolean"
	< basic.deliver props={headers={x-delay=true}} body="boolean"
	> exchange.delete exchange="d.n"
	< exchange.delete_ok

== [slow] mandatory: held back is routed; in the end it may lead nowhere
open
differs delayed-messages
	> exchange.declare exchange="d.m" type="x-delayed-message" arguments={x-delayed-type="direct"}
	< exchange.declare_ok
	> confirm.select
	< confirm.select_ok
	> basic.publish exchange="d.m" routing_key="none" mandatory props={headers={x-delay=300}} body="held"
	< basic.ack delivery_tag=1
	> basic.publish exchange="d.m" routing_key="none" mandatory body="not held"
	< basic.return reply_code=312 exchange="d.m" routing_key="none" body="not held"
	< basic.ack delivery_tag=2
	pause 0.6
	quiet
	> exchange.delete exchange="d.m"
	< exchange.delete_ok

== [slow] CC and BCC, an alternate exchange, an exchange that leads to it
open
differs delayed-messages
	> exchange.declare exchange="d.ae" type="fanout"
	< exchange.declare_ok
	> exchange.declare exchange="d.c" type="x-delayed-message" arguments={x-delayed-type="direct" alternate-exchange="d.ae"}
	< exchange.declare_ok
	> exchange.declare exchange="d.first" type="fanout"
	< exchange.declare_ok
	> exchange.bind source="d.first" destination="d.c" routing_key=""
	< exchange.bind_ok
	for name "a" "b" "c" "ae" "direct"
		> queue.declare queue="d.${name}" exclusive
		< queue.declare_ok
	for name "a" "b" "c"
		> queue.bind queue="d.${name}" exchange="d.c" routing_key="${name}"
		< queue.bind_ok
	> queue.bind queue="d.ae" exchange="d.ae" routing_key=""
	< queue.bind_ok
	> queue.bind queue="d.direct" exchange="d.first" routing_key=""
	< queue.bind_ok
	> basic.publish exchange="d.c" routing_key="a" props={headers={x-delay=400 CC=["b"] BCC=["c"]}} body="keys"
	> basic.publish exchange="d.c" routing_key="none" props={headers={x-delay=400}} body="nowhere"
	> basic.publish exchange="d.first" routing_key="a" props={headers={x-delay=400}} body="through"
	> basic.get queue="d.direct" no_ack
	< basic.get_ok routing_key="a" props={headers={x-delay=400}} body="through"
	> basic.get queue="d.ae" no_ack
	< basic.get_empty
	pause 0.8
	> basic.get queue="d.a" no_ack
	< basic.get_ok routing_key="a" message_count=1 props={headers={x-delay=-400 CC=["b"]}} body="keys"
	> basic.get queue="d.a" no_ack
	< basic.get_ok exchange="d.first" routing_key="a" props={headers={x-delay=-400}} body="through"
	> basic.get queue="d.b" no_ack
	< basic.get_ok routing_key="a" props={headers={x-delay=-400 CC=["b"]}} body="keys"
	> basic.get queue="d.c" no_ack
	< basic.get_ok routing_key="a" props={headers={x-delay=-400 CC=["b"]}} body="keys"
	> basic.get queue="d.ae" no_ack
	< basic.get_ok routing_key="none" props={headers={x-delay=-400}} body="nowhere"
	> exchange.delete exchange="d.ae"
	< exchange.delete_ok
	> exchange.delete exchange="d.first"
	< exchange.delete_ok
	> exchange.delete exchange="d.c"
	< exchange.delete_ok

== [slow] transactions: the delay counts from the commit; a rollback forgets it
open
differs delayed-messages
	> exchange.declare exchange="d.t" type="x-delayed-message" arguments={x-delayed-type="fanout"}
	< exchange.declare_ok
	> queue.declare queue="d.t" exclusive
	< queue.declare_ok
	> queue.bind queue="d.t" exchange="d.t" routing_key=""
	< queue.bind_ok
	> basic.consume queue="d.t" no_ack consumer_tag="t"
	< basic.consume_ok
	> tx.select
	< tx.select_ok
	> basic.publish exchange="d.t" routing_key="" props={headers={x-delay=100}} body="gone"
	> tx.rollback
	< tx.rollback_ok
	> basic.publish exchange="d.t" routing_key="" props={headers={x-delay=500}} body="kept"
	pause 0.8
	quiet "d.t"
	> tx.commit
	< tx.commit_ok
	quiet "d.t"
	< basic.deliver body="kept"
	# The exchange may be gone at the commit.
	> basic.publish exchange="d.t" routing_key="" props={headers={x-delay=100}} body="too late"
	sync "d.t"
	channel 2
	> 2 exchange.delete exchange="d.t"
	< 2 exchange.delete_ok
	> tx.commit
	< tx.commit_ok
	pause 0.3
	quiet "d.t"

== [slow] how long it may live counts from when it is in a queue
open
differs delayed-messages
	> exchange.declare exchange="d.e" type="x-delayed-message" arguments={x-delayed-type="fanout"}
	< exchange.declare_ok
	> queue.declare queue="d.e" exclusive
	< queue.declare_ok
	> queue.bind queue="d.e" exchange="d.e" routing_key=""
	< queue.bind_ok
	> basic.publish exchange="d.e" routing_key="" props={headers={x-delay=300} expiration="2000"} body="lives"
	> basic.publish exchange="d.e" routing_key="" props={headers={x-delay=300} expiration="100"} body="dies"
	pause 0.8
	> basic.get queue="d.e" no_ack
	< basic.get_ok message_count=0 body="lives"
	> exchange.delete exchange="d.e"
	< exchange.delete_ok

== user-id is checked at the publish
open
differs delayed-messages
	> exchange.declare exchange="d.p" type="x-delayed-message" arguments={x-delayed-type="topic"}
	< exchange.declare_ok
	> basic.publish exchange="d.p" routing_key="any" props={headers={x-delay=100000} user_id="guest"} body="m"
	> basic.publish exchange="d.p" routing_key="any" props={headers={x-delay=100000} user_id="other"} body="m"
	soft 406 basic.publish "user_id property set to 'other' but authenticated user was 'guest'"
	> exchange.delete exchange="d.p"
	< exchange.delete_ok
