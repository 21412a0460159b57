# SPDX-License-Identifier: Apache-2.0
"""One connection to one of the two servers, whose frames are gathered into events by channel.

A Peer is the client of tests/proto that never awaits a certain method: what arrives is put into
events[channel], content already assembled, and the caller waits for a condition on these lists.
"""

import collections
import time

import client
import wire


class Peer(client.Client):
    """A connection of which everything that arrives is kept until somebody takes it."""

    def __init__(self, server, methods, name):
        super().__init__(server, methods, name)
        self.events = collections.defaultdict(list)
        self.partial = {}

    def gather(self):
        """Turn the frames that have arrived into events."""
        self.cut_frames()
        for channel in list(self.queues):
            queue = self.queues[channel]
            while queue:
                self.assemble(channel, self.decode(*queue.popleft()))

    def assemble(self, channel, got):
        content = self.partial.get(channel)
        if got.kind == "method":
            if content:
                raise client.Unexpected(f"{self.name} {channel}: {got} within a content")
            if got.name not in client.CONTENT_METHODS:
                self.events[channel].append(got)
                return
            self.partial[channel] = got
            got.left = None
            return
        if not content or (got.kind == "header") != (content.left is None):
            raise client.Unexpected(f"{self.name} {channel}: {got} is out of place")
        if got.kind == "header":
            content.left = got.values["body_size"]
            content.values.update(props=got.values["props"], body=b"")
        else:
            content.left -= len(got.values["body"])
            content.values["body"] += got.values["body"]
        if content.left < 0:
            raise client.Unexpected(f"{self.name} {channel}: too much body for {content}")
        if content.left == 0:
            del self.partial[channel]
            self.events[channel].append(content)

    def until(self, ready, what, seconds=client.WAIT):
        """Read until ready() is true."""
        self.flush()
        deadline = time.monotonic() + seconds
        while True:
            self.gather()
            if ready():
                return
            if self.ended:
                raise client.Unexpected(f"{self.name}: the server ended the connection, wanted {what}")
            left = deadline - time.monotonic()
            if left <= 0:
                raise client.Unexpected(f"{self.name}: nothing came for {seconds} s, wanted {what}")
            self.pull(left)

    def count(self, channel, name):
        return sum(event.name == name for event in self.events[channel])

    def send_content(self, channel, props, body):
        self.send(wire.content(channel, props, body, self.frame_max))

    def finish_open(self, channel):
        """Await the answer to a channel.open that was sent."""
        self.until(lambda: self.count(channel, "channel.open_ok"), "channel.open_ok")
        self.events[channel] = [e for e in self.events[channel] if e.name != "channel.open_ok"]

    def round_trip(self, channel):
        """After it everything sent before has been done; opens the channel again when that failed."""
        self.send_method(channel, "channel.flow", active=1)
        self.until(lambda: self.count(channel, "channel.flow_ok") or self.count(channel, "channel.close"),
                   "channel.flow_ok")
        if self.count(channel, "channel.close"):
            self.send_method(channel, "channel.close_ok")
            self.send_method(channel, "channel.open")
            self.finish_open(channel)
        self.events.clear()

    def end_after_close(self):
        """The server has sent connection.close: answer it and wait for the end of TCP."""
        self.send_method(0, "connection.close_ok")
        self.flush()
        deadline = time.monotonic() + client.WAIT
        while not self.ended and time.monotonic() < deadline:
            self.pull(deadline - time.monotonic())
        self.drop()
