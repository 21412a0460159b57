# Who may do what (amqp.md 11.1).  The users exist when the server starts; a pattern is a regular
# expression that need not match the whole name.

user alice configure="^a" write="^a" read="^a"
user carol configure="^(a|amq\\.gen)" write="^$" read="^$"
user wanda configure="^$" write="^a" read="^$"
user reno configure="^$" write="^$" read="^a"
user nemo configure="" write="" read=""
user dora configure="^d" write="^d" read="^d"

differs verb-in-403
	set configure "configure access"
	set write "write access"
	set read "read access"
oracle
	set configure "access"
	set write "access"
	set read "access"

== what is allowed
open user="alice"
> queue.declare queue="a.q" exclusive
< queue.declare_ok
> exchange.declare exchange="a.x" type="direct"
< exchange.declare_ok
> exchange.declare exchange="a.y" type="fanout"
< exchange.declare_ok
> queue.bind queue="a.q" exchange="a.x" routing_key="k"
< queue.bind_ok
> exchange.bind destination="a.x" source="a.y"
< exchange.bind_ok
> basic.publish exchange="a.x" routing_key="k" body="m"
> basic.publish exchange="" routing_key="a.q" body="default"
sync
> basic.get queue="a.q" no_ack
< basic.get_ok body="m"
> basic.consume queue="a.q" consumer_tag="t" no_ack
< basic.consume_ok
< basic.deliver body="default"
> queue.purge queue="a.q"
< queue.purge_ok
> queue.unbind queue="a.q" exchange="a.x" routing_key="k"
< queue.unbind_ok
> exchange.unbind destination="a.x" source="a.y"
< exchange.unbind_ok
> exchange.delete exchange="a.x"
< exchange.delete_ok
> queue.delete queue="a.q"
< queue.delete_ok
< basic.cancel consumer_tag="t" nowait

== declaring and deleting need configure
open user="wanda"
> queue.declare queue="a.q"
soft 403 queue.declare "${configure} to queue 'a.q' in vhost '/' refused for user 'wanda'"
> queue.delete queue="a.q"
soft 403 queue.delete "${configure} to queue 'a.q' in vhost '/' refused for user 'wanda'"
> exchange.declare exchange="a.x" type="direct"
soft 403 exchange.declare "${configure} to exchange 'a.x' in vhost '/' refused for user 'wanda'"
> exchange.delete exchange="a.x"
soft 403 exchange.delete "${configure} to exchange 'a.x' in vhost '/' refused for user 'wanda'"

== publishing needs write
open user="reno"
> basic.publish exchange="amq.direct" routing_key="k" body="m"
soft 403 basic.publish "${write} to exchange 'amq.direct' in vhost '/' refused for user 'reno'"
> basic.publish exchange="a.none" routing_key="k" body="m"
soft 403 basic.publish "${write} to exchange 'a.none' in vhost '/' refused for user 'reno'"

== the default exchange is called amq.default
open user="dora"
> basic.publish exchange="" routing_key="d.q" body="m"
soft 403 basic.publish "${write} to exchange 'amq.default' in vhost '/' refused for user 'dora'"

== write is looked at before the exchange is sought
open user="dora"
> basic.publish exchange="a.none" routing_key="k" body="m"
soft 403 basic.publish "${write} to exchange 'a.none' in vhost '/' refused for user 'dora'"
> basic.publish exchange="d.none" routing_key="k" body="m"
soft 404 basic.publish "no exchange 'd.none' in vhost '/'"

== consuming, getting and purging need read
open user="wanda"
> basic.consume queue="a.q"
soft 403 basic.consume "${read} to queue 'a.q' in vhost '/' refused for user 'wanda'"
> basic.get queue="a.q"
soft 403 basic.get "${read} to queue 'a.q' in vhost '/' refused for user 'wanda'"
> queue.purge queue="a.q"
soft 403 queue.purge "${read} to queue 'a.q' in vhost '/' refused for user 'wanda'"

