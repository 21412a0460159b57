# SPDX-License-Identifier: Apache-2.0
"""A client connection that sends and receives frames one by one, for tests.

Output gathers until something is awaited, so that consecutive sends leave in one write.  Input is
sorted by channel: the protocol promises no order between channels.  Nothing here hides a frame but
heartbeats.
"""

import collections
import socket
import struct
import time

import wire

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
CONTENT_METHODS = ("basic.deliver", "basic.return", "basic.get_ok")
WAIT = 20.0
CAPABILITIES = [(name, "t", True) for name in (
    b"publisher_confirms", b"exchange_exchange_bindings", b"basic.nack", b"consumer_cancel_notify",
    b"connection.blocked", b"authentication_failure_close")]


class Unexpected(Exception):
    """Something else arrived than what was awaited."""


class Received:
    """A method, with its content where it has one, or (kind "header", "body") a stray frame."""

    def __init__(self, kind, name, values):
        self.kind, self.name, self.values = kind, name, values

    def __str__(self):
        shown = " ".join(f"{k}={show(v)}" for k, v in self.values.items())
        return f"{self.name} {shown}".rstrip()


def show(value):
    if isinstance(value, bytes):
        value = value if len(value) <= 300 else value[:300] + b"..."
        text = value.decode("utf-8", "backslashreplace")
        return '"' + "".join(c if c >= " " else f"\\x{ord(c):02x}" for c in text) + '"'
    if isinstance(value, dict):
        return "{" + " ".join(f"{k}={show(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "{" + " ".join(show_entry(e) for e in value) + "}"
    return str(value)


def show_entry(entry):
    if len(entry) == 3:
        return f"{show(entry[0])}={entry[1]}:{show(entry[2])}"
    return f"{entry[0]}:{show(entry[1])}"


class Client:
    """One TCP connection."""

    def __init__(self, server, methods, name="c1"):
        self.methods, self.name, self.began = methods, name, time.monotonic()
        self.sock = socket.create_connection((server.host, server.port), WAIT)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.out, self.buffer, self.ended = bytearray(), bytearray(), False
        self.queues = collections.defaultdict(collections.deque)
        self.open_channels, self.is_open, self.frame_max = set(), False, 0
        self.heartbeats = 0

    # Sending

    def send(self, octets):
        self.out += octets

    def flush(self):
        """Write what gathered; reads when the peer does not take it, so that neither waits."""
        deadline = time.monotonic() + WAIT
        while self.out and not self.ended:
            self.sock.settimeout(0.05)
            try:
                n = self.sock.send(self.out)
                del self.out[:n]
            except TimeoutError:
                if time.monotonic() > deadline:
                    raise Unexpected(f"{self.name}: the server takes no more octets") from None
                self.pull(0.01)
            except OSError:
                self.out.clear()
                return

    def send_method(self, channel, name, **values):
        self.send(wire.frame(1, channel, wire.encode_method(self.methods.by_name[name], values)))

    # Receiving

    def pull(self, seconds):
        """Read once from the socket; False after the limit, True when octets or the end came."""
        self.sock.settimeout(max(seconds, 0.001))
        try:
            data = self.sock.recv(1 << 18)
        except TimeoutError:
            return False
        except OSError:
            data = b""
        self.ended = self.ended or not data
        self.buffer += data
        return True

    def cut_frames(self):
        while len(self.buffer) >= 8:
            kind, channel, size = struct.unpack_from(">BHI", self.buffer)
            if kind not in (1, 2, 3, 8):
                raise Unexpected(f"{self.name}: frame of type {kind} from the server")
            if self.frame_max and size + 8 > self.frame_max:
                raise Unexpected(f"{self.name}: frame of {size + 8} octets, over frame_max")
            if len(self.buffer) < size + 8:
                return
            payload = bytes(self.buffer[7:7 + size])
            if self.buffer[7 + size] != wire.FRAME_END:
                raise Unexpected(f"{self.name}: bad frame end from the server")
            del self.buffer[:size + 8]
            if kind == wire.FRAME_HEARTBEAT:
                self.heartbeats += 1
            else:
                self.queues[channel].append((kind, payload))

    def wait_until(self, ready, what, seconds=WAIT):
        """Read frames until ready() is true."""
        self.flush()
        deadline = time.monotonic() + seconds
        while True:
            self.cut_frames()
            if ready():
                return
            if self.ended:
                raise Unexpected(f"{self.name}: the server ended the connection, wanted {what}")
            left = deadline - time.monotonic()
            if left <= 0:
                raise Unexpected(f"{self.name}: nothing came for {seconds} s, wanted {what}")
            self.pull(left)

    def next_frame(self, channel, what):
        queue = self.queues[channel]
        zero = self.queues[0]
        self.wait_until(lambda: queue or (channel and zero), what)
        if not queue:
            raise Unexpected(f"{self.name}: wanted {what}, got {self.decode(*zero[0])}")
        return queue.popleft()

    def decode(self, kind, payload):
        try:
            if kind == wire.FRAME_METHOD:
                method, values = wire.decode_method(self.methods, payload)
                return Received("method", method.name, values)
            if kind == wire.FRAME_HEADER:
                size, props = wire.decode_header(payload)
                return Received("header", "content.header", {"body_size": size, "props": props})
        except (wire.WireError, struct.error) as e:
            raise Unexpected(f"{self.name}: the server sent {payload[:60].hex()}: {e}") from None
        return Received("body", "content.body", {"body": payload})

    def receive(self, channel, what="a frame"):
        """The next method on the channel, its content gathered into values props and body."""
        got = self.decode(*self.next_frame(channel, what))
        if got.name in CONTENT_METHODS:
            head = self.decode(*self.next_frame(channel, f"the header of {got.name}"))
            if head.kind != "header":
                raise Unexpected(f"{self.name}: {got.name} is followed by {head}")
            body = bytearray()
            while len(body) < head.values["body_size"]:
                part = self.decode(*self.next_frame(channel, f"a body frame of {got.name}"))
                if part.kind != "body" or not part.values["body"]:
                    raise Unexpected(f"{self.name}: {got.name} is followed by {part}")
                body += part.values["body"]
            if len(body) != head.values["body_size"]:
                raise Unexpected(f"{self.name}: body of {len(body)} octets, {head} said otherwise")
            got.values.update(props=head.values["props"], body=bytes(body))
        return got

    def expect(self, channel, name):
        got = self.receive(channel, name)
        if got.name != name:
            raise Unexpected(f"{self.name}: wanted {name}, got {got}")
        return got.values

    def expect_bytes(self, want):
        self.flush()
        deadline = time.monotonic() + WAIT
        while len(self.buffer) < len(want) and not self.ended:
            if not self.pull(deadline - time.monotonic()):
                break
        got = bytes(self.buffer[:len(want)])
        if got != want:
            raise Unexpected(f"{self.name}: wanted octets {show(want)}, got {show(got)}")
        del self.buffer[:len(want)]

    def expect_eof(self):
        """The server ends the connection and sends nothing more before that."""
        self.flush()
        deadline = time.monotonic() + WAIT
        while not self.ended:
            left = deadline - time.monotonic()
            if left <= 0 or not self.pull(left):
                raise Unexpected(f"{self.name}: the server keeps the connection open")
        self.cut_frames()
        for channel, queue in self.queues.items():
            if queue:
                raise Unexpected(f"{self.name} {channel}: wanted the end, got "
                                 f"{self.decode(*queue[0])}")
        if self.buffer:
            raise Unexpected(f"{self.name}: wanted the end, got {show(bytes(self.buffer))}")
        self.is_open = False

    # The usual conversations

    def handshake(self, user=b"guest", password=b"guest", vhost=b"/", capabilities=None,
                  frame_max=131072, channel_max=2047, heartbeat=0, product=b"proto"):
        capabilities = CAPABILITIES if capabilities is None else capabilities
        self.send(PROTOCOL_HEADER)
        self.expect(0, "connection.start")
        self.send_method(0, "connection.start_ok", mechanism=b"PLAIN", locale=b"en_US",
                         response=b"\0" + user + b"\0" + password,
                         client_properties=[(b"product", "S", product),
                                            (b"capabilities", "F", capabilities)])
        self.expect(0, "connection.tune")
        self.send_method(0, "connection.tune_ok", channel_max=channel_max, frame_max=frame_max,
                         heartbeat=heartbeat)
        self.send_method(0, "connection.open", virtual_host=vhost)
        self.expect(0, "connection.open_ok")
        self.is_open, self.frame_max = True, frame_max

    def open_channel(self, channel):
        self.send_method(channel, "channel.open")
        self.expect(channel, "channel.open_ok")
        self.open_channels.add(channel)

    def sync(self, channel, queues=()):
        """Round trips after which everything that was to arrive on the channel has arrived."""
        for queue in queues:
            self.send_method(channel, "queue.declare", queue=queue, passive=1)
            self.await_kept(channel, "queue.declare_ok")
        for _ in range(2):
            self.send_method(channel, "channel.flow", active=1)
            self.await_kept(channel, "channel.flow_ok")

    def await_kept(self, channel, name):
        """Wait for a method and take it out; frames before it stay in the queue."""
        queue, zero = self.queues[channel], self.queues[0]

        def find():
            for i, (kind, payload) in enumerate(queue):
                if kind == wire.FRAME_METHOD and self.decode(kind, payload).name == name:
                    return i + 1
            return 0

        self.wait_until(lambda: find() or zero, name)
        if not find():
            raise Unexpected(f"{self.name}: wanted {name}, got {self.decode(*zero[0])}")
        del queue[find() - 1]

    def assert_quiet(self, channel):
        queue = self.queues[channel]
        if queue:
            raise Unexpected(f"{self.name} {channel}: nothing more was expected, got "
                             f"{self.decode(*queue[0])}")

    def close(self):
        """A clean close that discards what still arrives."""
        try:
            if self.is_open and not self.ended:
                self.send_method(0, "connection.close", reply_code=200, reply_text=b"OK")
                self.wait_until(self.closed, "connection.close_ok")
        finally:
            self.drop()

    def closed(self):
        zero = self.queues[0]
        while zero and self.decode(*zero[0]).name != "connection.close_ok":
            zero.popleft()
        return bool(zero)

    def drop(self):
        self.is_open = False
        self.queues.clear()
        self.sock.close()
