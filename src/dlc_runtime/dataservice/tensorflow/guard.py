"""Keeps a server that listens at every address to one of them: a packet filter on its sockets. Linux only.

tf.data.service listens at 0.0.0.0 and has no setting for it, no password and no encryption. The kernel drops what is
sent to another address of this host before TensorFlow sees it. Connections inherit the filter.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import ipaddress
import os
import socket
import stat
import struct
from collections.abc import Iterator

SO_ATTACH_FILTER = 26
_SIOCGIFADDR = 0x8915
_NETWORK_HEADER = 0xFFF00000  # SKF_NET_OFF: offsets from the start of the IP header
_LOAD_BYTE, _LOAD_WORD, _SHIFT_RIGHT, _JUMP_IF_EQUAL, _RETURN = 0x30, 0x20, 0x74, 0x15, 0x06
_DESTINATION = {4: 16, 6: 24}  # its place in an IP header
_WHOLE_PACKET = 0xFFFFFFFF


def keep_to(address: str, port: int) -> int:
    """Let this process's sockets at `port` hear only what is sent to `address`; returns how many these are.

    Raises OSError where the kernel takes no filter.
    """
    program = _program(address)
    buffer = ctypes.create_string_buffer(program, len(program))
    attached = struct.pack("HP", len(program) // 8, ctypes.addressof(buffer))  # native, as struct sock_fprog
    count = 0
    for sock in _sockets(port):
        sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, attached)
        count += 1
    return count


def other_interfaces(address: str) -> list[str]:
    """Interfaces with an address, but neither this address nor the loopback's: there strangers could reach a server."""
    found: dict[str, set[str]] = {}
    for _, name in socket.if_nameindex():
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            reply = fcntl.ioctl(sock, _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            found.setdefault(name, set()).add(socket.inet_ntoa(reply[20:24]))
    with contextlib.suppress(FileNotFoundError), open("/proc/net/if_inet6", encoding="ascii") as file:
        for digits, *_, name in map(str.split, file):
            found.setdefault(name, set()).add(socket.inet_ntop(socket.AF_INET6, bytes.fromhex(digits)))
    return [name for name, own in found.items() if address not in own and not all(map(_is_inner, own))]


def _is_inner(address: str) -> bool:
    return ipaddress.ip_address(address).is_loopback


def _program(address: str) -> bytes:
    """Accept what goes to the address, drop the rest: the words of the destination are compared one after the other."""
    packed = socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)
    version = 6 if len(packed) == 16 else 4
    words = struct.unpack(f"!{len(packed) // 4}I", packed)
    tests = [(_LOAD_WORD, _NETWORK_HEADER + _DESTINATION[version] + 4 * i, word) for i, word in enumerate(words)]
    after_version = 2 * len(tests) + 1  # instructions from the version's comparison to the refusal
    steps = [
        (_LOAD_BYTE, 0, 0, _NETWORK_HEADER),
        (_SHIFT_RIGHT, 0, 0, 4),
        (_JUMP_IF_EQUAL, 0, after_version, version),
    ]
    for number, (load, offset, word) in enumerate(tests):
        steps.append((load, 0, 0, offset))
        steps.append((_JUMP_IF_EQUAL, 0, 2 * (len(tests) - number - 1) + 1, word))
    steps += [(_RETURN, 0, 0, _WHOLE_PACKET), (_RETURN, 0, 0, 0)]
    return b"".join(struct.pack("HBBI", *step) for step in steps)


def _sockets(port: int) -> Iterator[socket.socket]:
    """This process's TCP sockets at a port of its own, those that listen and those that were accepted."""
    for name in os.listdir("/proc/self/fd"):
        try:
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
            copy = os.dup(int(name))
        except OSError:
            continue  # closed meanwhile
        with socket.socket(fileno=copy) as sock:
            is_tcp = sock.type == socket.SOCK_STREAM and sock.family in (socket.AF_INET, socket.AF_INET6)
            if is_tcp and sock.getsockname()[1] == port:
                yield sock
