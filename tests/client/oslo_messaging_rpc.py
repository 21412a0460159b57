#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# limit: 120 s
"""oslo.messaging, the bus of OpenStack: calls, casts, fanouts, timeouts and notifications."""
import atexit
import os
import queue
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
import broker as lib  # noqa: E402
from celery_beat import Holds  # noqa: E402
from celery_tasks import Reports  # noqa: E402
from oslo_config import cfg  # noqa: E402
import oslo_messaging  # noqa: E402
import oslo_server  # noqa: E402

LIMIT_S = 30
CALLS = 200


def url(broker):
    return f"rabbit://guest:guest@{broker.host}:{broker.port}/"


class Server:
    """A process of oslo_server.py; ready when the constructor returns."""

    def __init__(self, broker, name, *quorum):
        self.name, self.path = name, os.path.join(lib.test_dir(), f"{name}.log")
        command = ["/usr/bin/python3", "-B", os.path.join(HERE, "oslo_server.py"), url(broker), name]
        with open(self.path, "wb") as log:
            self.process = subprocess.Popen([*command, *quorum], stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, start_new_session=True)
        atexit.register(self.process.kill)
        assert REPORTS.next() == f"{name} ready"

    def log(self):
        with open(self.path, encoding="utf-8", errors="replace") as log:
            return log.read()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is None:
            self.process.terminate()
            status = self.process.wait(LIMIT_S)
            assert status == 0, f"{self.name} ended with status {status}"
        else:
            self.process.kill()
            self.process.wait()


class Client:
    """An RPC client on a transport of its own."""

    def __init__(self, broker, timeout=LIMIT_S, topic="tests"):
        self.transport = oslo_server.transport(url(broker), quorum=topic == "quorum", exchange=topic)
        target = oslo_messaging.Target(topic=topic, version="1.0")
        self.rpc = oslo_messaging.get_rpc_client(self.transport, target, timeout=timeout)

    def __enter__(self):
        return self.rpc

    def __exit__(self, *_):
        self.transport.cleanup()


