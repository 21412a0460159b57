# Frames that break the rules (amqp.md 1.3, 1.4, 1.6 and 1.9), and frames that do not.
#
# The dump of octets in the texts of 501 and 505 may have any short form.

== [slow] a bad frame end
open
frame type=1 channel=1 payload="\0\x14\0\x14\x01" end=0
hard 501 none ~"type 1, .*invalid_frame_end_marker.*" slow
eof after=2

== [slow] a bad frame end, and the client does not answer
open
frame type=1 channel=1 payload="\0\x14\0\x14\x01" end=205
< c1 0 connection.close reply_code=501 class_id=0 method_id=0
eof after=2

== [slow] nothing after a bad frame end is read
open
frame type=1 channel=1 payload="\0\x14\0\x14\x01" end=0
> queue.declare queue="frames.after"
< c1 0 connection.close reply_code=501 class_id=0 method_id=0
eof
open c2
> c2 1 queue.declare queue="frames.after" passive
soft c2 1 404 queue.declare "no queue 'frames.after' in vhost '/'"

== [slow] a frame larger than frame_max
open frame_max=4096
frame type=3 channel=1 size=4097
hard 501 none ~"type 3, .*\{frame_too_large,4097,4088\}" slow
eof after=2

== [slow] an unknown frame type larger than frame_max
open
frame type=7 channel=0 size=4294967295
hard 501 none ~"type 7, .*\{frame_too_large,4294967295,131064\}" slow
eof after=2

== a frame of exactly frame_max
open frame_max=4096
> queue.declare queue="frames.exact" exclusive
< queue.declare_ok
> basic.publish exchange="" routing_key="frames.exact" body=4088*"x"
> basic.get queue="frames.exact" no_ack
< basic.get_ok body=4088*"x"

== a frame type that does not exist
open
frame type=5 channel=1 payload="abc"
hard 501 none ~"type 5, .*unknown_frame"

== the same on channel 0, and the old trace and oob types
for type 4 6 9 255
	open
	frame type=$type payload="abc"
	hard 501 none ~"type ${type}, .*unknown_frame"

== a frame type that does not exist on a channel that is not open
open
frame type=0 channel=7 payload="abc"
hard 501 none ~"type 0, .*unknown_frame"

== a heartbeat with a payload
open
frame type=8 payload="abc"
hard 501 none ~"type 8, .*unknown_frame"

== a heartbeat on a channel
open
frame type=8 channel=1
hard 505 none ~"type 8, .*"

== a heartbeat on a channel that is not open
open
frame type=8 channel=9
hard 505 none ~"type 8, .*"

== header and body frames on channel 0
open
> c1 0 content.header body_size=5
hard 505 none ~"type 2, .*"
open
> c1 0 content.body body="abc"
hard 505 none ~"type 3, .*"
open
> c1 0 content.body body="longer than sixteen octets"
hard 505 none ~"type 3, .*"

== methods of a channel on channel 0
open
> c1 0 queue.declare queue="q"
hard 504 queue.declare "unexpected method in connection state running"
open
> c1 0 channel.open
hard 504 channel.open "unexpected method in connection state running"
open
> c1 0 basic.publish exchange="" routing_key="q"
hard 504 basic.publish "unexpected method in connection state running"

== methods of the connection on a channel
open
> c1 1 connection.open virtual_host="/"
hard 503 connection.open "unimplemented method"
open
> c1 1 connection.close reply_code=200
hard 503 connection.close "unimplemented method"
open
> c1 1 connection.close_ok
hard 503 connection.close_ok "unimplemented method"

== a channel that was not opened
open channels=0
> c1 1 queue.declare queue="q"
hard 504 queue.declare "expected 'channel.open'"
open channels=0
> c1 1 channel.close
hard 504 channel.close "expected 'channel.open'"
open channels=0
> c1 1 channel.close_ok
hard 504 channel.close_ok "expected 'channel.open'"
open channels=0
> c1 1 connection.open virtual_host="/"
hard 504 connection.open "expected 'channel.open'"
open channels=0
> c1 1 basic.publish exchange="" routing_key="q" body="x"
hard 504 basic.publish "expected 'channel.open'"

== header and body on a channel that was not opened
open channels=0
> c1 1 content.header body_size=5
hard 505 none "expected method frame, got non method frame instead"
open channels=0
> c1 1 content.body body="abc"
hard 505 none "expected method frame, got non method frame instead"

== header and body where no content is due
open
> c1 1 content.header body_size=5
hard 505 none "expected method frame, got non method frame instead"
open
> c1 1 content.body body="abc"
hard 505 none "expected method frame, got non method frame instead"

== an empty method frame
open
frame type=1 channel=1
hard 501 none ~".*"

== methods that only a server sends
for name "queue.declare_ok" "queue.bind_ok" "queue.purge_ok" "queue.delete_ok" "queue.unbind_ok" "exchange.declare_ok" "exchange.delete_ok" "exchange.bind_ok" "exchange.unbind_ok" "basic.qos_ok" "basic.consume_ok" "basic.get_empty" "basic.recover_ok" "channel.open_ok" "confirm.select_ok" "access.request_ok" "tx.select_ok"
	open
	> $name
	hard 503 $name "unimplemented method"

