# SPDX-License-Identifier: Apache-2.0
"""A campaign: batches of sequences from seeds, and what is done when the servers differ.

Hypothesis draws BATCH sequences for each seed; the seeds count up from the one that is printed first.
A sequence in which the servers differ does not end the campaign: it is minimised, printed as a
transcript, and the next sequence begins on new connections.  Failures that look alike are printed
once and counted.
"""

import os
import random
import re
import time

import hypothesis

import client
import histogram
import known
import minimise
import pair
import errors
import sequences
import side
import transcript
import wire

BATCH = 50
PRINTED = 12
PROBLEMS = (pair.Difference, client.Unexpected, wire.WireError, OSError, LookupError, StopIteration)


class Campaign:
    """Plays sequences and keeps the counts."""

    def __init__(self, args, servers, methods):
        self.args, self.methods = args, methods
        self.without = set(filter(None, args.without.split(",")))
        triggers = [label for label in [*errors.TRIGGERS, *errors.RARE] if label not in self.without]
        self.histogram = histogram.Histogram(methods)
        self.pair = pair.Pair(side.Side("pannier", servers[0], methods),
                              side.Side("rabbitmq", servers[1], methods), self.histogram, triggers)
        self.servers = servers
        self.played, self.names, self.failures, self.seen = 0, 0, [], {}

    def run(self):
        seed = self.args.seed if self.args.seed is not None else random.SystemRandom().randrange(10**6)
        print(f"seed {seed}", flush=True)
        begun, left = time.monotonic(), self.args.sequences
        while left > 0:
            self.batch(seed, min(left, BATCH))
            left, seed = left - BATCH, seed + 1
        seconds = time.monotonic() - begun
        self.histogram.print()
        print(f"known differences met: {', '.join(sorted(self.pair.met)) or 'none'}")
        print(f"{self.played} sequences in {seconds:.0f} s")
        for signature, count in self.seen.items():
            print(f"{count} times: {signature}")
        return len(self.failures)

    def rare(self):
        rare = self.histogram.rare()
        for name in rare:
            print(f"FAIL met fewer than {histogram.WANTED} times: {name}")
        return len(rare)

    def batch(self, seed, count):
        number = 0

        @hypothesis.seed(seed)
        @hypothesis.settings(max_examples=count, database=None, deadline=None,
                             phases=[hypothesis.Phase.generate],
                             suppress_health_check=list(hypothesis.HealthCheck))
        @hypothesis.given(sequences.sequences(self.without))
        def play(sequence):
            nonlocal number
            number += 1
            if number <= count and self.args.only in (None, number):
                self.one(seed, number, sequence)

        play()

    def one(self, seed, number, sequence):
        self.played += 1
        problem = self.play(sequence)
        if self.args.verbose:
            print(f"seed {seed}, sequence {number} ({sequence.profile}): {problem or 'ok'}", flush=True)
        if self.args.show:
            print(transcript.write(f"seed {seed}, sequence {number}", self.pair.log, self.pair.world,
                                   problem or "no difference"))
        if not problem:
            return
        self.failures.append((seed, number))
        signature = sign(problem)
        self.seen[signature] = self.seen.get(signature, 0) + 1
        print(f"FAIL seed {seed}, sequence {number} ({sequence.profile}): {problem}", flush=True)
        if self.seen[signature] == 1 and len(self.seen) <= PRINTED:
            self.explain(seed, number, sequence, problem)

    def play(self, sequence):
        """What differs, or None."""
        self.names += 1
        player = sequences.Player(self.pair, sequence, f"d{os.getpid()}n{self.names}")
        try:
            player.play()
        except PROBLEMS as e:
            problem = f"{type(e).__name__}: {e}"
            self.abandon(problem)
            return problem
        return None

    def abandon(self, problem):
        """New connections; when a server has died that is the end, with what it was asked last."""
        try:
            self.pair.abandon()
        except PROBLEMS:
            for server in self.servers:
                if not server.alive():
                    print(transcript.write("a server has died", self.pair.log, self.pair.world, problem))
                    raise SystemExit(f"a server has died:\n{server.output()}") from None
            self.pair.abandon()

    def explain(self, seed, number, sequence, problem):
        original = self.pair.log, self.pair.world, problem
        counts, self.pair.histogram = self.pair.histogram, histogram.Histogram(self.methods)
        signature = sign(problem)
        smallest = minimise.minimise(sequence, lambda s: sign(self.play(s) or "") == signature)
        again = self.play(smallest)
        self.pair.histogram = counts
        if sign(again or "") == signature:
            original = self.pair.log, self.pair.world, again
        title = f"seed {seed}, sequence {number}: {signature}"
        print(transcript.write(title, *original), flush=True)


def sign(problem):
    """What makes two failures the same: everything but names, numbers and bodies."""
    text = re.sub(r"\bd\d+n\d+\.", "", problem)
    text = re.sub(r'"[^"]*x{20,}[^"]*"|"m\d+"|\d+', "N", text)
    return re.sub(r"\s+", " ", text)[:300]
