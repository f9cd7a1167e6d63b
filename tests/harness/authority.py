"""A certificate authority that nobody trusts until its file is named, and servers' certificates of it."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

# A new certificate with a key of its own.
NEW = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]


class Authority:
    """Made with openssl in a folder; `bundle` is the file that a client has to name.

    Without `key_usage` it is as many companies' old ones are, which Python 3.13 refuses by default.
    """

    def __init__(self, folder: Path, key_usage: bool = True) -> None:
        self._folder = folder
        self._key, self.bundle = folder / "ca.key", folder / "ca.pem"
        argv = [*NEW, *(["-addext", "keyUsage=critical,keyCertSign,cRLSign"] if key_usage else [])]
        self._run(*argv, "-subj", "/CN=A private authority", "-keyout", str(self._key), "-out", str(self.bundle))

    def certificate(self, *names: str) -> tuple[Path, Path]:
        """Certificate and key of a server with these names, as in `DNS:localhost` and `IP:127.0.0.1`."""
        certificate, key = self._folder / "server.pem", self._folder / "server.key"
        argv = [*NEW, "-subj", "/CN=server", "-addext", f"subjectAltName={','.join(names)}"]
        argv += ["-addext", "basicConstraints=critical,CA:FALSE", "-CA", str(self.bundle), "-CAkey", str(self._key)]
        self._run(*argv, "-keyout", str(key), "-out", str(certificate))
        return certificate, key

    def context(self, *names: str) -> ssl.SSLContext:
        """What a server with these names wraps its sockets in."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.certificate(*names))
        return context

    def _run(self, *argv: str) -> None:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
