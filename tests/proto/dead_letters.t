# Dead letters: what dies, where it goes, what it says of its deaths (amqp.md 9).

== a rejected message and its history
open
> queue.declare queue="d.dead" exclusive
< queue.declare_ok
> queue.declare queue="d.q" exclusive arguments={x-dead-letter-exchange="" x-dead-letter-routing-key="d.dead"}
< queue.declare_ok
> basic.publish exchange="amq.direct" routing_key="k" body="nowhere"
> queue.bind queue="d.q" exchange="amq.direct" routing_key="k"
< queue.bind_ok
> basic.publish exchange="amq.direct" routing_key="k" body="m"
sync "d.q"
> basic.get queue="d.q"
< basic.get_ok delivery_tag=1 body="m"
> basic.reject delivery_tag=1
sync "d.q" "d.dead"
> basic.get queue="d.dead" no_ack
differs last-death
	< basic.get_ok exchange="" routing_key="d.dead" body="m" message_count=0 props={headers=all{ \
	  x-death=[all{count=l:1 reason="rejected" queue="d.q" time=T:~"1[0-9]{9}" exchange="amq.direct" routing-keys=["k"]}] \
	  x-first-death-reason="rejected" x-first-death-queue="d.q" x-first-death-exchange="amq.direct" \
	  x-last-death-reason="rejected" x-last-death-queue="d.q" x-last-death-exchange="amq.direct"}}
oracle
	< basic.get_ok exchange="" routing_key="d.dead" body="m" message_count=0 props={headers=all{ \
	  x-death=[all{count=l:1 reason="rejected" queue="d.q" time=T:~"1[0-9]{9}" exchange="amq.direct" routing-keys=["k"]}] \
	  x-first-death-reason="rejected" x-first-death-queue="d.q" x-first-death-exchange="amq.direct"}}

== the fields of a first death are in this order
open
> queue.declare queue="d.dead" exclusive
< queue.declare_ok
> queue.declare queue="d.q" exclusive arguments={x-dead-letter-exchange="" x-dead-letter-routing-key="d.dead"}
< queue.declare_ok
> basic.publish exchange="" routing_key="d.q" props={expiration="100000"} body="m"
sync "d.q"
> basic.get queue="d.q"
< basic.get_ok delivery_tag=1
> basic.reject delivery_tag=1
sync "d.q" "d.dead"
> basic.get queue="d.dead" no_ack
differs original-expiration-first
	< basic.get_ok props={headers=~{x-death=[{original-expiration="100000" count=l:1 reason="rejected" \
	  queue="d.q" time=T:~"1[0-9]{9}" exchange="" routing-keys=["d.q"]}]}}
oracle
	< basic.get_ok props={headers=~{x-death=[{count=l:1 reason="rejected" \
	  queue="d.q" time=T:~"1[0-9]{9}" exchange="" routing-keys=["d.q"] original-expiration="100000"}]}}

== properties and headers stay but for the expiration
open
> queue.declare queue="d.dead" exclusive
< queue.declare_ok
> queue.declare queue="d.q" exclusive arguments={x-dead-letter-exchange="" x-dead-letter-routing-key="d.dead"}
< queue.declare_ok
> basic.publish exchange="" routing_key="d.q" props={content_type="t" content_encoding="e" \
  headers={"a"=5 "b"=[true {"c"=V}]} delivery_mode=2 priority=3 correlation_id="c" reply_to="r" \
  expiration="100000" message_id="id" timestamp=17 type="y" user_id="guest" app_id="app"} body="m"
sync "d.q"
> basic.get queue="d.q"
< basic.get_ok delivery_tag=1 props=~{expiration="100000"}
> basic.reject delivery_tag=1
sync "d.q" "d.dead"
> basic.get queue="d.dead" no_ack
< basic.get_ok body="m" props={content_type="t" content_encoding="e" headers=~{"a"=5 "b"=[true {"c"=V}] \
  x-death=[~{original-expiration="100000"}]} delivery_mode=2 priority=3 correlation_id="c" reply_to="r" \
  message_id="id" timestamp=17 type="y" user_id="guest" app_id="app"}

== nack, one and several: in the order of their deaths
open
> queue.declare queue="d.dead" exclusive
< queue.declare_ok
> queue.declare queue="d.q" exclusive arguments={x-dead-letter-exchange="" x-dead-letter-routing-key="d.dead"}
< queue.declare_ok
for i 1..5
	> basic.publish exchange="" routing_key="d.q" body="m${i}"
sync "d.q"
for i 1..5
	> basic.get queue="d.q"
	< basic.get_ok delivery_tag=$i body="m${i}"
