#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# limit: 240 s
"""Celery workers from Debian: tasks with results over rpc://, retries, remote control, a killed worker, ETA."""
import atexit
import os
import signal
import socket
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
import broker as lib  # noqa: E402

LIMIT_S = 60
TASKS = 1000
ETA_TASKS = 10
ETA_S = 30


class Reports:
    """Receives what the tasks report, in order."""

    def __init__(self):
        path = os.path.join(lib.test_dir(), "reports")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(path)
        self.socket.settimeout(LIMIT_S)
        os.environ["REPORT_SOCKET"] = path

    def next(self):
        return self.socket.recv(1000).decode()

    def pending(self):
        """What has come by now and was not taken."""
        self.socket.setblocking(False)
        found = []
        try:
            while True:
                found.append(self.next())
        except BlockingIOError:
            self.socket.settimeout(LIMIT_S)
            return found


class Worker:
    """A worker process with its children in a session of its own; ready when the constructor returns."""

    def __init__(self, name, concurrency, queue="celery-tests", application="celery_app"):
        self.name = f"{name}@test"
        self.log = os.path.join(lib.test_dir(), f"worker-{name}.log")
        command = ["/usr/bin/python3", "-B", "-m", "celery", "-A", application, "worker", "-n", self.name,
                   "-c", str(concurrency), "-l", "INFO", "-Q", queue, "--without-mingle"]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, cwd=HERE, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, start_new_session=True)
        atexit.register(self.kill)
        lib.await_true(f"{self.name} is ready", self.is_ready, LIMIT_S, 0.05)

    def is_ready(self):
        assert self.process.poll() is None, "the worker ended at its start"
        return " ready." in self.text()

    def text(self):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return log.read()

    def kill(self):
        """The worker and its children, without a chance to say anything."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def stop(self):
        """A warm shutdown: what it holds and has not begun goes back to the queue. It comes when nothing
        runs: a worker told to end between a task's result and its own note of it waits 30 s for that."""
        inspect = tasks().app.control.inspect([self.name], timeout=5, limit=1)
        lib.await_true("nothing runs", lambda: inspect.active() == {self.name: []}, LIMIT_S, 0.02)
        self.process.terminate()
        status = self.process.wait(LIMIT_S)
        assert status == 0, f"{self.name} ended with status {status}"


def expected(results):
    """Has results noted as they come, whichever is awaited: get() would first wait a second for another
    one when its own lies in the backend's buffer."""
    for result in results:
        result.then(lambda _: None)
    return results


def value(result):
    return expected([result])[0].get(timeout=LIMIT_S)


def tasks():
    import celery_app
    return celery_app


def case_a_thousand_tasks(broker):
    worker = Worker("many", 4)
    results = expected([tasks().add.delay(number, number) for number in range(TASKS)])
    got = [value(result) for result in results]
    assert got == [2 * number for number in range(TASKS)]
    worker.stop()


def case_errors_and_retries(broker):
    worker = Worker("retries", 2)
    lucky = expected([tasks().third_time_lucky.delay() for _ in range(5)])
    assert [value(result) for result in lucky] == [3] * 5
    try:
        value(tasks().fail.delay("as told"))
    except ValueError as error:
        assert str(error) == "as told"
    else:
        raise AssertionError("the task did not fail")
    worker.stop()


def case_chains_and_groups(broker):
    from celery import chain, group
    worker = Worker("canvas", 2)
    app = tasks()
    assert chain(app.add.s(1, 2), app.add.s(3), app.add.s(4))().get(timeout=LIMIT_S) == 10
    many = expected(list(group(app.add.s(n, n) for n in range(20))()))
    assert [value(result) for result in many] == [2 * n for n in range(20)]
    worker.stop()


def case_remote_control(broker):
    first, second = Worker("control1", 1), Worker("control2", 1)
    names = {first.name, second.name}

    def both_answer():
        answers = tasks().app.control.inspect(timeout=2).ping() or {}
        return names == set(answers) and all(answer == {"ok": "pong"} for answer in answers.values())

    lib.await_true("both workers answer inspect ping", both_answer, LIMIT_S, 0.1)
    queues = tasks().app.control.inspect([first.name], timeout=20, limit=1).active_queues()
    (name, (queue,)), = queues.items()
    assert name in names and queue["name"] == "celery-tests", queues
    # The command line does the same.
    shell = subprocess.run(["/usr/bin/python3", "-B", "-m", "celery", "-A", "celery_app", "inspect", "ping",
                            "-d", first.name, "-t", "3"], cwd=HERE, capture_output=True, text=True,
                           timeout=LIMIT_S)
    assert shell.returncode == 0 and "pong" in shell.stdout, shell
    # The fanout exchange reaches all with one message; a rate limit is answered by each.
    answers = tasks().app.control.rate_limit("celery_app.add", "100/s", reply=True, timeout=20,
                                               limit=2)
    assert names == {name for answer in answers for name in answer}, answers
    first.stop()
    second.stop()


def case_killed_worker(broker):
    """With acks_late the task of a worker that was killed is run by another one."""
    first = Worker("doomed", 1)
    result = tasks().survive.delay()
    assert REPORTS.next() == f"{first.name} redelivered=False"
    first.kill()
    second = Worker("heir", 1)
    assert REPORTS.next() == f"{second.name} redelivered=True"
    assert result.get(timeout=LIMIT_S) == second.name
    second.stop()


def case_eta_tasks_do_not_stall(broker):
    """
    A worker with prefetch 4 holds ten tasks until their time; kombu raises the prefetch of its live
    consumer by one for each (global=false unless the product is RabbitMQ), so that an immediate task
    sent after them comes through and runs first.
    """
    worker = Worker("eta", 4)
    later = [tasks().note.apply_async([f"later {n}"], countdown=ETA_S) for n in range(ETA_TASKS)]
    now = tasks().note.delay("now")
    assert REPORTS.next() == "now", "a task with an ETA ran first: the immediate one was stuck"
    assert value(now) == "now"
    # All of them are with the worker: its prefetch has grown beyond their number.
    def all_scheduled():
        held = tasks().app.control.inspect([worker.name], timeout=2).scheduled() or {}
        return len(held.get(worker.name, ())) == ETA_TASKS

    lib.await_true("the worker holds the ten", all_scheduled, ETA_S - 5, 0.1)
    assert tasks().note.delay("now too").get(timeout=LIMIT_S) == "now too"
    assert REPORTS.pending() == ["now too"]
    # A worker that ends in peace gives back what it held.
    worker.stop()
    purged = 0
    while purged < ETA_TASKS:
        purged += lib.await_true("the tasks are back", tasks().app.control.purge, LIMIT_S, 0.1)
    assert purged == len(later) == ETA_TASKS, purged


def main():
    global REPORTS
    lib.exit_on_sigterm()
    common = lib.Broker()
    os.environ["PANNIER_URL"] = common.url
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    REPORTS = Reports()
    return lib.run_cases(globals(), common=common)


if __name__ == "__main__":
    sys.exit(main())
