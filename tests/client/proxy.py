#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# limit: 60 s
"""
The PROXY protocol, versions 1 and 2. Who a client is said to be is seen by what it may do: guest logs in
from a loopback address only.
"""
import os
import socket
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import broker as lib  # noqa: E402
from rawclient import HEADER, Closed, RawClient  # noqa: E402

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
FAR, NEAR = "203.0.113.7", "127.0.0.9"
REFUSED = "ACCESS_REFUSED"
CAPABLE = {"authentication_failure_close": True}


def version1(family, source, target, source_port=40000):
    return f"PROXY {family} {source} {target} {source_port} 5672\r\n".encode()


def version2(command, family, addresses, tail=b""):
    return SIGNATURE + bytes((0x20 | command, family)) + struct.pack(">H", len(addresses + tail)) + \
        addresses + tail


def ipv4(source):
    return version2(1, 0x11, socket.inet_aton(source) + socket.inet_aton("127.0.0.1") +
                    struct.pack(">HH", 40000, 5672))


def ipv6(source, tail=b""):
    return version2(1, 0x21, socket.inet_pton(socket.AF_INET6, source) +
                    socket.inet_pton(socket.AF_INET6, "::1") + struct.pack(">HH", 40000, 5672), tail)


def is_rabbitmq(broker):
    """Told by the product that a usual header is answered with."""
    client = RawClient(broker)
    client.socket.sendall(version1("TCP4", NEAR, "127.0.0.1"))
    client.start()
    client.close()
    return client.is_rabbitmq()


def login(broker, header, in_pieces=False, source=None):
    """Logs in as guest after that header; the text of the refusal, or None when it was let in."""
    client = RawClient(broker, capabilities=CAPABLE, source=source)
    try:
        if in_pieces:
            for at in range(len(header)):
                client.socket.sendall(header[at:at + 1])
        else:
            client.socket.sendall(header)
        client.open()
        client.declare(exclusive=True)
        return None
    except Closed as error:
        return error.args[1] if error.args else "dropped"
    except (ConnectionResetError, BrokenPipeError):
        return "dropped"
    finally:
        client.close()


def must_be_refused(broker, header):
    """RabbitMQ looks at the proxy's address for this."""
    text = login(broker, header)
    assert is_rabbitmq(broker) or (text and REFUSED in text), text


def case_version_1(broker):
    assert login(broker, version1("TCP4", NEAR, "127.0.0.1")) is None
    must_be_refused(broker, version1("TCP4", FAR, "127.0.0.1"))
    assert login(broker, version1("TCP6", "::1", "::1")) is None
    must_be_refused(broker, version1("TCP6", "2001:db8::7", "::1"))
    # RabbitMQ wants the whole line in one piece.
    assert is_rabbitmq(broker) or login(broker, version1("TCP4", NEAR, "127.0.0.1"), in_pieces=True) is None


def case_version_1_unknown(broker):
    """The sender does not know: the connection's own addresses hold."""
    if is_rabbitmq(broker):
        lib.skip("RabbitMQ drops these")
    assert login(broker, b"PROXY UNKNOWN\r\n") is None


def case_version_2(broker):
    assert login(broker, ipv4(NEAR)) is None
    must_be_refused(broker, ipv4(FAR))
    assert login(broker, ipv6("::1")) is None
    must_be_refused(broker, ipv6("2001:db8::7"))
    assert login(broker, ipv4(NEAR), in_pieces=True) is None
    # What follows the addresses, here an authority, is skipped.
    assert login(broker, ipv6("::1", b"\x02\x00\x09localhost")) is None


def case_version_2_local(broker):
    """A health check of the proxy itself: the connection's own addresses hold."""
    if is_rabbitmq(broker):
        lib.skip("RabbitMQ drops these")
    assert login(broker, version2(0, 0, b"")) is None


def case_no_header(broker):
    assert login(broker, b"") == "dropped"


def case_malformed_headers(broker):
    for header in (b"PROXY TCP4 1.2.3 127.0.0.1 1 2\r\n", b"PROXY TCP4 1.2.3.4 127.0.0.1 1 99999\r\n",
                   b"PROXY TCP4 127.0.0.1\r\n", b"PROXY " + b"x" * 200 + b"\r\n",
                   SIGNATURE + b"\x31\x11\x00\x0c" + bytes(12), SIGNATURE + b"\x21\x11\x00\x04" + bytes(4)):
        assert login(broker, header) == "dropped", header
    assert login(broker, ipv4(NEAR)) is None


def case_header_only_from_trusted_sources(broker):
    if is_rabbitmq(broker):
        lib.skip("RabbitMQ trusts everybody")
    settings = {"proxy_protocol": "true", "proxy_protocol.trusted.1": "127.0.0.2/32"}
    with lib.Broker(settings) as strict:
        assert login(strict, ipv4(NEAR), source="127.0.0.2") is None
        assert REFUSED in login(strict, ipv4(FAR), source="127.0.0.2")
        for header in (b"", ipv4(NEAR), ipv4(FAR), version1("TCP4", NEAR, "127.0.0.1")):
            assert login(strict, header, source="127.0.0.3") == "dropped"


def case_without_the_setting_a_header_is_no_amqp():
    with lib.Broker() as broker:
        client = RawClient(broker)
        client.socket.sendall(version1("TCP4", NEAR, "127.0.0.1"))
        assert client.socket.recv(8) == HEADER
        client.close()
        assert login(broker, b"") is None


if __name__ == "__main__":
    if os.environ.get("PANNIER_URL"):
        print("skip: needs settings of its own\n0 passed, 0 failed")
        sys.exit(0)
    sys.exit(lib.run_cases(globals(), {"proxy_protocol": "true"}))
