#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# limit: 90 s
"""Symfony Messenger over php-amqp: its cases are in symfony_messenger.php."""
import sys

import matrix

sys.exit(matrix.run("php", "symfony_messenger.php"))
