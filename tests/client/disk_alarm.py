#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# limit: 180 s
"""
A disk with little room: publishers are blocked and told so, everything else goes on, and publishers go on
when there is room again. The disk is a small file system in memory; where none can be mounted those cases
are left out.
"""
import errno
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import broker as lib  # noqa: E402
import pika  # noqa: E402

DISK_MIB = 200
LIMIT_MB = 100
SETTINGS = {"disk_free_limit.absolute": f"{LIMIT_MB}MB", "store.file_size": "4MB"}
WAIT_S = 60  # RabbitMQ looks at its disk every ten seconds


class SmallDisk:
    """Where data and a file that is in the way lie."""

    def __init__(self):
        self.path = tempfile.mkdtemp(prefix="disk-", dir=lib.test_dir())
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", self.path],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            lib.skip(f"no file system can be mounted: {done.stderr.strip()}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["umount", "-l", self.path], check=False)

    def fill(self, mib):
        with open(os.path.join(self.path, "junk"), "wb", buffering=0) as junk:
            try:
                os.posix_fallocate(junk.fileno(), 0, mib << 20)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise

    def fill_to_the_last(self):
        with open(os.path.join(self.path, "junk"), "wb", buffering=0) as junk:
            try:
                while junk.write(bytes(65536)) == 65536:
                    pass
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise

    def delete(self):
        os.unlink(os.path.join(self.path, "junk"))


class BrokerOn(lib.Broker):
    """A broker with its data on that disk."""

    def __init__(self, disk, settings):
        self.disk = disk
        super().__init__(settings)

    def start(self):
        self.data = self.disk.path
        super().start()


class Publisher:
    """A connection that notes what it is told."""

    def __init__(self, broker, timeout_s=None):
        self.connection = pika.BlockingConnection(pika.ConnectionParameters(
            broker.host, broker.port, blocked_connection_timeout=timeout_s))
        self.notices = []
        self.connection.add_on_connection_blocked_callback(
            lambda _, frame: self.notices.append(frame.method.reason))
        self.connection.add_on_connection_unblocked_callback(lambda *_: self.notices.append("unblocked"))
        self.channel = self.connection.channel()

    def publish(self, queue, body=b"x", persistent=True):
        self.channel.basic_publish("", queue, body, pika.BasicProperties(delivery_mode=2 if persistent else 1))

    def await_notices(self, *expected):
        lib.await_true(f"{expected}, {self.notices} came", lambda: self._look() == list(expected), WAIT_S)

    def _look(self):
        self.connection.process_data_events(0.05)
        return self.notices


def is_rabbitmq(publisher):
    return publisher.connection._impl.server_properties["product"] == "RabbitMQ"


def publish_until_blocked(publisher, queue):
    """Looks at the disk happen now and then, so it may take some messages until the broker knows."""
    lib.await_true("a notice", lambda: publisher.publish(queue) or publisher._look(), WAIT_S, 0.05)
    assert publisher.notices == ["low on disk"], publisher.notices


def everything_else_goes_on(broker, queue):
    """Another connection that does not publish is served, whatever it does."""
    other = Publisher(broker)
    channel = other.channel
    channel.queue_declare("disk.other", durable=True)
    channel.queue_bind("disk.other", "amq.fanout")
    channel.confirm_delivery()
    count = channel.queue_declare(queue, durable=True, passive=True).method.message_count
    assert count > 0
    method, _, body = channel.basic_get(queue)
    assert body == b"x"
    channel.basic_ack(method.delivery_tag)
    taken = 1
    for method, _, _ in channel.consume(queue, inactivity_timeout=2):
        if method is None:
            break
        channel.basic_ack(method.delivery_tag)
        taken += 1
    channel.cancel()
    assert taken >= count, f"{taken} of {count}"
    channel.queue_purge("disk.other")
    channel.queue_delete("disk.other")
    assert other.notices == []
    other.connection.close()