> basic.nack delivery_tag=5
> basic.nack delivery_tag=3 multiple
> basic.nack delivery_tag=0 multiple
sync "d.q" "d.dead"
for m "m5" "m1" "m2" "m3" "m4"
	> basic.get queue="d.dead" no_ack
	< basic.get_ok body=$m
> basic.get queue="d.dead"
< basic.get_empty

== what is requeued, acknowledged or got without acknowledgement has not died
open channels=2
> queue.declare queue="d.dead" exclusive
< queue.declare_ok
> queue.declare queue="d.q" exclusive arguments={x-dead-letter-exchange="" x-dead-letter-routing-key="d.dead"}
< queue.declare_ok
for i 1..3
	> basic.publish exchange="" routing_key="d.q" body="m${i}"
sync "d.q"
> c1 2 basic.get queue="d.q"
< c1 2 basic.get_ok delivery_tag=1 body="m1"
> c1 2 basic.reject delivery_tag=1 requeue
sync c1 2 "d.q"
> c1 2 basic.get queue="d.q"
< c1 2 basic.get_ok delivery_tag=2 redelivered body="m1"
> c1 2 basic.get queue="d.q"
< c1 2 basic.get_ok delivery_tag=3 body="m2"
> c1 2 basic.ack delivery_tag=3
> c1 2 basic.get queue="d.q" no_ack
< c1 2 basic.get_ok delivery_tag=4 body="m3"
close c1 2
sync "d.q" "d.dead"
> basic.get queue="d.dead"
< basic.get_empty
> basic.get queue="d.q" no_ack
< basic.get_ok body="m1" redelivered

== without a key of its own a letter has that of the message
open
> exchange.declare exchange="d.x" type="direct"
< exchange.declare_ok
> queue.declare queue="d.dead" exclusive
< queue.declare_ok
> queue.bind queue="d.dead" exchange="d.x" routing_key="d.q"
< queue.bind_ok
> queue.declare queue="d.q" exclusive arguments={x-dead-letter-exchange="d.x"}
< queue.declare_ok
> basic.publish exchange="" routing_key="d.q" mandatory body="m"
sync "d.q"
> basic.get queue="d.q"
< basic.get_ok delivery_tag=1
> basic.reject delivery_tag=1
sync "d.q" "d.dead"
> basic.get queue="d.dead" no_ack
< basic.get_ok exchange="d.x" routing_key="d.q" body="m" props=~{headers=~{x-death=[~{exchange="" routing-keys=["d.q"]}]}}

== the default exchange with the message's own key: back into the queue
open
> queue.declare queue="d.q" exclusive arguments={x-dead-letter-exchange=""}
< queue.declare_ok
> basic.publish exchange="" routing_key="d.q" body="m"
for i 1..4
	sync "d.q"
	> basic.get queue="d.q"
	< basic.get_ok delivery_tag=$i body="m" message_count=0
	> basic.reject delivery_tag=$i
sync "d.q"
> basic.get queue="d.q" no_ack
< basic.get_ok body="m" props={headers=~{x-death=[~{count=l:4 queue="d.q" reason="rejected" exchange="" routing-keys=["d.q"]}]}}

== an empty key is one
open
> exchange.declare exchange="d.x" type="direct"
< exchange.declare_ok
> queue.declare queue="d.dead" exclusive
< queue.declare_ok
> queue.bind queue="d.dead" exchange="d.x" routing_key=""
< queue.bind_ok
> queue.declare queue="d.q" exclusive arguments={x-dead-letter-exchange="d.x" x-dead-letter-routing-key=""}
< queue.declare_ok
> basic.publish exchange="" routing_key="d.q" body="m"
sync "d.q"
> basic.get queue="d.q"
< basic.get_ok delivery_tag=1
> basic.reject delivery_tag=1
sync "d.q" "d.dead"
> basic.get queue="d.dead" no_ack
< basic.get_ok exchange="d.x" routing_key="" body="m"

== CC without a key of the queue: all keys, and they stay
open
> exchange.declare exchange="d.x" type="direct"
< exchange.declare_ok
for q "d.k1" "d.k2"
	> queue.declare queue=$q exclusive
	< queue.declare_ok
	> queue.bind queue=$q exchange="d.x" routing_key=$q
	< queue.bind_ok
