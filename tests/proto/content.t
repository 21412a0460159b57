# The content of a message: its frames, its properties, its headers (amqp.md 1.5, 1.7 and 1.8).

== a header of another class
open
> basic.publish exchange="" routing_key="content.none"
> content.header class_id=50 body_size=1
hard 505 basic.publish "expected content header for class 60, got one for class 50 instead"

== a weight that is not zero
open
> basic.publish exchange="" routing_key="content.none"
> content.header weight=1 body_size=1
hard 505 basic.publish "expected content header for class 60, got non content header frame instead"

== a body, or a method, where the header is due
open
> basic.publish exchange="" routing_key="content.none"
> content.body body="x"
hard 505 basic.publish "expected content header for class 60, got non content header frame instead"
open
> basic.publish exchange="" routing_key="content.none"
> basic.publish exchange="" routing_key="content.none"
hard 505 basic.publish "expected content header for class 60, got non content header frame instead"
open
> basic.publish exchange="" routing_key="content.none"
> queue.declare queue="content.none"
hard 505 basic.publish "expected content header for class 60, got non content header frame instead"

== a method, or a header, in the middle of a body
open
> basic.publish exchange="" routing_key="content.none"
> content.header body_size=3
> content.body body="x"
> queue.declare queue="content.none"
hard 505 basic.publish "expected content body, got non content body frame instead"
open
> basic.publish exchange="" routing_key="content.none"
> content.header body_size=3
> content.header body_size=3
hard 505 basic.publish "expected content body, got non content body frame instead"
open
> basic.publish exchange="" routing_key="content.none"
> content.header body_size=3
> channel.close reply_code=200
hard 505 basic.publish "expected content body, got non content body frame instead"

== a body longer than its header said
open
> queue.declare queue="content.over" exclusive
< queue.declare_ok
> basic.publish exchange="" routing_key="content.over"
> content.header body_size=3
> content.body body="xx"
> content.body body="yyy"
differs body-overrun
	hard 501 basic.publish "content body frame exceeds remaining content size"
oracle
	> basic.get queue="content.over" no_ack
	hard 505 basic.publish "expected content body, got non content body frame instead"

== a body that would never end
open
> basic.publish exchange="" routing_key="content.none"
> content.header body_size=536870913
differs body-announced
	hard 501 basic.publish "content body size 536870913 exceeds maximum allowed size 536870912"
oracle
	channel 2
	drop

== a body after a content without one
open
> basic.publish exchange="" routing_key="content.none"
> content.header body_size=0
> content.body body=""
hard 505 none "expected method frame, got non method frame instead"

== empty body frames while octets are due
open
> queue.declare queue="content.empty" exclusive
< queue.declare_ok
> basic.publish exchange="" routing_key="content.empty"
> content.header body_size=2
> content.body body=""
> content.body body="x"
> content.body body=""
> content.body body="y"
> basic.get queue="content.empty" no_ack
< basic.get_ok body="xy"

== contents of two channels and heartbeats, interleaved
open channels=2
> c1 1 queue.declare queue="content.two" exclusive
< c1 1 queue.declare_ok
> c1 1 basic.publish exchange="" routing_key="content.two"
> c1 2 basic.publish exchange="" routing_key="content.two"
> c1 1 content.header body_size=4
frame type=8
> c1 2 content.header body_size=2 props={content_type="second"}
> c1 1 content.body body="fi"
> c1 2 content.body body="2"
frame type=8
> c1 2 content.body body="."
sync c1 2 "content.two"
> c1 1 content.body body="r."
sync c1 1 "content.two"
> c1 1 basic.get queue="content.two" no_ack
< c1 1 basic.get_ok body="2." props={content_type="second"}
> c1 1 basic.get queue="content.two" no_ack
< c1 1 basic.get_ok body="fir." props={}

== messages without a body
open
> queue.declare queue="content.nothing" exclusive
< queue.declare_ok
> basic.publish exchange="" routing_key="content.nothing" body=""
> basic.consume queue="content.nothing" consumer_tag="t" no_ack
< basic.consume_ok
< basic.deliver body="" props={}

== every property comes back as it was
open
> queue.declare queue="content.props" exclusive
< queue.declare_ok
> basic.publish exchange="" routing_key="content.props" body="b" props={content_type="text/plain" content_encoding="gzip" headers={a=I:1} delivery_mode=1 priority=9 correlation_id="c" reply_to="r" expiration="100000" message_id="m" timestamp=1234567890123 type="t" user_id="guest" app_id="a" cluster_id="k"}
> basic.get queue="content.props" no_ack
< basic.get_ok body="b" props={content_type="text/plain" content_encoding="gzip" headers={a=I:1} delivery_mode=1 priority=9 correlation_id="c" reply_to="r" expiration="100000" message_id="m" timestamp=1234567890123 type="t" user_id="guest" app_id="a" cluster_id="k"}

== each property alone, empty or odd
open
> queue.declare queue="content.each" exclusive
< queue.declare_ok
for p "" "é" "\xff\0" "255:"
	> basic.publish exchange="" routing_key="content.each" body="" props={content_type="${p}"}
	> basic.get queue="content.each" no_ack
	< basic.get_ok props={content_type="${p}"}
	> basic.publish exchange="" routing_key="content.each" body="" props={correlation_id="${p}" app_id="${p}"}
	> basic.get queue="content.each" no_ack
	< basic.get_ok props={correlation_id="${p}" app_id="${p}"}
