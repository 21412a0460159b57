#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# limit: 180 s
# node's amqplib in three versions: 0.8, which asks for frames of 4,096 octets, 0.10 and the newest. They are
# installed into the build directory (PANNIER_BUILD, or build/), once: later runs need no network.
set -euo pipefail
# shellcheck source=tests/lib/broker.sh
. "$(dirname "$0")/../lib/broker.sh"

here=$(cd "$(dirname "$0")" && pwd)
modules=${PANNIER_BUILD:-$broker_top/build}/tests/client/node

# Under the lock that node.py takes, too: scripts run two at a time.
install_modules()
{
	mkdir -p "$modules" && exec 9>"$modules/lock" && flock 9
	cmp -s "$here/package.json" "$modules/installed.json" && return
	command -v npm >/dev/null || broker_die 'npm is needed to install amqplib, and is not here'
	cp "$here/package.json" "$modules/" &&
	(cd "$modules" && npm install --no-audit --no-fund --no-package-lock --loglevel=error) &&
	cp "$modules/package.json" "$modules/installed.json"
}

install_modules || broker_die 'npm could not install amqplib'
exec 9>&-
broker_start
for version in -0.8 -0.10 ''; do
	counts=$PANNIER_TEST_DIR/counts$version
	status=0
	timeout 80 node "$here/amqplib.js" "$modules/node_modules/amqplib$version" "$broker_url" >"$counts" || status=$?
	sed "s/^/amqplib$version: /" "$counts"
	broker_passed=$((broker_passed + $(grep -c '^ok ' "$counts" || true)))
	broker_failed=$((broker_failed + $(grep -c '^FAIL ' "$counts" || true)))
	# The script's last line says that it came to its end.
	grep -q '^complete$' "$counts" || broker_failed=$((broker_failed + 1))
	[ "$status" -eq 0 ] || grep -q '^FAIL ' "$counts" || broker_failed=$((broker_failed + 1))
done
finish
