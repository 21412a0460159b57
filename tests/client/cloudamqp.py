#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# limit: 180 s
"""@cloudamqp/amqp-client, and its session that reconnects; the cases are in cloudamqp.js."""
import sys

import node

if __name__ == "__main__":
    sys.exit(node.run("cloudamqp.js"))
