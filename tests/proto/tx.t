# Transactions (amqp.md 8.2).

== commit and rollback without select
open
> tx.commit
soft 406 tx.commit "channel is not transactional"
> tx.rollback
soft 406 tx.rollback "channel is not transactional"

== not both on one channel
open
> tx.select
< tx.select_ok
> confirm.select
soft 406 confirm.select "cannot switch from tx to confirm mode"
> confirm.select
< confirm.select_ok
> tx.select
soft 406 tx.select "cannot switch from confirm to tx mode"

== select twice
open
> tx.select
< tx.select_ok
> tx.select
< tx.select_ok
> tx.commit
< tx.commit_ok
> tx.rollback
< tx.rollback_ok

== nobody sees a message before the commit
open channels=2
> c1 1 queue.declare queue="t.a" exclusive
< c1 1 queue.declare_ok
> c1 1 tx.select
< c1 1 tx.select_ok
> c1 1 basic.publish exchange="" routing_key="t.a" body="m1"
> c1 1 basic.publish exchange="" routing_key="t.a" body="m2"
sync c1 1
> c1 2 queue.declare queue="t.a" passive
< c1 2 queue.declare_ok message_count=0
> c1 1 tx.commit
< c1 1 tx.commit_ok
> c1 2 queue.declare queue="t.a" passive
< c1 2 queue.declare_ok message_count=2
> c1 1 basic.publish exchange="" routing_key="t.a" body="m3"
> c1 1 tx.rollback
< c1 1 tx.rollback_ok
> c1 2 queue.purge queue="t.a"
< c1 2 queue.purge_ok message_count=2

== errors come at once
open
> tx.select
< tx.select_ok
> basic.publish exchange="t.none" routing_key="" body="m"
soft 404 basic.publish "no exchange 't.none' in vhost '/'"
> tx.select
< tx.select_ok
> basic.ack delivery_tag=7
soft 406 basic.ack "unknown delivery tag 7"

== returns come with the commit, before its answer
open
> tx.select
< tx.select_ok
> basic.publish exchange="" routing_key="t.none" mandatory body="m1"
quiet
> tx.commit
< basic.return body="m1" reply_code=312
< tx.commit_ok

== acknowledgements count from the commit on
open channels=2
> c1 1 queue.declare queue="t.a" exclusive
< c1 1 queue.declare_ok
for i 1..3
	> c1 1 basic.publish exchange="" routing_key="t.a" body="m${i}"
sync c1 1 "t.a"
> c1 1 tx.select
< c1 1 tx.select_ok
> c1 1 basic.get queue="t.a"
< c1 1 basic.get_ok delivery_tag=1 body="m1"
> c1 1 basic.get queue="t.a"
< c1 1 basic.get_ok delivery_tag=2 body="m2"
> c1 1 basic.ack delivery_tag=1
> c1 1 tx.rollback
< c1 1 tx.rollback_ok
> c1 1 basic.ack delivery_tag=1
> c1 1 tx.commit
< c1 1 tx.commit_ok
> c1 1 basic.reject delivery_tag=2 requeue
> c1 1 tx.commit
< c1 1 tx.commit_ok
sync c1 2 "t.a"
> c1 2 queue.purge queue="t.a"
< c1 2 queue.purge_ok message_count=2

== the end of the channel rolls back
open channels=2
> c1 2 queue.declare queue="t.a" exclusive
< c1 2 queue.declare_ok
> c1 1 tx.select
< c1 1 tx.select_ok
> c1 1 basic.publish exchange="" routing_key="t.a" body="m"
close c1 1
> c1 2 queue.purge queue="t.a"
< c1 2 queue.purge_ok message_count=0

== a mandatory message whose queue has gone before the commit comes back
open
> queue.declare queue="t.gone" exclusive
< queue.declare_ok
> tx.select
< tx.select_ok
> basic.publish exchange="" routing_key="t.gone" mandatory body="m"
> queue.delete queue="t.gone"
< queue.delete_ok message_count=0
> tx.commit
< basic.return reply_code=312 routing_key="t.gone" body="m"
< tx.commit_ok

== a queue that is declared again before the commit gets the message
open channels=2
> 2 queue.declare queue="t.again" exclusive
< 2 queue.declare_ok
> 1 tx.select
< 1 tx.select_ok
> 1 basic.publish exchange="" routing_key="t.again" body="m1"
sync 1
> 2 queue.delete queue="t.again"
< 2 queue.delete_ok
> 2 queue.declare queue="t.again" exclusive
< 2 queue.declare_ok
> 1 tx.commit
< 1 tx.commit_ok
> 2 basic.get queue="t.again" no_ack
< 2 basic.get_ok body="m1"

== a limit of the channel does not count what the open transaction settles
open channels=2
> 2 queue.declare queue="t.limit" exclusive
< 2 queue.declare_ok
> 1 tx.select
< 1 tx.select_ok
> 1 basic.consume queue="t.limit" consumer_tag="t"
< 1 basic.consume_ok
> 2 basic.publish exchange="" routing_key="t.limit" body="m1"
< 1 basic.deliver body="m1"
> 1 basic.ack delivery_tag=1
> 1 basic.qos prefetch_count=1 global
< 1 basic.qos_ok
> 2 basic.publish exchange="" routing_key="t.limit" body="m2"
< 1 basic.deliver body="m2"
