# From the protocol header to open-ok, and the end of a connection (amqp.md 1.1 and 3).

user nobody

== a wrong protocol header is answered with the right one
for wanted "AMQP\0\0\x09\0" "AMQP\0\x01\0\0" "AMQP\x03\x01\0\0" "GET / HT" "\x16\x03\x01\0\xa5\x01\0\0"
	connect
	bytes "${wanted}"
	octets "AMQP\0\0\x09\x01"
	eof

== the old header of 0-9-1 is accepted
connect
bytes "AMQP\x01\x01\0\x09"
< c1 0 connection.start version_major=0 version_minor=9

== the headers of 0-8 are not accepted
for wanted "AMQP\x01\x01\x08\0" "AMQP\x01\x01\x09\x01"
	connect
	bytes "${wanted}"
	differs amqp-0-8
		octets "AMQP\0\0\x09\x01"
		eof
	oracle
		< c1 0 connection.start version_major=8 version_minor=0

== start says who we are and what we can do
connect
header
< c1 0 connection.start version_major=0 version_minor=9 locales="en_US" mechanisms=~"(.* )?PLAIN( .*)?" server_properties=~{capabilities=~{publisher_confirms=t:true exchange_exchange_bindings=t:true "basic.nack"=t:true consumer_cancel_notify=t:true "connection.blocked"=t:true consumer_priorities=t:true authentication_failure_close=t:true per_consumer_qos=t:true} product=~"[A-Za-z]+" version=~"3\.1[03]\.\d+" platform=~".+" cluster_name=~".+"}

== AMQPLAIN is offered
connect
header
< c1 0 connection.start mechanisms=~"(.* )?AMQPLAIN( .*)?"

== tune offers 2047 channels, frames of 128 KiB, a heartbeat of 60 s
connect
header
< c1 0 connection.start
> c1 0 connection.start_ok mechanism="PLAIN" response="\0guest\0guest" locale="en_US"
< c1 0 connection.tune channel_max=2047 frame_max=131072 heartbeat=60
> c1 0 connection.tune_ok channel_max=2047 frame_max=131072 heartbeat=60
> c1 0 connection.open virtual_host="/"
< c1 0 connection.open_ok

== AMQPLAIN, in either order of its entries
for response "\x05LOGINS\0\0\0\x05guest\x08PASSWORDS\0\0\0\x05guest" "\x08PASSWORDS\0\0\0\x05guest\x05LOGINS\0\0\0\x05guest"
	connect
	header
	< c1 0 connection.start
	> c1 0 connection.start_ok mechanism="AMQPLAIN" response="${response}" locale="en_US"
	< c1 0 connection.tune
	> c1 0 connection.tune_ok channel_max=2047 frame_max=131072
	> c1 0 connection.open virtual_host="/"
	< c1 0 connection.open_ok

== any locale will do, and no client properties are needed
connect
header
< c1 0 connection.start
> c1 0 connection.start_ok mechanism="PLAIN" response="\0guest\0guest" locale="xx"
< c1 0 connection.tune

== the whole handshake in one write
connect
header
> c1 0 connection.start_ok mechanism="PLAIN" response="\0guest\0guest" locale="en_US"
> c1 0 connection.tune_ok channel_max=2047 frame_max=131072
> c1 0 connection.open virtual_host="/"
> c1 1 channel.open
> c1 1 queue.declare queue="handshake" exclusive
< c1 0 connection.start
< c1 0 connection.tune
< c1 0 connection.open_ok
< c1 1 channel.open_ok
< c1 1 queue.declare_ok queue="handshake"

== tune-ok and open in one write, octet by octet
connect
header
< c1 0 connection.start
> c1 0 connection.start_ok mechanism="PLAIN" response="\0guest\0guest" locale="en_US"
< c1 0 connection.tune
for octet "\x01" "\0" "\0" "\0" "\0" "\0" "\x0c" "\0" "\x0a\0\x1f\x07\xff\0" "\x02\0\0" "\0\x3c\xce\x01"
	bytes "${octet}"
	flush
bytes "\0\0\0\0\0\x08\0\x0a\0\x28\x01/\0\0\xce"
< c1 0 connection.open_ok

