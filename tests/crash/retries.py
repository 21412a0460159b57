# SPDX-License-Identifier: Apache-2.0
"""
The part of the crash campaigns in which messages are tried again: a consumer fails at random to do what comes from a
queue with x-retry-max, so messages wait, come back, and at last are dead letters, while the broker is killed. All that
the clients see is noted in one list, in order. In the end everything is acknowledged or dead.

What a kill may undo is what was not synced: a failure, an acknowledgement, a letter with the failure that led to it, or
that the message went on when it had waited. Then it is as it was before, and comes again: after a wait as new, otherwise
with the mark "redelivered". It waits longer than a sync takes, so never is more than one step undone.
"""
import contextlib
import random
import threading
import time

import pika
from kills import SETTLE_S, kill_and_restart, kill_times, watch
from victim import Fault, Victim, lib

QUEUE, DEAD = "crash.retries", "crash.retries.dead"
MAX, INITIAL_MS, MULTIPLIER = 3, 300, 2
EARLY_S = 0.02
SHOWN = 5
PREFETCH = 50
PAUSE_S = 0.002  # of the publisher
FAILS = 0.6      # the share of deliveries that fail
DRAIN_S = 60


class Notes:
    """What was seen of each message, and what is wrong with it."""

    def __init__(self):
        self.lock = threading.Lock()
        self.confirmed, self.last, self.letters, self.faults = set(), {}, {}, []
        self.seen = {"failed": 0, "done": 0, "letters": 0, "undone": 0, "again": 0}
        self.changed = time.monotonic()

    def fault(self, text):
        self.faults.append(text)

    def judge(self, number, before, life, count, redelivered):
        """A delivery from the queue, by what came of the one before."""
        if before is None:
            if count:
                self.fault(f"{number} came first with {count} failures")
            return
        was, fate, was_life, at = before
        if life == was_life and (fate != "failed" or count != was + 1):
            self.fault(f"{number} had {was} failures and was {fate}, and came with {count} in the same life")
        if life != was_life and not max(0, was - 1) <= count <= was + (fate == "failed"):
            self.fault(f"{number} had {was} failures and was {fate}, and came with {count} after a kill")
        if count <= was:
            self.seen["undone"] += fate == "failed"
            self.seen["again"] += fate == "done"
            if not redelivered and (count < was or count == 0):
                self.fault(f"{number} came again with {count} failures without the mark")
        elif time.monotonic() - at < INITIAL_MS / 1000 * MULTIPLIER ** was - EARLY_S:
            self.fault(f"{number} failed the {count}. time and waited {time.monotonic() - at:.3f} s only")

    def deliver(self, number, life, count, redelivered, fails):
        with self.lock:
            self.judge(number, self.last.get(number), life, count, redelivered)
            fate = "failed" if fails else "done"
            self.last[number] = (count, fate, life, time.monotonic())
            self.seen[fate] += 1
            self.changed = time.monotonic()

    def letter(self, number, life, count, redelivered):
        with self.lock:
            last, before = self.last.get(number), self.letters.get(number)
            if last is None or last[:2] != (MAX, "failed"):
                self.fault(f"{number} is dead, the last that was seen of it is {last}")
            elif count != MAX + 1:
                self.fault(f"{number} is dead with {count} failures")
            elif before and before[0] == last and (not redelivered or before[1] == life):
                self.fault(f"{number} is dead twice")
            self.letters[number] = (last, life)
            self.seen["letters"] += 1
            self.changed = time.monotonic()

    def lost(self):
        """Neither done nor dead since it was seen last."""
        return sorted(n for n in self.confirmed if n not in self.last or (
            self.last[n][1] == "failed" and self.letters.get(n, (None,))[0] != self.last[n]))


class Client(threading.Thread):
    """Connects again whenever the broker has gone."""

    def __init__(self, victim, notes):
        super().__init__(daemon=True)
        self.victim, self.notes, self.life = victim, notes, 0
        self.stopping, self.error = False, None
        self.start()

    def run(self):
        try:
            while not self.stopping:
                with contextlib.suppress(pika.exceptions.AMQPError, OSError):
                    self.visit()
                time.sleep(0.01)
        except Exception as error:  # whatever it is, the part says so
            self.error = error

    def visit(self):
        self.life = self.victim.life
        connection = pika.BlockingConnection(pika.ConnectionParameters(
            self.victim.host, self.victim.port, heartbeat=0, socket_timeout=5, stack_timeout=5))
        if self.life == self.victim.life:
            self.work(connection.channel())
        connection.close()

    def work(self, channel):
        raise NotImplementedError

    def end(self):
        self.stopping = True
        self.join(30)
        if self.is_alive() or self.error is not None:
            raise Fault(f"{type(self).__name__} has not ended well: {self.error!r}")


