# SPDX-License-Identifier: Apache-2.0
"""
The parts of the crash campaigns in which the disk is at fault: its power is cut, a sync fails, it is full, it
is slow. disk_faults.c is loaded into the broker, but when the disk is full: that part needs the right to mount
a file system, and is left out with a line where there is none.
"""
import errno
import mmap
import os
import random
import re
import signal
import struct
import subprocess
import time

import victim as common
from victim import Crew, Fault, Victim

AFTER_ERROR_S = 1.0  # the broker ends within this time
DELAYS_MS = (5, 50, 500)
SLOW_S = 4           # of load on a slow disk
FULL_MIB = 96
LEAST_FREE_MIB = 16  # at which the broker blocks publishers


class Faults:
    """The file that disk_faults.c reads, see struct disk_faults there."""

    def __init__(self, options):
        library = os.path.join(options.build, "tests", "crash", "disk_faults.so")
        if not os.path.exists(library):
            raise Fault(f"there is no {library}")
        path = os.path.join(common.lib.test_dir(), "disk_faults")
        with open(path, "wb") as file:
            file.write(bytes(4096))
        with open(path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), 4096)
        self.environment = {"LD_PRELOAD": library, "CRASH_DISK_FAULTS": path}

    def set(self, delay_ms=0, error=0):
        self.map[0:8] = struct.pack("II", delay_ms * 1000, error)

    def cut_after(self, calls, kept_percent):
        self.map[36:40] = struct.pack("I", kept_percent)
        self.map[32:36] = struct.pack("I", calls)

    def taken_back(self):
        return struct.unpack_from("Q", self.map, 40)[0]

    def syncs(self):
        return struct.unpack_from("Q", self.map, 8)[0]

    def failed_s(self):
        """When the first sync failed, by the monotonic clock; None: none has."""
        us = struct.unpack_from("Q", self.map, 24)[0]
        return us / 1e6 if us else None


def await_true(what, crew, victim, condition, limit_s=120):
    end = time.monotonic() + limit_s
    while not condition():
        crew.must_live()
        if victim:
            victim.must_live()
        if time.monotonic() > end:
            raise Fault(f"not within {limit_s} s: {what}")
        time.sleep(0.005)


def await_syncs(crew, victim, faults, count=20):
    """The load has reached the disk."""
    first = faults.syncs()
    await_true(f"{count} syncs", crew, victim, lambda: faults.syncs() >= first + count)


class power:
    """What was not synced is gone when the broker dies, or some of it, in the middle of a write or sync."""

    CALLS_MAX = 300  # writes and syncs from one cut to the next at most

    @staticmethod
    def limit_s(options):
        return 180 + options.cuts * 20

    @staticmethod
    def run(options, proofs):
        chance = random.Random(options.seed)
        faults = Faults(options)
        victim = Victim(options.settings, faults.environment)
        with victim, Crew(options, victim) as crew:
            crew.start_load(rate=options.rate)
            crew.add("definer")
            starting = 0
            for _ in range(options.cuts):
                starting += power.cut_once(crew, victim, faults, chance)
            await_syncs(crew, victim, faults)
            crew.end_load()
            proofs.add("power: the broker starts after each cut", True,
                       f"{options.cuts} cuts, {starting} of them while it started, "
                       f"{faults.taken_back()} octets taken back; {victim.times()}")
            proofs.add_check(crew, "power")
            proofs.add("power: something was taken back", faults.taken_back() > 0)

    @staticmethod
    def cut_once(crew, victim, faults, chance):
        """Cuts the power and starts the broker again; how often it was cut while it started."""
        # Squared: the first calls of a life are those of recovery.
        faults.cut_after(1 + int(power.CALLS_MAX * chance.random() ** 2),
                         chance.choice((0, 0, 50, 90)))
        await_true("the power cut", crew, None, lambda: victim.process.poll() is not None, 60)
        starting = 0
        while True:
            if victim.process.returncode != -signal.SIGKILL:
                raise Fault(f"the broker ended by itself, status {victim.process.returncode}")
            victim.forget_pid()
            if chance.random() < 0.2:
                faults.cut_after(chance.randrange(1, 8), chance.choice((0, 50)))
            try:
                victim.start()
                faults.cut_after(0, 0)
                if victim.process.poll() is None:
                    return starting
            except common.lib.BrokerFailed:
                pass
            starting += 1