def blocked_and_on_again(fill):
    with SmallDisk() as disk, BrokerOn(disk, SETTINGS) as broker:
        publisher = Publisher(broker)
        publisher.channel.queue_declare("disk.q", durable=True)
        publisher.publish("disk.q")
        fill(disk)
        publish_until_blocked(publisher, "disk.q")
        everything_else_goes_on(broker, "disk.q")
        disk.delete()
        publisher.await_notices("low on disk", "unblocked")
        publisher.channel.confirm_delivery()
        publisher.publish("disk.q", b"again")
        assert publisher.notices == ["low on disk", "unblocked"], publisher.notices
        publisher.connection.close()


def case_blocked_below_the_limit():
    blocked_and_on_again(lambda disk: disk.fill(DISK_MIB - LIMIT_MB // 2))


def case_blocked_on_a_full_disk():
    def fill(disk):
        disk.fill_to_the_last()
        if "rabbitmq" in lib.pannierd():
            lib.skip("RabbitMQ ends there as soon as it is to write anything")

    blocked_and_on_again(fill)


def case_transient_messages_are_blocked_too():
    with SmallDisk() as disk, BrokerOn(disk, SETTINGS) as broker:
        publisher = Publisher(broker)
        publisher.channel.queue_declare("disk.t", auto_delete=True)
        disk.fill(DISK_MIB - LIMIT_MB // 2)
        lib.await_true("a notice", lambda: publisher.publish("disk.t", persistent=False) or publisher._look(),
                       WAIT_S, 0.05)
        disk.delete()
        publisher.await_notices("low on disk", "unblocked")
        publisher.connection.close()


def case_limit_is_reloaded():
    """More than any disk has: the alarm is on from the start. With a small limit it is over."""
    path = os.path.join(lib.test_dir(), "disk_alarm.conf")
    os.environ["RABBITMQ_CONFIG_FILE"] = path

    def limit(text):
        with open(path, "w", encoding="ascii") as out:
            out.write(f"disk_free_limit.absolute = {text}\n")

    limit("8000TB")
    try:
        with lib.Broker({"store.file_size": "1MB"}) as broker:
            publisher = Publisher(broker)
            if is_rabbitmq(publisher):
                lib.skip("RabbitMQ reads its configuration only at its start")
            publisher.channel.queue_declare("disk.r", durable=True)
            publish_until_blocked(publisher, "disk.r")
            everything_else_goes_on(broker, "disk.r")
            limit("5MB")
            broker.hup()
            publisher.await_notices("low on disk", "unblocked")
            publisher.channel.confirm_delivery()
            publisher.publish("disk.r", b"again")
            limit("8000TB")
            broker.hup()
            broker.await_log(b"low: publishers wait free=[0-9]+ limit=8000000000000000(?s:.*)free=[0-9]+ limit=8")
            publisher.connection.close()
    finally:
        del os.environ["RABBITMQ_CONFIG_FILE"]


def case_broker_starts_on_a_full_disk():
    """With less room than a file of the log takes: consumers can make some."""
    with SmallDisk() as disk, BrokerOn(disk, SETTINGS) as broker:
        publisher = Publisher(broker)
        if is_rabbitmq(publisher):
            lib.skip("what RabbitMQ does there is not asked for")
        publisher.channel.queue_declare("disk.q", durable=True)
        publisher.channel.confirm_delivery()
        for _ in range(100):
            publisher.publish("disk.q")
        publisher.connection.close()
        broker.kill()
        disk.fill_to_the_last()
        broker.start()
        assert b"the disk is nearly full: log/" in broker.log()
        publisher = Publisher(broker)
        publish_until_blocked(publisher, "disk.q")
        everything_else_goes_on(broker, "disk.q")
        disk.delete()
        publisher.await_notices("low on disk", "unblocked")
        publisher.connection.close()


if __name__ == "__main__":
    if os.environ.get("PANNIER_URL"):
        print("skip: needs settings and disks of its own server\n0 passed, 0 failed")
        sys.exit(0)
    sys.exit(lib.run_cases(globals()))
