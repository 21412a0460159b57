# SPDX-License-Identifier: Apache-2.0
"""The servers that transcripts run against: our pannierd, RabbitMQ as the oracle, or one elsewhere.

Each class has host, port and pid (None where unknown), start() and stop().  They make their own
temporary directory, listen on a free port of the loopback and end only what they started.
"""

import base64
import contextlib
import glob
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))

import broker

START_LIMIT = 60.0


class ServerError(Exception):
    """The server did not come up."""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Elsewhere:
    """A server that somebody else runs."""

    def __init__(self, address):
        host, _, port = address.rpartition(":")
        self.host, self.port, self.pid = host or "127.0.0.1", int(port), None

    def start(self):
        pass

    def stop(self):
        pass

    def abandon(self):
        """After a start that failed."""

    def alive(self):
        return True


class Started(Elsewhere):
    """What the servers that we start have in common."""

    def __init__(self):
        super().__init__(f"127.0.0.1:{free_port()}")
        self.dir = tempfile.mkdtemp(prefix="proto-")
        self.child = None

    def run(self, argv, env=None):
        self.log = os.path.join(self.dir, "output")
        with open(self.log, "wb") as out:
            self.child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                          env=env, start_new_session=True)
        self.pid = self.child.pid
        deadline = time.monotonic() + START_LIMIT
        while not self.accepts():
            if self.child.poll() is not None or time.monotonic() > deadline:
                raise ServerError(f"{argv[0]} did not start:\n{self.output()}")
            time.sleep(0.02)

    def accepts(self):
        try:
            socket.create_connection((self.host, self.port), 1).close()
            return True
        except OSError:
            return False

    def alive(self):
        return self.child.poll() is None

    def output(self):
        with open(self.log, "rb") as f:
            return f.read()[-8000:].decode("utf-8", "replace")

    def end_child(self, child):
        """SIGTERM, then SIGKILL to its process group."""
        try:
            child.terminate()
            child.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()

    def stop(self):
        if self.child:
            self.end_child(self.child)
        shutil.rmtree(self.dir, ignore_errors=True)


class Definitions:
    """Users, their topic permissions, and vhosts, which exist when a server starts."""

    def __init__(self):
        self.users, self.topics, self.vhosts = {}, {}, {}

    def add(self, kind, name, args):
        if kind == "user":
            self.users[name] = {"password": "secret", **args}
        elif kind == "topic_permission":
            self.topics[name, args.pop("exchange")] = args
        else:
            self.vhosts[name] = args

    def settings(self):
        """As options of pannierd, which can make one vhost beside the common one: then guest, who has
        his permissions there, gets those of the common one like any other user."""
        out = {}
        for name, user in self.users.items():
            if "configure" not in user:
                out[f"default_users.{name}.permissions"] = "none"
            out.update({f"default_users.{name}.{key}": str(value) for key, value in user.items()})
        for (name, exchange), patterns in self.topics.items():
            for key, value in patterns.items():
                out[f"default_users.{name}.topic_permissions.{exchange}.{key}"] = value
        for name, limits in self.vhosts.items():
            out.update({"default_vhost": name, "default_limits.vhosts.1.pattern": f"^{name}$",
                        "default_users.guest.password": "guest",
                        "default_users.guest.tags": "administrator"})
            out.update({f"default_limits.vhosts.1.{key}": str(value)
                        for key, value in limits.items()})
        return out

    def rabbitmq(self):
        """As RabbitMQ reads definitions from a file."""
        salt = b"salt"
        users, permissions = [], []
        all_of = {"configure": ".*", "write": ".*", "read": ".*"}
        guest = {"password": "guest", "tags": "administrator", **all_of}
        for name, user in {"guest": guest, **self.users}.items():
            digest = hashlib.sha256(salt + user["password"].encode()).digest()
            limits = {key.replace("_", "-"): value
                      for key, value in user.items() if key.startswith("max_")}
            users.append({"name": name, "tags": user.get("tags", ""), "limits": limits,
                          "hashing_algorithm": "rabbit_password_hashing_sha256",
                          "password_hash": base64.b64encode(salt + digest).decode()})
            if "configure" in user:
                permissions.append({"user": name, "vhost": "/",
                                    **{key: user[key] for key in all_of}})
        permissions += [{"user": "guest", "vhost": name, **all_of} for name in self.vhosts]
        return {"users": users, "permissions": permissions,
                "vhosts": [{"name": name} for name in ("/", *self.vhosts)],
                "topic_permissions": [
                    {"user": name, "vhost": "/", "exchange": exchange, **patterns}
                    for (name, exchange), patterns in self.topics.items()],
                "parameters": [
                    {"vhost": name, "component": "vhost-limits", "name": "limits",
                     "value": {key.replace("_", "-"): value for key, value in limits.items()}}
                    for name, limits in self.vhosts.items()]}


