"""Mutual TLS between a job's hosts, by DLC_DATA_TLS=1: no certificate is sent, and no file is written.

Every host makes the key of the same certificate authority from the job's token, then a key and a certificate of its
own, which live as long as the process. Nobody on the network reads the data, nor later with the token (TLS 1.3).
May import `cryptography`.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import hmac
import importlib.util
import os
import ssl
from typing import TYPE_CHECKING, NamedTuple, cast

from dlc_runtime.dataservice.errors import MissingPackageError, ProtocolError, RefusedError, SettingError

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any, Union

    Socket = Union[socket.socket, "TlsSocket"]

SWITCH = "DLC_DATA_TLS"
# In every certificate.
NAME = "dlc-data-service"
# Whatever clocks say: the authority ends with the processes.
YEARS = (2000, 2100)
# TLS's largest record; what passes between kernel and OpenSSL in one call.
RECORD_BYTES, CHUNK_BYTES = 1 << 14, 1 << 18
_ORDER_P256 = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


class Identity(NamedTuple):
    """This process among the job's: PEM texts."""

    authority: bytes
    certificate: bytes
    key: bytes


def check_settings(environ: Mapping[str, str], own: str | None) -> None:
    """Raise SettingError if the switch is wrong or the token no secret; MissingPackageError."""
    asked = environ.get(SWITCH, "0")
    if asked not in ("", "0", "1"):
        raise SettingError(f"{SWITCH}: expected 0 or 1, found {asked!r}; set it equally on every host")
    if asked != "1":
        return
    if not own and not environ.get("DLC_DATA_TOKEN"):
        raise SettingError(
            f"{SWITCH}=1 needs a secret of the job, and DLC_DATA_TOKEN is not set: the launcher sets it where a job has"
            " several hosts; else set it on every host, or state token="
        )
    if importlib.util.find_spec("cryptography") is None:
        raise MissingPackageError(
            f"{SWITCH}=1 needs cryptography, which this image does not have; add cryptography to the requirements.txt"
            " beside the script"
        )


@functools.lru_cache(maxsize=8)
def identity(token: bytes) -> Identity:
    """Make it once, for forks too."""
    import datetime

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    def certificate(name: str, public: Any, is_authority: bool) -> Any:
        builder = x509.CertificateBuilder(
            issuer_name=authority_name,
            subject_name=x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]),
            public_key=public,
            serial_number=1 if is_authority else x509.random_serial_number(),
            not_valid_before=datetime.datetime(YEARS[0], 1, 1, tzinfo=datetime.timezone.utc),
            not_valid_after=datetime.datetime(YEARS[1], 1, 1, tzinfo=datetime.timezone.utc),
        ).add_extension(x509.BasicConstraints(ca=is_authority, path_length=0 if is_authority else None), critical=True)
        if not is_authority:
            usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
            builder = builder.add_extension(usage, critical=False)
            builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        signed = builder.sign(authority, hashes.SHA256())
        return signed.public_bytes(serialization.Encoding.PEM)

    authority_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{NAME} authority")])
    authority = ec.derive_private_key(_private_number(token), ec.SECP256R1())
    own = ec.generate_private_key(ec.SECP256R1())
    return Identity(
        certificate(f"{NAME} authority", authority.public_key(), is_authority=True),
        certificate(NAME, own.public_key(), is_authority=False),
        own.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )


def _private_number(token: bytes) -> int:
    """Return a private key of P-256; from 64 bytes, so that none of its values is likelier."""
    digest = hmac.new(token, b"the certificate authority of the data service 1", hashlib.sha512).digest()
    return int.from_bytes(digest, "big") % (_ORDER_P256 - 1) + 1


def enabled_identity(token: bytes) -> Identity | None:
    """Return the identity, None without the switch."""
    return identity(token) if os.environ.get(SWITCH) == "1" else None


@functools.lru_cache(maxsize=8)
def _context(token: bytes, is_server: bool) -> ssl.SSLContext:
    own = identity(token)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if is_server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=own.authority.decode())
    if is_server:
        context.num_tickets = 0
    with _in_memory(own.certificate + own.key) as path:
        context.load_cert_chain(path)
    return context


@contextlib.contextmanager
def _in_memory(text: bytes) -> Iterator[str]:
    """Yield a path of text that is on no disk: the module ssl reads keys from files only."""
    fd = os.memfd_create("dlc-data-key")
    try:
        os.write(fd, text)
        yield f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)


def secure(sock: socket.socket, token: bytes, is_server: bool) -> Socket:
    """Return the connected socket inside TLS, or as it is without the switch. Never blocks afterwards."""
    sock.setblocking(False)
    if enabled_identity(token) is None:
        return sock
    return TlsSocket(sock, token, is_server)


def is_ready(sock: Socket) -> bool:
    """Return whether the handshake is done."""
    return not isinstance(sock, TlsSocket) or sock.is_ready