== heartbeats are tolerated before open
connect
header
< c1 0 connection.start
frame type=8
> c1 0 connection.start_ok mechanism="PLAIN" response="\0guest\0guest" locale="en_US"
frame type=8
< c1 0 connection.tune
frame type=8
> c1 0 connection.tune_ok channel_max=2047 frame_max=131072
frame type=8
> c1 0 connection.open virtual_host="/"
< c1 0 connection.open_ok

== the insist bit and the old capabilities of open are ignored
connect
header
< c1 0 connection.start
> c1 0 connection.start_ok mechanism="PLAIN" response="\0guest\0guest" locale="en_US"
< c1 0 connection.tune
> c1 0 connection.tune_ok channel_max=2047 frame_max=131072
> c1 0 connection.open virtual_host="/" reserved_1="caps" reserved_2
< c1 0 connection.open_ok reserved_1=""

== [slow] a refused password is answered where the client can take it
for response "\0guest\0wrong" "\0nosuchuser\0guest" "\0\0"
	connect
	header
	< c1 0 connection.start
	> c1 0 connection.start_ok mechanism="PLAIN" response="${response}" locale="en_US" client_properties={capabilities={authentication_failure_close=true}}
	hard 403 none "Login was refused using authentication mechanism PLAIN. For details see the broker logfile."

== [slow] the same with AMQPLAIN
connect
header
< c1 0 connection.start
> c1 0 connection.start_ok mechanism="AMQPLAIN" response="\x05LOGINS\0\0\0\x05guest\x08PASSWORDS\0\0\0\x05wrong" locale="en_US" client_properties={capabilities={authentication_failure_close=true}}
hard 403 none "Login was refused using authentication mechanism AMQPLAIN. For details see the broker logfile."

== [slow] a refused password is not answered where the client has not the capability
connect
header
< c1 0 connection.start
> c1 0 connection.start_ok mechanism="PLAIN" response="\0guest\0wrong" locale="en_US" client_properties={capabilities={authentication_failure_close=false}}
eof after=2

== [slow] nor where it announces nothing
connect
header
< c1 0 connection.start
> c1 0 connection.start_ok mechanism="PLAIN" response="\0guest\0wrong" locale="en_US"
eof after=2

== [slow] a capability that is not a boolean does not count
connect
header
< c1 0 connection.start
> c1 0 connection.start_ok mechanism="PLAIN" response="\0guest\0wrong" locale="en_US" client_properties={capabilities={authentication_failure_close=I:1}}
eof after=2

== [slow] an unknown mechanism
connect
header
< c1 0 connection.start
> c1 0 connection.start_ok mechanism="FOO" response="\0guest\0guest" locale="en_US"
differs early-errors
	hard 503 connection.start_ok "unknown authentication mechanism 'FOO'"
oracle
	eof after=2

== [slow] a PLAIN response with an authorisation id
connect
header
< c1 0 connection.start
> c1 0 connection.start_ok mechanism="PLAIN" response="root\0guest\0guest" locale="en_US"
gone

== [slow] a PLAIN response with one NUL
connect
header
< c1 0 connection.start
> c1 0 connection.start_ok mechanism="PLAIN" response="\0guest" locale="en_US"
gone

== [slow] an AMQPLAIN response without a password
connect
header
< c1 0 connection.start
> c1 0 connection.start_ok mechanism="AMQPLAIN" response="\x05LOGINS\0\0\0\x05guest" locale="en_US"
gone

== [slow] an AMQPLAIN response that is no table
connect
header
< c1 0 connection.start
> c1 0 connection.start_ok mechanism="AMQPLAIN" response="\x05LOGINS\0\0\x05\0" locale="en_US"
gone

== [slow] a frame_max below the minimum
connect
header
< c1 0 connection.start
> c1 0 connection.start_ok mechanism="PLAIN" response="\0guest\0guest" locale="en_US"
< c1 0 connection.tune
> c1 0 connection.tune_ok channel_max=2047 frame_max=4095
differs early-errors
	hard 530 connection.tune_ok "negotiated frame_max = 4095 is lower than the minimum allowed value (4096)"
oracle
	eof after=2

== [slow] a frame_max above the offer
connect
header
< c1 0 connection.start
> c1 0 connection.start_ok mechanism="PLAIN" response="\0guest\0guest" locale="en_US"
< c1 0 connection.tune
> c1 0 connection.tune_ok channel_max=2047 frame_max=131073
differs early-errors
	hard 530 connection.tune_ok "negotiated frame_max = 131073 is higher than the maximum allowed value (131072)"
