# What a publish is checked for: expiration, user-id, CC and BCC (amqp.md 4.4, 6.9, 7.1 to 7.4).

user mallory configure=".*" write=".*" read=".*"
user boss configure=".*" write=".*" read=".*" tags="impersonator"

== expiration
open
> queue.declare queue="p.a" exclusive
< queue.declare_ok
for value "100000" "+100000" "315360000000"
	> basic.publish exchange="" routing_key="p.a" props={expiration=$value} body="m"
	> basic.get queue="p.a" no_ack
	< basic.get_ok props={expiration=$value}
> basic.publish exchange="" routing_key="p.a" props={expiration="abc"} body="m"
soft 406 basic.publish "invalid expiration 'abc': no_integer"
> basic.publish exchange="" routing_key="p.a" props={expiration=""} body="m"
soft 406 basic.publish "invalid expiration '': no_integer"
> basic.publish exchange="" routing_key="p.a" props={expiration="1x"} body="m"
soft 406 basic.publish "invalid expiration '1x': {leftover_string,\"x\"}"
> basic.publish exchange="" routing_key="p.a" props={expiration="-1"} body="m"
soft 406 basic.publish "invalid expiration '-1': {value_negative,-1}"
> basic.publish exchange="" routing_key="p.a" props={expiration="315360000001"} body="m"
soft 406 basic.publish "invalid expiration '315360000001': {value_too_large,315360000001}"
> basic.publish exchange="" routing_key="p.a" props={expiration=" 5"} body="m"
soft 406 basic.publish "invalid expiration ' 5': no_integer"

== user-id
open user="mallory"
> basic.publish exchange="" routing_key="p.none" props={user_id="mallory"} body="m"
sync
> basic.publish exchange="" routing_key="p.none" props={user_id="guest"} body="m"
soft 406 basic.publish "user_id property set to 'guest' but authenticated user was 'mallory'"
> basic.publish exchange="" routing_key="p.none" props={user_id=""} body="m"
soft 406 basic.publish "user_id property set to '' but authenticated user was 'mallory'"
open user="boss"
> basic.publish exchange="" routing_key="p.none" props={user_id="guest"} body="m"
sync

== CC and BCC
open
for q "p.a" "p.b" "p.c"
	> queue.declare queue=$q exclusive
	< queue.declare_ok
> basic.publish exchange="" routing_key="p.a" props={headers={CC=["p.b" "p.a" 5] BCC=["p.c"] other=1}} body="m"
for q "p.a" "p.b" "p.c"
	sync $q
	> basic.get queue=$q no_ack
	< basic.get_ok routing_key="p.a" props={headers={CC=["p.b" "p.a" 5] other=1}} message_count=0
> basic.publish exchange="" routing_key="p.none" mandatory props={headers={BCC=["p.other"] other=1}} body="m"
< basic.return routing_key="p.none" props={headers={other=1}}

== CC and BCC that are no arrays
open
> basic.publish exchange="" routing_key="p.none" props={headers={CC=5}} body="m"
soft 406 basic.publish "invalid message: {unacceptable_type_in_header,\"CC\",signedint}"
> basic.publish exchange="" routing_key="p.none" props={headers={BCC="p.a"}} body="m"
soft 406 basic.publish "invalid message: {unacceptable_type_in_header,\"BCC\",longstr}"

== update-secret
open
> c1 0 connection.update_secret new_secret="guest" reason="rotation"
< c1 0 connection.update_secret_ok
