# SPDX-License-Identifier: Apache-2.0
"""pannierctl as the cases call it."""
import collections
import json
import os
import subprocess

import broker as lib

COMMAND_LIMIT_S = 60
SETTINGS = {"store.file_size": "1048576"}


def pannierctl():
    build = os.environ.get("PANNIER_BUILD", os.path.join(lib.TOP, "build"))
    return os.environ.get("PANNIERCTL", os.path.join(build, "pannierctl"))


Result = collections.namedtuple("Result", "status out err")


def ctl(*arguments):
    done = subprocess.run([pannierctl(), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=COMMAND_LIMIT_S, check=False)
    if lib.SANITIZER.search(done.stderr.encode()) or done.returncode not in (0, 1, 2):
        raise AssertionError(f"pannierctl {arguments}: status {done.returncode}\n{done.stderr}")
    return Result(done.returncode, done.stdout, done.stderr)


def store(verb, folder, *arguments, status=0):
    result = ctl("store", verb, "-D", folder, *arguments)
    assert result.status == status, f"store {verb} {arguments}: status {result.status}, not {status}\n" \
        f"{result.out}\n{result.err}"
    return result


def lines(result):
    return [json.loads(line) for line in result.out.splitlines()]


def records(folder, *arguments):
    return lines(ctl("store", "dump", "-D", folder, *arguments))
