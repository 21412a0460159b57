# The exchange types that RabbitMQ has as plug-ins (amqp.md 5.8): x-consistent-hash, x-random,
# x-modulus-hash, x-recent-history. Which queue a key falls on is nobody's promise, so the cases ask what
# must hold whatever the hash is.

== x-consistent-hash: each message goes to one queue
open
> exchange.declare exchange="et.x" type="x-consistent-hash"
< exchange.declare_ok
for q "et.a" "et.b" "et.c"
	> queue.declare queue=$q exclusive
	< queue.declare_ok
	> queue.bind queue=$q exchange="et.x" routing_key="10"
	< queue.bind_ok
> confirm.select
< confirm.select_ok
for i 1..60
	> basic.publish exchange="et.x" routing_key="key ${i}" mandatory body="m"
confirms acks=1..60
# A second message of the same key follows the first.
for i 1..60
	> basic.publish exchange="et.x" routing_key="key ${i}" mandatory body="n"
confirms acks=61..120
for q "et.a" "et.b" "et.c"
	> queue.delete queue=$q
	< queue.delete_ok message_count=~"[2468]|[1-9][0-9]?[02468]"

== x-consistent-hash: one queue gets all
open
> exchange.declare exchange="et.x" type="x-consistent-hash"
< exchange.declare_ok
> basic.publish exchange="et.x" routing_key="k" mandatory body="m"
< basic.return reply_code=312
> queue.declare queue="et.a" exclusive
< queue.declare_ok
> queue.bind queue="et.a" exchange="et.x" routing_key="3"
< queue.bind_ok
for i 1..10
	> basic.publish exchange="et.x" routing_key="k${i}" mandatory body="m"
sync "et.a"
> queue.unbind queue="et.a" exchange="et.x" routing_key="3"
< queue.unbind_ok
> basic.publish exchange="et.x" routing_key="k" mandatory body="m"
< basic.return reply_code=312
> queue.delete queue="et.a"
< queue.delete_ok message_count=10

== x-consistent-hash: the weights that it takes
open
> exchange.declare exchange="et.x" type="x-consistent-hash"
< exchange.declare_ok
> queue.declare queue="et.a" exclusive
< queue.declare_ok
for key "1" "+2" "007" "9999"
	> queue.bind queue="et.a" exchange="et.x" routing_key=$key
	< queue.bind_ok
for key "0" "-1" "-0" "000"
	> queue.bind queue="et.a" exchange="et.x" routing_key=$key
	soft 406 queue.bind "The binding key must be greater than 0"
for key "k" "1.5" " 1" "1 " "0x1" "+" "-"
	> queue.bind queue="et.a" exchange="et.x" routing_key=$key
	soft 406 queue.bind "The binding key must be an integer: <<\"${key}\">>"
> queue.bind queue="et.a" exchange="et.x" routing_key=""
soft 406 queue.bind "The binding key must be an integer: <<>>"
> exchange.bind destination="amq.fanout" source="et.x" routing_key="none"
soft 406 exchange.bind "The binding key must be an integer: <<\"none\">>"

== x-consistent-hash: what it is declared with
open
> exchange.declare exchange="et.x" type="x-consistent-hash" arguments={hash-header="h" hash-property="message_id"}
soft 406 exchange.declare "hash-header and hash-property are mutually exclusive"
for p "app_id" "" "message-id" "routing_key"
	> exchange.declare exchange="et.x" type="x-consistent-hash" arguments={hash-property=$p}
	soft 406 exchange.declare "Unsupported property: ${p}"
for p "message_id" "correlation_id" "timestamp"
	> exchange.declare exchange="et.${p}" type="x-consistent-hash" arguments={hash-property=$p}
	< exchange.declare_ok
# Its own arguments are not compared.
> exchange.declare exchange="et.timestamp" type="x-consistent-hash" arguments={hash-header="h"}
< exchange.declare_ok
> exchange.declare exchange="et.timestamp" type="x-consistent-hash" arguments={hash-property="none"}
< exchange.declare_ok

== x-consistent-hash: an argument that is not a text
open
> exchange.declare exchange="et.x" type="x-consistent-hash" arguments={hash-header=5}
differs hash-argument-type
	soft 406 exchange.declare "invalid type 'signedint' for arg 'hash-header' in exchange 'et.x'"
oracle
	hard 541 none "INTERNAL_ERROR"
open
> exchange.declare exchange="et.x" type="x-consistent-hash" arguments={hash-property=true}
differs hash-argument-type
	soft 406 exchange.declare "invalid type 'bool' for arg 'hash-property' in exchange 'et.x'"
