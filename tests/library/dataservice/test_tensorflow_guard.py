"""A server that listens at every address is kept to one of them by the kernel."""

from __future__ import annotations

import socket

import pytest
from tf_data_runs import takes_filters

from dlc_runtime.dataservice.tensorflow.server import accept_only


def is_reached(address: str, port: int, family: int = socket.AF_INET) -> bool:
    with socket.socket(family) as sock:
        sock.settimeout(0.5)
        try:
            sock.connect((address, port))
        except TimeoutError:
            return False
    return True


@pytest.mark.skipif(not takes_filters(), reason="this kernel wants CAP_NET_ADMIN for a packet filter")
@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6], ids=["IPv4", "both"])
def test_what_is_sent_to_another_address_of_this_host_is_dropped(family: socket.AddressFamily) -> None:
    both = family == socket.AF_INET6
    if both and not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    with socket.create_server(("", 0), family=family, dualstack_ipv6=both) as server:
        port = server.getsockname()[1]
        assert is_reached("127.0.0.1", port)
        assert accept_only("127.0.0.2", port) == 1
        assert is_reached("127.0.0.2", port)
        assert not is_reached("127.0.0.1", port)
