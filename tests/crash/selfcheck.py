# SPDX-License-Identifier: Apache-2.0
"""
The part of the crash campaigns that needs no broker: ledgers with a fault in them, which "ledger check" and "ledger
check-deaths" must find, each by its name. Without it a campaign that proves nothing would look like one that found nothing.
"""
import os
import struct
import subprocess

from victim import QUEUES, lib

SENT, CONFIRMED, REFUSED, RECEIVED, ACKED, REQUEUED, REJECTED = range(1, 8)
FAULTS = ("lost", "as-new", "again", "disordered", "strange", "both", "unasked", "late")


def entry(kind, number, queues=1, persistent=1, redelivered=0, connection=0):
    return struct.pack("=BBBBHHQ", kind, queues, persistent, redelivered, 0, connection, number)


def sent(*numbers, **how):
    return [entry(SENT, number, **how) for number in numbers]


def confirmed(*numbers):
    return [entry(CONFIRMED, number) for number in numbers]


def came(number, connection=1, redelivered=0, settled=True):
    entries = [entry(RECEIVED, number, redelivered=redelivered, connection=connection)]
    return entries + ([entry(ACKED, number, connection=connection)] if settled else [])


def requeued(number, connection=1):
    return [entry(REQUEUED, number, connection=connection)]


# What it is, the publisher's ledger, that of consumer 0, the faults that are in it.
BOOKS = [
    ("all is well", sent(0, 1) + confirmed(0, 1), came(0) + came(1), {}),
    ("one is missing", sent(0, 1) + confirmed(0, 1), came(0), {"lost": 1}),
    ("one is missing in another queue", sent(0, queues=3) + confirmed(0), came(0), {"lost": 1}),
    ("one was not confirmed", sent(0, 1) + confirmed(0), came(0), {}),
    ("one was refused", sent(0) + [entry(REFUSED, 0)], [], {}),
    ("one was not persistent", sent(0, persistent=0) + confirmed(0), [], {}),
    ("one was not settled and does not come again", sent(0) + confirmed(0),
     came(0, settled=False), {"lost": 1}),
    ("one comes again, marked", sent(0) + confirmed(0),
     came(0) + came(0, connection=2, redelivered=1), {}),
    ("one comes again as new", sent(0) + confirmed(0),
     came(0, settled=False) + came(0, connection=2), {"as-new": 1}),
    ("one comes again unasked", sent(0) + confirmed(0),
     came(0) + came(0, redelivered=1), {"again": 1}),
    ("one comes again when given back", sent(0) + confirmed(0),
     came(0, settled=False) + requeued(0) + came(0, redelivered=1), {}),
    ("one was given back and does not come", sent(0) + confirmed(0),
     came(0, settled=False) + requeued(0), {"lost": 1}),
    ("two come in the wrong order", sent(0, 1) + confirmed(0, 1), came(1) + came(0),
     {"disordered": 1}),
    ("an old one comes again behind a new one", sent(0, 1) + confirmed(0, 1),
     came(0, settled=False) + requeued(0) + came(1) + came(0, redelivered=1), {}),
    ("one comes that nobody sent", sent(0) + confirmed(0), came(0) + came(7), {"strange": 2}),
    ("one comes to a queue that it was not for", sent(0, queues=2), came(0), {"strange": 2}),
]


def rejected(number, life, **how):
    return came(number, life, settled=False, **how) + [entry(REJECTED, number, connection=life)]


def letter(number, life, origin=0, redelivered=0):
    how = {"queues": 1 << origin, "connection": life}
    return [entry(RECEIVED, number, redelivered=redelivered, **how), entry(ACKED, number, **how)]