oracle
	hard 541 none "INTERNAL_ERROR"

== x-consistent-hash: by header, whatever the key
open
> exchange.declare exchange="et.x" type="x-consistent-hash" arguments={hash-header="h"}
< exchange.declare_ok
for q "et.a" "et.b" "et.c"
	> queue.declare queue=$q exclusive
	< queue.declare_ok
	> queue.bind queue=$q exchange="et.x" routing_key="1"
	< queue.bind_ok
for i 1..30
	> basic.publish exchange="et.x" routing_key="k${i}" mandatory body="m" props={headers={h="same" i=$i}}
for q "et.a" "et.b" "et.c"
	> queue.purge queue=$q
	< queue.purge_ok message_count=~"0|30"
for i 1..60
	> basic.publish exchange="et.x" routing_key="k" mandatory body="m" props={headers={h="value ${i}"}}
for q "et.a" "et.b" "et.c"
	> queue.delete queue=$q
	< queue.delete_ok message_count=~"[1-9][0-9]?"

== x-consistent-hash: without the header or property all go to one queue
open
> exchange.declare exchange="et.h" type="x-consistent-hash" arguments={hash-header="h"}
< exchange.declare_ok
> exchange.declare exchange="et.p" type="x-consistent-hash" arguments={hash-property="message_id"}
< exchange.declare_ok
for x "et.h" "et.p"
	for q "et.a" "et.b"
		> queue.declare queue=$q exclusive
		< queue.declare_ok
		> queue.bind queue=$q exchange=$x routing_key="1"
		< queue.bind_ok
	for i 1..20
		> basic.publish exchange=$x routing_key="k${i}" mandatory body="m" props={correlation_id="${i}"}
	# 20 and 0: one of the two queues is empty, so all of it is in the other.
	> queue.delete queue="et.a"
	< queue.delete_ok message_count=~"0|20"
	> queue.delete queue="et.b"
	< queue.delete_ok message_count=~"0|20"

== x-consistent-hash: a second binding of the same queue is ignored
open
> exchange.declare exchange="et.x" type="x-consistent-hash"
< exchange.declare_ok
> queue.declare queue="et.a" exclusive
< queue.declare_ok
for key "1" "2"
	> queue.bind queue="et.a" exchange="et.x" routing_key=$key
	< queue.bind_ok
> basic.publish exchange="et.x" routing_key="k" mandatory body="m"
sync "et.a"
> queue.unbind queue="et.a" exchange="et.x" routing_key="2"
< queue.unbind_ok
> basic.publish exchange="et.x" routing_key="k" mandatory body="m"
differs hash-second-binding
	sync "et.a"
oracle
	< basic.return reply_code=312
> queue.unbind queue="et.a" exchange="et.x" routing_key="1"
< queue.unbind_ok
> basic.publish exchange="et.x" routing_key="k" mandatory body="m"
< basic.return reply_code=312

== x-consistent-hash: to exchanges, and with an alternate
open
> exchange.declare exchange="et.alt" type="fanout"
< exchange.declare_ok
> exchange.declare exchange="et.x" type="x-consistent-hash" arguments={alternate-exchange="et.alt"}
< exchange.declare_ok
> exchange.declare exchange="et.y" type="fanout"
< exchange.declare_ok
for q "et.a" "et.b"
	> queue.declare queue=$q exclusive
	< queue.declare_ok
> queue.bind queue="et.a" exchange="et.alt"
< queue.bind_ok
> queue.bind queue="et.b" exchange="et.y"
< queue.bind_ok
> basic.publish exchange="et.x" routing_key="k" mandatory body="alternate"
sync "et.a"
> exchange.bind destination="et.y" source="et.x" routing_key="1"
< exchange.bind_ok
> basic.publish exchange="et.x" routing_key="k" mandatory body="bound"
sync "et.b"
> basic.get queue="et.a" no_ack
< basic.get_ok body="alternate" message_count=0
> basic.get queue="et.b" no_ack
< basic.get_ok body="bound" message_count=0

== x-consistent-hash: CC does not add a queue
open
> exchange.declare exchange="et.x" type="x-consistent-hash"
< exchange.declare_ok
for q "et.a" "et.b" "et.c"
	> queue.declare queue=$q exclusive
	< queue.declare_ok
	> queue.bind queue=$q exchange="et.x" routing_key="1"
	< queue.bind_ok