> queue.declare queue="d.q" exclusive arguments={x-dead-letter-exchange="d.x"}
< queue.declare_ok
> queue.bind queue="d.q" exchange="amq.direct" routing_key="d.k1"
< queue.bind_ok
> basic.publish exchange="amq.direct" routing_key="d.k1" props={headers={CC=["d.k2"]}} body="m"
sync "d.q"
> basic.get queue="d.q"
< basic.get_ok delivery_tag=1 props={headers={CC=["d.k2"]}}
> basic.reject delivery_tag=1
sync "d.q" "d.k1" "d.k2"
for q "d.k1" "d.k2"
	> basic.get queue=$q no_ack
	< basic.get_ok routing_key="d.k1" body="m" props={headers=~{CC=["d.k2"] x-death=[~{routing-keys=["d.k1" "d.k2"]}]}}

== BCC leads dead letters, and is in no history
open
> exchange.declare exchange="d.x" type="direct"
< exchange.declare_ok
for q "d.k1" "d.k2"
	> queue.declare queue=$q exclusive
	< queue.declare_ok
	> queue.bind queue=$q exchange="d.x" routing_key=$q
	< queue.bind_ok
> queue.declare queue="d.q" exclusive arguments={x-dead-letter-exchange="d.x"}
< queue.declare_ok
> queue.bind queue="d.q" exchange="amq.direct" routing_key="d.k1"
< queue.bind_ok
> basic.publish exchange="amq.direct" routing_key="d.k1" props={headers={BCC=["d.k2"]}} body="m"
sync "d.q"
> basic.get queue="d.q"
< basic.get_ok delivery_tag=1 props={headers={}}
> basic.reject delivery_tag=1
sync "d.q" "d.k1" "d.k2"
> basic.get queue="d.k1" no_ack
< basic.get_ok routing_key="d.k1" body="m" props={headers=~{x-death=[~{routing-keys=["d.k1"]}]}}
> basic.get queue="d.k2" no_ack
< basic.get_ok routing_key="d.k1" body="m" props={headers=~{x-death=[~{routing-keys=["d.k1"]}]}}

== CC with a key of the queue: that one alone
open
> exchange.declare exchange="d.x" type="direct"
< exchange.declare_ok
for q "d.k1" "d.k2" "d.dead"
	> queue.declare queue=$q exclusive
	< queue.declare_ok
	> queue.bind queue=$q exchange="d.x" routing_key=$q
	< queue.bind_ok
> queue.declare queue="d.q" exclusive arguments={x-dead-letter-exchange="d.x" x-dead-letter-routing-key="d.dead"}
< queue.declare_ok
> queue.bind queue="d.q" exchange="amq.direct" routing_key="d.k1"
< queue.bind_ok
> basic.publish exchange="amq.direct" routing_key="d.k1" props={headers={CC=["d.k2"]}} body="m"
sync "d.q"
> basic.get queue="d.q"
< basic.get_ok delivery_tag=1
> basic.reject delivery_tag=1
sync "d.q" "d.k1" "d.k2" "d.dead"
for q "d.k1" "d.k2"
	> basic.get queue=$q
	< basic.get_empty
> basic.get queue="d.dead" no_ack
differs dead-letter-cc
	< basic.get_ok routing_key="d.dead" body="m" props={headers=all{CC=["d.k2"] x-death=[~{routing-keys=["d.k1" "d.k2"]}] \
	  x-first-death-reason="rejected" x-first-death-queue="d.q" x-first-death-exchange="amq.direct" \
	  x-last-death-reason="rejected" x-last-death-queue="d.q" x-last-death-exchange="amq.direct"}}
oracle
	< basic.get_ok routing_key="d.dead" body="m" props={headers=all{x-death=[~{routing-keys=["d.k1" "d.k2"]}] \
	  x-first-death-reason="rejected" x-first-death-queue="d.q" x-first-death-exchange="amq.direct"}}

== an exchange that is missing, and comes later
open
> queue.declare queue="d.dead" exclusive
< queue.declare_ok
> queue.declare queue="d.q" exclusive arguments={x-dead-letter-exchange="d.later"}
< queue.declare_ok
for i 1..2
	> basic.publish exchange="" routing_key="d.q" mandatory body="m${i}"
	sync "d.q"
> basic.get queue="d.q"
< basic.get_ok delivery_tag=1 body="m1"
> basic.reject delivery_tag=1
quiet "d.q"
> exchange.declare exchange="d.later" type="fanout"
< exchange.declare_ok
> queue.bind queue="d.dead" exchange="d.later"
< queue.bind_ok
> basic.get queue="d.q"
< basic.get_ok delivery_tag=2 body="m2"
> basic.reject delivery_tag=2
sync "d.q" "d.dead"
> basic.get queue="d.dead" no_ack
< basic.get_ok body="m2" exchange="d.later" message_count=0

