# SPDX-License-Identifier: Apache-2.0
"""
The broker's side of the client matrix: a broker with a plain and a TLS port, and a program in another
language that is tested against it.

run(command...) starts the broker and the command, in this folder. The command finds MATRIX_HOST,
MATRIX_PORT, MATRIX_TLS_PORT and MATRIX_CA (a file) in its environment, prints "ok NAME", "skip NAME" or
"FAIL NAME" for each of its cases and "complete" at its end. A line "kill" asks for the broker to be
killed (-9) and started again on the same ports; the command goes on meanwhile. When the server is a
running one (PANNIER_URL), MATRIX_TLS_PORT is empty and nobody is killed: such cases are skipped.

Scripts in Python take tls_broker() and restart() directly.
"""
import os
import re
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
import broker as lib  # noqa: E402
from certificates import Authority  # noqa: E402


def tls_broker():
    """A Broker with tls_port and ca; both are None for a running server."""
    lib.test_dir()
    if os.environ.get("PANNIER_URL"):
        broker = lib.Broker()
        broker.tls_port = broker.ca = None
        return broker
    authority, port = Authority("matrix authority"), lib.free_port()
    certificate, key = authority.issue("server", 1)
    # The TLS port is the last that RabbitMQ opens.
    broker = lib.Broker({
        "listeners.ssl.1": f"127.0.0.1:{port}",
        "ssl_options.cacertfile": authority.pem,
        "ssl_options.certfile": certificate,
        "ssl_options.keyfile": key,
    }, ready_port=port)
    broker.tls_port, broker.ca = port, authority.pem
    return broker


def restart(broker):
    broker.kill()
    broker.start()


def environment(broker):
    return {**os.environ, "MATRIX_HOST": broker.host, "MATRIX_PORT": str(broker.port),
            "MATRIX_TLS_PORT": str(broker.tls_port or ""), "MATRIX_CA": broker.ca or ""}


def follow(child, broker):
    """Does what the command asks for, to the end of its output; (passed, failed, complete)."""
    passed = failed = 0
    complete = False
    for line in child.stdout:
        line = line.rstrip("\n")
        if line == "kill":
            restart(broker)
        elif line == "complete":
            complete = True
        else:
            print(line, flush=True)
            passed += bool(re.match(r"ok\b", line))
            failed += bool(re.match(r"FAIL\b", line))
    return passed, failed, complete


def run(*command):
    """Gives the exit status of the script."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the runner's time limit: atexit cleans up
    broker = tls_broker()
    with subprocess.Popen(command, cwd=HERE, env=environment(broker), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, text=True, errors="replace") as child:
        passed, failed, complete = follow(child, broker)
    if not complete:
        print(f"FAIL {command[-1]} ended early, status {child.returncode}")
        failed += 1
    try:
        broker.stop()
    except lib.BrokerFailed as reason:
        print(f"FAIL the broker: {reason}")
        failed += 1
    print(f"{passed} passed, {failed} failed", flush=True)
    return 1 if failed or not passed else 0
