#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# limit: 180 s
"""amqplib in three versions over TLS, and with a loop that connects again; the cases are in amqplib_recovery.js."""
import sys

import node

if __name__ == "__main__":
    sys.exit(node.run("amqplib_recovery.js", ("amqplib-0.8", "amqplib-0.10", "amqplib")))
