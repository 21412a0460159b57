#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# limit: 60 s
"""
Heartbeats from both sides. The only figures here are the protocol's own: a client that falls silent is
gone between two and three intervals after its last octet, seen by its message coming to another one.
"""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import broker as lib  # noqa: E402
from pika import frame, spec  # noqa: E402
from rawclient import RawClient  # noqa: E402

SLACK_S = 1.0  # for a busy machine, above only
T = 2


def silent_client_is_gone(broker, queue, before_silence):
    """A client takes a message, does before_silence() and says no more; returns the seconds until the
    message came to another consumer."""
    heir = RawClient(broker).open()
    heir.declare(queue)
    heir.publish(queue, b"m")
    silent = RawClient(broker, heartbeat=T).open()
    silent.consume(queue, no_ack=False)
    method, _ = silent.expect_delivery()
    assert not method.redelivered
    heir.consume(queue)
    before_silence(silent)
    began = time.monotonic()
    method, body = heir.expect_delivery()
    passed = time.monotonic() - began
    assert method.redelivered and body == b"m"
    # Its connection is gone without a word, after the heartbeats that the server sent meanwhile.
    heard = []
    try:
        while True:
            heard.append(silent.read_frame())
    except Exception as end:
        assert type(end).__name__ in ("Closed", "ConnectionResetError"), end
    assert all(isinstance(found, frame.Heartbeat) for found in heard), heard
    assert len(heard) >= 3, f"{len(heard)} heartbeats of the server in {passed:.1f} s"
    heir.rpc(spec.Queue.Delete(queue=queue), spec.Queue.DeleteOk)
    print(f"     gone after {passed:.2f} s, T = {T}", flush=True)
    return passed


def case_silent_client_is_gone_between_two_and_three_intervals(broker):
    def talk_for_a_while(client):
        end = time.monotonic() + 1.7 * T
        while time.monotonic() < end:
            client.send_heartbeat()
            time.sleep(0.3 * T)
        client.send_heartbeat()

    passed = silent_client_is_gone(broker, "silence.talked", talk_for_a_while)
    assert 2 * T <= passed <= 3 * T + SLACK_S, passed


def case_silent_from_the_start(broker):
    passed = silent_client_is_gone(broker, "silence.never", lambda client: None)
    assert 2 * T - SLACK_S <= passed <= 3 * T + SLACK_S, passed


def case_any_octet_counts(broker):
    """A client that sends one octet of a frame now and then is alive, for more than three intervals."""
    client = RawClient(broker, heartbeat=1).open()
    octets = frame.Method(1, spec.Queue.Declare(queue="", exclusive=True)).marshal()
    pause = 4.5 / len(octets)
    for octet in octets:
        client.socket.sendall(bytes((octet,)))
        time.sleep(pause)
    client.expect(spec.Queue.DeclareOk)
    client.close()


def case_heartbeat_zero_is_off(broker):
    """Neither side sends any; the connection stays, longer than any interval here."""
    client = RawClient(broker, heartbeat=0).open()
    client.socket.settimeout(3)
    try:
        found = client.read_frame()
    except TimeoutError:
        found = None
    assert found is None, found
    client.socket.settimeout(20)
    client.declare(exclusive=True)
    client.close()


def case_server_beats_twice_an_interval(broker):
    client = RawClient(broker, heartbeat=2).open()
    began = time.monotonic()
    for _ in range(4):
        assert isinstance(client.read_frame(), frame.Heartbeat)
        client.send_heartbeat()
    # Four of them: open-ok was output in the first second, so they come after two, three, four and five.
    passed = time.monotonic() - began
    assert 2 <= passed <= 5 + SLACK_S, passed
    client.close()


if __name__ == "__main__":
    sys.exit(lib.run_cases(globals()))
