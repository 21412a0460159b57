#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# limit: 120 s
"""Celery from Debian with beat, chords, inspect in all its forms, revocation and events."""
import atexit
import os
import re
import signal
import socket
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
import broker as lib  # noqa: E402
from celery_tasks import Reports  # noqa: E402

LIMIT_S = 60
TICKS = 3
SECOND = "celery-second"
CELERY = ["/usr/bin/python3", "-B", "-m", "celery", "-A", "celery_beat_app"]


def tasks():
    import celery_beat_app
    return celery_beat_app


def value(result):
    return result.get(timeout=LIMIT_S, interval=0.02)


class Program:
    """A celery command that stays, in a session of its own; ready when the constructor returns."""

    def __init__(self, name, ready, *arguments):
        self.name, self.path = name, os.path.join(lib.test_dir(), f"{name}.log")
        with open(self.path, "wb") as log:
            self.process = subprocess.Popen([*CELERY, *arguments], cwd=HERE, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, start_new_session=True)
        atexit.register(self.kill)
        lib.await_true(f"{name} is ready", lambda: self.is_ready(ready), LIMIT_S, 0.05)

    def is_ready(self, ready):
        assert self.process.poll() is None, f"{self.name} ended at its start"
        return ready in self.log()

    def log(self):
        with open(self.path, encoding="utf-8", errors="replace") as log:
            return log.read()

    def kill(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def stop(self):
        self.process.terminate()
        status = self.process.wait(LIMIT_S)
        assert status == 0, f"{self.name} ended with status {status}"

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if self.process.poll() is None:
            self.stop() if kind is None else self.kill()


class Worker(Program):
    def __init__(self, name, concurrency, queues="celery-tests"):
        self.node = f"{name}@test"
        super().__init__(f"worker-{name}", " ready.", "worker", "-n", self.node, "-c", str(concurrency),
                         "-l", "INFO", "-Q", queues, "--without-mingle")

    def inspect(self):
        return tasks().app.control.inspect([self.node], timeout=20, limit=1)

    def stop(self):
        """When nothing runs: see celery_tasks.py."""
        lib.await_true("nothing runs", lambda: self.inspect().active() == {self.node: []}, LIMIT_S, 0.02)
        super().stop()


class Beat(Program):
    def __init__(self, name):
        super().__init__(name, "beat: Starting...", "beat", "-l", "INFO", "--pidfile=",
                         "-s", os.path.join(lib.test_dir(), f"{name}.schedule"))

    def sent(self, name):
        return len(re.findall(rf"Sending due task {name} ", self.log()))


class Holds:
    """The tasks that wait for us."""

    def __init__(self):
        path = os.path.join(lib.test_dir(), "holds")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.bind(path)
        self.socket.listen()
        self.socket.settimeout(LIMIT_S)
        os.environ["HOLD_SOCKET"] = path

    def next(self):
        """The line to a task that runs now; closing it lets the task go."""
        return self.socket.accept()[0]


def await_ticks(count):
    """Takes reports until each entry of the schedule has ticked as often; returns how often each has."""
    seen = dict.fromkeys(tasks().app.conf.beat_schedule, 0)
    while min(seen.values()) < count:
        word, name = REPORTS.next().split()
        assert word == "tick"
        seen[name] += 1
    return seen


def case_beat(broker):
    """Three entries, on two queues, one transient: what beat says it has sent is what the worker runs."""
    with Worker("ticks", 2, f"celery-tests,{SECOND}"):
        beat = Beat("beat")
        seen = await_ticks(TICKS)
        beat.stop()
        for name in seen:
            sent = beat.sent(name)
            while seen[name] < sent:
                seen[REPORTS.next().split()[1]] += 1
        assert not REPORTS.pending()
        assert seen == {name: beat.sent(name) for name in seen}


def case_chords(broker):
    """The end of a chord waits in the queue as a task with an ETA, and comes again until all is there."""
    from celery import chord, group
    from celery.exceptions import ChordError
    by_name = tasks().app.tasks
    add, total = by_name["celery_app.add"], tasks().total
    with Worker("chords", 2):
        parts = [add.s(n, n) for n in range(20)]
        first = chord(parts)(total.s())
        # A group that is followed by a task becomes a chord; one chord is the beginning of the next.
        second = (group(add.s(n, 0) for n in range(4)) | total.s() | add.s(100))()
        third = (group(add.s(n, 1) for n in range(3)) | total.s() | group(add.s(1), add.s(2)) | total.s())()
        bad = chord([add.s(1, 1), by_name["celery_app.fail"].s("as told")])(total.s())
        assert [value(result) for result in (first, second, third)] == [380, 106, 15]
        lib.await_true("the bad chord has failed", lambda: bad.state == "FAILURE", LIMIT_S, 0.05)
        assert isinstance(bad.result, ChordError) and "as told" in str(bad.result), bad.result


def only(worker, answer):
    """The answer of this worker, which must be the only one."""
    (name, found), = answer.items()
    assert name == worker.node, answer
    return found


def case_inspect(broker):
    """One task runs, another has been fetched, a third one waits for its time."""
    with Worker("inspected", 1, f"celery-tests,{SECOND}") as worker:
        running = tasks().hold.delay("running")
        line = HOLDS.next()
        later = tasks().hold.apply_async(["later"], countdown=300)
        fetched = tasks().hold.delay("fetched")

        active, = lib.await_true("one is active", lambda: only(worker, worker.inspect().active()), LIMIT_S)
        assert (active["id"], active["name"]) == (running.id, "celery_beat_app.hold")
        assert active["args"] == ["running"]
        assert active["delivery_info"]["routing_key"] == "celery-tests"
        assert active["delivery_info"]["redelivered"] is False
        reserved = lib.await_true("one is reserved", lambda: only(worker, worker.inspect().reserved()),
                                  LIMIT_S)
        assert fetched.id in [task["id"] for task in reserved], reserved
        scheduled = lib.await_true("one is scheduled", lambda: only(worker, worker.inspect().scheduled()),
                                   LIMIT_S)
        assert [task["request"]["id"] for task in scheduled] == [later.id]

        stats = only(worker, worker.inspect().stats())
        assert stats["total"] == {"celery_beat_app.hold": 1}, stats["total"]
        assert (stats["broker"]["transport"], stats["broker"]["port"]) == ("amqp", broker.port)
        assert stats["pool"]["max-concurrency"] == 1
        registered = only(worker, worker.inspect().registered())
        assert {"celery_beat_app.tick", "celery_beat_app.total", "celery_app.add"} <= set(registered)
        queues = only(worker, worker.inspect().active_queues())
        assert sorted(queue["name"] for queue in queues) == ["celery-second", "celery-tests"], queues
        assert all(queue["durable"] and queue["exchange"]["type"] == "direct" for queue in queues)

        # What has been revoked does not run when its turn comes.
        tasks().app.control.revoke([fetched.id, later.id], destination=[worker.node], reply=True, timeout=20,
                                   limit=1)
        assert set(only(worker, worker.inspect().revoked())) == {fetched.id, later.id}
        line.close()
        assert value(running) == "running"
        lib.await_true("the fetched one is revoked", lambda: fetched.state == "REVOKED", LIMIT_S)
    # A warm shutdown gives the scheduled one back; the next case must not find it.
    lib.await_true("the scheduled one is back", lambda: tasks().app.control.purge() == 1, LIMIT_S)


def case_consumers_come_and_go(broker):
    """A running worker is told to take from another queue, and to leave it."""
    with Worker("taught", 1) as worker:
        control = tasks().app.control
        control.add_consumer(SECOND, destination=[worker.node], reply=True, timeout=20, limit=1)
        add = tasks().app.tasks["celery_app.add"]
        assert value(add.apply_async([1, 2], queue=SECOND)) == 3
        control.cancel_consumer(SECOND, destination=[worker.node], reply=True, timeout=20, limit=1)
        queues = only(worker, worker.inspect().active_queues())
        assert [queue["name"] for queue in queues] == ["celery-tests"]
        left = add.apply_async([2, 3], queue=SECOND)
        assert value(add.delay(3, 4)) == 7
        assert left.state == "PENDING"
        control.add_consumer(SECOND, destination=[worker.node])
        assert value(left) == 5


COMMANDS = ((["status"], "1 node online"), (["inspect", "stats"], "prefetch_count"),
            (["inspect", "registered"], "celery_beat_app.tick"),
            (["inspect", "active_queues"], "celery-tests"))


def case_command_line(broker):
    with Worker("shell", 1) as worker:
        shells = [subprocess.Popen([*CELERY, *words, "-d", worker.node, "-t", "20"], cwd=HERE, text=True,
                                   stdout=subprocess.PIPE) for words, _ in COMMANDS]
        for shell, (words, expected) in zip(shells, COMMANDS):
            output = shell.communicate(timeout=LIMIT_S)[0]
            assert shell.returncode == 0 and expected in output, (words, output)


class Events(threading.Thread):
    """What Celery's monitors see: the events of tasks, from a topic exchange."""

    def __init__(self, wanted):
        super().__init__(daemon=True)
        self.wanted, self.seen, self.ready = wanted, [], threading.Event()

    def run(self):
        with tasks().app.connection() as first:
            receiver = tasks().app.events.Receiver(first, handlers={"*": self.take})
            with receiver.consumer_context(wakeup=False) as (connection, _, _):
                self.ready.set()
                while len(self.seen) < self.wanted:
                    connection.drain_events(timeout=LIMIT_S)

    def take(self, event):
        if event["type"].startswith("task-"):
            self.seen.append((event["uuid"], event["type"]))


def case_events(broker):
    with Worker("eventful", 2):
        kinds = ["task-sent", "task-received", "task-started", "task-succeeded"]
        events = Events(10 * len(kinds))
        events.start()
        assert events.ready.wait(LIMIT_S)
        results = [tasks().app.tasks["celery_app.add"].delay(n, n) for n in range(10)]
        assert [value(result) for result in results] == [2 * n for n in range(10)]
        events.join(LIMIT_S)
        assert not events.is_alive(), events.seen
        for result in results:
            seen = sorted(kind for uuid, kind in events.seen if uuid == result.id)
            assert seen == sorted(kinds), events.seen


def answers(worker):
    """Our own connections notice the end of the broker only when they are used."""
    try:
        return worker.inspect().ping()
    except tasks().app.connection().connection_errors:
        return False


def case_restart(broker):
    """Beat and worker find a broker again that was killed, and go on."""
    if broker.external:
        lib.skip("the server is a running one")
    with Worker("restarted", 2, f"celery-tests,{SECOND}") as worker:
        beat = Beat("beat-restarted")
        await_ticks(1)
        broker.kill()
        REPORTS.pending()
        broker.start()
        await_ticks(TICKS)
        beat.stop()
        lib.await_true("the worker answers", lambda: answers(worker), LIMIT_S)
        worker.kill()  # at its end in peace it waits 30 s for a task that the loss of the broker cut off


def main():
    global REPORTS, HOLDS
    lib.exit_on_sigterm()
    common = lib.Broker()
    os.environ["PANNIER_URL"] = common.url
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    os.environ["RESULT_DIR"] = os.path.join(lib.test_dir(), "results")
    os.makedirs(os.environ["RESULT_DIR"])
    REPORTS, HOLDS = Reports(), Holds()
    return lib.run_cases(globals(), common=common)


if __name__ == "__main__":
    sys.exit(main())
