# SPDX-License-Identifier: Apache-2.0
"""Runs client programs for node; what package.json names is installed into the build directory first."""
import fcntl
import filecmp
import os
import shutil
import subprocess

import foreign

INSTALL = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]


def install():
    """The folder of the modules; installs once, also when two scripts come at the same time."""
    folder = foreign.build_dir("node")
    wanted = os.path.join(foreign.HERE, "package.json")
    installed = os.path.join(folder, "installed.json")
    with open(os.path.join(folder, "lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(installed) or not filecmp.cmp(wanted, installed, shallow=False):
            shutil.copyfile(wanted, os.path.join(folder, "package.json"))
            subprocess.run(INSTALL, cwd=folder, check=True, timeout=100)
            shutil.copyfile(wanted, installed)
    return os.path.join(folder, "node_modules")


def run(script, variants=("",)):
    """Runs the script once for each variant, which is its first argument when it has a name."""
    source = os.path.join(foreign.HERE, script)
    label = os.path.splitext(script)[0]
    programs = [(v or label, ["node", source, *([v] if v else [])]) for v in variants]
    return foreign.run(programs, {"NODE_PATH": install()})