> exchange.declare exchange="et.all" type="fanout"
< exchange.declare_ok
> basic.publish exchange="et.x" routing_key="k" mandatory body="m" props={headers={CC=["k1" "k2" "k3" "k4" "k5" "k6"]}}
> basic.publish exchange="et.x" routing_key="k" mandatory body="m"
for q "et.a" "et.b" "et.c"
	> queue.delete queue=$q
	< queue.delete_ok message_count=~"0|2"

== x-random: each message to one queue, in the end to all
open
> exchange.declare exchange="et.x" type="x-random" arguments={anything="goes"}
< exchange.declare_ok
> basic.publish exchange="et.x" routing_key="k" mandatory body="m"
< basic.return reply_code=312
for q "et.a" "et.b" "et.c"
	> queue.declare queue=$q exclusive
	< queue.declare_ok
	> queue.bind queue=$q exchange="et.x" routing_key=$q
	< queue.bind_ok
for i 1..100
	> basic.publish exchange="et.x" routing_key="same" mandatory body="m"
for q "et.a" "et.b" "et.c"
	> queue.delete queue=$q
	< queue.delete_ok message_count=~"[1-9][0-9]?"

== x-random: over exchanges, and an alternate where nothing is bound
open
> exchange.declare exchange="et.x" type="x-random" arguments={alternate-exchange="et.y"}
< exchange.declare_ok
> exchange.declare exchange="et.y" type="fanout"
< exchange.declare_ok
> queue.declare queue="et.a" exclusive
< queue.declare_ok
> queue.bind queue="et.a" exchange="et.y"
< queue.bind_ok
> basic.publish exchange="et.x" routing_key="k" mandatory body="m"
sync "et.a"
> exchange.bind destination="et.y" source="et.x" routing_key="a"
< exchange.bind_ok
> exchange.bind destination="et.y" source="et.x" routing_key="b"
< exchange.bind_ok
> basic.publish exchange="et.x" routing_key="k" mandatory body="m"
sync "et.a"
> queue.purge queue="et.a"
< queue.purge_ok message_count=2

== x-modulus-hash: a key stays with its queue, keys spread over all
open
> exchange.declare exchange="et.x" type="x-modulus-hash"
< exchange.declare_ok
> basic.publish exchange="et.x" routing_key="k" mandatory body="m"
< basic.return reply_code=312
for q "et.a" "et.b" "et.c"
	> queue.declare queue=$q exclusive
	< queue.declare_ok
	> queue.bind queue=$q exchange="et.x" routing_key="whatever"
	< queue.bind_ok
for i 1..20
	> basic.publish exchange="et.x" routing_key="same" mandatory body="m"
for q "et.a" "et.b" "et.c"
	> queue.purge queue=$q
	< queue.purge_ok message_count=~"0|20"
for i 1..60
	> basic.publish exchange="et.x" routing_key="key ${i}" mandatory body="m"
for q "et.a" "et.b" "et.c"
	> queue.delete queue=$q
	< queue.delete_ok message_count=~"[1-9][0-9]?"

== x-modulus-hash: all keys make one destination
open
> exchange.declare exchange="et.x" type="x-modulus-hash"
< exchange.declare_ok
for q "et.a" "et.b" "et.c"
	> queue.declare queue=$q exclusive
	< queue.declare_ok
	> queue.bind queue=$q exchange="et.x" routing_key=""
	< queue.bind_ok
for i 1..10
	> basic.publish exchange="et.x" routing_key="k" mandatory body="m" props={headers={CC=["a" "b" "c" "d"]}}
for q "et.a" "et.b" "et.c"
	> queue.delete queue=$q
	< queue.delete_ok message_count=~"0|10"

== x-recent-history: a new queue gets the last messages, oldest first
open
> exchange.declare exchange="et.x" type="x-recent-history"
< exchange.declare_ok
> queue.declare queue="et.a" exclusive
< queue.declare_ok
> queue.bind queue="et.a" exchange="et.x" routing_key="nothing"
< queue.bind_ok
for i 1..25
	> basic.publish exchange="et.x" routing_key="k${i}" mandatory body="m${i}" props={message_id="${i}"}
sync "et.a"
> queue.declare queue="et.b" exclusive
< queue.declare_ok
> queue.bind queue="et.b" exchange="et.x" routing_key=""
< queue.bind_ok
sync "et.b"
> basic.consume queue="et.b" no_ack consumer_tag="c"
< basic.consume_ok
for i 6..25
	< basic.deliver consumer_tag="c" exchange="et.x" routing_key="k${i}" body="m${i}" props={message_id="${i}"}