== binding needs write on the destination, then read on the source
open c1
> queue.declare queue="a.q"
< queue.declare_ok
open c2 user="reno"
> c2 1 queue.bind queue="a.q" exchange="amq.direct" routing_key="k"
soft c2 1 403 queue.bind "${write} to queue 'a.q' in vhost '/' refused for user 'reno'"
> c2 1 queue.unbind queue="a.q" exchange="amq.direct" routing_key="k"
soft c2 1 403 queue.unbind "${write} to queue 'a.q' in vhost '/' refused for user 'reno'"
> c2 1 exchange.bind destination="amq.fanout" source="amq.direct" routing_key="k"
soft c2 1 403 exchange.bind "${write} to exchange 'amq.fanout' in vhost '/' refused for user 'reno'"
> c2 1 exchange.unbind destination="amq.fanout" source="amq.direct" routing_key="k"
soft c2 1 403 exchange.unbind "${write} to exchange 'amq.fanout' in vhost '/' refused for user 'reno'"
open c3 user="wanda"
> c3 1 queue.bind queue="a.q" exchange="amq.direct" routing_key="k"
soft c3 1 403 queue.bind "${read} to exchange 'amq.direct' in vhost '/' refused for user 'wanda'"
> c3 1 queue.unbind queue="a.q" exchange="amq.direct" routing_key="k"
soft c3 1 403 queue.unbind "${read} to exchange 'amq.direct' in vhost '/' refused for user 'wanda'"
> c3 1 exchange.bind destination="amq.fanout" source="amq.direct" routing_key="k"
soft c3 1 403 exchange.bind "${read} to exchange 'amq.direct' in vhost '/' refused for user 'wanda'"
> c3 1 exchange.unbind destination="amq.fanout" source="amq.direct" routing_key="k"
soft c3 1 403 exchange.unbind "${read} to exchange 'amq.direct' in vhost '/' refused for user 'wanda'"

== permissions come before existence
open user="dora"
> queue.bind queue="x.none" exchange="x.none"
soft 403 queue.bind "${write} to queue 'x.none' in vhost '/' refused for user 'dora'"
> queue.bind queue="d.none" exchange="x.none"
soft 403 queue.bind "${read} to exchange 'x.none' in vhost '/' refused for user 'dora'"
> queue.bind queue="d.none" exchange="d.none"
soft 404 queue.bind "no exchange 'd.none' in vhost '/'"
> basic.get queue="x.none"
soft 403 basic.get "${read} to queue 'x.none' in vhost '/' refused for user 'dora'"

== a passive declare of an exchange needs nothing
open user="nemo"
> exchange.declare exchange="amq.direct" passive
< exchange.declare_ok

== a passive declare of a queue needs one of the three
open c1
> queue.declare queue="a.q"
< queue.declare_ok
for name "alice" "carol" "wanda" "reno"
	open c2 user=$name
	> c2 1 queue.declare queue="a.q" passive
	< c2 1 queue.declare_ok
open c2 user="nemo"
> c2 1 queue.declare queue="a.q" passive
differs passive-permission
	soft c2 1 403 queue.declare ~"(configure|write|read) access to queue 'a\.q' in vhost '/' refused for user 'nemo'"
oracle
	< c2 1 queue.declare_ok

== names made by the server are looked at too
open user="carol"
> queue.declare queue="" exclusive
< queue.declare_ok
open user="dora"
> queue.declare queue="" exclusive
soft 403 queue.declare ~"${configure} to queue 'amq\.gen-[A-Za-z0-9_-]{22}' in vhost '/' refused for user 'dora'"

== a reserved name is found before the permission
open user="dora"
> queue.declare queue="amq.mine"
soft 403 queue.declare "queue name 'amq.mine' contains reserved prefix 'amq.*'"

== an alternate exchange needs read here and write there
open user="alice"
> exchange.declare exchange="a.x" type="direct" arguments={alternate-exchange="a.other"}
< exchange.declare_ok
> exchange.declare exchange="a.y" type="direct" arguments={alternate-exchange="b.other"}
soft 403 exchange.declare "${write} to exchange 'b.other' in vhost '/' refused for user 'alice'"
open user="carol"
> exchange.declare exchange="a.z" type="direct" arguments={alternate-exchange="a.other"}
soft 403 exchange.declare "${read} to exchange 'a.z' in vhost '/' refused for user 'carol'"

== so does a dead letter exchange
open user="alice"
> queue.declare queue="a.q" exclusive arguments={x-dead-letter-exchange="a.other"}
< queue.declare_ok
> queue.declare queue="a.q2" arguments={x-dead-letter-exchange="b.other"}
soft 403 queue.declare "${write} to exchange 'b.other' in vhost '/' refused for user 'alice'"
> queue.declare queue="a.q3" arguments={x-dead-letter-exchange=""}
< queue.declare_ok
open user="carol"
> queue.declare queue="a.q4" arguments={x-dead-letter-exchange="a.other"}
soft 403 queue.declare "${read} to queue 'a.q4' in vhost '/' refused for user 'carol'"

== an empty pattern permits nothing
open user="nemo"
> queue.declare queue="a"
soft 403 queue.declare "${configure} to queue 'a' in vhost '/' refused for user 'nemo'"
> basic.publish exchange="" routing_key="a" body="m"
soft 403 basic.publish "${write} to exchange 'amq.default' in vhost '/' refused for user 'nemo'"
