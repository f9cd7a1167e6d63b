"""Promotes an image between two registries over TLS by this checkout and by another one, in turns.

usage: python benchmarks/registry.py --against CHECKOUT [--runs N] [--away SECONDS]

Both registries are in this process and keep connections. `--away` is the time of a packet to them and back, as a
model: a registry sleeps so long before each answer, and twice as long before a handshake (TCP, then TLS 1.3).
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests"), str(ROOT / "tests/process/dlc")]
from memory_registry import Memory  # noqa: E402 (the tests' registry)
from scripted_server import Asked, Reply, serving  # noqa: E402

from dlc.registry.client.repository import KINDS, Manifest, describe_blob, make_digest, make_manifest  # noqa: E402
from dlc.registry.referrers import EMPTY, SPDX, make_referrer  # noqa: E402
from harness.authority import Authority  # noqa: E402

LAYERS, DOCUMENTS = 12, 4
TAG = "one-0123456789ab"
BOUND_SECONDS = 300.0
IDLE_SECONDS = 60.0
# It prints the seconds of the promotion alone.
CLIENT = f"""
import sys, time
from pathlib import Path
from dlc.registry.client.http import Session
from dlc.registry.client.repository import Repository
from dlc.registry.promote import promote_image
ca, source, target, digest = sys.argv[1:]
places = [Repository(Session(url, "team/pytorch", None, Path(ca)), "team/pytorch") for url in (source, target)]
start = time.monotonic()
promote_image(*places, digest, lambda *_: {{digest: ("{TAG}",)}}, lambda _: None)
print(time.monotonic() - start)
"""


def main() -> None:
    """Print a row for each checkout."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--against", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--away", type=float, default=0.0)
    args = parser.parse_args()
    checkouts = {"this checkout": ROOT, "the other one": args.against}
    found: dict[str, list[tuple[float, int, int]]] = {name: [] for name in checkouts}
    with tempfile.TemporaryDirectory(prefix="dlc-bench-") as folder:
        authority = Authority(Path(folder))
        for _ in range(args.runs):
            for name, checkout in checkouts.items():
                found[name].append(promote(checkout, authority, args.away))
    print(f"| by, {args.runs} runs | requests | connections | seconds (median) | slowest |\n|---|---|---|---|---|")
    for name, runs in found.items():
        seconds, requests, connections = zip(*runs, strict=True)
        print(
            f"| {name} | {max(requests)} | {max(connections)} | {statistics.median(seconds):.2f} | {max(seconds):.2f} |"
        )


def promote(checkout: Path, authority: Authority, away: float) -> tuple[float, int, int]:
    """Return the seconds, the requests and the connections of one promotion to an empty registry."""
    source, image = fill_source()

    def answer(store: Memory, asked: Asked) -> Reply:
        time.sleep(away)
        return store(asked)

    target = Memory(lists=True)
    tls = authority.context("IP:127.0.0.1")
    with (
        serving(lambda asked: answer(source, asked), tls, IDLE_SECONDS, 2 * away) as one,
        serving(lambda asked: answer(target, asked), tls, IDLE_SECONDS, 2 * away) as other,
    ):
        words = [sys.executable, "-c", CLIENT, str(authority.bundle), one.url, other.url, image.digest]
        environ = {"PYTHONPATH": str(checkout / "src"), "PATH": "/usr/bin:/bin"}
        done = subprocess.run(words, env=environ, capture_output=True, text=True, check=True, timeout=BOUND_SECONDS)
        both = (one, other)
        return float(done.stdout), sum(len(each.asked) for each in both), sum(len(each.connections) for each in both)


def fill_source() -> tuple[Memory, Manifest]:
    """Return a registry that has an image with documents about it, and the image."""
    store = Memory(lists=True)
    contents = [b"{}", *(b"%d" % number * 10_000 for number in range(LAYERS))]
    config, *layers = (describe_blob("application/octet-stream", each) for each in contents)
    image = make_manifest(config, layers)
    documents = [b'{"number": %d}' % number for number in range(DOCUMENTS)]
    store.blobs = {make_digest(each): each for each in (EMPTY, *contents, *documents)}
    for each in (image, *(make_referrer(image, SPDX, document) for document in documents)):
        store.manifests[each.digest] = (KINDS[0], each.data)
    store.manifests[TAG] = (KINDS[0], image.data)
    return store, image


if __name__ == "__main__":
    main()