== a letter that goes nowhere is not returned
open
> exchange.declare exchange="d.x" type="direct"
< exchange.declare_ok
> queue.declare queue="d.q" exclusive arguments={x-dead-letter-exchange="d.x"}
< queue.declare_ok
> basic.publish exchange="" routing_key="d.q" mandatory body="m"
sync "d.q"
> basic.get queue="d.q"
< basic.get_ok delivery_tag=1
> basic.reject delivery_tag=1
quiet "d.q"

== alternate exchanges, exchanges behind exchanges, internal ones
open
> exchange.declare exchange="d.x" type="direct" internal arguments={alternate-exchange="d.rest"}
< exchange.declare_ok
> exchange.declare exchange="d.rest" type="fanout"
< exchange.declare_ok
> exchange.declare exchange="d.far" type="topic"
< exchange.declare_ok
> exchange.bind source="d.rest" destination="d.far" routing_key=""
< exchange.bind_ok
> queue.declare queue="d.dead" exclusive
< queue.declare_ok
> queue.bind queue="d.dead" exchange="d.far" routing_key="#"
< queue.bind_ok
> queue.declare queue="d.q" exclusive arguments={x-dead-letter-exchange="d.x"}
< queue.declare_ok
> basic.publish exchange="" routing_key="d.q" body="m"
sync "d.q"
> basic.get queue="d.q"
< basic.get_ok delivery_tag=1
> basic.reject delivery_tag=1
sync "d.q" "d.dead"
> basic.get queue="d.dead" no_ack
< basic.get_ok exchange="d.x" routing_key="d.q" body="m" message_count=0

== a headers exchange looks at what the letter says
open
> exchange.declare exchange="d.x" type="headers"
< exchange.declare_ok
for q "d.rejected" "d.expired"
	> queue.declare queue=$q exclusive
	< queue.declare_ok
> queue.bind queue="d.rejected" exchange="d.x" arguments={x-match="any-with-x" x-first-death-reason="rejected"}
< queue.bind_ok
> queue.bind queue="d.expired" exchange="d.x" arguments={x-match="any-with-x" x-first-death-reason="expired"}
< queue.bind_ok
> queue.declare queue="d.q" exclusive arguments={x-dead-letter-exchange="d.x"}
< queue.declare_ok
> basic.publish exchange="" routing_key="d.q" body="m"
sync "d.q"
> basic.get queue="d.q"
< basic.get_ok delivery_tag=1
> basic.reject delivery_tag=1
sync "d.q" "d.rejected" "d.expired"
> basic.get queue="d.rejected" no_ack
< basic.get_ok body="m"
> basic.get queue="d.expired"
< basic.get_empty

== to a waiting consumer, and to several queues
open channels=2
> queue.declare queue="d.d1" exclusive
< queue.declare_ok
> queue.declare queue="d.d2" exclusive
< queue.declare_ok
for q "d.d1" "d.d2"
	> queue.bind queue=$q exchange="amq.fanout"
	< queue.bind_ok
> queue.declare queue="d.q" exclusive arguments={x-dead-letter-exchange="amq.fanout"}
< queue.declare_ok
> c1 2 basic.consume queue="d.d1" consumer_tag="t" no_ack
< c1 2 basic.consume_ok
> basic.publish exchange="" routing_key="d.q" body="m"
sync "d.q"
> basic.get queue="d.q"
< basic.get_ok delivery_tag=1
> basic.reject delivery_tag=1
< c1 2 basic.deliver consumer_tag="t" exchange="amq.fanout" routing_key="d.q" body="m" props=~{headers=~{x-death=[~{queue="d.q"}]}}
sync "d.q" "d.d2"
> basic.get queue="d.d2" no_ack
< basic.get_ok body="m"

== dropped for want of room
open
> queue.declare queue="d.dead" exclusive
< queue.declare_ok
> queue.declare queue="d.q" exclusive arguments={x-max-length=1 x-dead-letter-exchange="" x-dead-letter-routing-key="d.dead"}
< queue.declare_ok
> confirm.select
< confirm.select_ok
for i 1..3
	> basic.publish exchange="" routing_key="d.q" body="m${i}"
confirms acks=1..3
sync "d.q" "d.dead"
for m "m1" "m2"
	> basic.get queue="d.dead" no_ack
	< basic.get_ok body=$m props=~{headers=~{x-death=[~{reason="maxlen" queue="d.q" count=l:1}] x-first-death-reason="maxlen"}}
> basic.get queue="d.q" no_ack
< basic.get_ok body="m3" message_count=0

