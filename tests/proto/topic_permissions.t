# Who may publish and bind which keys on a topic exchange (amqp.md 11.2), in addition to permissions.

user tim configure=".*" write=".*" read=".*"
topic_permission tim exchange="amq.topic" write="^w\\.{username}\\." read="^r\\."
topic_permission tim exchange="t.other" write="^$" read=""
topic_permission tim exchange="amq.direct" write="^$" read="^$"
user a.b configure=".*" write=".*" read=".*"
topic_permission a.b exchange="amq.topic" write="^{username}\\.[{]vhost}\\.{vhost}$" read="^{client_id}$"
user free configure=".*" write=".*" read=".*"
user tess configure=".*" write="^$" read="^$"
topic_permission tess exchange="amq.topic" write="^$" read="^$"

differs verb-in-403
	set write "write access"
	set read "read access"
oracle
	set write "access"
	set read "access"

== publishing needs write on the key
open user="tim"
> queue.declare queue="tp" exclusive
< queue.declare_ok
> queue.bind queue="tp" exchange="amq.topic" routing_key="r.#"
< queue.bind_ok
> basic.publish exchange="amq.topic" routing_key="w.tim.x" body="m"
> basic.publish exchange="amq.topic" routing_key="w.tim.y" body="m"
sync
> basic.publish exchange="amq.topic" routing_key="w.tom.x" body="m"
soft 403 basic.publish "${write} to topic 'w.tom.x' in exchange 'amq.topic' in vhost '/' refused for user 'tim'"

== the key is looked at each time
open user="tim"
> basic.publish exchange="amq.topic" routing_key="w.tim.x" body="m"
> basic.publish exchange="amq.topic" routing_key="w.tim.x" body="m"
> basic.publish exchange="amq.topic" routing_key="" body="m"
soft 403 basic.publish "${write} to topic '' in exchange 'amq.topic' in vhost '/' refused for user 'tim'"
> basic.publish exchange="amq.topic" routing_key="w.tim.x" body="m"
> basic.publish exchange="amq.topic" routing_key="r.x" body="m"
soft 403 basic.publish "${write} to topic 'r.x' in exchange 'amq.topic' in vhost '/' refused for user 'tim'"

== so are those of CC and BCC
open user="tim"
for name "CC" "BCC"
	> basic.publish exchange="amq.topic" routing_key="w.tim.x" props={headers={"${name}"=["w.tim.y"]}} body="m"
	sync
	> basic.publish exchange="amq.topic" routing_key="w.tim.x" props={headers={"${name}"=["w.tim.y" "w.tom.z"]}} body="m"
	differs topic-cc
		soft 403 basic.publish "${write} to topic 'w.tom.z' in exchange 'amq.topic' in vhost '/' refused for user 'tim'"
	oracle
		sync

== binding needs read on the key
open user="tim"
> queue.declare queue="tp" exclusive
< queue.declare_ok
> queue.bind queue="tp" exchange="amq.topic" routing_key="r.#"
< queue.bind_ok
> queue.bind queue="tp" exchange="amq.topic" routing_key="#"
soft 403 queue.bind "${read} to topic '#' in exchange 'amq.topic' in vhost '/' refused for user 'tim'"
> exchange.bind destination="amq.fanout" source="amq.topic" routing_key="r.x"
< exchange.bind_ok
> exchange.unbind destination="amq.fanout" source="amq.topic" routing_key="r.x"
< exchange.unbind_ok
> exchange.bind destination="amq.fanout" source="amq.topic" routing_key="x"
soft 403 exchange.bind "${read} to topic 'x' in exchange 'amq.topic' in vhost '/' refused for user 'tim'"

