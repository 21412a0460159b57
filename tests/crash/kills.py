# SPDX-License-Identifier: Apache-2.0
"""The parts of the crash campaigns in which the broker is killed (-9): under load, and behind tx.commit."""
import os
import random
import re
import time

from victim import QUEUES, Crew, Fault, Victim, lib

SHORTEST_S = 0.05
WHILE_STARTING = 0.2  # the share of kills that are followed by another one while the broker starts
SETTLE_S = 0.3        # of load after the last kill


def kill_times(options):
    """Endless: seconds from one kill to the next, mostly short."""
    chance = random.Random(options.seed)
    while True:
        yield SHORTEST_S * (options.longest / SHORTEST_S) ** (chance.random() ** 2)


def watch(crew, victim, seconds):
    """Lets all go on for so long; nobody may end meanwhile."""
    time.sleep(seconds)
    crew.must_live()
    victim.must_live()


def kill_and_restart(crew, victim, chance):
    """One kill; returns how many there were, with those that hit the start."""
    victim.kill()
    kills = 1
    typical_s = sorted(victim.restarts)[len(victim.restarts) // 2] / 1000
    while chance.random() < WHILE_STARTING:
        victim.kill_while_starting(chance.random() * typical_s * 1.2)
        kills += 1
    victim.start()
    crew.must_live()
    return kills


def stop_and_look(crew, victim, proofs, name):
    """A clean stop keeps every acknowledgement; another one ends the part (Victim.__exit__)."""
    victim.stop()
    victim.start()
    crew.run("empty")
    proofs.add(f"{name}: nothing comes back after a clean stop", True)


class load:
    """Publishers with confirms, consumers that settle in all ways, definitions that change."""

    NAME, SEED, MORE = "load", 1, []

    @classmethod
    def limit_s(cls, options):
        return 180 + int(cls.kill_count(options) * (options.longest + 6))

    @staticmethod
    def kill_count(options):
        return options.kills

    @classmethod
    def run(cls, options, proofs):
        chance, times = random.Random(options.seed + cls.SEED), kill_times(options)
        began, kills, starting = time.monotonic(), 0, 0
        victim = Victim(options.settings)
        with victim, Crew(options, victim) as crew:
            crew.common += cls.MORE
            crew.start_load(rate=options.rate)
            crew.add("definer")
            while kills < cls.kill_count(options):
                watch(crew, victim, next(times))
                done = kill_and_restart(crew, victim, chance)
                kills, starting = kills + done, starting + done - 1
            watch(crew, victim, SETTLE_S)
            crew.end_load()
            proofs.add(f"{cls.NAME}: every end of the broker was ours", victim.kills == kills,
                       f"{kills} kills, {starting} of them while it started, in "
                       f"{time.monotonic() - began:.0f} s; {victim.times()}")
            proofs.add(f"{cls.NAME}: definitions that were answered stand", True)
            proofs.add_check(crew, cls.NAME)
            stop_and_look(crew, victim, proofs, cls.NAME)


class priorities(load):
    """The same with queues of ten priorities, which messages have in turn: each comes in its order."""

    NAME, SEED, MORE = "priorities", 4, ["--levels", "10"]

    @staticmethod
    def kill_count(options):
        return options.deaths


class deaths:
    """Dead letters: one queue whose consumer rejects, a bounded one that nobody reads, and the one of the dead."""

    NAME, TTL_S = "deaths", 0
    RATE = 4000  # of each publisher; more would die than the slow consumer of the dead can see in the end
    DEAD_RATE = 1500

    @staticmethod
    def limit_s(options):
        return 180 + int(options.deaths * (options.longest + 6))

    @classmethod
    def run(cls, options, proofs):
        chance, times = random.Random(options.seed + 2), kill_times(options)
        victim = Victim(options.settings)
        with victim, Crew(options, victim) as crew:
            crew.common += ["--life", victim.life_file, "--ttl", str(int(1000 * cls.TTL_S))]
            crew.run("declare-deaths")
            crew.add("consumer", 0)
            crew.add("consumer", 2, rate=cls.DEAD_RATE)
            for number in range(2):
                crew.add("publisher", number, rate=min(options.rate, cls.RATE))
            kills = 0
            while kills < options.deaths:
                watch(crew, victim, next(times))
                kills += kill_and_restart(crew, victim, chance)
            watch(crew, victim, SETTLE_S)
            cls.drain(crew)
            proofs.add(f"{cls.NAME}: every end of the broker was ours", victim.kills == kills,
                       f"{kills} kills; {victim.times()}")
            cls.add_check(crew, proofs)
            stop_and_look(crew, victim, proofs, cls.NAME)

    @classmethod
    def drain(cls, crew):
        """The publishers await their confirms; then the queues in which messages die are emptied, then that of the dead."""
        work, dead = crew.of("consumer")
        crew.end(crew.of("publisher"))
        crew.end([work])
        if cls.TTL_S:
            time.sleep(cls.TTL_S + cls.GRACE_S)
        bounded = crew.add("consumer", 1)
        lib.await_true("it has begun", lambda: os.path.exists(os.path.join(crew.dir, "consumer-1")))
        crew.end([bounded])
        crew.end([dead])

    @classmethod
    def add_check(cls, crew, proofs):
        counts, complaints = crew.check_as("check-deaths")
        print(complaints, end="")
        proofs.add(f"{cls.NAME}: confirmed messages are in their queue or a dead letter",
                   counts["lost"] == 0 and counts["owed"] > 0,
                   f"sent {counts['sent']}, confirmed {counts['confirmed']}, lost {counts['lost']} of {counts['owed']}")
        proofs.add(f"{cls.NAME}: none is in both places, and none dies twice",
                   counts["both"] + counts["again"] + counts["as-new"] + counts["unasked"] == 0,
                   f"rejected {counts['rejected']}, their letters {counts['rejected-letters']}, of dropped ones "
                   f"{counts['dropped-letters']}; came again {counts['repeated']}, of that after a death that was undone "
                   f"{counts['undone']}; both {counts['both']}, again {counts['again']}, as new {counts['as-new']}, "
                   f"unasked {counts['unasked']}")
        proofs.add(f"{cls.NAME}: dead letters come in order, whole and in time",
                   counts["disordered"] + counts["strange"] + counts["late"] == 0,
                   f"out of order {counts['disordered']}, strange {counts['strange']}, late {counts['late']}")


class expiries(deaths):
    """The same with a queue whose messages expire, thousands of them on the disk, in place of the bounded one."""

    NAME, TTL_S = "expiries", 1.5
    GRACE_S = 2  # after which all is over


class duplicates:
    """Publishers that send again what was on its way at a kill, and what was confirmed before; each comes once."""

    RATE = 3000  # of each publisher: a queue that nobody consumes grows
    WAYS = ("exchange", "cache", "queued")

    @classmethod
    def limit_s(cls, options):
        return 180 + len(cls.WAYS) * int(options.duplicates * (options.longest + 6))

    @classmethod
    def run(cls, options, proofs):
        for number, way in enumerate(cls.WAYS):
            cls.run_one(options, proofs, way, random.Random(options.seed + 10 + number))

    @classmethod
    def run_one(cls, options, proofs, way, chance):
        times, name = kill_times(options), f"duplicates, {way}"
        victim = Victim(options.settings)
        with victim, Crew(options, victim, f"ledgers-{way}") as crew:
            crew.common += ["--deduplicate", way]
            crew.run("declare")
            # who consumes what a queue knows makes room for it to come again
            consumers = [] if way == "queued" else [crew.add("consumer", queue) for queue in range(QUEUES)]
            publishers = [crew.add("publisher", number, rate=min(options.rate, cls.RATE)) for number in range(2)]
            kills = 0
            while kills < options.duplicates:
                watch(crew, victim, next(times))
                kills += kill_and_restart(crew, victim, chance)
            watch(crew, victim, SETTLE_S)
            crew.end(publishers)
            if not consumers:
                consumers = [crew.add("consumer", queue) for queue in range(QUEUES)]
                cls.await_ledgers(crew)
            crew.end(consumers)
            proofs.add(f"{name}: every end of the broker was ours", victim.kills == kills,
                       f"{kills} kills; {victim.times()}")
            counts = proofs.add_check(crew, name)
            proofs.add(f"{name}: much was sent again", counts["confirmed"] > counts["sent"],
                       f"{counts['confirmed'] - counts['sent']} confirms of what had one")
            stop_and_look(crew, victim, proofs, name)

    @staticmethod
    def await_ledgers(crew):
        for queue in range(QUEUES):
            lib.await_true("it has begun",
                           lambda q=queue: os.path.exists(os.path.join(crew.dir, f"consumer-{q}")))


class delays:
    """Messages that are held back, thousands of them on the disk: each comes, at its time, once unless a kill undid it."""

    DELAY_S, GRACE_S = 1.5, 2

    @staticmethod
    def limit_s(options):
        return 180 + int(options.deaths * (options.longest + 6))

    @classmethod
    def run(cls, options, proofs):
        chance, times = random.Random(options.seed + 3), kill_times(options)
        victim = Victim(options.settings)
        with victim, Crew(options, victim) as crew:
            crew.common += ["--delay", str(int(1000 * cls.DELAY_S))]
            crew.start_load(rate=options.rate)
            kills = 0
            while kills < options.deaths:
                watch(crew, victim, next(times))
                kills += kill_and_restart(crew, victim, chance)
            watch(crew, victim, SETTLE_S)
            crew.end(crew.of("publisher"))
            time.sleep(cls.DELAY_S + cls.GRACE_S)
            crew.end(crew.of("consumer"))
            proofs.add("delays: every end of the broker was ours", victim.kills == kills,
                       f"{kills} kills; {victim.times()}")
            proofs.add_check(crew, "delays")
            stop_and_look(crew, victim, proofs, "delays")


class transactions:
    """All or nothing: three queues and an acknowledgement, beside a load that shares the batches."""

    @staticmethod
    def limit_s(options):
        return 180 + options.tx * 16

    @staticmethod
    def run(options, proofs):
        victim = Victim(options.settings)
        with victim, Crew(options, victim) as crew:
            crew.start_load(publishers=1, rate=500, window=100)
            transactor = crew.add("transactor", count=options.tx, pid_file=victim.pid_file)
            text = transactions.restart_until_done(crew, victim, transactor)
            counts = {name: int(n) for name, n in re.findall(r"^([a-z-]+) (\d+)$", text, re.M)}
            if "commit-us" not in counts:
                raise Fault(f"the transactor has ended early:\n{text}")
            watch(crew, victim, SETTLE_S)
            crew.end_load()
            proofs.add("tx: all or nothing over three queues", counts["cut"] >= options.tx,
                       f"{counts['kills']} kills, {counts['cut']} between commit and answer, "
                       f"{counts['cut-and-done']} of these done; {counts['commits']} answered, "
                       f"about {counts['commit-us']} us each; {victim.times()}")
            proofs.add_check(crew, "tx")
            stop_and_look(crew, victim, proofs, "tx")

    @staticmethod
    def restart_until_done(crew, victim, transactor):
        """The transactor kills the broker; here it is started again."""
        while transactor.process.poll() is None:
            status = victim.process.poll()
            if status is None:
                time.sleep(0.002)
                continue
            if status != -9:
                raise Fault(f"the broker ended by itself, status {status}")
            victim.kill()
            victim.start()
        text = transactor.end()
        crew.roles.remove(transactor)
        return text
