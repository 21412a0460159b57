# SPDX-License-Identifier: Apache-2.0
"""
A client that is a bare socket: nothing happens behind the test's back, no heartbeats, no reading ahead.
pika's codec makes and reads the frames; what has to be fast (deliveries by the hundred thousand) is cut
by hand.
"""
import socket
import struct

from pika import frame, spec

HEADER = b"AMQP\x00\x00\x09\x01"
FRAME_MAX = 131072
LIMIT_S = 30


class Closed(Exception):
    """The server closed the connection: (code, text), or nothing when it only ended."""


class RawClient:
    def __init__(self, broker, heartbeat=0, receive_buffer=None, capabilities=None, source=None):
        self.socket = socket.socket()
        self.socket.settimeout(LIMIT_S)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        if source:
            self.socket.bind((source, 0))
        self.socket.connect((broker.host, broker.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        self.server_properties = None
        self.heartbeat = heartbeat
        self.capabilities = capabilities or {}

    def open(self, channel=1):
        """The handshake, and a channel."""
        self.start()
        self.send(spec.Connection.StartOk(
            client_properties={"product": "rawclient", "capabilities": self.capabilities},
            response="\0guest\0guest"), 0)
        tune = self.expect(spec.Connection.Tune)
        self.send(spec.Connection.TuneOk(tune.channel_max, FRAME_MAX, self.heartbeat), 0)
        self.send(spec.Connection.Open("/"), 0)
        self.expect(spec.Connection.OpenOk)
        if channel:
            self.rpc(spec.Channel.Open(), spec.Channel.OpenOk, channel)
        return self

    def start(self):
        self.socket.sendall(HEADER)
        self.server_properties = self.expect(spec.Connection.Start).server_properties

    def is_rabbitmq(self):
        product = self.server_properties["product"]
        return product in ("RabbitMQ", b"RabbitMQ")

    def send(self, method, channel=1):
        self.socket.sendall(frame.Method(channel, method).marshal())

    def send_heartbeat(self):
        self.socket.sendall(frame.Heartbeat().marshal())

    def read_frame(self):
        """The next frame as pika decodes it; raises Closed at the connection's end."""
        while True:
            used, found = frame.decode_frame(self.buffer)
            if found:
                self.buffer = self.buffer[used:]
                return found
            octets = self.socket.recv(65536)
            if not octets:
                raise Closed()
            self.buffer += octets

    def expect(self, kind):
        """The next method, heartbeats left out, which must be of that kind."""
        found = self.read_frame()
        while isinstance(found, frame.Heartbeat):
            found = self.read_frame()
        method = getattr(found, "method", None)
        if isinstance(method, spec.Connection.Close):
            raise Closed(method.reply_code, method.reply_text)
        assert isinstance(method, kind), f"not {kind} but {found}"
        return method

    def rpc(self, method, answer, channel=1):
        self.send(method, channel)
        return self.expect(answer)

    def declare(self, queue="", **more):
        return self.rpc(spec.Queue.Declare(queue=queue, **more), spec.Queue.DeclareOk)

    def consume(self, queue, no_ack=True):
        self.rpc(spec.Basic.Consume(queue=queue, no_ack=no_ack), spec.Basic.ConsumeOk)

    def publish(self, queue, body):
        self.socket.sendall(publishing(queue, body))

    def expect_delivery(self):
        """The next delivery: (method, body of one frame or none)."""
        method = self.expect(spec.Basic.Deliver)
        size = self.read_frame().body_size
        body = self.read_frame().fragment if size else b""
        assert len(body) == size
        return method, body

    def close(self):
        self.socket.close()


def publishing(queue, body, exchange="", channel=1):
    """The octets that publish a transient message without properties."""
    return b"".join((
        frame.Method(channel, spec.Basic.Publish(exchange=exchange, routing_key=queue)).marshal(),
        frame.Header(channel, len(body), spec.BasicProperties()).marshal(),
        frame.Body(channel, body).marshal()))


def cut_bodies(octets):
    """All whole frames in octets: (the first 8 octets of each body frame, as numbers; octets of bodies;
    octets used). Bodies of one frame only."""
    numbers, size_of_bodies, at, end = [], 0, 0, len(octets)
    while end - at >= 8:
        kind, _, size = struct.unpack_from(">BHL", octets, at)
        after = at + 8 + size
        if after > end:
            break
        if kind == spec.FRAME_BODY:
            numbers.append(struct.unpack_from(">Q", octets, at + 7)[0])
            size_of_bodies += size
        at = after
    return numbers, size_of_bodies, at
