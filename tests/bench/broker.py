# SPDX-License-Identifier: Apache-2.0
"""A pannierd for one measurement, with a data directory and a port of its own."""
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
START_LIMIT_S = 120


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


class Broker:
    """With `with`: it ends, and its data goes, in the end."""

    def __init__(self, build):
        self.build, self.port, self.child = build, free_port(), None
        self.data = tempfile.mkdtemp(prefix="pannier-bench-")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.child is not None and self.child.poll() is None:
            self.child.kill()
            self.child.wait()
        shutil.rmtree(self.data)
        if os.path.exists(self.data + ".log"):
            os.unlink(self.data + ".log")

    def start(self):
        """Milliseconds until a connection is accepted."""
        with open(self.data + ".log", "ab") as log:
            begin = time.monotonic()
            self.child = subprocess.Popen([os.path.join(self.build, "pannierd"), "-D", self.data, "--set",
                                           f"listeners.tcp.1=127.0.0.1:{self.port}"], stdout=log, stderr=log)
        while time.monotonic() < begin + START_LIMIT_S:
            assert self.child.poll() is None, "the broker ended"
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return (time.monotonic() - begin) * 1000
            except OSError:
                time.sleep(0.0005)
        raise AssertionError("the broker does not accept connections")

    def end(self, number):
        self.child.send_signal(number)
        self.child.wait(START_LIMIT_S)

    def resident(self):
        with open(f"/proc/{self.child.pid}/status", encoding="utf-8") as file:
            return int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1)) * 1024

    def written(self):
        with open(f"/proc/{self.child.pid}/io", encoding="utf-8") as file:
            return int(re.search(r"write_bytes: (\d+)", file.read()).group(1))

    def uri(self):
        return f"amqp://guest:guest@127.0.0.1:{self.port}/%2f"