quiet "et.b"
> queue.purge queue="et.a"
< queue.purge_ok message_count=25
# The same binding once more is none; another one of the same queue gets them again.
> queue.bind queue="et.a" exchange="et.x" routing_key="nothing"
< queue.bind_ok
sync "et.a"
> queue.purge queue="et.a"
< queue.purge_ok message_count=0
> queue.bind queue="et.a" exchange="et.x" routing_key="other"
< queue.bind_ok
sync "et.a"
> queue.purge queue="et.a"
< queue.purge_ok message_count=20

== x-recent-history: how many
open
> exchange.declare exchange="et.x" type="x-recent-history" arguments={x-recent-history-length=3}
< exchange.declare_ok
for i 1..7
	> basic.publish exchange="et.x" routing_key="k" mandatory body="m${i}"
	< basic.return reply_code=312 body="m${i}"
> queue.declare queue="et.a" exclusive
< queue.declare_ok
> queue.bind queue="et.a" exchange="et.x" routing_key=""
< queue.bind_ok
sync "et.a"
for i 5..7
	> basic.get queue="et.a" no_ack
	< basic.get_ok body="m${i}" redelivered=0
> basic.get queue="et.a" no_ack
< basic.get_empty
> exchange.declare exchange="et.x" type="x-recent-history" arguments={x-recent-history-length=-3}
< exchange.declare_ok

== x-recent-history: lengths that it does not take
open
> exchange.declare exchange="et.x" type="x-recent-history" arguments={x-recent-history-length=0}
soft 406 exchange.declare "Invalid argument 0, 'x-recent-history-length' must be a positive integer"
> exchange.declare exchange="et.x" type="x-recent-history" arguments={x-recent-history-length=l:-1}
soft 406 exchange.declare "Invalid argument -1, 'x-recent-history-length' must be a positive integer"
> exchange.declare exchange="et.x" type="x-recent-history" arguments={x-recent-history-length="5"}
soft 406 exchange.declare "Invalid argument <<\"5\">>, 'x-recent-history-length' must be a positive integer"
> exchange.declare exchange="et.x" type="x-recent-history" arguments={x-recent-history-length=true}
soft 406 exchange.declare "Invalid argument true, 'x-recent-history-length' must be a positive integer"
for name "b" "s" "l"
	> exchange.declare exchange="et.${name}" type="x-recent-history" arguments={x-recent-history-length=l:5}
	< exchange.declare_ok

== x-recent-history: an unsigned length
open
> exchange.declare exchange="et.x" type="x-recent-history" arguments={x-recent-history-length=B:5}
differs history-length-unsigned
	< exchange.declare_ok
oracle
	soft 406 exchange.declare "Invalid argument 5, 'x-recent-history-length' must be a positive integer"

== x-recent-history: messages that are not to be remembered
open
> exchange.declare exchange="et.x" type="x-recent-history"
< exchange.declare_ok
> basic.publish exchange="et.x" routing_key="k" body="yes 1" props={headers={x-recent-history-no-store=false}}
> basic.publish exchange="et.x" routing_key="k" body="no" props={headers={x-recent-history-no-store=true}}
> basic.publish exchange="et.x" routing_key="k" body="yes 2" props={headers={x-recent-history-no-store="true"}}
> basic.publish exchange="et.x" routing_key="k" body="yes 3" props={headers={x-recent-history-no-store=1}}
> basic.publish exchange="et.x" routing_key="k" body="yes 4" props={}
> queue.declare queue="et.a" exclusive
< queue.declare_ok
> queue.bind queue="et.a" exchange="et.x" routing_key=""
< queue.bind_ok
sync "et.a"
for i 1..4
	> basic.get queue="et.a" no_ack
	< basic.get_ok body="yes ${i}"
> basic.get queue="et.a" no_ack
< basic.get_empty

== x-recent-history: an exchange that is bound gets them too
open
> exchange.declare exchange="et.x" type="x-recent-history"
< exchange.declare_ok
> exchange.declare exchange="et.y" type="direct"
< exchange.declare_ok
for q "et.a" "et.b"
	> queue.declare queue=$q exclusive
	< queue.declare_ok
> queue.bind queue="et.a" exchange="et.y" routing_key="1"
< queue.bind_ok
> queue.bind queue="et.b" exchange="et.y" routing_key="2"
< queue.bind_ok
for i 1..2
	> basic.publish exchange="et.x" routing_key="${i}" body="m${i}"
