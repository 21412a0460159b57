# SPDX-License-Identifier: Apache-2.0
"""Makes a failing sequence small: fewer operations, then smaller numbers.

Hypothesis could shrink its own draws, but a sequence of sixty operations of five numbers each takes it
thousands of runs; leaving out halves, quarters and single operations takes about a hundred.
"""

import time

SECONDS = 20


def minimise(sequence, fails):
    """The smallest sequence found within the time for which fails() is still true."""
    end = time.monotonic() + SECONDS

    def still(draws):
        return time.monotonic() < end and fails(sequence._replace(draws=tuple(draws)))

    draws = drop_chunks(list(sequence.draws), still)
    draws = simpler(draws, still)
    return sequence._replace(draws=tuple(drop_chunks(draws, still)))


def drop_chunks(draws, still):
    size = max(1, len(draws) // 2)
    while size:
        at, before = 0, len(draws)
        while at < len(draws):
            shorter = draws[:at] + draws[at + size:]
            if shorter and still(shorter):
                draws = shorter
            else:
                at += size
        if size == 1 and len(draws) == before:
            break
        size = max(1, size // 2) if size > 1 else 1
    return draws


def simpler(draws, still):
    """Not pipelined, and zeros for numbers."""
    for i, draw in enumerate(draws):
        options = [draw._replace(join=False)] if draw.join else []
        options += [draw._replace(numbers=draw.numbers[:k] + (0,) + draw.numbers[k + 1:])
                    for k in range(3) if draw.numbers[k] and draw.kind != "error"]
        for option in options:
            changed = [k for k in range(3) if option.numbers[k] != draw.numbers[k]]
            new = draws[i]._replace(join=option.join and draws[i].join)
            for k in changed:
                new = new._replace(numbers=new.numbers[:k] + (0,) + new.numbers[k + 1:])
            if new != draws[i] and still(draws[:i] + [new] + draws[i + 1:]):
                draws[i] = new
    return draws
