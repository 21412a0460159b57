#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# limit: 120 s
"""php-amqp, PHP's extension on librabbitmq: its cases are in php_amqp.php."""
import sys

import matrix

sys.exit(matrix.run("/usr/bin/php", "php_amqp.php"))
