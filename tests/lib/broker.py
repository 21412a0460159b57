# SPDX-License-Identifier: Apache-2.0
"""
A broker for one test script, and the frame of such a script.

A Broker is a pannierd of its own on a free port of 127.0.0.1 with its data in a new directory, started
when the object is made (it accepts connections when the constructor returns) and stopped by stop(),
which raises BrokerFailed when the exit status is not 0 or when a sanitizer wrote a report. With
PANNIER_URL=amqp://host:port in the environment the running server there is used instead: external is
true, nothing is started or stopped, and options cannot be given; a case that needs them calls skip().

Environment: PANNIERD, the program (otherwise the one in PANNIER_BUILD, or in build/ of the source tree);
PANNIER_TEST_DIR, where logs and data go (otherwise a temporary directory, removed at the end).

The frame: run_cases(globals()) calls every function named case_*, in the order written, prints a line
for each and "N passed, N failed" at the end, and gives the exit status. A case that takes a parameter
named broker gets the script's common broker.
"""
import atexit
import inspect
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.parse

START_LIMIT_S = 60
STOP_LIMIT_S = 60
SANITIZER = re.compile(rb"(Address|Leak|Thread|Memory)Sanitizer|runtime error:")
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class BrokerFailed(Exception):
    """The broker did not start, died, ended with a status that is not 0, or a sanitizer spoke."""


class Skip(Exception):
    """The case cannot run against this server; it counts neither as passed nor as failed."""


def skip(reason):
    raise Skip(reason)


def pannierd():
    """The program under test."""
    build = os.environ.get("PANNIER_BUILD", os.path.join(TOP, "build"))
    return os.environ.get("PANNIERD", os.path.join(build, "pannierd"))


def test_dir():
    """Where this script may write: kept by the runner when the script fails, removed otherwise."""
    path = os.environ.get("PANNIER_TEST_DIR")
    if not path:
        path = tempfile.mkdtemp(prefix="pannier-client-")
        os.environ["PANNIER_TEST_DIR"] = path
        atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def free_port(host="127.0.0.1"):
    with socket.socket() as probe:
        probe.bind((host, 0))
        return probe.getsockname()[1]


def await_true(what, condition, limit_s=30, step_s=0.01):
    """For the few things that cannot be awaited as an event: polls until condition() is true."""
    end = time.monotonic() + limit_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {limit_s} s: {what}")
        time.sleep(step_s)


