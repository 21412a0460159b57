#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# limit: 180 s
"""rascal, which brings retries and recovery to the newest amqplib; the cases are in rascal.js."""
import sys

import node

if __name__ == "__main__":
    sys.exit(node.run("rascal.js"))
