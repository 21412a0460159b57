# Where messages go: the exchange types, exchange-to-exchange bindings, alternate exchanges
# (amqp.md 5.6, 5.7), and what comes back when they go nowhere (7.5).

== the default exchange routes by the name of the queue
open
> queue.declare queue="r.a" exclusive
< queue.declare_ok
> basic.publish exchange="" routing_key="r.a" mandatory body="m"
> basic.get queue="r.a" no_ack
< basic.get_ok exchange="" routing_key="r.a" body="m" delivery_tag=1 message_count=0
> basic.publish exchange="" routing_key="r.b" mandatory body="m"
< basic.return reply_code=312 reply_text="NO_ROUTE" exchange="" routing_key="r.b" body="m"

== what goes nowhere comes back only when it is mandatory
open
> basic.publish exchange="amq.direct" routing_key="r.none" body="lost"
> basic.publish exchange="amq.direct" routing_key="r.none" mandatory body="back" props={message_id="7" headers={a=1}}
< basic.return reply_code=312 reply_text="NO_ROUTE" exchange="amq.direct" routing_key="r.none" body="back" props={message_id="7" headers={a=1}}
> basic.publish exchange="amq.direct" routing_key="r.none" mandatory body=300000*"y"
< basic.return body=300000*"y"
> basic.publish exchange="amq.direct" routing_key="r.none" mandatory body=""
< basic.return body="" props={}

== immediate is not implemented
open
> basic.publish exchange="" routing_key="r.none" immediate body="m"
hard 540 basic.publish "immediate=true"

== it is refused before anything else is looked at
open
> basic.publish exchange="r.none" routing_key="" mandatory immediate body="m"
hard 540 basic.publish "immediate=true"

== direct compares octets
open
> queue.declare queue="r.a" exclusive
< queue.declare_ok
for key "key" "" "a.*" "#" "é"
	> queue.bind queue="r.a" exchange="amq.direct" routing_key=$key
	< queue.bind_ok
	> basic.publish exchange="amq.direct" routing_key=$key body="m"
	sync "r.a"
	> basic.get queue="r.a" no_ack
	< basic.get_ok exchange="amq.direct" routing_key=$key message_count=0
for key "KEY" "ke" "key " "a.b" "e"
	> basic.publish exchange="amq.direct" routing_key=$key mandatory body="m"
	< basic.return routing_key=$key

== an empty name and an empty key in a bind mean the last declared queue, twice
open
> queue.declare queue="" exclusive
< queue.declare_ok queue=$q
> queue.bind queue="" exchange="amq.direct" routing_key=""
< queue.bind_ok
> basic.publish exchange="amq.direct" routing_key=$q mandatory body="m"
sync $q
> basic.get queue="" no_ack
< basic.get_ok body="m" message_count=0
> basic.publish exchange="amq.direct" routing_key="" mandatory body="m"
< basic.return routing_key=""

== fanout does not look at the key
open
for q "r.a" "r.b" "r.c"
	> queue.declare queue=$q exclusive
	< queue.declare_ok
	> queue.bind queue=$q exchange="amq.fanout" routing_key="${q}"
	< queue.bind_ok
> basic.publish exchange="amq.fanout" routing_key="anything" mandatory body="m"
for q "r.a" "r.b" "r.c"
	sync $q
	> basic.get queue=$q no_ack
	< basic.get_ok body="m" routing_key="anything" message_count=0

== one queue gets one copy, however many bindings lead to it
open
> exchange.declare exchange="r.x" type="topic"
< exchange.declare_ok
> exchange.declare exchange="r.y" type="fanout"
< exchange.declare_ok
> queue.declare queue="r.a" exclusive
< queue.declare_ok
for key "#" "a.#" "*.b" "a.b"
	> queue.bind queue="r.a" exchange="r.x" routing_key=$key
	< queue.bind_ok
> exchange.bind destination="r.y" source="r.x" routing_key="a.*"
< exchange.bind_ok
> queue.bind queue="r.a" exchange="r.y"
< queue.bind_ok
> basic.publish exchange="r.x" routing_key="a.b" body="m"
sync "r.a"
> basic.get queue="r.a" no_ack
< basic.get_ok body="m" message_count=0