# What it is, the publisher's ledger, those of the work queue, of the bounded one and of the dead, the faults.
DEATHS = [
    ("rejected and acknowledged", sent(0, 1) + confirmed(0, 1), rejected(0, 1) + came(1), [], letter(0, 1), {}),
    ("dropped and drained", sent(0, 1, queues=2) + confirmed(0, 1), [], came(1), letter(0, 1, origin=1), {}),
    ("a letter that comes later", sent(0) + confirmed(0), rejected(0, 1), [], letter(0, 4), {}),
    ("a rejection that was undone, and acknowledged", sent(0) + confirmed(0),
     rejected(0, 1) + came(0, 2, redelivered=1), [], letter(0, 1), {}),
    ("a rejection that was undone, and done again", sent(0) + confirmed(0),
     rejected(0, 1) + rejected(0, 2, redelivered=1), [], letter(0, 1) + letter(0, 2), {}),
    ("a drop that was undone, and done again", sent(0, queues=2) + confirmed(0), [], [],
     letter(0, 1, origin=1) + letter(0, 2, origin=1), {}),
    ("neither here nor there", sent(0) + confirmed(0), rejected(0, 1), [], [], {"lost": 1}),
    ("dropped without a letter", sent(0, queues=2) + confirmed(0), [], [], [], {"lost": 1}),
    ("the letter of the first death alone", sent(0) + confirmed(0),
     rejected(0, 1) + rejected(0, 2, redelivered=1), [], letter(0, 1), {"lost": 1}),
    ("not confirmed", sent(0), rejected(0, 1), [], [], {}),
    ("acknowledged, and a letter", sent(0) + confirmed(0), rejected(0, 1) + came(0, 2, redelivered=1), [],
     letter(0, 2, redelivered=1), {"both": 1}),
    ("drained, and a letter", sent(0, queues=2) + confirmed(0), [], came(0, 2), letter(0, 3, origin=1), {"both": 1}),
    ("a letter as new, without a new death", sent(0) + confirmed(0), rejected(0, 1), [], letter(0, 1) + letter(0, 2),
     {"as-new": 1}),
    ("two letters in one life", sent(0) + confirmed(0), rejected(0, 1) + rejected(0, 2, redelivered=1), [],
     letter(0, 2) + letter(0, 2, redelivered=1), {"again": 1}),
    ("a letter that nobody asked for", sent(0), came(0, 2), [], letter(0, 1), {"unasked": 1}),
    ("dropped out of order", sent(0, 1, queues=2) + confirmed(0, 1), [], [],
     letter(1, 1, origin=1) + letter(0, 1, origin=1), {"disordered": 1}),
    ("a letter of a queue that it was not for", sent(0, queues=2), [], [], letter(0, 1), {"strange": 2}),
]

# The same with --ttl.
EXPIRIES = [
    ("expired, twice after a kill", sent(0, queues=2) + confirmed(0), [], [],
     letter(0, 1, origin=1) + letter(0, 2, origin=1), {}),
    ("neither here nor there", sent(0, queues=2) + confirmed(0), [], [], [], {"lost": 1}),
    ("still there", sent(0, queues=2) + confirmed(0), [], came(0, 2), [], {"late": 1}),
]


# "check" with --delay.
DELAYS = [
    ("in another order", sent(0, 1) + confirmed(0, 1), came(1) + came(0), {}),
    ("one is missing", sent(0, 1) + confirmed(0, 1), came(1), {"lost": 1}),
    ("held back once more after a kill", sent(0) + confirmed(0), came(0) + came(0, connection=2), {}),
    ("twice", sent(0) + confirmed(0), came(0) + came(0), {"as-new": 1, "again": 1}),
    ("twice, and marked", sent(0) + confirmed(0), came(0) + came(0, redelivered=1), {"again": 1}),
]


def found_in(options, role, name, publisher, *consumers):
    """The faults that ledger finds in a role, by name."""
    directory = os.path.join(lib.test_dir(), name)
    os.makedirs(directory)
    books = {"publisher-0": publisher}
    books.update({f"consumer-{queue}": [] for queue in range(QUEUES)})
    books.update({f"consumer-{queue}": consumer for queue, consumer in enumerate(consumers)})
    for book, entries in books.items():
        with open(os.path.join(directory, book), "wb") as file:
            file.write(b"".join(entries))
    done = subprocess.run([options.ledger, *role.split(), "--dir", directory], capture_output=True,
                          text=True, timeout=20, check=False)
    lines = [line.split() for line in done.stdout.splitlines() if not line.startswith("FAULT")]
    counts = {fault: int(n) for fault, n in lines if fault in FAULTS and n != "0"}
    if (done.returncode != 0) != bool(counts):
        counts["status"] = done.returncode
    return counts


class ledgers:
    """Each fault in a ledger is found."""

    @staticmethod
    def limit_s(_options):
        return 60

    @staticmethod
    def run(options, proofs):
        wrong = []
        campaigns = (("check", BOOKS), ("check-deaths", DEATHS), ("check-deaths --ttl 1", EXPIRIES),
                     ("check --delay 1", DELAYS))
        for role, books in campaigns:
            for number, (name, *ledgers_of_roles, faults) in enumerate(books):
                found = found_in(options, role, f"{role}-{number}", *ledgers_of_roles)
                if found != faults:
                    wrong.append(f"{name}: {found}, not {faults}")
        count = sum(len(books) for _, books in campaigns)
        proofs.add(f"ledgers: {count} of them are judged rightly", not wrong, "; ".join(wrong))
