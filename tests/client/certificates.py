# SPDX-License-Identifier: Apache-2.0
"""Certificate authorities and certificates for one test, made by openssl."""
import os
import subprocess
import tempfile


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=60)


class Authority:
    """A certificate authority in a directory of its own; pem is its certificate."""

    def __init__(self, name):
        self.folder = tempfile.mkdtemp(prefix=f"{name}-", dir=os.environ["PANNIER_TEST_DIR"])
        self.pem, self.key = self.path("ca.pem"), self.path("ca.key")
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-days", "2", "-subj", f"/CN={name}", "-keyout", self.key, "-out", self.pem)

    def path(self, name):
        return os.path.join(self.folder, name)

    def issue(self, name, serial, common_name=None):
        """A certificate for 127.0.0.1 and localhost: the paths of certificate and key."""
        pem, key, request = (self.path(f"{name}.{end}") for end in ("pem", "key", "csr"))
        extensions = self.path("extensions")
        with open(extensions, "w", encoding="ascii") as out:
            out.write("subjectAltName=IP:127.0.0.1,DNS:localhost\nbasicConstraints=CA:FALSE\n")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-subj", f"/CN={common_name or name}", "-keyout", key, "-out", request)
        openssl("x509", "-req", "-in", request, "-CA", self.pem, "-CAkey", self.key, "-set_serial",
                str(serial), "-days", "2", "-extfile", extensions, "-out", pem)
        return pem, key
