# SPDX-License-Identifier: Apache-2.0
"""The table of differences from RabbitMQ 3.10.8 in docs/compatibility.md.

A transcript marks a difference with a label; differences.txt says of each label what the point is,
what either server does, and why.  The two must agree, and the document must hold the table that
comes out of them between its markers.
"""

import os

import script

BEGIN = "<!-- differences: printed by tests/proto/run --differences -->"
END = "<!-- end of differences -->"
HERE = os.path.dirname(os.path.abspath(__file__))
FIELDS = ("point", "rabbitmq", "pannier", "why")


class Problem(Exception):
    """Labels, reasons and the document do not agree."""


def read_reasons():
    """{label: {point, rabbitmq, pannier, why}} in the order of the file."""
    out, entry, field = {}, None, None
    with open(os.path.join(HERE, "differences.txt"), encoding="utf-8") as f:
        for raw in f:
            line = raw.strip()
            if not line or line.startswith("#"):
                continue
            if line.startswith("["):
                entry = out.setdefault(line.strip("[]"), {})
            elif line.split(":")[0] in FIELDS:
                field, _, text = line.partition(":")
                entry[field] = text.strip()
            else:
                entry[field] += " " + line
    for label, entry in out.items():
        missing = [field for field in FIELDS if field not in entry]
        if missing:
            raise Problem(f"differences.txt: {label} does not say {', '.join(missing)}")
    return out


def labels_used(cases):
    """{label: transcripts that show it}"""
    out = {"deep-table": ["malformed.py"], "undecodable-channel-0": ["truncated.py"]}
    for path, case in cases:
        for line in script.walk(case.lines):
            if line.verb == "differs" and path not in out.setdefault(line.rest, []):
                out[line.rest].append(path)
    return out


def table(cases):
    reasons, used = read_reasons(), labels_used(cases)
    wrong = sorted(set(reasons) ^ set(used))
    if wrong:
        raise Problem(f"only in the transcripts, or only in differences.txt: {', '.join(wrong)}")
    rows = ["| Point | RabbitMQ 3.10.8 | Pannier | Why | Shown by |", "|---|---|---|---|---|"]
    for label, entry in reasons.items():
        cells = [entry[field].replace("|", "\\|") for field in FIELDS]
        rows.append(f"| {' | '.join(cells)} | {', '.join(f'`{p}`' for p in used[label])} |")
    return "\n".join(rows)


def main(top, cases, check):
    """Print the table, or compare it with the one in the document; the exit status."""
    try:
        text = table(cases)
    except Problem as e:
        print(e)
        return 1
    if not check:
        print(text)
        return 0
    with open(os.path.join(top, "docs", "compatibility.md"), encoding="utf-8") as f:
        document = f.read()
    if f"{BEGIN}\n{text}\n{END}" not in document:
        print("docs/compatibility.md: the table of differences is not that of tests/proto")
        return 1
    return 0
