#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# limit: 120 s
"""amqp091-go of Debian; the cases are in amqp091_go.go, built without modules, so without network."""
import os
import subprocess
import sys

import foreign

SOURCES = "/usr/share/gocode"  # where Debian has the library


def build():
    """The program, built again only when the source is newer."""
    folder = foreign.build_dir("go")
    source = os.path.join(foreign.HERE, "amqp091_go.go")
    program = os.path.join(folder, "amqp091_go")
    if not os.path.exists(program) or os.path.getmtime(program) < os.path.getmtime(source):
        subprocess.run(["go", "build", "-o", program, source], check=True, timeout=100, env={
            **os.environ, "GO111MODULE": "off", "GOPATH": SOURCES, "GOCACHE": os.path.join(folder, "cache")})
    return program


if __name__ == "__main__":
    sys.exit(foreign.run([("amqp091-go", [build()])]))