oracle
	eof after=2

== [slow] no limit of frames
connect
header
< c1 0 connection.start
> c1 0 connection.start_ok mechanism="PLAIN" response="\0guest\0guest" locale="en_US"
< c1 0 connection.tune
> c1 0 connection.tune_ok channel_max=2047 frame_max=0
differs early-errors
	hard 530 connection.tune_ok "negotiated frame_max = 0 (no limit) is higher than the maximum allowed value (131072)"
oracle
	eof after=2

== [slow] a channel_max above the offer
connect
header
< c1 0 connection.start
> c1 0 connection.start_ok mechanism="PLAIN" response="\0guest\0guest" locale="en_US"
< c1 0 connection.tune
> c1 0 connection.tune_ok channel_max=2048 frame_max=131072
differs early-errors
	hard 530 connection.tune_ok "negotiated channel_max = 2048 is higher than the maximum allowed value (2047)"
oracle
	eof after=2

== [slow] no limit of channels
connect
header
< c1 0 connection.start
> c1 0 connection.start_ok mechanism="PLAIN" response="\0guest\0guest" locale="en_US"
< c1 0 connection.tune
> c1 0 connection.tune_ok channel_max=0 frame_max=131072
differs early-errors
	hard 530 connection.tune_ok "negotiated channel_max = 0 (no limit) is higher than the maximum allowed value (2047)"
oracle
	eof after=2

== the smallest frame_max, a small channel_max, a heartbeat above the offer
open frame_max=4096 channel_max=1 heartbeat=1000

== frames to the client keep within its frame_max
open frame_max=4096
> queue.declare queue="hs.small" exclusive
< queue.declare_ok
> basic.publish exchange="" routing_key="hs.small" body=10000*"x"
> basic.get queue="hs.small" no_ack
< basic.get_ok body=10000*"x"

== vhosts that are not there
for name "nosuch" "" "//" "/x"
	connect
	header
	< c1 0 connection.start
	> c1 0 connection.start_ok mechanism="PLAIN" response="\0guest\0guest" locale="en_US"
	< c1 0 connection.tune
	> c1 0 connection.tune_ok channel_max=2047 frame_max=131072
	> c1 0 connection.open virtual_host="${name}"
	hard 530 connection.open "vhost ${name} not found"

== a user without permissions in the vhost
connect
header
< c1 0 connection.start
> c1 0 connection.start_ok mechanism="PLAIN" response="\0nobody\0secret" locale="en_US"
< c1 0 connection.tune
> c1 0 connection.tune_ok channel_max=2047 frame_max=131072
> c1 0 connection.open virtual_host="/"
hard 530 connection.open "access to vhost '/' refused for user 'nobody'"

== [slow] close while start-ok is awaited
connect
header
< c1 0 connection.start
> c1 0 connection.close reply_code=200 reply_text="bye"
differs early-close
	< c1 0 connection.close_ok
oracle
	eof after=2

== [slow] close while tune-ok is awaited
connect
header
< c1 0 connection.start
> c1 0 connection.start_ok mechanism="PLAIN" response="\0guest\0guest" locale="en_US"
< c1 0 connection.tune
> c1 0 connection.close reply_code=200 reply_text="bye"
differs early-close
	< c1 0 connection.close_ok
oracle
	eof after=2

== close while open is awaited
connect
header
< c1 0 connection.start
> c1 0 connection.start_ok mechanism="PLAIN" response="\0guest\0guest" locale="en_US"
< c1 0 connection.tune
> c1 0 connection.tune_ok channel_max=2047 frame_max=131072
> c1 0 connection.close reply_code=200 reply_text="bye"
differs early-close
	< c1 0 connection.close_ok
oracle
	hard 504 connection.close "unexpected method in connection state opening"

== [slow] tune-ok in place of start-ok
connect
header
< c1 0 connection.start
> c1 0 connection.tune_ok channel_max=2047 frame_max=131072
eof after=2

== [slow] open in place of start-ok
connect
header
< c1 0 connection.start
> c1 0 connection.open virtual_host="/"
eof after=2

== [slow] open in place of tune-ok
connect
header
< c1 0 connection.start
> c1 0 connection.start_ok mechanism="PLAIN" response="\0guest\0guest" locale="en_US"
< c1 0 connection.tune
> c1 0 connection.open virtual_host="/"
eof after=2

