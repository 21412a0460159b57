# SPDX-License-Identifier: Apache-2.0
"""
What the parts of the crash campaigns share: the broker that is killed, the clients around it (processes of
the program "ledger", ledger.h), and the list of what was proved.
"""
import os
import re
import signal
import subprocess
import sys
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests", "lib"))
import broker as lib  # pylint: disable=wrong-import-position

QUEUES = 3
END_LIMIT_S = 120  # for a client to come to its end


class Fault(Exception):
    """Something that must never happen; the campaign ends."""


def replace(path, text):
    with open(path + ".new", "w", encoding="ascii") as file:
        file.write(text)
    os.rename(path + ".new", path)


class Victim(lib.Broker):
    """A broker whose end is always known to be ours. Its pid stands in pid_file while it accepts; which of its
    lives comes next or is, in life_file."""

    def __init__(self, settings=None, environment=None, data=None):
        """With data its directory is made there."""
        self.elsewhere = data
        self.kills, self.restarts = 0, []
        self.environment = environment or {}
        self.pid_file = os.path.join(lib.test_dir(), "pid")
        self.life_file, self.life = os.path.join(lib.test_dir(), "life"), 0
        os.environ.pop("PANNIER_URL", None)
        super().__init__(settings)
        if self.external:
            raise Fault("a broker that runs elsewhere is not killed")

    def start(self):
        if self.elsewhere:
            self.data = os.path.join(self.elsewhere, os.path.basename(self.data))
            os.makedirs(self.data, exist_ok=True)
        self.begin_life()
        began = time.monotonic()
        os.environ.update(self.environment)
        try:
            super().start()
        finally:
            for name in self.environment:
                del os.environ[name]
        self.restarts.append((time.monotonic() - began) * 1000)
        replace(self.pid_file, f"{self.process.pid}.")

    def begin_life(self):
        """While it is down: who reads the same number before and after connecting is in that life."""
        self.life += 1
        replace(self.life_file, str(self.life))

    def forget_pid(self):
        if os.path.exists(self.pid_file):
            os.unlink(self.pid_file)

    def must_live(self):
        status = self.process.poll()
        if status is not None:
            raise Fault(f"the broker ended by itself, status {status}")

    def kill(self):
        if self.process and self.process.poll() is None:
            self.kills += 1
        super().kill()
        self.forget_pid()

    def kill_while_starting(self, after_s):
        """Starts it and kills it so soon, whether it accepts or not."""
        self.begin_life()
        starter = _Starter(self)
        time.sleep(after_s)
        starter.end()

    def times(self):
        ordered = sorted(self.restarts[1:]) or self.restarts
        return f"start p50 {ordered[len(ordered) // 2]:.0f} ms, max {ordered[-1]:.0f} ms"


class _Starter:
    """A start that nobody waits for. A broker that refuses what a kill left behind ends by itself."""

    def __init__(self, victim):
        self.victim = victim
        settings = {"listeners.tcp.1": f"{victim.host}:{victim.port}", "log.console": "true",
                    **victim.settings}
        command = [lib.pannierd(), "-D", victim.data]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        with open(victim.log_path, "ab") as log:
            victim.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, **victim.environment})

    def end(self):
        self.victim.must_live()
        self.victim.kill()


class Role:
    """A client: one process of the program ledger."""

    def __init__(self, crew, name, number, options):
        self.name = f"{name}-{number}"
        self.log_path = os.path.join(lib.test_dir(), f"{self.name}.log")
        words = [word for key, value in options.items() for word in (f"--{key}", str(value))]
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen([crew.program, name, "--id", str(number), *crew.common,
                                             *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def text(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as log:
            return log.read()

    def must_live(self):
        if self.process.poll() is not None:
            raise Fault(f"{self.name} ended, status {self.process.returncode}:\n{self.text()}")

    def end(self, limit_s=END_LIMIT_S):
        """Waits for its end, which must be a good one; its last words."""
        try:
            status = self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Fault(f"{self.name} did not end within {limit_s} s:\n{self.text()}") from None
        if status != 0:
            raise Fault(f"{self.name}: status {status}:\n{self.text()}")
        return self.text()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Crew:
    """The clients of one campaign. Leaving the context ends all that still run."""

    def __init__(self, options, victim, folder="ledgers"):
        self.program = options.ledger
        self.dir = os.path.join(lib.test_dir(), folder)
        os.makedirs(self.dir, exist_ok=True)
        self.common = ["--dir", self.dir, "--port", str(victim.port)]
        self.seed, self.roles = options.seed, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for role in self.roles:
            role.kill()

    def add(self, name, number=0, **options):
        options.setdefault("seed", self.seed * 100 + len(self.roles) + 1)
        role = Role(self, name, number, {key.replace("_", "-"): v for key, v in options.items()})
        self.roles.append(role)
        return role

    def run(self, name, **options):
        role = self.add(name, **options)
        text = role.end()
        self.roles.remove(role)
        return text

    def of(self, name):
        return [role for role in self.roles if role.name.startswith(name + "-")]

    def must_live(self):
        for role in self.roles:
            role.must_live()

    def start_load(self, publishers=2, **options):
        self.run("declare")
        for queue in range(QUEUES):
            self.add("consumer", queue)
        for number in range(publishers):
            self.add("publisher", number, **options)

    def end(self, roles):
        """Stops these and awaits their ends. What each said last."""
        said = []
        for role in roles:
            role.stop()
        for role in roles:
            said.append(role.end().strip().split("\n")[-1])
            print("     " + said[-1], flush=True)
            self.roles.remove(role)
        return said

    def end_load(self):
        """The publishers await their last confirms, then the consumers empty the queues. What each said."""
        return [said for name in ("definer", "publisher", "consumer") for said in self.end(self.of(name))]

    def check(self):
        """Compares the ledgers. The counts by name, and what was complained of."""
        return self.check_as("check")

    def check_as(self, role):
        done = subprocess.run([self.program, role, *self.common], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=END_LIMIT_S, check=False)
        counts = {name: int(n) for name, n in re.findall(r"^([a-z-]+) (\d+)$", done.stdout, re.M)}
        if "strange" not in counts:
            raise Fault(f"the ledgers cannot be compared:\n{done.stdout}{done.stderr}")
        return counts, "".join(re.findall(r"^FAULT: .*\n", done.stdout, re.M))


class Proofs:
    """What was proved and what was not."""

    def __init__(self):
        self.passed = self.failed = 0

    def add(self, name, holds, detail=""):
        if holds:
            self.passed += 1
        else:
            self.failed += 1
        print(f"{'ok  ' if holds else 'FAIL'} {name}{': ' if detail else ''}{detail}", flush=True)
        return holds

    def add_check(self, crew, name):
        """The proofs that lie in the ledgers."""
        counts, complaints = crew.check()
        print(complaints, end="")
        share = 100 * counts["duplicates"] / max(counts["received"], 1)
        self.add(f"{name}: confirmed messages come", counts["lost"] == 0 and counts["owed"] > 0,
                 f"sent {counts['sent']}, confirmed {counts['confirmed']}, lost {counts['lost']} "
                 f"of {counts['owed']}")
        self.add(f"{name}: what comes again is marked", counts["as-new"] + counts["again"] == 0,
                 f"received {counts['received']}, duplicates {counts['duplicates']} ({share:.1f} %), "
                 f"as new {counts['as-new']}, unasked {counts['again']}")
        self.add(f"{name}: messages come in order and whole",
                 counts["disordered"] + counts["strange"] == 0,
                 f"out of order {counts['disordered']}, strange {counts['strange']}")
        return counts
