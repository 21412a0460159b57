# SPDX-License-Identifier: Apache-2.0
# What building and testing need before make: Debian packages and a configure; sourced by quickstart and
# selftest.

# shellcheck disable=SC2034
build_packages=(
	gcc libc6-dev make autoconf automake pkg-config
	libevent-dev libssl-dev libpcre2-dev libjansson-dev
)

# shellcheck disable=SC2034
test_packages=(
	# the build's tests
	check librabbitmq-dev clang libclang-rt-dev llvm clang-format universal-ctags shellcheck python3 git xz-utils
	# clients
	amqp-tools python3-pika python3-amqp python3-kombu celery python3-celery openssl
	python3-aio-pika ruby-bunny php-cli php-amqp php-amqplib libio-socket-ssl-perl
	libanyevent-rabbitmq-perl libmojo-rabbitmq-client-perl
	default-jdk-headless librabbitmq-client-java golang-go golang-github-rabbitmq-amqp091-go-dev
	# applications
	python3-oslo.messaging php-symfony-messenger php-symfony-amqp-messenger
	php-symfony-event-dispatcher syslog-ng-core syslog-ng-mod-amqp collectd-core librabbitmq4 libyajl2
)

# For single stages of selftest.
# shellcheck disable=SC2034
oracle_packages=(rabbitmq-server python3-hypothesis)
# shellcheck disable=SC2034
tidy_packages=(clang-tidy)

say()
{
	printf '%s\n' "$*" >&2
}

# as_root COMMAND...: directly as root, else through sudo.
as_root()
{
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		say "neither root nor sudo: cannot run $*"
		return 1
	fi
}

# install_packages PACKAGE...: installs those that are missing, and says so. Where there is no apt-get it
# goes on: configure names what it misses.
install_packages()
{
	local package missing=()

	command -v apt-get >/dev/null || return 0
	for package; do
		if ! dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed; then
			missing+=("$package")
		fi
	done
	[ "${#missing[@]}" -gt 0 ] || return 0
	say "installing ${missing[*]}"
	as_root apt-get -qq -o DPkg::Lock::Timeout=300 update >&2
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends \
		-o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 install "${missing[@]}" </dev/null >&2
}

# outdated FILE SOURCE: true when the file is missing or older than the source.
outdated()
{
	[ ! -e "$1" ] || [ "$2" -nt "$1" ]
}

# configured TOP DIR OPTION...: makes TOP/configure where it is missing or old, and configures DIR with it.
# What follows from Makefile.am and its fragments, make sees for itself.
configured()
{
	local top=$1 dir=$2
	shift 2

	if outdated "$top/configure" "$top/configure.ac"; then
		say "making configure"
		(cd "$top" && autoreconf -fi >/dev/null 2>&1) || (cd "$top" && autoreconf -fi)
	fi
	mkdir -p "$dir"
	if outdated "$dir/config.status" "$top/configure"; then
		say "configuring $dir"
		(cd "$dir" && "$top/configure" --quiet "$@")
	fi
}