== requeued over the limit and dropped
open channels=2
> queue.declare queue="d.dead" exclusive
< queue.declare_ok
> queue.declare queue="d.q" exclusive arguments={x-max-length=1 x-dead-letter-exchange="" x-dead-letter-routing-key="d.dead"}
< queue.declare_ok
> basic.publish exchange="" routing_key="d.q" body="m1"
sync "d.q"
> c1 2 basic.get queue="d.q"
< c1 2 basic.get_ok delivery_tag=1 body="m1"
> basic.publish exchange="" routing_key="d.q" body="m2"
sync "d.q"
> c1 2 basic.nack delivery_tag=1 requeue
sync c1 2 "d.q" "d.dead"
> basic.get queue="d.dead" no_ack
< basic.get_ok body="m1" message_count=0 props=~{headers=~{x-death=[~{reason="maxlen"}]}}
> basic.get queue="d.q" no_ack
< basic.get_ok body="m2" message_count=0

== a second death in the same queue counts, one elsewhere comes before it
open
> queue.declare queue="d.retry" exclusive arguments={x-dead-letter-exchange="" x-dead-letter-routing-key="d.work"}
< queue.declare_ok
> queue.declare queue="d.work" exclusive arguments={x-dead-letter-exchange="" x-dead-letter-routing-key="d.retry"}
< queue.declare_ok
> queue.bind queue="d.work" exchange="amq.direct" routing_key="k"
< queue.bind_ok
> basic.publish exchange="amq.direct" routing_key="k" props={expiration="1000000"} body="m"
sync "d.work"
> basic.get queue="d.work"
< basic.get_ok delivery_tag=1
> basic.reject delivery_tag=1
sync "d.work" "d.retry"
> basic.get queue="d.retry"
< basic.get_ok delivery_tag=2 props={headers=~{x-death=[~{count=l:1 queue="d.work" time=T:$time}]}}
> basic.reject delivery_tag=2
sync "d.retry" "d.work"
> basic.get queue="d.work"
< basic.get_ok delivery_tag=3 exchange="" routing_key="d.work" props={headers=~{ \
  x-death=[all{count=l:1 queue="d.retry" reason="rejected" time=T:~"1[0-9]{9}" exchange="" routing-keys=["d.retry"]} \
  all{count=l:1 queue="d.work" reason="rejected" time=T:$time exchange="amq.direct" routing-keys=["k"] original-expiration="1000000"}]}}
> basic.reject delivery_tag=3
sync "d.work" "d.retry"
> basic.get queue="d.retry" no_ack
differs last-death
	< basic.get_ok props={headers=all{ \
	  x-death=[all{count=l:2 queue="d.work" reason="rejected" time=T:$time exchange="amq.direct" routing-keys=["k"] original-expiration="1000000"} \
	  all{count=l:1 queue="d.retry" reason="rejected" time=T:~"1[0-9]{9}" exchange="" routing-keys=["d.retry"]}] \
	  x-first-death-reason="rejected" x-first-death-queue="d.work" x-first-death-exchange="amq.direct" \
	  x-last-death-reason="rejected" x-last-death-queue="d.work" x-last-death-exchange=""}}
oracle
	< basic.get_ok props={headers=all{ \
	  x-death=[all{count=l:2 queue="d.work" reason="rejected" time=T:$time exchange="amq.direct" routing-keys=["k"] original-expiration="1000000"} \
	  all{count=l:1 queue="d.retry" reason="rejected" time=T:~"1[0-9]{9}" exchange="" routing-keys=["d.retry"]}] \
	  x-first-death-reason="rejected" x-first-death-queue="d.work" x-first-death-exchange="amq.direct"}}

== one queue and two reasons are two deaths
open
> queue.declare queue="d.q" exclusive arguments={x-max-length=1 x-dead-letter-exchange="" x-dead-letter-routing-key="d.dead"}
< queue.declare_ok
> queue.declare queue="d.dead" exclusive arguments={x-dead-letter-exchange="" x-dead-letter-routing-key="d.q"}
< queue.declare_ok
> basic.publish exchange="" routing_key="d.q" body="m1"
sync "d.q"
> basic.get queue="d.q"
< basic.get_ok delivery_tag=1 body="m1"
> basic.reject delivery_tag=1
sync "d.q" "d.dead"
> basic.get queue="d.dead"
< basic.get_ok delivery_tag=2 body="m1"
> basic.reject delivery_tag=2
sync "d.dead" "d.q"
> basic.publish exchange="" routing_key="d.q" body="m2"
sync "d.q" "d.dead"
> basic.get queue="d.dead" no_ack
differs order-of-deaths
	< basic.get_ok body="m1" props={headers=~{x-death=[~{queue="d.q" reason="maxlen" count=l:1} \
	  ~{queue="d.dead" reason="rejected" count=l:1} ~{queue="d.q" reason="rejected" count=l:1}] \
	  x-first-death-reason="rejected" x-first-death-queue="d.q"}}