for n 1 2
	> basic.publish exchange="" routing_key="content.each" body="" props={delivery_mode=$n priority=$n timestamp=$n}
	> basic.get queue="content.each" no_ack
	< basic.get_ok props={delivery_mode=$n priority=$n timestamp=$n}
for n 0 3 255
	differs delivery-mode
		> basic.publish exchange="" routing_key="content.each" body="" props={delivery_mode=$n priority=$n timestamp=$n}
		> basic.get queue="content.each" no_ack
		< basic.get_ok props={delivery_mode=$n priority=$n timestamp=$n}
	oracle
		> basic.publish exchange="" routing_key="content.each" body="" props={delivery_mode=$n}
		soft 406 basic.publish "invalid message: {delivery_mode_unknown,${n}}"
> basic.publish exchange="" routing_key="content.each" body="" props={headers={}}
> basic.get queue="content.each" no_ack
< basic.get_ok props={headers={}}

== headers of every type come back as they were
open
> queue.declare queue="content.types" exclusive
< queue.declare_ok
for i 1..2
	> basic.publish exchange="" routing_key="content.types" body="b" props={headers={t=true f=false b=b:-128 B=B:255 s=s:-32768 u=u:65535 I=I:-2147483648 i=i:4294967295 l=l:-9223372036854775808 L=L:9223372036854775807 f=f:0.5 d=d:0.1 D=D:2/314 S="text" A=[1 "x" true V [] {}] T=T:1700000000 F={a={b={c=V}}} V=V x=x"00ff"}}
	> basic.get queue="content.types" no_ack
	< basic.get_ok body="b" props={headers={t=true f=false b=b:-128 B=B:255 s=s:-32768 u=u:65535 I=I:-2147483648 i=i:4294967295 l=l:-9223372036854775808 L=L:9223372036854775807 f=f:0.5 d=d:0.1 D=D:2/314 S="text" A=[1 "x" true V [] {}] T=T:1700000000 F={a={b={c=V}}} V=V x=x"00ff"}}

== the order and the duplicates of headers are kept
open
> queue.declare queue="content.order" exclusive
< queue.declare_ok
> basic.publish exchange="" routing_key="content.order" body="b" props={headers={z=1 a=2 z="again" ""="empty key" m={y=1 b=2}}}
> basic.get queue="content.order" no_ack
< basic.get_ok props={headers={z=1 a=2 z="again" ""="empty key" m={y=1 b=2}}}

== arguments of every type are accepted
open
> queue.declare queue="content.args" exclusive arguments={t=true b=b:-1 B=B:255 s=s:-1 u=u:65535 I=-1 i=i:4294967295 l=l:-1 L=L:1 f=f:0.5 d=d:0.1 D=D:2/314 S="text" A=[1 "x" V] T=T:1700000000 F={a={b=V}} V=V x=x"00ff"}
< queue.declare_ok

== numbers that are not finite
open
> queue.declare queue="content.nan" exclusive
< queue.declare_ok
for octets "\x7f\xf8\0\0\0\0\0\0" "\x7f\xf0\0\0\0\0\0\0"
	open
	> queue.declare queue="content.nan" exclusive
	< queue.declare_ok
	> basic.publish exchange="" routing_key="content.nan"
	frame type=2 channel=1 payload="\0\x3c\0\0\0\0\0\0\0\0\0\0\x20\0\0\0\0\x0b\x01ad${octets}"
	differs not-finite
		> basic.get queue="content.nan" no_ack
		< basic.get_ok body=""
	oracle
		hard 541 none "INTERNAL_ERROR"

== a body of several frames
open
> queue.declare queue="content.large" exclusive
< queue.declare_ok
> basic.publish exchange="" routing_key="content.large" body=400000*"x"
> basic.get queue="content.large" no_ack
< basic.get_ok body=400000*"x"

== a body of exactly one frame, and one octet more
open
> queue.declare queue="content.edge" exclusive
< queue.declare_ok
for n 131063 131064 131065 262128 262129
	> basic.publish exchange="" routing_key="content.edge" body=$n*"x"
	> basic.get queue="content.edge" no_ack
	< basic.get_ok body=$n*"x"

== the largest message, and one octet more
open
> queue.declare queue="content.max" exclusive
< queue.declare_ok
> basic.publish exchange="" routing_key="content.max" body=16777216*"x"
> basic.get queue="content.max" no_ack
< basic.get_ok body=16777216*"x"
> basic.publish exchange="" routing_key="content.max" body=16777217*"x"
soft 406 basic.publish "message size 16777217 is larger than configured max size 16777216"

== unused bits of the property flags are ignored
open
> queue.declare queue="content.flags" exclusive
< queue.declare_ok
> basic.publish exchange="" routing_key="content.flags"
frame type=2 channel=1 payload="\0\x3c\0\0\0\0\0\0\0\0\0\0\x80\x03\x01a"
> basic.get queue="content.flags" no_ack
< basic.get_ok props={content_type="a"}
