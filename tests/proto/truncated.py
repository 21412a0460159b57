# SPDX-License-Identifier: Apache-2.0
"""Every truncation of every method, and every method with an octet too many, sent on a channel.

Each must be answered by connection.close 501 with the ids of the method.  One case for each method.
"""

import client
import wire

SAMPLES = {"SHORTSTR": b"ab", "LONGSTR": b"abc", "TABLE": [(b"k", "S", b"v")], "BIT": 1}


def cases(server):
    """(name, slow, function) of each case."""
    out = []
    for method in server.methods.by_name.values():
        out.append((f"every truncation of {method.name}", False, lambda m=method: run(server, m)))
    return out


def run(server, method):
    values = {name: SAMPLES.get(kind, 7) for kind, name in method.fields}
    whole = wire.encode_method(method, values)
    for size in range(len(whole)):
        refused(server, method, whole[:size], 1)
    refused(server, method, whole + b"\0", 1)
    if method.class_id == 10 and not server.is_oracle:  # RabbitMQ: 541, see undecodable-channel-0
        for size in range(4, len(whole)):
            refused(server, method, whole[:size], 0)


def refused(server, method, payload, channel):
    c = client.Client(server, server.methods)
    try:
        handshake_at_once(c)
        c.send(wire.frame(1, channel, payload))
        handshake_done(c)
        got = c.receive(0, "connection.close")
        text = b"FRAME_ERROR - cannot decode" if len(payload) >= 4 else b"FRAME_ERROR - "
        ids = (method.class_id, method.method_id) if len(payload) >= 4 else (0, 0)
        if (got.name != "connection.close" or got.values["reply_code"] != 501
                or (got.values["class_id"], got.values["method_id"]) != ids
                or not got.values["reply_text"].startswith(text)):
            raise client.Unexpected(f"payload {payload.hex()} on channel {channel}: got {got}")
        c.send_method(0, "connection.close_ok")
        c.flush()
    finally:
        c.drop()


def handshake_at_once(c):
    """The handshake and channel 1, in one write with what follows."""
    c.send(client.PROTOCOL_HEADER)
    c.send_method(0, "connection.start_ok", mechanism=b"PLAIN", response=b"\0guest\0guest",
                  locale=b"en_US")
    c.send_method(0, "connection.tune_ok", channel_max=2047, frame_max=131072)
    c.send_method(0, "connection.open", virtual_host=b"/")
    c.send_method(1, "channel.open")


def handshake_done(c):
    """Take the answers to handshake_at_once."""
    for name in ("connection.start", "connection.tune", "connection.open_ok"):
        c.expect(0, name)
