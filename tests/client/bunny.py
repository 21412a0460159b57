#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# limit: 120 s
"""Bunny, the client of Ruby: its cases are in bunny.rb."""
import sys

import matrix

sys.exit(matrix.run("/usr/bin/ruby", "bunny.rb"))