== contents that only a server sends
for name "basic.deliver" "basic.return" "basic.get_ok"
	open
	> $name body="x"
	hard 503 $name "unimplemented method"

== methods that only a server sends, on channel 0
for name "connection.start" "connection.secure" "connection.tune" "connection.open_ok" "connection.blocked" "connection.unblocked" "connection.update_secret_ok"
	open
	> c1 0 $name
	hard 504 $name "unexpected method in connection state running"

== cancel-ok from a client is accepted and ignored
open
> basic.cancel_ok consumer_tag="x"
differs cancel-ok
	quiet
oracle
	hard 503 basic.cancel_ok "unimplemented method"

== flow-ok from a client, who was not asked
open
> channel.flow_ok active
hard 503 channel.flow_ok "unimplemented method"

== classes and methods that do not exist
for payload "\0\x63\0\x01" "\0\x32\0\x63" "\0\x3c\0\x16" "\0\0\0\0" "\xff\xff\xff\xff"
	open
	frame type=1 channel=1 payload="${payload}\0\0\0\0"
	differs unknown-method
		< c1 0 connection.close reply_code=540 reply_text=~"NOT_IMPLEMENTED - unknown method \d+\.\d+"
		> c1 0 connection.close_ok
		eof
	oracle
		eof

== the ids of an unknown method are in the close
open
frame type=1 channel=1 payload="\0\x63\0\x01"
differs unknown-method
	hard 540 99.1 "unknown method 99.1"
oracle
	eof

== an unknown method on channel 0
open
frame type=1 payload="\0\x0a\0\x63"
differs unknown-method
	hard 540 10.99 "unknown method 10.99"
oracle
	eof

== arguments that are too short, or longer than the method
open
> queue.declare queue="q" cut=1
hard 501 queue.declare ~"cannot decode.*"
open
> queue.declare queue="q" extra="\0"
hard 501 queue.declare ~"cannot decode.*"
open
> c1 0 connection.close reply_code=200 cut=1
differs undecodable-channel-0
	hard 501 connection.close ~"cannot decode.*"
oracle
	hard 541 none "INTERNAL_ERROR"
open
> channel.close_ok extra="x"
hard 501 channel.close_ok ~"cannot decode.*"

== a name that is not UTF-8
for bad "\xff" "a\xc3" "\xc0\x80" "\xe3\x81" "\x80"
	open
	> queue.declare queue="${bad}" exclusive
	hard 501 none ~"Malformed UTF-8 in shortstr.*"

== surrogates and what lies above U+10FFFF are not UTF-8
for bad "\xed\xa0\x80" "\xf4\x90\x80\x80"
	open
	> queue.declare queue="${bad}" exclusive
	differs utf-8-strict
		hard 501 none ~"Malformed UTF-8 in shortstr.*"
	oracle
		< queue.declare_ok

== a name in UTF-8
open
> queue.declare queue="häuser-日本" exclusive
< queue.declare_ok queue="häuser-日本"
> queue.declare queue="größe" passive
soft 404 queue.declare "no queue 'größe' in vhost '/'"

== unused bits are ignored
open
frame type=1 channel=1 payload="\0\x32\0\x0a\0\0\x0bframes.bits\xe4\0\0\0\0"
< queue.declare_ok queue="frames.bits"

== a field type that does not exist, in an argument
open
> queue.declare queue="q" arguments={a=Z:"abc"}
differs unknown-field-type
	hard 502 queue.declare ~"unknown field type.*"
oracle
	eof

== a field type that does not exist, in the properties
open
> basic.publish exchange="" routing_key="frames.none" props={headers={a=Z:"abc"}} body="x"
differs unknown-field-type
	hard 502 basic.publish ~"unknown field type.*"
oracle
	hard 541 none "INTERNAL_ERROR"

== properties that are cut short, or longer than their flags say
for extra "" "\0"
	open
	> basic.publish exchange="" routing_key="frames.none"
	differs bad-properties
		> content.header body_size=0 props={content_type="text/plain" headers={a=1}} cut=1 extra="${extra}${extra}"
		hard 501 basic.publish "cannot decode content properties"
	oracle
		> content.header body_size=0 props={content_type="text/plain" headers={a=1}} cut=1 extra="${extra}${extra}"
		hard 541 none "INTERNAL_ERROR"

== a table whose length goes beyond the frame
open
frame type=1 channel=1 payload="\0\x32\0\x0a\0\0\x01q\0\0\0\0\x05\x01aI\0"
hard 501 queue.declare ~"cannot decode.*"

== a table with an entry that goes beyond it
open
frame type=1 channel=1 payload="\0\x32\0\x0a\0\0\x01q\0\0\0\0\x04\x01aI\0"
differs broken-table
	hard 501 queue.declare ~"cannot decode.*"
oracle
	eof

== [slow] nothing at all is answered by nothing
connect
bytes "AMQP"
flush
eof after=5

== content of a method that clients do not send is awaited before it is refused
open
> basic.deliver consumer_tag="t" delivery_tag=1
> channel.flow active
hard 505 basic.deliver "expected content header for class 60, got non content header frame instead"