oracle
	< basic.get_ok body="m1" props={headers=~{x-death=[~{queue="d.q" reason="maxlen" count=l:1} \
	  ~{queue="d.q" reason="rejected" count=l:1} ~{queue="d.dead" reason="rejected" count=l:1}] \
	  x-first-death-reason="rejected" x-first-death-queue="d.q"}}

== a chain
open
> queue.declare queue="d.end" exclusive
< queue.declare_ok
> queue.declare queue="d.q3" exclusive arguments={x-max-length=0 x-dead-letter-exchange="" x-dead-letter-routing-key="d.end"}
< queue.declare_ok
> queue.declare queue="d.q2" exclusive arguments={x-max-length=0 x-dead-letter-exchange="" x-dead-letter-routing-key="d.q3"}
< queue.declare_ok
> queue.declare queue="d.q1" exclusive arguments={x-max-length=0 x-dead-letter-exchange="" x-dead-letter-routing-key="d.q2"}
< queue.declare_ok
> confirm.select
< confirm.select_ok
> basic.publish exchange="" routing_key="d.q1" body="m"
confirms acks=1
sync "d.q1" "d.q2" "d.q3" "d.end"
> basic.get queue="d.end" no_ack
differs order-of-deaths
	< basic.get_ok body="m" props={headers=~{x-death=[~{queue="d.q3" routing-keys=["d.q3"]} ~{queue="d.q2" routing-keys=["d.q2"]} \
	  ~{queue="d.q1" routing-keys=["d.q1"]}] x-first-death-queue="d.q1"}}
oracle
	< basic.get_ok body="m" props={headers=~{x-death=[~{queue="d.q3" routing-keys=["d.q3"]} ~{queue="d.q1" routing-keys=["d.q1"]} \
	  ~{queue="d.q2" routing-keys=["d.q2"]}] x-first-death-queue="d.q1"}}

== a queue that drops into itself: the letter is gone
open
> queue.declare queue="d.q" exclusive arguments={x-max-length=1 x-dead-letter-exchange=""}
< queue.declare_ok
for i 1..3
	> basic.publish exchange="" routing_key="d.q" body="m${i}"
sync "d.q"
> basic.get queue="d.q" no_ack
< basic.get_ok body="m3" message_count=0
> basic.get queue="d.q"
< basic.get_empty

== a ring that nobody rejects in: each queue once
open
> queue.declare queue="d.r1" exclusive arguments={x-max-length=0 x-dead-letter-exchange="" x-dead-letter-routing-key="d.r2"}
< queue.declare_ok
> queue.declare queue="d.r2" exclusive arguments={x-max-length=0 x-dead-letter-exchange="" x-dead-letter-routing-key="d.r1"}
< queue.declare_ok
> confirm.select
< confirm.select_ok
for i 1..3
	> basic.publish exchange="" routing_key="d.r1" body="m${i}"
confirms acks=1..3
for q "d.r1" "d.r2" "d.r1" "d.r2"
	sync $q
for q "d.r1" "d.r2"
	> basic.get queue=$q
	< basic.get_empty

== a ring with a rejection in it goes on
open
> queue.declare queue="d.work" exclusive arguments={x-dead-letter-exchange="" x-dead-letter-routing-key="d.wait"}
< queue.declare_ok
> queue.declare queue="d.wait" exclusive arguments={x-max-length=0 x-dead-letter-exchange="" x-dead-letter-routing-key="d.work"}
< queue.declare_ok
> basic.publish exchange="" routing_key="d.work" body="m"
for i 1..3
	sync "d.work" "d.wait" "d.work"
	> basic.get queue="d.work"
	< basic.get_ok delivery_tag=$i body="m"
	> basic.reject delivery_tag=$i
sync "d.work" "d.wait" "d.work"
> basic.get queue="d.work" no_ack
< basic.get_ok body="m" props={headers=~{x-death=[~{queue="d.wait" reason="maxlen" count=l:3} ~{queue="d.work" reason="rejected" count=l:3}]}}