== another method where open is awaited
connect
header
< c1 0 connection.start
> c1 0 connection.start_ok mechanism="PLAIN" response="\0guest\0guest" locale="en_US"
< c1 0 connection.tune
> c1 0 connection.tune_ok channel_max=2047 frame_max=131072
> c1 0 connection.tune_ok channel_max=2047 frame_max=131072
hard 504 connection.tune_ok "unexpected method in connection state opening"

== [slow] a channel before open
connect
header
< c1 0 connection.start
> c1 1 channel.open
gone

== [slow] a frame before tune that is larger than the initial limit
connect
header
< c1 0 connection.start
frame type=1 payload="\0\x0a\0\x0b" size=8193
gone

== [slow] client properties of six thousand octets
connect
header
< c1 0 connection.start
> c1 0 connection.start_ok mechanism="PLAIN" response="\0guest\0guest" locale="en_US" client_properties={information=6000*"x"}
differs initial-frame-limit
	< c1 0 connection.tune
oracle
	eof after=2

== handshake methods in a running connection
for response "x" "y"
	open
	> c1 0 connection.start_ok mechanism="PLAIN" response="\0guest\0guest" locale="en_US"
	hard 504 connection.start_ok "unexpected method in connection state running"
open
> c1 0 connection.open virtual_host="/"
hard 504 connection.open "unexpected method in connection state running"
open
> c1 0 connection.tune_ok channel_max=2047 frame_max=131072
hard 504 connection.tune_ok "unexpected method in connection state running"
open
> c1 0 connection.close_ok
hard 504 connection.close_ok "unexpected method in connection state running"

== a new secret is taken without effect
open
> c1 0 connection.update_secret new_secret="guest" reason="why"
< c1 0 connection.update_secret_ok
> c1 0 connection.update_secret new_secret="" reason=""
< c1 0 connection.update_secret_ok
> c1 0 connection.update_secret new_secret=20000*"x" reason=""
< c1 0 connection.update_secret_ok
> c1 1 channel.flow active
< c1 1 channel.flow_ok active

== but only in an open connection
connect
header
< c1 0 connection.start
> c1 0 connection.start_ok mechanism="PLAIN" response="\0guest\0guest" locale="en_US"
< c1 0 connection.tune
> c1 0 connection.tune_ok channel_max=2047 frame_max=131072
> c1 0 connection.update_secret new_secret="guest" reason=""
hard 504 connection.update_secret "unexpected method in connection state opening"

== and on channel 0
open
> c1 1 connection.update_secret new_secret="guest" reason=""
hard 503 connection.update_secret "unimplemented method"

== close is answered and what follows it is ignored
open
> c1 0 connection.close reply_code=200 reply_text="bye"
> c1 1 queue.declare queue="hs.after" passive
< c1 0 connection.close_ok

== close is answered after the exclusive queues are gone
open c1
open c2
> c1 1 queue.declare queue="hs.exclusive" exclusive
< c1 1 queue.declare_ok
> c1 0 connection.close reply_code=200 reply_text="bye"
< c1 0 connection.close_ok
> c2 1 queue.declare queue="hs.exclusive" exclusive
< c2 1 queue.declare_ok

== a close that crosses the server's close is answered
open
> c1 1 exchange.declare exchange="hs" type="direct" cut=1
< c1 0 connection.close reply_code=501 class_id=40 method_id=10
> c1 0 connection.close reply_code=200 reply_text="bye"
< c1 0 connection.close_ok
> c1 0 connection.close_ok
eof

== what arrives after the server's close is discarded
open channels=2
> c1 1 exchange.declare exchange="hs" type="direct" cut=1
> c1 2 queue.declare queue="hs.discarded"
< c1 0 connection.close reply_code=501 class_id=40 method_id=10
> c1 2 queue.declare queue="hs.discarded"
> c1 0 connection.close_ok
eof
open c2
> c2 1 queue.declare queue="hs.discarded" passive
soft c2 1 404 queue.declare "no queue 'hs.discarded' in vhost '/'"

== [slow] the server sends heartbeats and ends a silent client
open heartbeat=1 channels=0
heartbeat
heartbeat
eof after=2

== [slow] any frame keeps a client alive
open heartbeat=1
for i 1..8
	> channel.flow active
	< channel.flow_ok active
	heartbeat
