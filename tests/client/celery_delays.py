#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# limit: 120 s
"""
Celery from Debian with what comes later: countdowns, retries, tasks that are rejected into a queue that waits, tasks
and queues that let messages expire. (Celery's own delays by the broker came with 5.5: delays.py has their queues.)
"""
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
import broker as lib  # noqa: E402
from celery_tasks import Reports, Worker, expected, value  # noqa: E402

LIMIT_S = 60
WORK = "delays.work"


def tasks():
    import celery_delays_app
    return celery_delays_app


def worker(name, queues=WORK, concurrency=2):
    return Worker(name, concurrency, queues, "celery_delays_app")


def depth(queue):
    """How many wait there; the queues are declared by whoever looks first."""
    with tasks().app.connection() as connection:
        bound = {q.name: q for q in tasks().app.conf.task_queues}[queue](connection.default_channel)
        return bound.queue_declare().message_count


def reports(count):
    return [REPORTS.next() for _ in range(count)]


def case_countdowns(broker):
    """None before its time. (The order is the worker's: what is due is handed to a pool.)"""
    process = worker("countdown", concurrency=1)
    began = time.monotonic()
    later = expected([tasks().tell.apply_async([f"after {s}"], countdown=s) for s in (4, 3, 2, 1)])
    now = tasks().tell.delay("now")
    came = {report: time.monotonic() - began for report in (REPORTS.next() for _ in range(5))}
    assert sorted(came) == ["after 1", "after 2", "after 3", "after 4", "now"]
    assert all(came[f"after {s}"] >= s for s in (1, 2, 3, 4)), came
    assert [value(result) for result in [*later, now]] == ["after 4", "after 3", "after 2", "after 1", "now"]
    process.stop()


def case_retries_with_countdown(broker):
    process = worker("retries")
    began = time.monotonic()
    for n in range(10):
        tasks().retried.delay(f"job {n}", 0.5)
    assert sorted(reports(30)) == sorted(f"job {n} {attempt}" for n in range(10) for attempt in range(3))
    assert time.monotonic() - began >= 1
    process.stop()
    assert depth(WORK) == 0


def case_rejected_tasks_come_back(broker):
    """By the queue that waits: no worker holds them meanwhile."""
    for queue in (WORK, "delays.wait"):
        depth(queue)
    process = worker("rejecting")
    began = time.monotonic()
    for n in range(20):
        tasks().rejecting.delay(f"job {n}", 3)
    assert sorted(reports(80)) == sorted(f"job {n} {count}" for n in range(20) for count in range(4))
    assert time.monotonic() - began >= 3 * tasks().WAIT_S
    process.stop()
    assert depth(WORK) == depth("delays.wait") == 0


def case_tasks_that_expire_in_the_queue(broker):
    """Sent while no worker is there: kombu makes milliseconds of the seconds."""
    depth(WORK)
    tasks().tell.apply_async(["too late"], queue="delays.short", expiration=0.2)
    tasks().tell.apply_async(["too late, too"], queue="delays.short")
    tasks().tell.apply_async(["in time"], expiration=60)
    assert depth("delays.short") == 2
    lib.await_true("both are dead", lambda: depth("delays.dead") == 2, LIMIT_S, 0.05)
    assert depth("delays.short") == 0
    process = worker("late", f"{WORK},delays.short")
    assert reports(1) == ["in time"]
    process.stop()
    assert REPORTS.pending() == []
    process = worker("dead", "delays.dead")
    assert sorted(reports(2)) == ["too late", "too late, too"]
    process.stop()


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