class Publisher(Client):
    """One message after the other, each confirmed before the next; one whose confirm did not come is not sent again."""
    next = 0

    def work(self, channel):
        channel.confirm_delivery()
        while not self.stopping:
            number, self.next = self.next, self.next + 1
            channel.basic_publish("", QUEUE, b"%d" % number, pika.BasicProperties(delivery_mode=2))
            self.notes.confirmed.add(number)
            time.sleep(PAUSE_S)


class Reader(Client):
    """Without consume(), which gives back what was prefetched by a nack."""

    def __init__(self, victim, notes, queue, seed):
        self.queue, self.chance, self.fails = queue, random.Random(seed), FAILS
        super().__init__(victim, notes)

    def work(self, channel):
        channel.basic_qos(prefetch_count=PREFETCH)
        channel.basic_consume(self.queue, self.on_delivery)
        while not self.stopping:
            channel.connection.process_data_events(0.1)

    def on_delivery(self, channel, method, properties, body):
        number, count = int(body), int((properties.headers or {}).get("x-failure-count", 0))
        if self.queue == DEAD:
            self.notes.letter(number, self.life, count, method.redelivered)
            channel.basic_ack(method.delivery_tag)
            return
        fails = self.chance.random() < self.fails
        self.notes.deliver(number, self.life, count, method.redelivered, fails)
        if fails:
            channel.basic_nack(method.delivery_tag, requeue=True)
        else:
            channel.basic_ack(method.delivery_tag)


class retries:
    """Messages that fail, wait and come back, until they are done or dead."""

    @staticmethod
    def limit_s(options):
        return 180 + int(options.deaths * (options.longest + 6))

    @staticmethod
    def run(options, proofs):
        chance, times = random.Random(options.seed + 3), kill_times(options)
        notes = Notes()
        victim = Victim(options.settings)
        with victim:
            retries.declare(victim)
            clients = [Reader(victim, notes, QUEUE, options.seed), Reader(victim, notes, DEAD, 0),
                       Publisher(victim, notes)]
            crew = _Crew(clients)
            kills = 0
            while kills < options.deaths:
                watch(crew, victim, next(times))
                kills += kill_and_restart(crew, victim, chance)
            watch(crew, victim, SETTLE_S)
            retries.drain(victim, clients, notes)
            retries.prove(proofs, victim, notes, kills)

    @staticmethod
    def declare(victim):
        connection = pika.BlockingConnection(pika.ConnectionParameters(victim.host, victim.port))
        channel = connection.channel()
        channel.queue_declare(DEAD, durable=True)
        channel.queue_declare(QUEUE, durable=True, arguments={
            "x-retry-max": MAX, "x-retry-initial": INITIAL_MS, "x-retry-multiplier": MULTIPLIER, "x-retry-jitter": 0,
            "x-dead-letter-exchange": "", "x-dead-letter-routing-key": DEAD})
        connection.close()

    @staticmethod
    def drain(victim, clients, notes):
        """Nothing fails any more, and nothing waits when nothing has come for longer than anything waits."""
        reader, _, publisher = clients
        publisher.end()
        reader.fails = 0
        idle_s = 2 + INITIAL_MS / 1000 * MULTIPLIER ** (MAX - 1)
        lib.await_true("all is done", lambda: time.monotonic() - notes.changed > idle_s, DRAIN_S + idle_s)
        victim.must_live()
        for client in clients[:2]:
            client.end()

    @staticmethod
    def prove(proofs, victim, notes, kills):
        lost = notes.lost()
        for text in notes.faults[:SHOWN]:
            print(f"FAULT: {text}")
        proofs.add("retries: every end of the broker was ours", victim.kills == kills, f"{kills} kills; {victim.times()}")
        proofs.add("retries: confirmed messages are done or dead", not lost and len(notes.confirmed) > 0,
                   f"confirmed {len(notes.confirmed)}, lost {len(lost)} {lost[:SHOWN]}")
        proofs.add("retries: each comes in one place, in time, with as many failures as it had", not notes.faults,
                   f"faults {len(notes.faults)}; " + ", ".join(f"{name} {n}" for name, n in notes.seen.items()))


class _Crew:
    """The clients as the campaigns want them."""

    def __init__(self, clients):
        self.clients = clients

    def must_live(self):
        for client in self.clients:
            if client.error is not None:
                raise Fault(f"{type(client).__name__} ended: {client.error!r}")