class Broker:
    _count = 0

    def __init__(self, settings=None, ready_port=None):
        """settings are key = value options of pannierd; "{port}" in a value stands for the port. With
        ready_port that port is awaited instead of the common one: it may be the last to be opened."""
        self.host, self.port, self.process, self.external = "127.0.0.1", 0, None, False
        url = os.environ.get("PANNIER_URL")
        if url:
            if settings:
                skip("needs settings of its own, and the server is a running one")
            parts = urllib.parse.urlsplit(url)
            self.host, self.port = parts.hostname, parts.port or 5672
            self.external = True
            return
        Broker._count += 1
        self.settings, self.ready_port = dict(settings or {}), ready_port
        self.data = os.path.join(test_dir(), f"data-{os.getpid()}-{Broker._count}")
        self.log_path = os.path.join(test_dir(), f"pannierd-{os.getpid()}-{Broker._count}.log")
        os.makedirs(self.data)
        self._start_on_a_free_port()
        atexit.register(self.kill)

    def _start_on_a_free_port(self):
        # Between the probe and the broker's own bind another test may take the port.
        for attempt in range(3):
            self.port = free_port()
            try:
                self.start()
                return
            except BrokerFailed:
                if attempt == 2 or b"in use" not in self.log():
                    raise

    def start(self):
        """Starts the broker on self.port and self.data, as it was, and waits until it accepts."""
        settings = {"listeners.tcp.1": f"{self.host}:{self.port}", "log.console": "true"}
        settings.update(self.settings)
        command = [pannierd(), "-D", self.data]
        for key, value in settings.items():
            command += ["--set", f"{key}={value.replace('{port}', str(self.port))}"]
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        end = time.monotonic() + START_LIMIT_S
        while not self._accepts():
            if self.process.poll() is not None:
                raise BrokerFailed(f"it ended with status {self.process.returncode} at its start")
            if time.monotonic() > end:
                self.kill()
                raise BrokerFailed(f"it accepts nothing after {START_LIMIT_S} s")
            time.sleep(0.01)

    def _accepts(self):
        try:
            port = self.ready_port or self.port
            with socket.create_connection((self.host, port), timeout=5):
                return True
        except OSError:
            return False

    @property
    def url(self):
        return f"amqp://guest:guest@{self.host}:{self.port}/%2f"

    def log(self):
        with open(self.log_path, "rb") as log:
            return log.read()

    def await_log(self, pattern, after=0, limit_s=30):
        """Waits until the log after that offset matches."""
        await_true(f"{pattern} in the log", lambda: re.search(pattern, self.log()[after:]), limit_s)

    def rss(self):
        """Resident memory in bytes; None when the server is not ours."""
        if self.external:
            return None
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            return int(re.search(r"VmRSS:\s+(\d+) kB", status.read()).group(1)) * 1024

    def hup(self):
        self.process.send_signal(signal.SIGHUP)

    def kill(self):
        """kill -9, for tests of what that leaves behind; start() then starts it again on the same data."""
        if self.process and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def stop(self):
        """SIGTERM, and the end is judged."""
        if self.external:
            return
        if self.process.poll() is not None and self.process.returncode != -signal.SIGKILL:
            raise BrokerFailed(f"it had ended by itself, status {self.process.returncode}")
        self.process.terminate()
        try:
            status = self.process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BrokerFailed(f"it did not end within {STOP_LIMIT_S} s after SIGTERM") from None
        if status != 0:
            raise BrokerFailed(f"it ended with status {status} after SIGTERM")
        if SANITIZER.search(self.log()):
            raise BrokerFailed(f"a sanitizer reported, see {self.log_path}")

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is None:
            self.stop()
        else:
            self.kill()


def exit_on_sigterm():
    """So that what was registered with atexit is done when the runner's time limit ends the script."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def run_cases(module, settings=None, common=None):
    """Runs the case_* functions of a module's globals(); arguments of the script choose some by name.
    The common broker is started with these settings when it is not given and a case wants it."""
    exit_on_sigterm()
    cases = [f for name, f in module.items() if name.startswith("case_") and callable(f)]
    wanted = sys.argv[1:]
    cases = [f for f in cases if not wanted or f.__name__ in wanted]
    passed = failed = 0
    try:
        if not common and any("broker" in inspect.signature(f).parameters for f in cases):
            common = Broker(settings)
    except Skip as reason:
        print(f"skip: {reason}\n0 passed, 0 failed", flush=True)
        return 0
    for case in cases:
        began = time.monotonic()
        try:
            case(common) if inspect.signature(case).parameters else case()
            passed += 1
            result = "ok  "
        except Skip as reason:
            result = f"skip ({reason})"
        except Exception:
            traceback.print_exc()
            failed += 1
            result = "FAIL"
        print(f"{result} {case.__name__} {time.monotonic() - began:.1f} s", flush=True)
    try:
        if common:
            common.stop()
    except BrokerFailed as reason:
        print(f"FAIL the broker: {reason}", flush=True)
        failed += 1
    print(f"{passed} passed, {failed} failed", flush=True)
    return 1 if failed or (wanted and not cases) else 0


def main(command):
    """As a program: starts a broker, runs the command with PANNIER_URL set, stops it; for other languages."""
    with Broker() as broker:
        status = subprocess.run(command, env={**os.environ, "PANNIER_URL": broker.url}).returncode
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
