# Limits of users and vhosts (amqp.md 11.4). pannierd gets them by its configuration. The limits of the
# node are tested in tests/unit/test_limits.c: they would hold for all transcripts.

user lina configure=".*" write=".*" read=".*" max_connections=1
user chad configure=".*" write=".*" read=".*" max_channels=3
user zero configure=".*" write=".*" read=".*" max_connections=0
user mute configure=".*" write=".*" read=".*" max_channels=0
user full configure=".*" write=".*" read=".*" max_connections=-1 max_channels=-1
user lost max_connections=0
vhost limited max_connections=2 max_queues=2

differs user-channel-limit
	set three "3"
	set zero "0"
oracle
	set three "(3)"
	set zero "(0)"

== [slow] connections of a user
open c1 user="lina" channels=0
for i 1..2
	connect c2
	header c2
	< c2 0 connection.start
	> c2 0 connection.start_ok mechanism="PLAIN" response="\0lina\0secret" locale="en_US"
	< c2 0 connection.tune
	> c2 0 connection.tune_ok channel_max=2047 frame_max=131072
	> c2 0 connection.open virtual_host="/"
	hard c2 530 connection.open "connection refused for user 'lina': user connection limit (1) is reached"
> c1 0 connection.close reply_code=200 reply_text="bye"
< c1 0 connection.close_ok
drop c1
open c2 user="lina"

== no connection is allowed to a user whose limit is 0
connect
header
< c1 0 connection.start
> c1 0 connection.start_ok mechanism="PLAIN" response="\0zero\0secret" locale="en_US"
< c1 0 connection.tune
> c1 0 connection.tune_ok channel_max=2047 frame_max=131072
> c1 0 connection.open virtual_host="/"
hard 530 connection.open "connection refused for user 'zero': user connection limit (0) is reached"

== the user's limit is looked at before the permission, after the vhost
connect
header
< c1 0 connection.start
> c1 0 connection.start_ok mechanism="PLAIN" response="\0lost\0secret" locale="en_US"
< c1 0 connection.tune
> c1 0 connection.tune_ok channel_max=2047 frame_max=131072
> c1 0 connection.open virtual_host="/"
hard 530 connection.open "connection refused for user 'lost': user connection limit (0) is reached"
connect
header
< c1 0 connection.start
> c1 0 connection.start_ok mechanism="PLAIN" response="\0lost\0secret" locale="en_US"
< c1 0 connection.tune
> c1 0 connection.tune_ok channel_max=2047 frame_max=131072
> c1 0 connection.open virtual_host="nosuch"
hard 530 connection.open "vhost nosuch not found"

== a negative limit is none
open c1 user="full" channels=5
open c2 user="full" channels=5

== channels of a user are counted over all its connections
open c1 user="chad" channels=2
open c2 user="chad" channels=1
> c2 2 channel.open
hard c2 530 none "number of channels opened for user 'chad' has reached the maximum allowed user limit of ${three}"

== no channel is allowed to a user whose limit is 0
open user="mute" channels=0
> channel.open
hard 530 none "number of channels opened for user 'mute' has reached the maximum allowed user limit of ${zero}"

== the negotiated limit of channels is looked at first
open user="chad" channel_max=3 channels=3
> c1 4 channel.open
hard 530 none "number of channels opened (3) has reached the negotiated channel_max (3)"

== [slow] connections to a vhost
open c1 vhost="limited" channels=0
open c2 vhost="limited" channels=0
for i 1..2
	connect c3
	header c3
	< c3 0 connection.start
	> c3 0 connection.start_ok mechanism="PLAIN" response="\0guest\0guest" locale="en_US"
	< c3 0 connection.tune
	> c3 0 connection.tune_ok channel_max=2047 frame_max=131072
	> c3 0 connection.open virtual_host="limited"
	hard c3 530 connection.open "access to vhost 'limited' refused for user 'guest': connection limit (2) is reached"
# The permission is not looked at before the limit.
connect c3
header c3
< c3 0 connection.start
> c3 0 connection.start_ok mechanism="PLAIN" response="\0lost\0secret" locale="en_US"
< c3 0 connection.tune
> c3 0 connection.tune_ok channel_max=2047 frame_max=131072
> c3 0 connection.open virtual_host="limited"
hard c3 530 connection.open "access to vhost 'limited' refused for user 'lost': connection limit (2) is reached"
# The queues of a vhost, whoever declared them.
channel c1 1
channel c2 1
> c1 1 queue.declare queue="lim.a" exclusive
< c1 1 queue.declare_ok
> c2 1 queue.declare queue="" exclusive
< c2 1 queue.declare_ok
> c1 1 queue.declare queue="lim.c" exclusive
soft c1 1 406 queue.declare "cannot declare queue 'lim.c': queue limit in vhost 'limited' (2) is reached"
> c1 1 queue.declare queue=""
soft c1 1 406 queue.declare ~"cannot declare queue 'amq\.gen-[A-Za-z0-9_-]{22}': queue limit in vhost 'limited' \(2\) is reached"
# What exists may be declared again.
> c1 1 queue.declare queue="lim.a" exclusive
< c1 1 queue.declare_ok queue="lim.a"
> c1 1 queue.delete queue="lim.a"
< c1 1 queue.delete_ok
> c1 1 queue.declare queue="lim.c" exclusive
< c1 1 queue.declare_ok
