# Opening, using and closing channels; the rules after an error (amqp.md 4.1, 4.2, 4.3).

== open-ok has an empty long string
open channels=0
> channel.open
< channel.open_ok reserved_1=""

== a second channel.open
open
> channel.open
hard 504 channel.open "second 'channel.open' seen"

== the number of a closed channel is free right after close-ok
open
for i 1..5
	> channel.close reply_code=200 reply_text="bye"
	< channel.close_ok
	> channel.open
	< channel.open_ok

== the number is free after an error, once the client has sent close-ok
open
> queue.declare queue="ch.nope" passive
< channel.close reply_code=404
> channel.close_ok
> channel.open
< channel.open_ok

== what is sent after the failing method is thrown away
open
> queue.declare queue="ch.nope" passive
> queue.declare queue="ch.thrown"
> basic.publish exchange="nope" routing_key="" body="x"
> basic.publish exchange="nope" routing_key="" body=300000*"x"
> channel.flow active
< channel.close reply_code=404 class_id=50 method_id=10
> channel.close_ok
> channel.open
< channel.open_ok
> queue.declare queue="ch.thrown" passive
soft 404 queue.declare "no queue 'ch.thrown' in vhost '/'"

== a close of the client that crosses the server's close
open
> queue.declare queue="ch.nope" passive
> basic.publish exchange="" routing_key="ch.nope" body="x"
> channel.close reply_code=200 reply_text="bye"
< channel.close reply_code=404
< channel.close_ok
> channel.close_ok
> channel.open
< channel.open_ok

== channel.open while the server waits for close-ok is thrown away
open
> queue.declare queue="ch.nope" passive
< channel.close reply_code=404
> channel.open
differs open-while-closing
	> channel.close_ok
	> channel.open
	< channel.open_ok
oracle
	hard 504 channel.open "second 'channel.open' seen"

== an error on one channel leaves the others alone
open channels=2
> c1 1 queue.declare queue="ch.nope" passive
> c1 2 queue.declare queue="ch.mine" exclusive
soft c1 1 404 queue.declare "no queue 'ch.nope' in vhost '/'"
< c1 2 queue.declare_ok queue="ch.mine"

== the limit counts channels, not their numbers
open channel_max=3 channels=0
channel 500 65535 7
> c1 8 channel.open
hard 530 none "number of channels opened (3) has reached the negotiated channel_max (3)"

== a closed channel does not count
open channel_max=2 channels=2
close c1 1
channel 9
close c1 2
channel 1

== channel.flow
open
> channel.flow active
< channel.flow_ok active
> channel.flow
hard 540 channel.flow "active=false"

== closing a channel puts back what it had not acknowledged
open channels=2
> c1 2 queue.declare queue="ch.back" exclusive
< c1 2 queue.declare_ok
> c1 2 basic.publish exchange="" routing_key="ch.back" body="m1"
> c1 2 basic.publish exchange="" routing_key="ch.back" body="m2"
sync c1 2 "ch.back"
> c1 1 basic.get queue="ch.back"
> c1 1 basic.get queue="ch.back"
> c1 1 channel.close reply_code=200
< c1 1 basic.get_ok body="m1"
< c1 1 basic.get_ok body="m2"
< c1 1 channel.close_ok
> c1 2 basic.get queue="ch.back" no_ack
< c1 2 basic.get_ok body="m1" redelivered message_count=1
> c1 2 basic.get queue="ch.back" no_ack
< c1 2 basic.get_ok body="m2" redelivered message_count=0

== so does an error on the channel
open channels=2
> c1 2 queue.declare queue="ch.error" exclusive
< c1 2 queue.declare_ok
> c1 2 basic.publish exchange="" routing_key="ch.error" body="m1"
sync c1 2 "ch.error"
> c1 1 basic.get queue="ch.error"
< c1 1 basic.get_ok body="m1" delivery_tag=1
> c1 1 basic.ack delivery_tag=5
soft c1 1 406 basic.ack "unknown delivery tag 5"
> c1 2 basic.get queue="ch.error" no_ack
< c1 2 basic.get_ok body="m1" redelivered

== and the loss of the connection
open c1
open c2
> c2 1 queue.declare queue="ch.lost"
< c2 1 queue.declare_ok
> c2 1 basic.publish exchange="" routing_key="ch.lost" body="m1"
sync c2 1 "ch.lost"
> c1 1 basic.get queue="ch.lost"
< c1 1 basic.get_ok body="m1"
> c2 1 basic.consume queue="ch.lost" consumer_tag="t" no_ack
< c2 1 basic.consume_ok
drop c1
< c2 1 basic.deliver body="m1" redelivered

== access.request of old clients
open
> access.request realm="/data" active write read
< access.request_ok reserved_1=1