== topic patterns that match
open
> exchange.declare exchange="r.topic" type="topic"
< exchange.declare_ok
> queue.declare queue="r.a" exclusive
< queue.declare_ok
topic "*" matches "a" "é" "*" "#" not "" "a.b" "." "a."
topic "*.*" matches "a.b" "." "a." ".b" not "" "a" "a.b.c" ".."
topic "a.*" matches "a.b" "a." not "a" "a.b.c" "b.a" "A.b"
topic "*.a" matches "b.a" ".a" not "a" "a.b"
topic "#" matches "" "a" "a.b" "." "a..b" "..."
topic "#.#" matches "" "a" "a.b" "."
topic "a.#" matches "a" "a." "a.b" "a..b" "a.b.c" not "" "b" "ab" "b.a"
topic "#.a" matches "a" "b.a" ".a" "b..a" "a.a" not "" "a.b" "a." "ba"
topic "a.#.b" matches "a.b" "a..b" "a.x.b" "a.x.y.b" "a.b.b" "a.a.b" not "a" "b" "ab" "a.b.c" "a.b."
topic "#.a.#" matches "a" "a.b" "b.a" "b.a.b" "a.a" ".a." not "" "b" "." "ab"
topic "*.#" matches "a" "a.b" "." not ""
topic "#.*" matches "a" "a.b" "." not ""
topic "*.#.*" matches "a.b" "a.b.c" "." not "" "a"
topic "a.*.#.b" matches "a.x.b" "a.x.y.b" "a..b" not "a.b" "a" "a.x"
topic "#.a.#.a.#" matches "a.a" "x.a.y.a.z" "a.a.a" not "a" "a.b" ""
topic "" matches "" not "a" "." "a.b"
topic "." matches "." not "" "a" ".." "a."
topic "a..b" matches "a..b" not "a.b" "a.x.b"
topic "a." matches "a." not "a" "a.b"
topic ".a" matches ".a" not "a" "b.a"
topic "a*" matches "a*" not "a" "ab" "a.b"
topic "#b" matches "#b" not "b" "ab" "a.b"
topic "**" matches "**" not "a" "a.b" "*"
topic "##" matches "##" not "a" "a.b" "#"
topic "a.b.c" matches "a.b.c" not "a.b" "a.b.c.d" "a.b.C" "abc"

== topic patterns that would be slow to match one by one
open
> exchange.declare exchange="r.topic" type="topic"
< exchange.declare_ok
> queue.declare queue="r.a" exclusive
< queue.declare_ok
topic "#.a.#.a.#.a.#.a.#.a.#.a.#.b" matches "a.a.a.a.a.a.a.a.a.a.a.a.b" not "a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.c"

== several topic bindings, some of them taken away
open
> exchange.declare exchange="r.topic" type="topic"
< exchange.declare_ok
> queue.declare queue="r.a" exclusive
< queue.declare_ok
> queue.declare queue="r.b" exclusive
< queue.declare_ok
for key "a.#" "a.*.c" "a.b.c" "#.c"
	> queue.bind queue="r.a" exchange="r.topic" routing_key=$key
	< queue.bind_ok
	> queue.bind queue="r.b" exchange="r.topic" routing_key=$key
	< queue.bind_ok
for key "a.#" "a.*.c" "a.b.c"
	> queue.unbind queue="r.a" exchange="r.topic" routing_key=$key
	< queue.unbind_ok
	> basic.publish exchange="r.topic" routing_key="a.b.c" mandatory body="m"
	sync "r.a" "r.b"
	> basic.get queue="r.a" no_ack
	< basic.get_ok message_count=0
	> basic.get queue="r.b" no_ack
	< basic.get_ok message_count=0
> queue.unbind queue="r.a" exchange="r.topic" routing_key="#.c"
< queue.unbind_ok
> queue.delete queue="r.b"
< queue.delete_ok
> basic.publish exchange="r.topic" routing_key="a.b.c" mandatory body="m"
< basic.return reply_code=312

== headers: all
open
> queue.declare queue="r.a" exclusive
< queue.declare_ok
headers {x-match="all" a=1 b="x"} matches {a=1 b="x"} {b="x" a=1 c=2} {a=l:1 b="x"} {a=s:1 b=x"78"} not {a=1} {b="x"} {} {a=2 b="x"} {a=1 b="y"} {a="1" b="x"} {A=1 b="x"}
headers {a=1 b="x"} matches {a=1 b="x"} not {a=1} {b="x"} {}
headers {} matches {} {a=1}
headers {x-match="all"} matches {} {a=1}

== headers: any
open
> queue.declare queue="r.a" exclusive
< queue.declare_ok
headers {x-match="any" a=1 b="x"} matches {a=1} {b="x"} {a=1 b="y"} {a=2 b="x"} {c=1 b="x"} not {} {a=2} {b="y"} {c=1}
headers {x-match="any"} matches not {} {a=1}

