# SPDX-License-Identifier: Apache-2.0
"""
What is known of the messages of a load while the broker is killed (-9) and started again.

A message is a number of its own, published once: what was not confirmed is lost or not, nobody knows. Those
who publish take numbers from new() and report confirms, those who consume report what comes; both may be
threads. A confirm belongs to the stage, BEFORE or AFTER the kill, that stage gave before the connection was
made on which it came. In the end

    - what was confirmed after the restart has come, and nothing has come that was not published;
    - what came more than once was marked as redelivered but one time, unless it was excused: a library that
      connects again may publish again;
    - when a durable queue outlives the kill, all persistent messages that were confirmed before have come.

The queue of the load is durable, its messages are persistent.
"""
import threading
import time

import matrix
import pika

BEFORE, AFTER = "before", "after"
WITNESS = "ledger.witness"
LIMIT_S = 20
RETRY_S = 0.1
LOAD = 300


class Ledger:
    def __init__(self, broker):
        self.broker, self.changed = broker, threading.Condition()
        self.stage, self.published, self.survives = BEFORE, 0, False
        self.confirmed, self.came, self.excused = {BEFORE: set(), AFTER: set()}, {}, set()

    def new(self):
        with self.changed:
            self.published += 1
            return self.published

    def confirm(self, stage, *numbers):
        with self.changed:
            self.confirmed[stage].update(numbers)
            self.changed.notify_all()

    def take(self, body, redelivered):
        with self.changed:
            self.came.setdefault(int(body), []).append(bool(redelivered))
            self.changed.notify_all()

    def excuse(self, number):
        """The library may have published this one twice."""
        self.excused.add(number)

    def await_confirms(self, stage, count):
        self.wait(lambda: len(self.confirmed[stage]) >= count)

    def wait(self, condition):
        with self.changed:
            assert self.changed.wait_for(condition, LIMIT_S), self.state()

    def state(self):
        confirmed = {stage: len(numbers) for stage, numbers in self.confirmed.items()}
        return f"published {self.published}, confirmed {confirmed}, came {len(self.came)}"

    def kill_and_restart(self):
        """Kills the broker and starts it again; looks whether what is durable has survived."""
        with self._witness() as connection:
            connection.channel().queue_declare(WITNESS, durable=True)
        self.broker.kill()
        self.stage = AFTER
        self.broker.start()
        with self._witness() as connection:
            try:
                connection.channel().queue_declare(WITNESS, passive=True)
                self.survives = True
            except pika.exceptions.ChannelClosedByBroker as error:
                assert error.reply_code == 404, error

    def _witness(self):
        return pika.BlockingConnection(pika.ConnectionParameters(self.broker.host, self.broker.port))

    def await_and_check(self):
        """When nobody publishes any more: all that must come does, and nothing came wrongly."""
        owed = self.confirmed[AFTER] | (self.confirmed[BEFORE] if self.survives else set())
        self.wait(lambda: owed <= self.came.keys())
        with self.changed:
            assert all(0 < number <= self.published for number in self.came), self.state()
            twice = {number: marks for number, marks in self.came.items()
                     if marks.count(False) > 1 and number not in self.excused}
            assert not twice, twice


class Side(threading.Thread):
    """One end of a load with its thread: session() makes its connection, which is made again whenever it is lost,
    counts it and works until it is."""

    lost = (OSError,)  # what session() raises then

    def __init__(self, ledger, queue, where):
        super().__init__(daemon=True)
        self.ledger, self.queue, self.where = ledger, queue, where
        self.stopping, self.connections, self.failed = False, 0, 0
        self.start()

    def run(self):
        while not self.stopping:
            try:
                self.session(self.ledger.stage)
            except self.lost:
                self.failed += 1
                time.sleep(RETRY_S)

    def stop(self):
        self.stopping = True
        self.join(matrix.lib.STOP_LIMIT_S)
        assert not self.is_alive()
        assert self.connections == 2 and self.failed >= 1, (self.connections, self.failed)

    def session(self, stage):
        raise NotImplementedError


def kill_under_load(broker, queue, publisher, consumer, where):
    """Three publishers and a consumer, which are kinds of Side, when the broker is killed between them."""
    ledger = Ledger(broker)
    publishers = [publisher(ledger, queue, where) for _ in range(3)]
    taker = consumer(ledger, queue, where)
    ledger.await_confirms(BEFORE, LOAD)
    ledger.kill_and_restart()
    ledger.await_confirms(AFTER, LOAD)
    for side in publishers:
        side.stop()
    ledger.await_and_check()
    taker.stop()


def own_broker(case):
    """A case that kills its broker, which a running server is spared."""
    def run(broker):
        if broker.external:
            matrix.lib.skip("the server is a running one")
        case(broker)
    run.__name__ = case.__name__
    return run
