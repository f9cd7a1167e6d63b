"""How long hosts need to meet, and what their hub costs. For launcher.py; the leader is a real process."""

from __future__ import annotations

import json
import socket
import subprocess
from pathlib import Path

ENTRYPOINT = Path(__file__).resolve().parents[1] / "src" / "entrypoint"
SYSTEM_PYTHON = "/usr/bin/python3"
HANG_BOUND = 120.0  # seconds
IDLE_SECONDS = 20.0  # over which the leader's CPU is taken
LEAD = f"""
import json, sys, time
sys.path.insert(0, sys.argv[1])
from launch import signals
from launch.coordination import rendezvous
from launch.coordination.membership import GroupRules, MemberConfig
signals.arm()
port, count = map(int, sys.argv[2:])
names = ("localhost", *(f"10.0.{{number // 250}}.{{number % 250}}" for number in range(1, count)))
started = time.monotonic()
group = rendezvous.join(MemberConfig("localhost", GroupRules(names, names), b"key", port, 60.0, "lo"), {{}}, 100.0)
seconds = time.monotonic() - started
assert len(group.facts) == count
time.sleep(2)
wall, cpu = time.monotonic(), time.process_time()
time.sleep({IDLE_SECONDS})
percent = (time.process_time() - cpu) / (time.monotonic() - wall) * 100
group.report(None)
while not group.end:
    time.sleep(0.05)
assert group.end.ok
group.close()
print(json.dumps([seconds, percent]))
"""
FOLLOW = """
import os, select, socket, sys, time
sys.path.insert(0, sys.argv[1])
from launch.coordination.sockets import group_channel
from launch.coordination.failure_detector import beat_interval
port, count = map(int, sys.argv[2:])
facts = {"image": "x" * 64, "hosts": "x" * 12, "traps": ["a line that says what is wrong"] * 3}
poll, channels, met, started = select.epoll(), {}, 0, 0.0
for number in range(1, count):
    while True:
        try:
            sock = socket.create_connection(("127.0.0.1", port), 5)
            break
        except OSError:
            time.sleep(0.02)
    host = f"10.0.{number // 250}.{number % 250}"
    channel = group_channel(sock, b"key", False, host)
    own = {**facts, "ssh key": os.urandom(40).hex()}
    channel.send({"kind": "join", "host": host, "instance": "i", "hub": "", "facts": own})
    channel.flush()
    channels[channel.fileno()] = channel
    poll.register(channel, select.EPOLLIN)
next_beat = time.monotonic() + beat_interval(60.0)
while channels:
    for fd, _ in poll.poll(0.1):
        channel = channels[fd]
        for message in channel.receive():
            if message["kind"] == "facts":
                channel.send({"kind": "ready", "generation": 0})
                channel.send({"kind": "done", "generation": 0})
            elif message.get("end") and fd in channels:
                channel.send({"kind": "bye"})
                channel.flush()
                poll.unregister(channels.pop(fd))
        if fd in channels:
            channel.flush()
    if time.monotonic() >= next_beat:
        next_beat += beat_interval(60.0)
        for channel in channels.values():
            channel.send({"kind": "beat"})
            channel.flush()
"""


def hub_of(hosts: int) -> tuple[float, float]:
    """(seconds for so many hosts to meet over loopback, CPU of the leader's whole launcher then, percent of a core).

    The leader is a real one in a process of its own; another process speaks for all the others.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    argv = [SYSTEM_PYTHON, "-I", "-S", "-c"]
    others = [str(ENTRYPOINT), str(port), str(hosts)]
    with (
        subprocess.Popen([*argv, LEAD, *others], stdout=subprocess.PIPE) as leader,
        subprocess.Popen([*argv, FOLLOW, *others]) as follower,
    ):
        try:
            seconds, percent = json.loads(leader.communicate(timeout=HANG_BOUND)[0])
        finally:
            leader.kill()
            follower.kill()
    return seconds, percent
