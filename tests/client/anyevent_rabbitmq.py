#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# limit: 120 s
"""AnyEvent::RabbitMQ, a client of Perl: its cases are in anyevent_rabbitmq.pl."""
import sys

import matrix

sys.exit(matrix.run("/usr/bin/perl", "anyevent_rabbitmq.pl"))
