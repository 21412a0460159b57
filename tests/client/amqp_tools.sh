#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# limit: 60 s
# The amqp-tools of Debian, as the README's first message uses them.
set -euo pipefail
# shellcheck source=tests/lib/broker.sh
. "$(dirname "$0")/../lib/broker.sh"

broker_start
tool()
{
	local name=$1
	shift
	timeout 20 "amqp-$name" -u "$broker_url" "$@"
}

equal()
{
	[ "$1" = "$2" ] || { echo "expected '$2', got '$1'"; return 1; }
}

# Fails unless the command fails and says that text.
says()
{
	local text=$1 output
	shift
	output=$("$@" 2>&1) && { echo "it succeeded: $*"; return 1; }
	case $output in
	*"$text"*) ;;
	*) echo "expected '$text', got '$output'"; return 1 ;;
	esac
}

# Deletes print how many messages there were.
declare_get_delete()
{
	equal "$(tool declare-queue -q tools.q)" tools.q &&
	says 'PRECONDITION_FAILED' tool declare-queue -q tools.q -d &&
	tool publish -r tools.q -b 'first' &&
	tool publish -r tools.q -b 'second' &&
	equal "$(tool get -q tools.q)" first &&
	says 'PRECONDITION_FAILED' tool delete-queue -q tools.q -e &&
	equal "$(tool delete-queue -q tools.q)" 1
}

# amqp-get has a status of its own, 2, for an empty queue.
get_of_an_empty_queue()
{
	local status=0
	tool declare-queue -q tools.empty >/dev/null || return 1
	tool get -q tools.empty || status=$?
	tool delete-queue -q tools.empty >/dev/null
	equal "$status" 2
}

server_named()
{
	local name
	name=$(tool declare-queue -q '') || return 1
	case $name in
	amq.gen-*) ;;
	*) echo "an odd name: $name"; return 1 ;;
	esac
	tool publish -r "$name" -b 'to a name' && equal "$(tool get -q "$name")" 'to a name' &&
	equal "$(tool delete-queue -q "$name")" 0
}

# 1,000 lines, one message each, are consumed in order by a command that runs once for each.
stream_of_lines()
{
	tool declare-queue -q tools.lines >/dev/null || return 1
	seq 1000 | tool publish -r tools.lines -l || return 1
	seq 1000 >"$PANNIER_TEST_DIR/expected"
	timeout 40 amqp-consume -u "$broker_url" -q tools.lines -c 1000 -p 10 cat \
		>"$PANNIER_TEST_DIR/got" || return 1
	cmp "$PANNIER_TEST_DIR/expected" "$PANNIER_TEST_DIR/got" || return 1
	equal "$(tool delete-queue -q tools.lines)" 0
}

# A command that fails leaves its message unacknowledged: it is there again when the consumer has ended.
failed_command_requeues()
{
	tool declare-queue -q tools.failing >/dev/null || return 1
	tool publish -r tools.failing -b 'again' || return 1
	timeout 20 amqp-consume -u "$broker_url" -q tools.failing -c 1 false
	equal "$(timeout 20 amqp-consume -u "$broker_url" -q tools.failing -c 1 -p 1 cat)" again &&
	equal "$(tool delete-queue -q tools.failing)" 0
}

large_body()
{
	tool declare-queue -q tools.large >/dev/null || return 1
	head -c 3000000 /dev/urandom >"$PANNIER_TEST_DIR/large"
	tool publish -r tools.large -p <"$PANNIER_TEST_DIR/large" || return 1
	tool get -q tools.large | cmp - "$PANNIER_TEST_DIR/large" || return 1
	tool delete-queue -q tools.large >/dev/null
}

# The consumer names its queue on stderr when it has been bound; only then is something published.
consume_from_an_exchange()
{
	local named got="$PANNIER_TEST_DIR/bound" consumer
	mkfifo "$PANNIER_TEST_DIR/named" || return 1
	timeout 20 amqp-consume -u "$broker_url" -A -e amq.topic -r 'news.#' -c 1 cat \
		>"$got" 2>"$PANNIER_TEST_DIR/named" &
	consumer=$!
	read -r named <"$PANNIER_TEST_DIR/named" || return 1
	# The name is printed after declare and before bind: the key is published until it arrives.
	until ! kill -0 "$consumer" 2>/dev/null; do
		tool publish -e amq.topic -r news.today -b headline || return 1
	done
	wait "$consumer" || return 1
	case $named in *amq.gen-*) ;; *) echo "an odd name: $named"; return 1 ;; esac
	equal "$(cat "$got")" headline
}

errors()
{
	says 'NOT_FOUND' tool get -q tools.none &&
	says '' timeout 20 amqp-get -s "$broker_host" --port "$broker_port" --username guest \
		--password wrong -q tools.none &&
	says 'NOT_FOUND' timeout 20 amqp-consume -u "$broker_url" -q tools.none cat &&
	says '' tool publish -e tools.none -r x -b lost
}

check 'declare, get, delete' declare_get_delete
check 'get of an empty queue' get_of_an_empty_queue
check 'a server-named queue' server_named
check 'a stream of lines' stream_of_lines
check 'a failed command requeues' failed_command_requeues
check 'a large body' large_body
check 'consume from an exchange' consume_from_an_exchange
check 'errors' errors
finish