== in a fanout only the queue that it died in goes without
open
> exchange.declare exchange="d.x" type="fanout"
< exchange.declare_ok
> queue.declare queue="d.q" exclusive arguments={x-max-length=1 x-dead-letter-exchange="d.x"}
< queue.declare_ok
> queue.declare queue="d.other" exclusive
< queue.declare_ok
for q "d.q" "d.other"
	> queue.bind queue=$q exchange="d.x"
	< queue.bind_ok
for i 1..2
	> basic.publish exchange="" routing_key="d.q" body="m${i}"
sync "d.q" "d.other"
> basic.get queue="d.other" no_ack
< basic.get_ok body="m1" message_count=0
> basic.get queue="d.q" no_ack
< basic.get_ok body="m2" message_count=0

== a history that a publisher gives is counted on
open
> queue.declare queue="d.dead" exclusive
< queue.declare_ok
> queue.declare queue="d.q" exclusive arguments={x-dead-letter-exchange="" x-dead-letter-routing-key="d.dead"}
< queue.declare_ok
> basic.publish exchange="" routing_key="d.q" body="m"
sync "d.q"
> basic.get queue="d.q"
< basic.get_ok delivery_tag=1
> basic.reject delivery_tag=1
sync "d.q" "d.dead"
> basic.get queue="d.dead" no_ack
< basic.get_ok delivery_tag=2 props={headers=$headers}
> basic.publish exchange="" routing_key="d.q" props={headers=F:$headers} body="m"
sync "d.q"
> basic.get queue="d.q"
< basic.get_ok delivery_tag=3
> basic.reject delivery_tag=3
sync "d.q" "d.dead"
> basic.get queue="d.dead" no_ack
< basic.get_ok props={headers=~{x-death=[~{queue="d.q" reason="rejected" count=l:2}]}}

== an x-death that is no history is replaced
open
> queue.declare queue="d.dead" exclusive
< queue.declare_ok
> queue.declare queue="d.q" exclusive arguments={x-dead-letter-exchange="" x-dead-letter-routing-key="d.dead"}
< queue.declare_ok
> basic.publish exchange="" routing_key="d.q" props={headers={x-death="nonsense"}} body="m"
sync "d.q"
> basic.get queue="d.q"
< basic.get_ok delivery_tag=1
> basic.reject delivery_tag=1
sync "d.q" "d.dead"
> basic.get queue="d.dead" no_ack
< basic.get_ok props={headers=~{x-death=[~{queue="d.q" reason="rejected" count=l:1}]}}

== purge and deletion are no deaths
open channels=2
> queue.declare queue="d.dead" exclusive
< queue.declare_ok
> queue.declare queue="d.q" exclusive arguments={x-dead-letter-exchange="" x-dead-letter-routing-key="d.dead"}
< queue.declare_ok
for i 1..3
	> basic.publish exchange="" routing_key="d.q" body="m${i}"
sync "d.q"
> c1 2 basic.get queue="d.q"
< c1 2 basic.get_ok delivery_tag=1 body="m1"
> queue.purge queue="d.q"
< queue.purge_ok message_count=2
> basic.publish exchange="" routing_key="d.q" body="m4"
sync "d.q"
> queue.delete queue="d.q"
< queue.delete_ok message_count=1
> c1 2 basic.reject delivery_tag=1
sync c1 2 "d.dead"
> basic.get queue="d.dead"
< basic.get_empty

== a queue that goes with its last consumer takes its messages along
open channels=2
> queue.declare queue="d.dead" exclusive
< queue.declare_ok
> queue.declare queue="d.q" auto_delete arguments={x-dead-letter-exchange="" x-dead-letter-routing-key="d.dead"}
< queue.declare_ok
> c1 2 basic.qos prefetch_count=1
< c1 2 basic.qos_ok
> c1 2 basic.consume queue="d.q" consumer_tag="t"
< c1 2 basic.consume_ok
for i 1..2
	> basic.publish exchange="" routing_key="d.q" body="m${i}"
< c1 2 basic.deliver body="m1"
> c1 2 basic.cancel consumer_tag="t"
< c1 2 basic.cancel_ok
> c1 2 basic.reject delivery_tag=1
sync c1 2 "d.dead"
> basic.get queue="d.dead"
< basic.get_empty

== in a transaction a rejection counts from the commit on
open channels=2
> c1 2 queue.declare queue="d.dead" exclusive
< c1 2 queue.declare_ok
> c1 2 queue.declare queue="d.q" exclusive arguments={x-dead-letter-exchange="" x-dead-letter-routing-key="d.dead"}
< c1 2 queue.declare_ok
for i 1..2
	> c1 2 basic.publish exchange="" routing_key="d.q" body="m${i}"
