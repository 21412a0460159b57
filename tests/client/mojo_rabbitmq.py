#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# limit: 120 s
"""Mojo::RabbitMQ::Client, a client of Perl: its cases are in mojo_rabbitmq.pl."""
import sys

import matrix

sys.exit(matrix.run("/usr/bin/perl", "mojo_rabbitmq.pl"))