class Pannier(Elsewhere):
    """pannierd with what the transcripts define; tests/lib starts and stops it."""

    def __init__(self, build, definitions):
        if build:
            os.environ["PANNIER_BUILD"] = build
        os.environ.pop("PANNIER_URL", None)
        self.settings = definitions.settings()

    def start(self):
        try:
            self.broker = broker.Broker(self.settings)
        except broker.BrokerFailed as e:
            raise ServerError(f"{e}\n{self.output()}") from None
        self.host, self.port, self.pid = "127.0.0.1", self.broker.port, self.broker.process.pid

    def alive(self):
        """False also when it accepts nothing any more: then it is dying and about to tell why."""
        try:
            socket.create_connection((self.host, self.port), 5).close()
        except OSError:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.broker.process.wait(20)
        return self.broker.process.poll() is None

    def output(self):
        """The end of the newest log."""
        logs = glob.glob(os.path.join(broker.test_dir(), "pannierd-*.log"))
        with open(max(logs, key=os.path.getmtime), "rb") as f:
            return f.read()[-8000:].decode("utf-8", "replace")

    def stop(self):
        """Raises when pannierd ends with a status that is not 0 or a sanitizer has written."""
        self.broker.stop()


class Oracle(Started):
    """A node of Debian's rabbitmq-server, with a distribution port and an epmd of its own."""

    PROGRAM = "/usr/lib/rabbitmq/bin/rabbitmq-server"
    PLUGINS = ("[rabbitmq_consistent_hash_exchange,rabbitmq_random_exchange,"
               "rabbitmq_recent_history_exchange,rabbitmq_sharding].\n")

    def __init__(self, definitions):
        super().__init__()
        self.definitions, self.epmd = definitions, None

    def write(self, name, text):
        path = os.path.join(self.dir, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def start(self):
        epmd_port = str(free_port())
        self.epmd = subprocess.Popen(["epmd", "-port", epmd_port, "-address", "127.0.0.1"],
                                     stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL, start_new_session=True)
        definitions = self.write("definitions.json", json.dumps(self.definitions.rabbitmq()))
        self.write("rabbitmq.conf", f"load_definitions = {definitions}\n"
                   "max_message_size = 16777216\n"
                   "log.file.level = warning\n"
                   "disk_free_limit.absolute = 1MB\n")
        env = dict(os.environ, HOME=self.dir, ERL_EPMD_PORT=epmd_port,
                   RABBITMQ_NODENAME=f"proto{self.port}@localhost",
                   RABBITMQ_NODE_IP_ADDRESS=self.host, RABBITMQ_NODE_PORT=str(self.port),
                   RABBITMQ_DIST_PORT=str(free_port()),
                   RABBITMQ_MNESIA_BASE=os.path.join(self.dir, "mnesia"),
                   RABBITMQ_LOG_BASE=os.path.join(self.dir, "log"),
                   RABBITMQ_ENABLED_PLUGINS_FILE=self.write("plugins", self.PLUGINS),
                   RABBITMQ_CONFIG_FILE=os.path.join(self.dir, "rabbitmq.conf"))
        self.run([self.PROGRAM], env)

    def stop(self):
        if self.child:
            os.killpg(self.child.pid, signal.SIGTERM)
        if self.epmd:
            self.end_child(self.epmd)
        super().stop()

    def abandon(self):
        self.stop()