> basic.publish exchange="et.x" routing_key="1" body="both" props={headers={CC=["2"]}}
> exchange.bind destination="et.y" source="et.x" routing_key=""
< exchange.bind_ok
sync "et.a" "et.b"
differs history-order
	> basic.get queue="et.a" no_ack
	< basic.get_ok exchange="et.x" routing_key="1" body="m1"
	> basic.get queue="et.a" no_ack
	< basic.get_ok exchange="et.x" routing_key="1" body="both"
	> basic.get queue="et.b" no_ack
	< basic.get_ok exchange="et.x" routing_key="2" body="m2"
	> basic.get queue="et.b" no_ack
	< basic.get_ok exchange="et.x" routing_key="1" body="both"
oracle
	> basic.get queue="et.a" no_ack
	< basic.get_ok exchange="et.x" routing_key="1" body="both"
	> basic.get queue="et.a" no_ack
	< basic.get_ok exchange="et.x" routing_key="1" body="m1"
	> basic.get queue="et.b" no_ack
	< basic.get_ok exchange="et.x" routing_key="1" body="both"
	> basic.get queue="et.b" no_ack
	< basic.get_ok exchange="et.x" routing_key="2" body="m2"
for q "et.a" "et.b"
	> basic.get queue=$q no_ack
	< basic.get_empty

== x-recent-history: an exchange that leads nowhere
open
> exchange.declare exchange="et.x" type="x-recent-history"
< exchange.declare_ok
> basic.publish exchange="et.x" routing_key="k" body="m"
> exchange.declare exchange="et.y" type="fanout"
< exchange.declare_ok
> exchange.bind destination="et.y" source="et.x" routing_key=""
differs history-to-nowhere
	< exchange.bind_ok
oracle
	hard 541 none "INTERNAL_ERROR"

== x-recent-history: behind another exchange, and publishes that are the same
open
> exchange.declare exchange="et.t" type="topic"
< exchange.declare_ok
> exchange.declare exchange="et.x" type="x-recent-history" arguments={x-recent-history-length=100}
< exchange.declare_ok
> exchange.bind destination="et.x" source="et.t" routing_key="a.#"
< exchange.bind_ok
for i 1..10
	> basic.publish exchange="et.t" routing_key="a.b" body="m"
> queue.declare queue="et.a" exclusive
< queue.declare_ok
> queue.bind queue="et.a" exchange="et.x" routing_key=""
< queue.bind_ok
sync "et.a"
> queue.purge queue="et.a"
< queue.purge_ok message_count=10
> basic.publish exchange="et.t" routing_key="a.b" body="m"
sync "et.a"
> queue.purge queue="et.a"
< queue.purge_ok message_count=1

== x-recent-history: BCC is not told to those who come later
open
> exchange.declare exchange="et.x" type="x-recent-history"
< exchange.declare_ok
> basic.publish exchange="et.x" routing_key="k" body="m" props={headers={BCC=["secret"] a=1}}
> queue.declare queue="et.a" exclusive
< queue.declare_ok
> queue.bind queue="et.a" exchange="et.x" routing_key=""
< queue.bind_ok
sync "et.a"
> basic.get queue="et.a" no_ack
< basic.get_ok body="m" props={headers={a=1}}

== x-recent-history: a new exchange of the same name remembers nothing
open
for once 1..2
	> exchange.declare exchange="et.x" type="x-recent-history"
	< exchange.declare_ok
	> basic.publish exchange="et.x" routing_key="k" body="m"
	> queue.declare queue="et.a" exclusive
	< queue.declare_ok
	> queue.bind queue="et.a" exchange="et.x" routing_key=""
	< queue.bind_ok
	sync "et.a"
	> queue.delete queue="et.a"
	< queue.delete_ok message_count=1
	> exchange.delete exchange="et.x"
	< exchange.delete_ok

== the type is compared, and the types are what they are called
open
for type "x-consistent-hash" "x-random" "x-modulus-hash" "x-recent-history"
	> exchange.declare exchange="et.${type}" type=$type durable
	< exchange.declare_ok
	> exchange.declare exchange="et.${type}" type=$type durable
	< exchange.declare_ok
	> exchange.declare exchange="et.${type}" type="fanout" durable
	soft 406 exchange.declare "inequivalent arg 'type' for exchange 'et.${type}' in vhost '/': received 'fanout' but current is ''${type}''"
	> exchange.declare exchange="amq.fanout" type=$type durable
	soft 406 exchange.declare "inequivalent arg 'type' for exchange 'amq.fanout' in vhost '/': received ''${type}'' but current is 'fanout'"
