#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# limit: 90 s
"""
Celery from Debian over TLS: tasks with results, and a worker and publishers at work while the broker is
killed. Both connect again by themselves; what a publisher sent when the connection was lost it sends again.
"""
import os
import socket
import sys
import threading

import matrix
from celery_tasks import Reports, Worker, expected, value
from ledger import AFTER, Ledger, own_broker
from matrix import lib

LIMIT_S = 20
LOAD = 100
RETRY = {"max_retries": None, "interval_start": 0.1, "interval_step": 0, "interval_max": 0.1}


def tasks():
    import celery_recovery_app
    return celery_recovery_app


def add():
    return tasks().app.tasks["celery_app.add"]


@own_broker
def case_tasks_with_tls(broker):
    worker = Worker("secure", 2, application="celery_recovery_app")
    assert f"amqp://guest:**@127.0.0.1:{broker.tls_port}//" in worker.text()
    results = expected([add().delay(number, number) for number in range(200)])
    assert [value(result) for result in results] == [2 * number for number in range(200)]
    assert value(add().delay("x" * 500000, "y")) == "x" * 500000 + "y"
    worker.stop()


@own_broker
def case_a_stranger_is_not_trusted(broker):
    from celery import Celery
    stranger = Celery("stranger", broker=broker.tls_url)
    stranger.conf.broker_use_ssl = {**tasks().app.conf.broker_use_ssl, "ca_certs": None}
    try:
        stranger.connection().transport.establish_connection()
    except OSError as error:
        assert "CERTIFICATE_VERIFY_FAILED" in str(error), error
    else:
        raise AssertionError("a certificate of nobody was accepted")


class Publisher(threading.Thread):
    """Sends tasks until it is stopped; each call returns when its message is confirmed."""

    def __init__(self, ledger):
        super().__init__(daemon=True)
        self.ledger, self.stopping, self.failed = ledger, False, 0
        self.start()

    def run(self):
        while not self.stopping:
            stage, number = self.ledger.stage, self.ledger.new()
            tasks().count.apply_async([number], retry_policy={
                **RETRY, "errback": lambda *_, again=number: self.on_error(again)})
            self.ledger.confirm(stage, number)

    def on_error(self, number):
        self.failed += 1
        self.ledger.excuse(number)

    def stop(self):
        self.stopping = True
        self.join(LIMIT_S)
        assert not self.is_alive() and self.failed >= 1, self.failed


class Reader(threading.Thread):
    """Gives what the tasks report to the ledger."""

    def __init__(self, ledger):
        super().__init__(daemon=True)
        self.ledger = ledger
        self.start()

    def run(self):
        try:
            while True:
                self.ledger.take(*map(int, REPORTS.next().split()))
        except socket.timeout:
            pass


@own_broker
def case_recovery_from_a_killed_broker(broker):
    worker = Worker("recovering", 2, application="celery_recovery_app")
    ledger = Ledger(broker)
    Reader(ledger)
    publishers = [Publisher(ledger) for _ in range(2)]
    ledger.wait(lambda: len(ledger.came) >= LOAD)
    ledger.kill_and_restart()
    ledger.await_confirms(AFTER, LOAD)
    for publisher in publishers:
        publisher.stop()
    ledger.await_and_check()
    worker.kill()  # at its end in peace it waits 30 s for a task that the loss of the broker cut off


def main():
    global REPORTS
    lib.exit_on_sigterm()
    common = matrix.tls_broker()
    if not common.external:
        common.tls_url = f"amqp://guest:guest@127.0.0.1:{common.tls_port}//"
        os.environ.update(PANNIER_URL=common.tls_url, CELERY_CA=common.ca, PYTHONDONTWRITEBYTECODE="1")
    REPORTS = Reports()
    return lib.run_cases(globals(), common=common)


if __name__ == "__main__":
    sys.exit(main())
