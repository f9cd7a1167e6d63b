"""The channel between two processes: every Python of an image speaks with this one, and runs it without typing."""

from __future__ import annotations

import json
import socket
import subprocess
from pathlib import Path

import pytest
from supervised import HANG_BOUND
from test_start import PYTHONS, found

from dlc_channel import keys
from dlc_channel.channel import Channel

SOURCES = Path(__file__).parents[3] / "src"
JOB = {"DLC_JOB_TOKEN": "5ec4e7"}
CLIENT = """
import json, select, socket, sys
sys.path.insert(0, sys.argv[1])
from dlc_channel import keys
from dlc_channel.channel import Channel
assert "typing" not in sys.modules
sock = socket.socket(fileno=int(sys.argv[2]))
channel = Channel(sock, keys.job_key({"DLC_JOB_TOKEN": "5ec4e7"}, ()), "group", False, "algo-2")
channel.send({"kind": "join"})
heard = []
while not heard:
    select.select([channel], [], [], 60)
    heard = channel.receive()
    channel.flush()
print(json.dumps([heard, channel.is_open]))
"""


@pytest.mark.parametrize("python", PYTHONS)
def test_every_python_of_an_image_speaks_with_this_one(python: str) -> None:
    near, far = socket.socketpair()
    with near, far:
        command = [found(python), "-I", "-S", "-c", CLIENT, str(SOURCES), str(far.fileno())]
        with subprocess.Popen(command, stdout=subprocess.PIPE, pass_fds=[far.fileno()], text=True) as client:
            channel = Channel(near, keys.job_key(JOB, ()), "group", is_server=True)
            channel.flush()
            heard = []
            while not heard:
                near.settimeout(HANG_BOUND)
                heard = channel.receive()
            channel.send({"kind": "state"})
            channel.flush()
            said = client.communicate(timeout=HANG_BOUND)[0]
    assert heard == [{"kind": "join"}]
    assert json.loads(said) == [[{"kind": "state"}], True]