def case_calls(broker):
    """Many calls, from several threads over one reply queue; values of all kinds and sizes."""
    with Server(broker, "calls"), Client(broker) as rpc:
        answer = rpc.call({"user": "nova"}, "echo", value=[1, "two", None, {"three": 3.5}])
        assert answer["context"]["user"] == "nova" and answer["from"] == "calls", answer
        assert answer["value"] == [1, "two", None, {"three": 3.5}], answer
        large = "x" * 1000000
        assert rpc.call({}, "echo", value=large)["value"] == large
        wrong = queue.Queue()

        def some(first):
            for number in range(first, first + CALLS // 4):
                if rpc.call({}, "echo", value=number)["value"] != number:
                    wrong.put(number)

        threads = [threading.Thread(target=some, args=[n * CALLS // 4]) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT_S)
            assert not thread.is_alive(), "the calls did not end"
        assert wrong.empty()


def raises(kind, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def case_errors(broker):
    with Server(broker, "errors"), Client(broker) as rpc:
        raises(ZeroDivisionError, rpc.call, {}, "divide", by=0)
        raises(KeyError, rpc.call, {}, "expected")
        error = raises(oslo_messaging.RemoteError, rpc.call, {}, "no_such_method")
        assert error.exc_type == "NoSuchMethod", error
        error = raises(oslo_messaging.RemoteError, rpc.prepare(version="2.0").call, {}, "echo", value=1)
        assert error.exc_type == "UnsupportedVersion", error
        assert rpc.call({}, "echo", value="after")["value"] == "after"


def case_casts_and_fanout(broker):
    """A cast reaches one server, a cast to a server that one, a fanout all of them."""
    with Server(broker, "one"), Server(broker, "two"), Client(broker) as rpc:
        for number in range(20):
            rpc.cast({}, "tell", text=f"cast {number}")
        got = [REPORTS.next() for _ in range(20)]
        assert sorted(text.split(" ", 1)[1] for text in got) == sorted(f"cast {n}" for n in range(20))
        assert {text.split()[0] for text in got} == {"one", "two"}, "one server got all of them"
        for name in ("one", "two", "one"):
            rpc.prepare(server=name).cast({}, "tell", text="direct")
            assert REPORTS.next() == f"{name} direct"
            assert rpc.prepare(server=name).call({}, "echo", value=0)["from"] == name
        for number in range(3):
            rpc.prepare(fanout=True).cast({}, "tell", text=f"all {number}")
            assert {REPORTS.next() for _ in "12"} == {f"one all {number}", f"two all {number}"}
        assert not REPORTS.pending()


def delete_queue(broker, name):
    import amqp
    with amqp.Connection(f"{broker.host}:{broker.port}") as connection:
        connection.channel().queue_delete(name)


def case_timeouts(broker):
    """Nobody answers; or the answer comes too late, when its reply queue is gone, and is returned."""
    with Server(broker, "late") as server:
        client = Client(broker)
        with client as rpc:
            nobody = rpc.prepare(topic="nobody", timeout=0.5)
            raises(oslo_messaging.MessagingTimeout, nobody.call, {}, "echo", value=1)
            raises(oslo_messaging.MessagingTimeout, rpc.prepare(timeout=0.5).call, {}, "hold")
            line = HOLDS.next()
            replies = client.transport._driver._reply_q
        delete_queue(broker, replies)
        line.close()
        lib.await_true("the answer was returned",
                       lambda: f"missing queue ({replies})" in server.log(), LIMIT_S)
        with Client(broker) as rpc:
            assert rpc.call({}, "echo", value="after")["value"] == "after"


def case_mandatory(broker):
    """A cast that must be delivered and cannot be."""
    options = oslo_messaging.TransportOptions(at_least_once=True)
    with Server(broker, "mandatory"), Client(broker) as rpc:
        lost = rpc.prepare(topic="nobody", transport_options=options)
        raises(oslo_messaging.MessageUndeliverable, lost.cast, {}, "tell", text="lost")
        rpc.prepare(transport_options=options).cast({}, "tell", text="found")
        assert REPORTS.next() == "mandatory found"


def case_quorum_queues(broker):
    """Queues with x-queue-type and x-delivery-limit."""
    with Server(broker, "quorum", "quorum"), Client(broker, topic="quorum") as rpc:
        assert [rpc.call({}, "echo", value=n)["value"] for n in range(20)] == list(range(20))


class Notified:
    """Takes notifications; the first of each that is to be requeued is refused once."""

    def __init__(self):
        self.got, self.refused = queue.Queue(), set()

    def info(self, ctxt, publisher_id, event_type, payload, metadata):
        if event_type == "twice" and payload not in self.refused:
            self.refused.add(payload)
            return oslo_messaging.NotificationResult.REQUEUE
        self.got.put(("info", publisher_id, event_type, payload))
        return oslo_messaging.NotificationResult.HANDLED

    def error(self, ctxt, publisher_id, event_type, payload, metadata):
        self.got.put(("error", publisher_id, event_type, payload))


def notify_transport(broker, exchange):
    return oslo_server.transport(url(broker), oslo_messaging.get_notification_transport, exchange=exchange)


def case_notifications(broker):
    """What is sent before anyone listens waits in its queue; two priorities; some come back once."""
    out, into = notify_transport(broker, "notes"), notify_transport(broker, "notes")
    notifier = oslo_messaging.Notifier(out, "publisher", driver="messagingv2", topics=["events"])
    for number in range(50):
        notifier.info({}, "early", number)
    endpoint = Notified()
    listener = oslo_messaging.get_notification_listener(
        into, [oslo_messaging.Target(topic="events")], [endpoint], executor="threading", allow_requeue=True)
    listener.start()
    for number in range(50):
        notifier.error({}, "now", number)
    for number in range(10):
        notifier.info({}, "twice", number)
    expected = {("info", "publisher", "early", n) for n in range(50)}
    expected |= {("error", "publisher", "now", n) for n in range(50)}
    expected |= {("info", "publisher", "twice", n) for n in range(10)}
    got = [endpoint.got.get(timeout=LIMIT_S) for _ in expected]
    assert set(got) == expected
    assert endpoint.refused == set(range(10)) and endpoint.got.empty()
    listener.stop()
    listener.wait()
    out.cleanup()
    into.cleanup()


class Batches:
    def __init__(self):
        self.got = queue.Queue()

    def info(self, messages):
        self.got.put([message["payload"] for message in messages])


def case_batches(broker):
    """A listener that acknowledges in batches."""
    out, into = notify_transport(broker, "batches"), notify_transport(broker, "batches")
    notifier = oslo_messaging.Notifier(out, "publisher", driver="messagingv2", topics=["batch"])
    for number in range(100):
        notifier.info({}, "batch", number)
    endpoint = Batches()
    listener = oslo_messaging.get_batch_notification_listener(
        into, [oslo_messaging.Target(topic="batch")], [endpoint], executor="threading", batch_size=10,
        batch_timeout=1)
    listener.start()
    got = []
    while len(got) < 100:
        got += endpoint.got.get(timeout=LIMIT_S)
    assert got == list(range(100)), got
    listener.stop()
    listener.wait()
    out.cleanup()
    into.cleanup()


def case_restart(broker):
    """Server and client find a broker again that was killed, and calls go on."""
    if broker.external:
        lib.skip("the server is a running one")
    with Server(broker, "restarted"), Client(broker, timeout=1) as rpc:
        assert rpc.call({}, "echo", value="before")["value"] == "before"
        broker.kill()
        broker.start()

        def answered():
            try:
                return rpc.call({}, "echo", value="after")["value"] == "after"
            except (oslo_messaging.MessagingTimeout, oslo_messaging.MessageDeliveryFailure):
                return False

        lib.await_true("a call is answered", answered, LIMIT_S)
        rpc.prepare(fanout=True).cast({}, "tell", text="all")
        assert REPORTS.next() == "restarted all"


def main():
    global REPORTS, HOLDS
    lib.exit_on_sigterm()
    REPORTS, HOLDS = Reports(), Holds()
    cfg.CONF([], project="tests", default_config_files=[], default_config_dirs=[])
    return lib.run_cases(globals())


if __name__ == "__main__":
    sys.exit(main())