def pending(sock: Socket) -> int:
    """Return how many bytes have come and were not read: no selector tells of them."""
    return sock.pending() if isinstance(sock, TlsSocket) else 0


class TlsSocket:
    """A socket's methods over TLS. BlockingIOError: later; a plain OSError: the other side is gone.

    OpenSSL sees memory, not the socket, of which it asks the kernel twice for each record of 16 KiB: that costs a
    receiver as much as deciphering. What `send` returns has left; a caller that waits offers the same bytes again.
    """

    def __init__(self, sock: socket.socket, token: bytes, is_server: bool) -> None:
        self._sock, self._is_server = sock, is_server
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = _context(token, is_server).wrap_bio(
            self._in, self._out, server_side=is_server, server_hostname=None if is_server else NAME
        )
        self._unsent = memoryview(b"")
        # Bytes that the caller still has, and that are in the unsent records.
        self._ciphered = 0
        self._got = memoryview(bytearray(RECORD_BYTES))
        self.is_ready = False
        with contextlib.suppress(BlockingIOError):
            self._shake_hands()

    def _shake_hands(self) -> None:
        while not self.is_ready:
            try:
                with self._translate_errors():
                    self._tls.do_handshake()
                self.is_ready, self._got = True, memoryview(bytearray(CHUNK_BYTES))
            except BlockingIOError:
                self._flush()
                if not self._fill(RECORD_BYTES):
                    raise ConnectionError("closed") from None
            finally:
                # The last words, also those of a refusal.
                with contextlib.suppress(OSError):
                    self._flush()

    @contextlib.contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Raise errors of TLS as those of a socket, or as the other side's fault."""
        try:
            yield
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError) as error:
            raise ConnectionError("closed") from error
        except ssl.SSLCertVerificationError as error:
            raise RefusedError(f"the other side is not of this job: {error.verify_message}") from None
        except ssl.SSLError as error:
            if self._is_server:
                raise ProtocolError(f"expected TLS of this job ({error.reason})") from None
            raise RefusedError(
                f"no TLS with the data server ({error.reason}); every host needs the same token and {SWITCH}"
            ) from None

    def _fill(self, most: int) -> int:
        """Take what the kernel has; return 0 at the connection's end."""
        size = self._sock.recv_into(self._got[:most])
        self._in.write(self._got[:size])
        return size

    def _flush(self) -> None:
        """Give the kernel what waits. Raises BlockingIOError if it does not take all."""
        while self._unsent or self._out.pending:
            if not self._unsent:
                self._unsent = memoryview(self._out.read())
            self._unsent = self._unsent[self._sock.send(self._unsent) :]

    def pending(self) -> int:
        return self._tls.pending() + self._in.pending

    def setblocking(self, flag: bool) -> None:
        """Do nothing."""

    def fileno(self) -> int:
        return self._sock.fileno()

    def close(self) -> None:
        self._sock.close()

    def recv(self, size: int) -> bytes:
        """Return all that is there if `size` is above two records: no selector tells of a rest."""
        data = bytearray(size)
        return bytes(data[: self._read_into([memoryview(data)], max(1, size - 2 * RECORD_BYTES))])

    def recvmsg_into(self, views: Sequence[memoryview]) -> tuple[int, None]:
        """Read as a socket does, but until nothing more is there, or no room."""
        return self._read_into(views, CHUNK_BYTES), None

    def recv_into(self, view: memoryview) -> int:
        return self._read_into([view], CHUNK_BYTES)

    def _read_into(self, views: Sequence[memoryview], at_once: int) -> int:
        self._shake_hands()
        total = 0
        with self._translate_errors():
            for view in views:
                while view.nbytes:
                    try:
                        size = cast("int", self._tls.read(view.nbytes, view))
                    except ssl.SSLWantReadError:
                        if total and at_once < CHUNK_BYTES:
                            return total
                        try:
                            if not self._fill(at_once):
                                return total
                        except BlockingIOError:
                            if not total:
                                raise
                            return total
                        continue
                    if not size:
                        return total
                    total += size
                    view = view[size:]
        return total

    def send(self, data: bytes | bytearray | memoryview) -> int:
        self._shake_hands()
        self._flush()
        if self._ciphered:
            size = min(self._ciphered, len(data))
            self._ciphered -= size
            return size
        # Its owner changes its size.
        copied = isinstance(data, bytearray)
        view = memoryview(bytes(data[:CHUNK_BYTES]) if copied else data)[:CHUNK_BYTES]
        with self._translate_errors():
            while self._ciphered < view.nbytes:
                self._ciphered += self._tls.write(view[self._ciphered :])
        self._flush()
        size, self._ciphered = self._ciphered, 0
        return size

    def sendmsg(self, parts: Sequence[memoryview]) -> int:
        total = 0
        try:
            for part in parts:
                while part.nbytes:
                    size = self.send(part)
                    total += size
                    part = part[size:]
        except BlockingIOError:
            if not total:
                raise
        return total
