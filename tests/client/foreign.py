# SPDX-License-Identifier: Apache-2.0
"""
Client programs in other languages: run() gives them a broker of their own, with TLS beside plain TCP, and
takes what they print.

A program is called with the URL of the broker, its URL with TLS and the file of the authority that has
signed its certificate; the last two are empty when the broker is a running one (PANNIER_URL), and the
cases that need them or a restart are then skipped. It prints "ok NAME", "FAIL NAME" or "skip NAME" for
each case and "complete" at its end. When it prints "kill", the broker is killed (-9) and started again,
empty, on the same ports; the program then reads the line "restarted".
"""
import os
import signal
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import broker as lib  # noqa: E402
from certificates import Authority  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))


def build_dir(name):
    """A directory for what a script builds or installs, kept for the next run."""
    build = os.environ.get("PANNIER_BUILD", os.path.join(lib.TOP, "build"))
    path = os.path.join(build, "tests", "client", name)
    os.makedirs(path, exist_ok=True)
    return path


class Server:
    """The broker of a script, and where its programs find it."""

    def __init__(self):
        lib.test_dir()
        self.tls_url = self.authority = ""
        if os.environ.get("PANNIER_URL"):
            self.broker = lib.Broker()
            return
        authority = Authority("test authority")
        pem, key = authority.issue("server", 1)
        port = lib.free_port()
        self.broker = lib.Broker({
            "listeners.ssl.1": f"127.0.0.1:{port}",
            "ssl_options.cacertfile": authority.pem,
            "ssl_options.certfile": pem,
            "ssl_options.keyfile": key,
        })
        self.tls_url = f"amqps://guest:guest@127.0.0.1:{port}/%2f"
        self.authority = authority.pem

    def arguments(self):
        return [self.broker.url, self.tls_url, self.authority]

    def restart(self):
        self.broker.kill()
        self.broker.start()


class Counts:
    """What the programs of one script have passed and failed."""

    def __init__(self):
        self.passed = self.failed = 0

    def fail(self, what):
        self.failed += 1
        print(f"FAIL {what}", flush=True)


def answer(program, line):
    try:
        os.write(program.stdin.fileno(), line.encode())
    except BrokenPipeError:
        pass  # it has ended, which is judged where its end is seen


def run_program(label, command, server, counts, environment, limit_s):
    with subprocess.Popen([*command, *server.arguments()], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          env={**os.environ, **environment}, text=True) as program:
        watch = threading.Timer(limit_s, program.kill)
        watch.start()
        complete = False
        before = counts.failed
        for line in program.stdout:
            print(f"{label}: {line}", end="", flush=True)
            word = line.split()[0] if line.strip() else ""
            counts.passed += word == "ok"
            counts.failed += word == "FAIL"
            complete = complete or word == "complete"
            if word == "kill":
                server.restart()
                answer(program, "restarted\n")
        status = program.wait()
        watch.cancel()
    if not complete:
        counts.fail(f"{label} did not come to its end, status {status}")
    elif (status != 0) != (counts.failed > before):
        counts.fail(f"{label} ended with status {status}")


def run(programs, environment=None, limit_s=90):
    """Runs (label, command) one after the other on one broker; the exit status of the script."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the runner's time limit: atexit cleans up
    counts = Counts()
    server = Server()
    for label, command in programs:
        run_program(label, command, server, counts, environment or {}, limit_s)
    try:
        server.broker.stop()
    except lib.BrokerFailed as reason:
        counts.fail(f"the broker: {reason}")
    print(f"{counts.passed} passed, {counts.failed} failed", flush=True)
    return 1 if counts.failed else 0
