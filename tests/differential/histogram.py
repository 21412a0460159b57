# SPDX-License-Identifier: Apache-2.0
"""How often a campaign met each method and each row of the error catalogue.

Methods are counted as sent or as received (at RabbitMQ; the answers are the same).  An error counts for
every row of errors.ROWS whose code and text it has, and a row with a trigger of its own only when that
trigger was drawn in the step, so that one row does not hide behind another of the same text.
"""

import collections
import re

import errors

WANTED = 20
# Never in a conversation that the sequences can have: mechanisms of several steps, alarms, tokens.
NEVER = {
    "connection.secure", "connection.secure_ok", "connection.blocked", "connection.unblocked",
    "connection.update_secret", "connection.update_secret_ok",
}
HANDSHAKE = ("connection.start", "connection.start_ok", "connection.tune", "connection.tune_ok",
             "connection.open", "connection.open_ok")


class Histogram:
    """Counts of one campaign."""

    def __init__(self, methods):
        self.wanted = sorted(set(methods.by_name) - NEVER)
        self.methods, self.rows = collections.Counter(), collections.Counter()
        self.drawn = None      # the row whose trigger the current step comes from
        self.operations = self.steps = 0

    def step(self, ops, events, texts):
        self.steps += 1
        self.operations += len(ops)
        self.methods.update(op.name for op in ops)
        self.received(events)
        for code, text in texts:
            self.error(code, text.decode("utf-8", "replace"))

    def received(self, events):
        self.methods.update(event.name for event in events)

    def connected(self):
        self.methods.update(HANDSHAKE)

    def error(self, code, text):
        found = [label for label, row_code, pattern, _ in errors.ROWS
                 if row_code == code and re.search(pattern, text)]
        shared = len({TEXTS[label] for label in found}) < len(found)
        self.rows.update([self.drawn] if shared and self.drawn in found else found[:1] if shared else found)

    def table(self):
        """(name, count) of everything that is to be met."""
        return [(name, self.methods[name]) for name in self.wanted] + \
            [(label, self.rows[label]) for label, *_ in errors.ROWS]

    def rare(self):
        return [name for name, count in self.table() if count < WANTED]

    def print(self):
        print(f"{self.steps} steps, {self.operations} operations")
        for title, names, counts in (("methods", self.wanted, self.methods),
                                     ("errors", [row[0] for row in errors.ROWS], self.rows)):
            print(f"-- {title}")
            for name in names:
                print(f"{counts[name]:8d}  {name}")


TEXTS = {label: (code, pattern) for label, code, pattern, _ in errors.ROWS}
