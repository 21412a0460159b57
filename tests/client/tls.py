#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# limit: 120 s
"""TLS: versions, client certificates, login by certificate, and new certificates on SIGHUP."""
import os
import shutil
import socket
import ssl
import sys
import warnings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import broker as lib  # noqa: E402
import pika  # noqa: E402
from certificates import Authority  # noqa: E402
from pika import exceptions  # noqa: E402
from rawclient import RawClient  # noqa: E402

LIMIT_S = 20


class Server:
    """A broker that listens with TLS, too, and the authorities that it and its clients trust."""

    def __init__(self, **options):
        lib.test_dir()
        self.authority, self.stranger = Authority("test authority"), Authority("another authority")
        self.certificate = self.authority.path("in use.pem")
        self.key = self.authority.path("in use.key")
        self.use("first", 1001)
        self.port = lib.free_port()
        settings = {
            "listeners.ssl.1": f"127.0.0.1:{self.port}",
            "ssl_options.cacertfile": self.authority.pem,
            "ssl_options.certfile": self.certificate,
            "ssl_options.keyfile": self.key,
        }
        settings.update({key.replace("__", "."): value for key, value in options.items()})
        self.broker = lib.Broker(settings, ready_port=self.port)

    def use(self, name, serial):
        """Puts a new certificate where the broker finds it; it is told by nobody."""
        pem, key = self.authority.issue(name, serial)
        shutil.copyfile(pem, self.certificate)
        shutil.copyfile(key, self.key)

    def context(self, client=None, version=None):
        """A client's side that trusts our authority only; client is what Authority.issue() gave."""
        context = ssl.create_default_context(cafile=self.authority.pem)
        if client:
            context.load_cert_chain(*client)
        if version:
            context.minimum_version = context.maximum_version = version
        return context

    def connect(self, context=None, credentials=None):
        return pika.BlockingConnection(pika.ConnectionParameters(
            "127.0.0.1", self.port, socket_timeout=LIMIT_S, blocked_connection_timeout=LIMIT_S,
            ssl_options=pika.SSLOptions(context or self.context(), "127.0.0.1"),
            credentials=credentials or pika.PlainCredentials("guest", "guest")))

    def handshake(self, context=None):
        """Only TLS and the header: the version, the serial number of the certificate, connection.start."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT_S) as plain:
            with (context or self.context()).wrap_socket(plain, server_hostname="127.0.0.1") as secure:
                secure.sendall(b"AMQP\x00\x00\x09\x01")
                start = secure.recv(65536)
                serial = int(secure.getpeercert()["serialNumber"], 16)
                return secure.version(), serial, start

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.broker.__exit__(*error)


def round_trip(connection, size=10):
    """A message of that size to a queue and back."""
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    body = os.urandom(size)
    channel.basic_publish("", queue, body)
    for method, _, got in channel.consume(queue, auto_ack=True, inactivity_timeout=LIMIT_S):
        assert method is not None and got == body
        break
    channel.close()


def refused(call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except (OSError, exceptions.AMQPConnectionError) as error:
        return error
    raise AssertionError("let in")


def case_versions_and_bodies():
    with Server() as server:
        for version, name in ((ssl.TLSVersion.TLSv1_2, "TLSv1.2"), (ssl.TLSVersion.TLSv1_3, "TLSv1.3")):
            context = server.context(version=version)
            assert server.handshake(context)[0] == name
            connection = server.connect(context)
            for size in (0, 1, 16384, 16385, 3000000):
                round_trip(connection, size)
            connection.close()
        if b"RabbitMQ" not in server.handshake()[2]:
            refused(server.handshake, outdated_context(server))


def outdated_context(server):
    """One that offers TLS 1.0 and 1.1 only."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context = server.context(version=ssl.TLSVersion.TLSv1_2)
        context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
        context.set_ciphers("ALL:@SECLEVEL=0")
    return context


def end_of(plain, octets):
    """Sends and half-closes; the server ends the connection, too, and may be faster."""
    try:
        plain.sendall(octets)
        plain.shutdown(socket.SHUT_WR)
        while plain.recv(4096):
            pass
    except TimeoutError:
        raise AssertionError(f"the connection stays open after {octets[:20]!r}") from None
    except OSError:
        pass


def case_plain_and_garbage_on_the_wrong_port():
    with Server() as server:
        stay = server.connect()
        for octets in (b"AMQP\x00\x00\x09\x01", bytes(5000), b"\x16\x03\x01\xff\xff" + bytes(3000)):
            with socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT_S) as plain:
                end_of(plain, octets)
        # TLS on the plain port is a bad protocol header.
        with socket.create_connection(("127.0.0.1", server.broker.port), timeout=LIMIT_S) as plain:
            refused(server.context().wrap_socket, plain, server_hostname="127.0.0.1")
        round_trip(stay)
        stay.close()