sync c1 2 "d.q"
> tx.select
< tx.select_ok
for i 1..2
	> basic.get queue="d.q"
	< basic.get_ok delivery_tag=$i body="m${i}"
> basic.reject delivery_tag=1
sync c1 1
> c1 2 basic.get queue="d.dead"
< c1 2 basic.get_empty
> tx.rollback
< tx.rollback_ok
> basic.reject delivery_tag=2
sync c1 1
> c1 2 basic.get queue="d.dead"
< c1 2 basic.get_empty
> tx.commit
< tx.commit_ok
sync c1 2 "d.q" "d.dead"
> c1 2 basic.get queue="d.dead" no_ack
< c1 2 basic.get_ok body="m2" message_count=0

== letters to a queue that is full and rejects are dropped
open
> queue.declare queue="d.full" exclusive arguments={x-max-length=1 x-overflow="reject-publish"}
< queue.declare_ok
> queue.declare queue="d.q" exclusive arguments={x-dead-letter-exchange="" x-dead-letter-routing-key="d.full"}
< queue.declare_ok
for i 1..2
	> basic.publish exchange="" routing_key="d.q" body="m${i}"
sync "d.q"
for i 1..2
	> basic.get queue="d.q"
	< basic.get_ok delivery_tag=$i
	> basic.reject delivery_tag=$i
sync "d.q" "d.full"
> basic.get queue="d.full" no_ack
< basic.get_ok body="m1" message_count=0
> basic.get queue="d.q"
< basic.get_empty

== persistent ones in durable queues
open
> queue.declare queue="d.dead" durable
< queue.declare_ok
> queue.declare queue="d.durable" durable arguments={x-dead-letter-exchange="" x-dead-letter-routing-key="d.dead"}
< queue.declare_ok
> confirm.select
< confirm.select_ok
for i 1..3
	> basic.publish exchange="" routing_key="d.durable" props={delivery_mode=2} body="m${i}"
confirms acks=1..3
for i 1..3
	> basic.get queue="d.durable"
	< basic.get_ok delivery_tag=$i body="m${i}"
> basic.nack delivery_tag=2 multiple
sync "d.durable" "d.dead"
for i 1..2
	> basic.get queue="d.dead" no_ack
	< basic.get_ok body="m${i}" props=~{delivery_mode=2 headers=~{x-death=[~{queue="d.durable"}]}}

== a long name and a body in many frames
open frame_max=4096
> queue.declare queue="d.dead" exclusive
< queue.declare_ok
set name 250*"n"
> queue.declare queue="d.${name}" exclusive arguments={x-dead-letter-exchange="" x-dead-letter-routing-key="d.dead"}
< queue.declare_ok
> basic.publish exchange="" routing_key="d.${name}" body=20000*"b"
sync "d.${name}"
> basic.get queue="d.${name}"
< basic.get_ok delivery_tag=1
> basic.reject delivery_tag=1
sync "d.${name}" "d.dead"
> basic.get queue="d.dead" no_ack
< basic.get_ok body=20000*"b" props=~{headers=~{x-death=[~{queue="d.${name}"}]}}

== the same arguments again, and others
open
> queue.declare queue="d.q" exclusive arguments={x-dead-letter-exchange="d.x" x-dead-letter-routing-key="k"}
< queue.declare_ok
> queue.declare queue="d.q" exclusive arguments={x-dead-letter-routing-key="k" x-dead-letter-exchange="d.x"}
< queue.declare_ok
> queue.declare queue="d.q" exclusive arguments={x-dead-letter-exchange="d.y" x-dead-letter-routing-key="k"}
soft 406 queue.declare "inequivalent arg 'x-dead-letter-exchange' for queue 'd.q' in vhost '/': received 'd.y' but current is 'd.x'"
> queue.declare queue="d.q" exclusive arguments={x-dead-letter-exchange="d.x" x-dead-letter-routing-key="j"}
soft 406 queue.declare "inequivalent arg 'x-dead-letter-routing-key' for queue 'd.q' in vhost '/': received 'j' but current is 'k'"
> queue.declare queue="d.q" exclusive arguments={x-dead-letter-exchange="d.x"}
soft 406 queue.declare "inequivalent arg 'x-dead-letter-routing-key' for queue 'd.q' in vhost '/': received none but current is the value 'k' of type 'longstr'"
> queue.declare queue="d.r" exclusive arguments={x-dead-letter-routing-key="k"}
soft 406 queue.declare "invalid arg 'x-dead-letter-routing-key' for queue 'd.r' in vhost '/': routing_key_but_no_dlx_defined"
