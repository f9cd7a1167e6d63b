"""Records on which way a value goes through the library, as walks.py does for the tool and the launcher.

usage: python benchmarks/library_walks.py [CHECKOUT] [--walk batch|break ...]

batch  a text in a batch from `serve` to the loop over a RemoteLoader, in two processes.
break  the reason of a graph break, until report.html is written.

Results count too, and fields of objects do not: a queue that holds the batch is asked many things that are no part of
its way. Needs torch and gRPC; in an image:
docker run --rm -v "$PWD:/dlc:ro" IMAGE python /dlc/benchmarks/library_walks.py
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from walks import BOUND, MARK, Drive, Recorder, inside, main


def walk_batch(source: Path, folder: Path) -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        (folder / "port").write_text(str(sock.getsockname()[1]))
    with subprocess.Popen(inside("serve", source, folder)) as data_host:
        try:
            subprocess.run(inside("take", source, folder), check=True, timeout=BOUND)
        finally:
            data_host.terminate()


class Texts:
    """Samples with the mark, which the data set itself does not hold."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> dict[str, object]:
        import torch

        return {"text": "".join(["0dd", "ba11"]), "x": torch.ones(4)}


def record_serve(source: Path, folder: Path) -> None:
    sys.path.insert(0, str(source))
    from dlc_runtime.dataservice import serve

    Recorder(source, MARK, folder, results_not_fields=True).start()
    port = int((folder / "port").read_text())
    serve(Texts(), batch_size=None, workers=1, address="127.0.0.1", port=port, token="token")


def record_take(source: Path, folder: Path) -> None:
    sys.path.insert(0, str(source))
    from dlc_runtime.dataservice import RemoteLoader

    port = (folder / "port").read_text()
    recorder = Recorder(source, MARK, folder, results_not_fields=True)
    recorder.start()
    with RemoteLoader([f"127.0.0.1:{port}"], rank=0, world=1, token="token", device="cpu") as loader:
        for batch in loader:
            recorder.end()
            print(f"the loop has {batch['text']}", file=sys.stderr)


def walk_break(source: Path, folder: Path) -> None:
    environ = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    subprocess.run(inside("break", source, folder), env=environ, check=True, timeout=BOUND, stdout=sys.stderr)
    if MARK not in (folder / "report/report.html").read_text():
        raise SystemExit("expected the graph break on the page, found none")


def record_break(source: Path, folder: Path) -> None:
    sys.path.insert(0, str(source))
    os.environ.update(DLC_COMPILER="inductor", DLC_COMPILER_MODE="default", DLC_COMPILER_REPORT=f"{folder}/report")
    # As the line in the images does it in each Python.
    exec((source.parent / "docker/scripts/runtime/dlc_runtime.pth").read_text().splitlines()[1])
    import torch

    recorder = Recorder(source, MARK, folder, results_not_fields=True)
    # Else Dynamo would compile it.
    recorder.note_call = torch._dynamo.disable(recorder.note_call)
    recorder.start()

    class Net(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            x = self.layer(x)
            torch._dynamo.graph_break(msg="".join(["0dd", "ba11"]))
            return self.layer(x)

    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(16):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()


WALKS: dict[str, Drive] = {"batch": walk_batch, "break": walk_break}
INSIDE: dict[str, Drive] = {"serve": record_serve, "take": record_take, "break": record_break}

if __name__ == "__main__":
    main(__doc__ or "", WALKS, INSIDE, [*WALKS])
