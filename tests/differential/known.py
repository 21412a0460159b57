# SPDX-License-Identifier: Apache-2.0
"""The known differences between Pannier and RabbitMQ 3.10.8 that sequences meet.

This is the only place where an answer may differ.  Each row names its label in
tests/proto/differences.txt, whose reason docs/compatibility.md prints.  Differences that the sequences
avoid instead are listed in README.md.
"""

import re

VERB = re.compile(rb"(?:configure|write|read) (access to )")


def plain_text(text):
    """verb-in-403: Pannier says which permission is missing, RabbitMQ since 3.13."""
    return VERB.sub(rb"\1", text)


def unknown_exchange_type(pannier, rabbitmq):
    return (pannier.name == "channel.close" and rabbitmq.name == "connection.close"
            and pannier.values["reply_code"] == 406 and rabbitmq.values["reply_code"] == 503
            and b"unknown exchange type '" in pannier.values["reply_text"]
            and re.search(rb"(unknown|invalid) exchange type '", rabbitmq.values["reply_text"]))


def commit_done(pannier, rabbitmq):
    return (pannier.name == "tx.commit_ok" and rabbitmq.name == "connection.close"
            and b"while processing 'tx.commit'" in rabbitmq.values["reply_text"])


# label: (the two answers show it, the connection is ended at both servers so that they go on alike)
REPLIES = {
    "unknown-exchange-type": (unknown_exchange_type, True),
    # What comes during a commit is an error at both; how long a commit takes is not the same.
    "commit-running": (commit_done, True),
}


def same_reply(pannier, rabbitmq):
    """The label under which two answers may differ."""
    for label, (shows, _) in REPLIES.items():
        if shows(pannier, rabbitmq):
            return label
    return None


def ends_connection(pannier, rabbitmq):
    """Answers differ as is known, and one of the two has no connection any more."""
    labels = [same_reply(a, b) for a, b in zip(pannier, rabbitmq)]
    return any(label and REPLIES[label][1] for label in labels)


def texts(replies):
    """The texts of errors among the answers."""
    return [(r.values["reply_code"], r.values["reply_text"]) for r in replies
            if r.name in ("channel.close", "connection.close")]
