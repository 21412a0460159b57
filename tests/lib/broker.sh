#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034
# A broker for one test script in shell; sourced. The same contract as broker.py: PANNIER_URL names a
# running server to use instead, PANNIERD or PANNIER_BUILD the program, PANNIER_TEST_DIR the place for logs.
#
#	# shellcheck source=tests/lib/broker.sh
#	. "$(dirname "$0")/../lib/broker.sh"
#	broker_start [key=value ...]	sets broker_host, broker_port, broker_url
#	check 'name of the case' command ...	counts it as passed when the command succeeds
#	finish				stops the broker, prints the counts, exits
#
# broker_kill is kill -9; broker_restart starts the same broker again on the same data and port.

set -euo pipefail
broker_top=$(cd "$(dirname "$0")/../.." && pwd)
broker_pid=
broker_passed=0
broker_failed=0

broker_die()
{
	echo "$*" >&2
	exit 1
}

broker_dir()
{
	[ -n "${PANNIER_TEST_DIR:-}" ] && return
	PANNIER_TEST_DIR=$(mktemp -d -t pannier-client-XXXXXX)
	export PANNIER_TEST_DIR
	broker_own_dir=$PANNIER_TEST_DIR
}

broker_at_exit()
{
	broker_kill
	[ -z "${broker_own_dir:-}" ] || rm -rf "$broker_own_dir"
}

broker_free_port()
{
	/usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

broker_accepts()
{
	(exec 3<>"/dev/tcp/$broker_host/$broker_port") 2>/dev/null
}

broker_start()
{
	broker_dir
	trap broker_at_exit EXIT
	trap 'exit 143' TERM
	if [ -n "${PANNIER_URL:-}" ]; then
		broker_host=$(echo "$PANNIER_URL" | sed -E 's,^amqp://([^@/]*@)?([^:/]+).*,\2,')
		broker_port=$(echo "$PANNIER_URL" | sed -nE 's,^amqp://([^@/]*@)?[^:/]+:([0-9]+).*,\2,p')
		broker_port=${broker_port:-5672}
		broker_url="amqp://guest:guest@$broker_host:$broker_port/%2f"
		return
	fi
	broker_host=127.0.0.1
	broker_data=$PANNIER_TEST_DIR/data-$$
	broker_log=$PANNIER_TEST_DIR/pannierd-$$.log
	broker_options=("$@")
	mkdir "$broker_data"
	# Between the probe and the broker's own bind another test may take the port.
	local tries=3
	while [ $tries -gt 0 ]; do
		tries=$((tries - 1))
		broker_port=$(broker_free_port)
		broker_url="amqp://guest:guest@$broker_host:$broker_port/%2f"
		broker_restart && return
		grep -q 'in use' "$broker_log" || break
	done
	broker_die "pannierd did not start, see $broker_log"
}

broker_restart()
{
	local build=${PANNIER_BUILD:-$broker_top/build} option arguments=()
	for option in ${broker_options[@]+"${broker_options[@]}"}; do
		arguments+=(--set "$option")
	done
	# A session of its own, so that kill -9 also reaches what it may have started.
	setsid "${PANNIERD:-$build/pannierd}" -D "$broker_data" --set "listeners.tcp.1=$broker_host:$broker_port" \
		--set log.console=true ${arguments[@]+"${arguments[@]}"} >>"$broker_log" 2>&1 </dev/null &
	broker_pid=$!
	local end=$((SECONDS + 60))
	until broker_accepts; do
		kill -0 "$broker_pid" 2>/dev/null || { broker_pid=; return 1; }
		[ $SECONDS -lt $end ] || return 1
		sleep 0.02
	done
}

broker_kill()
{
	[ -n "$broker_pid" ] || return 0
	kill -9 -- "-$broker_pid" 2>/dev/null || true
	wait "$broker_pid" 2>/dev/null || true
	broker_pid=
}

# Stops it with SIGTERM; fails when its status is not 0 or a sanitizer wrote a report.
broker_stop()
{
	[ -n "$broker_pid" ] || return 0
	local pid=$broker_pid status=0
	broker_pid=
	kill -TERM "$pid"
	wait "$pid" || status=$?
	[ "$status" -eq 0 ] || { echo "the broker ended with status $status"; return 1; }
	! grep -qE '(Address|Leak|Thread|Memory)Sanitizer|runtime error:' "$broker_log"
}

check()
{
	local name=$1
	shift
	if "$@"; then
		broker_passed=$((broker_passed + 1))
		echo "ok   $name"
	else
		broker_failed=$((broker_failed + 1))
		echo "FAIL $name"
	fi
}

finish()
{
	[ -z "$broker_pid" ] || check 'the broker ends well' broker_stop
	echo "$broker_passed passed, $broker_failed failed"
	[ $broker_failed -eq 0 ]
	exit
}