class eio:
    """fdatasync fails with EIO under load, and what it should have kept is gone. Several times."""

    ROUNDS = 3

    @staticmethod
    def limit_s(_options):
        return 300

    @staticmethod
    def run(options, proofs):
        faults = Faults(options)
        victim = Victim(options.settings, faults.environment)
        ends, statuses = [], []
        with victim, Crew(options, victim) as crew:
            crew.start_load(rate=options.rate)
            crew.add("definer")
            for _ in range(eio.ROUNDS):
                await_syncs(crew, victim, faults)
                faults.set(error=errno.EIO)
                await_true("the end of the broker", crew, None,
                           lambda: victim.process.poll() is not None, 60)
                ends.append(time.monotonic() - faults.failed_s())
                statuses.append(victim.process.returncode)
                faults.set()
                faults.map[24:32] = faults.map[16:24] = bytes(8)
                victim.forget_pid()
                victim.start()
                crew.must_live()
            await_syncs(crew, victim, faults)
            crew.end_load()
            proofs.add("eio: the broker ends by itself, with a status", all(s > 0 for s in statuses),
                       f"statuses {statuses}")
            proofs.add("eio: at once", max(ends) < AFTER_ERROR_S,
                       "s ".join(f"{end:.3f}" for end in ends) + " s after the first failure")
            proofs.add("eio: the log says why", b"Input/output error" in victim.log())
            proofs.add_check(crew, "eio")


class slow:
    """Syncs that take long delay confirms and nothing else: no connection is lost, no time-out."""

    @staticmethod
    def limit_s(_options):
        return 300

    @staticmethod
    def run(options, proofs):
        for delay_ms in DELAYS_MS:
            slow.run_with(delay_ms, options, proofs)

    @staticmethod
    def run_with(delay_ms, options, proofs):
        name = f"slow, {delay_ms} ms"
        faults = Faults(options)
        victim = Victim(options.settings, faults.environment)
        with victim, Crew(options, victim) as crew:
            crew.dir = os.path.join(crew.dir, str(delay_ms))
            os.makedirs(crew.dir)
            crew.common[1] = crew.dir
            crew.start_load(rate=options.rate, window=2000)
            await_syncs(crew, victim, faults, 5)
            faults.set(delay_ms)
            end = time.monotonic() + SLOW_S
            await_true("the load goes on", crew, victim, lambda: time.monotonic() > end)
            await_syncs(crew, victim, faults, 3)
            texts = crew.end_load()
            lost = [text for text in texts if not re.search(r": 1 connections", text)]
            proofs.add(f"{name}: no connection is lost", not lost, "; ".join(lost))
            proofs.add_check(crew, name)
            faults.set()


class SmallDisk:
    """A file system in memory of a few MiB, for as long as the context lasts; usable tells whether it is."""

    def __init__(self):
        self.path = os.path.join(common.lib.test_dir(), "small")
        os.makedirs(self.path)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={FULL_MIB}m", "tmpfs", self.path],
                              capture_output=True, text=True, check=False)
        self.usable, self.reason = done.returncode == 0, done.stderr.strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.usable:
            subprocess.run(["umount", "-l", self.path], check=False)

    def fill(self):
        """Takes all that is free; delete() gives it back."""
        with open(os.path.join(self.path, "junk"), "wb", buffering=0) as junk:
            try:
                while junk.write(bytes(65536)) == 65536:
                    pass
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise

    def delete(self):
        os.unlink(os.path.join(self.path, "junk"))


class full:
    """Publishers without consumers fill the disk; then it empties; then others fill it under load."""

    @staticmethod
    def limit_s(_options):
        return 400

    @staticmethod
    def run(options, proofs):
        with SmallDisk() as disk:
            if not disk.usable:
                print(f"skip full: no file system can be mounted: {disk.reason}", flush=True)
                return
            settings = {"disk_free_limit.absolute": f"{LEAST_FREE_MIB}MB",
                        "store.file_size": "4194304", **options.settings}
            victim = Victim(settings, data=disk.path)
            with victim, Crew(options, victim) as crew:
                full.fill_and_drain(crew, victim, options, proofs)
                full.fill_by_others(crew, victim, disk, proofs)
                crew.end_load()
                proofs.add_check(crew, "full")

    @staticmethod
    def fill_and_drain(crew, victim, options, proofs):
        crew.run("declare")
        for number in range(2):
            crew.add("publisher", number, rate=options.rate, size=4000)
        full.await_word(crew, victim, "blocked", 1)
        proofs.add("full: publishers are told to stop", True)
        for queue in range(common.QUEUES):
            crew.add("consumer", queue)
        full.await_word(crew, victim, "unblocked", 1)
        proofs.add("full: consumers go on and make room", True)

    @staticmethod
    def fill_by_others(crew, victim, disk, proofs):
        """Whole or half a disk less from one moment to the next: even the broker's own next file has no room."""
        disk.fill()
        full.await_word(crew, victim, "blocked", 2)
        time.sleep(1)
        crew.must_live()
        victim.must_live()
        disk.delete()
        full.await_word(crew, victim, "unblocked", 2)
        proofs.add("full: it goes on by itself when there is room", True)

    @staticmethod
    def await_word(crew, victim, word, times):
        for role in crew.of("publisher"):
            await_true(f"{role.name} {word}, {times} times", crew, victim,
                       lambda role=role: len(re.findall(f"^{word}$", role.text(), re.M)) >= times)