== headers: keys that begin with x- count only with -with-x
open
> queue.declare queue="r.a" exclusive
< queue.declare_ok
headers {x-match="all" x-a=1 b=2} matches {b=2} {x-a=5 b=2} not {x-a=1} {}
headers {x-match="all-with-x" x-a=1 b=2} matches {x-a=1 b=2} not {b=2} {x-a=1} {x-a=2 b=2}
headers {x-match="any" x-a=1 b=2} matches {b=2} not {x-a=1}
headers {x-match="any-with-x" x-a=1 b=2} matches {x-a=1} {b=2} not {x-a=2} {}
headers {x-match="any" x-a=1} matches not {x-a=1} {}
headers {x-match="all" x-a=1} matches {x-a=1} {x-a=2} {}

== headers: void in a binding asks only whether the header is there
open
> queue.declare queue="r.a" exclusive
< queue.declare_ok
headers {x-match="all" a=V} matches {a=1} {a="x"} {a=V} {a=false} not {} {b=1}
headers {x-match="any" a=V b=V} matches {b=1} not {} {c=1}

== headers: values of the same type
open
> queue.declare queue="r.a" exclusive
< queue.declare_ok
headers {a=true} matches {a=true} not {a=false} {a="true"} {a=1} {a=V}
headers {a=d:5.5} matches {a=d:5.5} {a=f:5.5} not {a=d:5.25} {a="5.5"} {a=5}
headers {a=T:1700000000} matches {a=T:1700000000} not {a=T:1700000001}
headers {a=[1 "x"]} matches {a=[1 "x"]} not {a=["x" 1]} {a=[1]} {a=1}
headers {a={b=1}} matches {a={b=1}} not {a={b=2}} {a={}} {a=1}
headers {a=D:2/314} matches {a=D:2/314} not {a=D:2/315} {a=D:1/314}
headers {a=-1} matches {a=b:-1} {a=l:-1} not {a=1} {a=B:255} {a=l:4294967295}
headers {a=""} matches {a=""} not {a="x"} {} {a=V}

== headers: an integer and a float of the same value
open
> queue.declare queue="r.a" exclusive
< queue.declare_ok
differs headers-int-float
	headers {a=5} matches not {a=d:5.0}
	headers {a=d:5.0} matches not {a=5}
oracle
	headers {a=5} matches {a=d:5.0}
	headers {a=d:5.0} matches {a=5}

== headers: the two predeclared exchanges are two
open
> queue.declare queue="r.a" exclusive
< queue.declare_ok
> queue.bind queue="r.a" exchange="amq.headers" arguments={x-match="any" a=1}
< queue.bind_ok
> basic.publish exchange="amq.match" routing_key="" mandatory props={headers={a=1}} body="m"
< basic.return reply_code=312
> basic.publish exchange="amq.headers" routing_key="" mandatory props={headers={a=1}} body="m"
sync "r.a"
> basic.get queue="r.a" no_ack
< basic.get_ok body="m"

== exchange to exchange, through three kinds
open
> exchange.declare exchange="r.1" type="topic"
< exchange.declare_ok
> exchange.declare exchange="r.2" type="direct"
< exchange.declare_ok
> exchange.declare exchange="r.3" type="fanout" internal
< exchange.declare_ok
> queue.declare queue="r.a" exclusive
< queue.declare_ok
> exchange.bind destination="r.2" source="r.1" routing_key="a.*"
< exchange.bind_ok
> exchange.bind destination="r.3" source="r.2" routing_key="a.b"
< exchange.bind_ok
> queue.bind queue="r.a" exchange="r.3"
< queue.bind_ok
> basic.publish exchange="r.1" routing_key="a.b" mandatory body="m"
sync "r.a"
> basic.get queue="r.a" no_ack
< basic.get_ok exchange="r.1" routing_key="a.b" body="m" message_count=0
> basic.publish exchange="r.1" routing_key="a.c" mandatory body="m"
< basic.return exchange="r.1" routing_key="a.c"
> exchange.unbind destination="r.3" source="r.2" routing_key="a.b"
< exchange.unbind_ok
> basic.publish exchange="r.1" routing_key="a.b" mandatory body="m"
< basic.return exchange="r.1" routing_key="a.b"

== a ring of exchanges ends
open
for x "r.1" "r.2" "r.3"
	> exchange.declare exchange=$x type="fanout"
	< exchange.declare_ok
