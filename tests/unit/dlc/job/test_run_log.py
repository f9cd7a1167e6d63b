"""The hosts' lines come out whole, each with its host's name in front."""

from __future__ import annotations

import io
from threading import Thread

from dlc.job.host_log import HostLog


def test_every_line_says_which_host_it_is_of() -> None:
    out = io.StringIO()
    log = HostLog(2, out)
    log.taker("algo-1")("loss 0.5")
    log.taker("algo-2")("loss 0.4")
    assert out.getvalue() == "[algo-1] loss 0.5\n[algo-2] loss 0.4\n"


def test_a_line_whose_rank_the_launcher_has_named_says_it_once() -> None:
    out = io.StringIO()
    log = HostLog(2, out)
    log.taker("algo-1")("[algo-1:0] loss 0.5")
    log.taker("algo-1")("[algo-2:0] is what the script of algo-1 printed")
    assert out.getvalue() == "[algo-1:0] loss 0.5\n[algo-1] [algo-2:0] is what the script of algo-1 printed\n"


def test_the_only_host_needs_no_name() -> None:
    out = io.StringIO()
    HostLog(1, out).taker("algo-1")("loss 0.5")
    assert out.getvalue() == "loss 0.5\n"


def test_lines_of_hosts_that_write_at_once_stay_whole() -> None:
    out = io.StringIO()
    log = HostLog(4, out)
    hosts = [f"algo-{number}" for number in range(1, 5)]

    def write(host: str) -> None:
        take = log.taker(host)
        for number in range(500):
            take(f"line {number} of {host}")

    threads = [Thread(target=write, args=(host,)) for host in hosts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = {f"[{host}] line {number} of {host}" for host in hosts for number in range(500)}
    assert set(out.getvalue().splitlines()) == expected