def case_client_certificate_optional():
    with Server(ssl_options__verify="verify_peer", ssl_options__fail_if_no_peer_cert="false") as server:
        round_trip(server.connect())
        client = server.authority.issue("client", 2001)
        round_trip(server.connect(server.context(client)))
        # One that is shown must be good.
        refused(server.connect, server.context(server.stranger.issue("client", 2002)))


def case_client_certificate_required():
    with Server(ssl_options__verify="verify_peer", ssl_options__fail_if_no_peer_cert="true") as server:
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            refused(server.connect, server.context(version=version))
            refused(server.connect, server.context(server.stranger.issue("client", 2003), version))
            client = server.authority.issue("client", 2004)
            round_trip(server.connect(server.context(client, version)))


def case_login_by_certificate():
    options = {
        "ssl_options__verify": "verify_peer", "ssl_options__fail_if_no_peer_cert": "false",
        "auth_mechanisms__1": "EXTERNAL", "auth_mechanisms__2": "PLAIN", "ssl_cert_login_from": "common_name",
    }
    external = pika.credentials.ExternalCredentials()
    with Server(**options) as server:
        guest = server.context(server.authority.issue("guest", 3001))
        connection = server.connect(guest, external)
        # The user is the one of the certificate: only its own user_id is accepted.
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.basic_publish("", queue, b"mine", pika.BasicProperties(user_id="guest"))
        lib.await_true("the message", lambda: channel.basic_get(queue, auto_ack=True)[0])
        connection.close()
        nobody = server.context(server.authority.issue("nobody", 3002))
        assert "ACCESS_REFUSED" in str(refused(server.connect, nobody, external))
        assert "ACCESS_REFUSED" in str(refused(server.connect, server.context(), external))
        # With a certificate a password will do as well; without TLS there is none to show.
        round_trip(server.connect(nobody))
        plain = pika.ConnectionParameters("127.0.0.1", server.broker.port, credentials=external)
        refused(pika.BlockingConnection, plain)


def case_reload_on_sighup():
    with Server() as server:
        client = RawClient(server.broker)
        client.start()
        if client.is_rabbitmq():
            lib.skip("RabbitMQ reads certificates by itself now and then")
        stay = server.connect()
        assert server.handshake()[1] == 1001
        server.use("second", 1002)
        assert server.handshake()[1] == 1001, "nobody has asked for a reload"
        server.broker.hup()
        lib.await_true("the new certificate", lambda: server.handshake()[1] == 1002)
        round_trip(stay)
        round_trip(server.connect())
        for damage in (cut_in_half, not_a_certificate, missing, of_another_key):
            said = len(server.broker.log())
            kept = damage(server)
            server.broker.hup()
            server.broker.await_log(rb"in use\.(pem|key)", said)
            assert server.handshake()[1] == 1002, damage.__name__
            shutil.copyfile(kept, server.certificate)
        round_trip(stay)
        server.use("third", 1003)
        server.broker.hup()
        lib.await_true("the third certificate", lambda: server.handshake()[1] == 1003)
        round_trip(stay)
        stay.close()


def keep(server):
    kept = server.authority.path("kept.pem")
    shutil.copyfile(server.certificate, kept)
    return kept


def cut_in_half(server):
    kept = keep(server)
    os.truncate(server.certificate, os.path.getsize(server.certificate) // 2)
    return kept


def not_a_certificate(server):
    kept = keep(server)
    with open(server.certificate, "w", encoding="ascii") as out:
        out.write("hello\n")
    return kept


def missing(server):
    kept = keep(server)
    os.unlink(server.certificate)
    return kept


def of_another_key(server):
    kept = keep(server)
    pem, _ = server.authority.issue("mismatched", 1999)
    shutil.copyfile(pem, server.certificate)
    return kept


def case_bad_certificate_at_the_start():
    """It does not start, and says which file it was."""
    lib.test_dir()
    authority = Authority("authority")
    _, key = authority.issue("server", 1)
    missing_file = authority.path("missing.pem")
    port = lib.free_port()
    settings = {
        "listeners.ssl.1": f"127.0.0.1:{port}", "ssl_options.certfile": missing_file,
        "ssl_options.cacertfile": authority.pem, "ssl_options.keyfile": key,
    }
    try:
        lib.Broker(settings, ready_port=port).kill()
    except lib.BrokerFailed as error:
        assert "status 1 " in str(error), error
        return
    raise AssertionError("it started")


if __name__ == "__main__":
    if os.environ.get("PANNIER_URL"):
        print("skip: needs settings of its own\n0 passed, 0 failed")
        sys.exit(0)
    sys.exit(lib.run_cases(globals()))