> exchange.bind destination="r.2" source="r.1"
< exchange.bind_ok
> exchange.bind destination="r.3" source="r.2"
< exchange.bind_ok
> exchange.bind destination="r.1" source="r.3"
< exchange.bind_ok
> exchange.bind destination="r.1" source="r.1"
< exchange.bind_ok
> basic.publish exchange="r.2" routing_key="" mandatory body="m"
< basic.return exchange="r.2"
> queue.declare queue="r.a" exclusive
< queue.declare_ok
> queue.bind queue="r.a" exchange="r.1"
< queue.bind_ok
> basic.publish exchange="r.2" routing_key="" mandatory body="m"
sync "r.a"
> basic.get queue="r.a" no_ack
< basic.get_ok message_count=0

== an alternate exchange takes what has no destination
open
> exchange.declare exchange="r.alt" type="fanout" internal
< exchange.declare_ok
> exchange.declare exchange="r.main" type="direct" arguments={alternate-exchange="r.alt"}
< exchange.declare_ok
> queue.declare queue="r.a" exclusive
< queue.declare_ok
> queue.declare queue="r.b" exclusive
< queue.declare_ok
> queue.bind queue="r.a" exchange="r.main" routing_key="a"
< queue.bind_ok
> queue.bind queue="r.b" exchange="r.alt"
< queue.bind_ok
> basic.publish exchange="r.main" routing_key="a" mandatory body="1"
> basic.publish exchange="r.main" routing_key="b" mandatory body="2"
sync "r.a" "r.b"
> basic.get queue="r.a" no_ack
< basic.get_ok body="1" message_count=0
> basic.get queue="r.b" no_ack
< basic.get_ok exchange="r.main" routing_key="b" body="2" message_count=0

== an alternate exchange that is missing or leads nowhere
open
> exchange.declare exchange="r.main" type="direct" arguments={alternate-exchange="r.none"}
< exchange.declare_ok
> basic.publish exchange="r.main" routing_key="b" mandatory body="m"
< basic.return exchange="r.main" routing_key="b"
> exchange.declare exchange="r.none" type="fanout"
< exchange.declare_ok
> basic.publish exchange="r.main" routing_key="b" mandatory body="m"
< basic.return exchange="r.main" routing_key="b"

== alternate exchanges in a chain and in a ring
open
> exchange.declare exchange="r.1" type="direct" arguments={alternate-exchange="r.2"}
< exchange.declare_ok
> exchange.declare exchange="r.2" type="direct" arguments={alternate-exchange="r.3"}
< exchange.declare_ok
> exchange.declare exchange="r.3" type="direct" arguments={alternate-exchange="r.1"}
< exchange.declare_ok
> basic.publish exchange="r.1" routing_key="k" mandatory body="m"
< basic.return exchange="r.1"
> queue.declare queue="r.a" exclusive
< queue.declare_ok
> queue.bind queue="r.a" exchange="r.3" routing_key="k"
< queue.bind_ok
> basic.publish exchange="r.1" routing_key="k" mandatory body="m"
sync "r.a"
> basic.get queue="r.a" no_ack
< basic.get_ok message_count=0

== a bound exchange is a destination, even when it leads nowhere
open
> exchange.declare exchange="r.alt" type="fanout"
< exchange.declare_ok
> exchange.declare exchange="r.main" type="fanout" arguments={alternate-exchange="r.alt"}
< exchange.declare_ok
> exchange.declare exchange="r.dead" type="fanout"
< exchange.declare_ok
> queue.declare queue="r.a" exclusive
< queue.declare_ok
> queue.bind queue="r.a" exchange="r.alt"
< queue.bind_ok
> exchange.bind destination="r.dead" source="r.main"
< exchange.bind_ok
> basic.publish exchange="r.main" routing_key="k" mandatory body="m"
< basic.return exchange="r.main"
> exchange.unbind destination="r.dead" source="r.main"
< exchange.unbind_ok
> basic.publish exchange="r.main" routing_key="k" mandatory body="m"
sync "r.a"
> basic.get queue="r.a" no_ack
< basic.get_ok message_count=0

== routing follows every change at once
open
> queue.declare queue="r.a" exclusive
< queue.declare_ok
for i 1..3
	> queue.bind queue="r.a" exchange="amq.direct" routing_key="r.k"
	> basic.publish exchange="amq.direct" routing_key="r.k" mandatory body="in"
	> queue.unbind queue="r.a" exchange="amq.direct" routing_key="r.k"
	> basic.publish exchange="amq.direct" routing_key="r.k" mandatory body="out"
	< queue.bind_ok
	< queue.unbind_ok
	< basic.return body="out"
sync "r.a"
> queue.purge queue="r.a"
< queue.purge_ok message_count=3