== so does unbinding, bound or not
open user="tim"
> queue.declare queue="tp" exclusive
< queue.declare_ok
> queue.unbind queue="tp" exchange="amq.topic" routing_key="r.none"
< queue.unbind_ok
> queue.unbind queue="tp" exchange="amq.topic" routing_key="x"
soft 403 queue.unbind "${read} to topic 'x' in exchange 'amq.topic' in vhost '/' refused for user 'tim'"
> exchange.unbind destination="amq.fanout" source="amq.topic" routing_key="x"
soft 403 exchange.unbind "${read} to topic 'x' in exchange 'amq.topic' in vhost '/' refused for user 'tim'"

== the queue's name in place of two empty names is the key
open user="tim"
> queue.declare queue="tp" exclusive
< queue.declare_ok
> queue.bind queue="" exchange="amq.topic" routing_key=""
soft 403 queue.bind "${read} to topic 'tp' in exchange 'amq.topic' in vhost '/' refused for user 'tim'"

== only the source of a binding counts
open user="tim"
> exchange.bind destination="amq.topic" source="amq.fanout" routing_key="x"
< exchange.bind_ok
> exchange.unbind destination="amq.topic" source="amq.fanout" routing_key="x"
< exchange.unbind_ok

== and only a topic exchange
open user="tim"
> basic.publish exchange="amq.direct" routing_key="x" body="m"
sync
> queue.declare queue="tp" exclusive
< queue.declare_ok
> queue.bind queue="tp" exchange="amq.direct" routing_key="x"
< queue.bind_ok

== an empty pattern is the empty key
open user="tim"
> exchange.declare exchange="t.other" type="topic"
< exchange.declare_ok
> basic.publish exchange="t.other" routing_key="" body="m"
sync
> exchange.bind destination="amq.fanout" source="t.other" routing_key=""
< exchange.bind_ok
> exchange.bind destination="amq.fanout" source="t.other" routing_key="x"
soft 403 exchange.bind "${read} to topic 'x' in exchange 't.other' in vhost '/' refused for user 'tim'"
> basic.publish exchange="t.other" routing_key="x" body="m"
soft 403 basic.publish "${write} to topic 'x' in exchange 't.other' in vhost '/' refused for user 'tim'"

== the permission comes first
open user="tess"
> basic.publish exchange="amq.topic" routing_key="x" body="m"
soft 403 basic.publish "${write} to exchange 'amq.topic' in vhost '/' refused for user 'tess'"

== the exchange is sought before, the queue after
open user="tim"
> queue.bind queue="tp.none" exchange="t.none" routing_key="x"
soft 404 queue.bind "no exchange 't.none' in vhost '/'"
> queue.bind queue="tp.none" exchange="amq.topic" routing_key="x"
soft 403 queue.bind "${read} to topic 'x' in exchange 'amq.topic' in vhost '/' refused for user 'tim'"
> queue.bind queue="tp.none" exchange="amq.topic" routing_key="r.x"
soft 404 queue.bind "no queue 'tp.none' in vhost '/'"

== names of user and vhost stand in the pattern as they are
open user="a.b"
> basic.publish exchange="amq.topic" routing_key="a.b.{vhost}./" body="m"
sync
> basic.publish exchange="amq.topic" routing_key="axb.{vhost}./" body="m"
differs escaped-names
	soft 403 basic.publish "${write} to topic 'axb.{vhost}./' in exchange 'amq.topic' in vhost '/' refused for user 'a.b'"
oracle
	sync

== a client of AMQP has no client id
open user="a.b"
> queue.declare queue="tp" exclusive
< queue.declare_ok
> queue.bind queue="tp" exchange="amq.topic" routing_key="{client_id}"
< queue.bind_ok
> queue.bind queue="tp" exchange="amq.topic" routing_key="x"
soft 403 queue.bind "${read} to topic 'x' in exchange 'amq.topic' in vhost '/' refused for user 'a.b'"

== without a record everything is allowed
open user="free"
> queue.declare queue="tp" exclusive
< queue.declare_ok
> queue.bind queue="tp" exchange="amq.topic" routing_key="#"
< queue.bind_ok
> basic.publish exchange="amq.topic" routing_key="anything" body="m"
sync "tp"
> basic.get queue="tp" no_ack
< basic.get_ok body="m"
