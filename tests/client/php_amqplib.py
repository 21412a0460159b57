#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# limit: 120 s
"""php-amqplib, PHP's client in PHP: its cases are in php_amqplib.php."""
import sys

import matrix

sys.exit(matrix.run("/usr/bin/php", "php_amqplib.php"))
