"""`RemoteLoader`: stands where the DataLoader stood; its batches are made on the data hosts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dlc_runtime.dataservice import errors
from dlc_runtime.dataservice.client import calls, place
from dlc_runtime.dataservice.client.link import Failure
from dlc_runtime.dataservice.client.pool import Pool
from dlc_runtime.dataservice.client.pump import Pump
from dlc_runtime.dataservice.client.settings import Settings
from dlc_runtime.dataservice.plan import progress
from dlc_runtime.dataservice.plan.epoch import TAILS, Sampling
from dlc_runtime.dataservice.plan.progress import Progress
from dlc_runtime.dataservice.wire import control, frames
from dlc_runtime.dataservice.wire import token as tokens

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any


class RemoteDataset:
    """What is known here of the dataset on the data hosts: its length."""

    def __init__(self, samples: int) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return self._samples


class RemoteLoader:
    """Iterate over it as over a DataLoader: each training rank gets its share of the batches of an epoch, each once.

    `order`: "deterministic", the same batches in the same order for the same seed, whatever the number of data hosts;
    or "first_come", the next batch to the rank that asks first.
    `tail`: what happens to the batches that do not divide among the ranks: "keep" gives some ranks one more, "drop"
    none. `servers`: addresses, where the job's data group (`group`) is not to be used. `rank`, `world`: this process
    among the training ranks, where torch.distributed or the launcher's variables do not say. Other arguments: see
    `client/settings.py`. Raises SettingError, and while it iterates the errors of `errors.py`.
    """

    def __init__(
        self,
        servers: Sequence[str] | None = None,
        *,
        order: str = "deterministic",
        tail: str = "keep",
        rank: int | None = None,
        world: int | None = None,
        group: str | None = None,
        port: int | None = None,
        token: str | None = None,
        pin_memory: bool = False,
        prefetch: int | None = None,
        prefetch_bytes: int = 256 << 20,
        most_batch_bytes: int = frames.MOST_BATCH,
        elsewhere_after: float = 10.0,
        deadline: float = 600.0,
        patience: float = 300.0,
    ) -> None:
        if tail not in TAILS:
            raise errors.SettingError(f"RemoteLoader: tail: expected one of {TAILS}, found {tail!r}")
        self.settings = Settings(
            order, prefetch, prefetch_bytes, most_batch_bytes, elsewhere_after, deadline, patience
        ).check()
        self.tail, self.share = tail, place.share(rank, world)
        self.servers = place.servers(servers, group, port)
        self._token = tokens.derive(os.environ, token)
        self._pool = Pool(prefetch_bytes, pinned=pin_memory and _has_cuda())
        self._pump: Pump | None = None
        self._sampling: Sampling | None = None
        self._saved: Mapping[str, Any] | None = None
        self._progress = Progress(epoch=0, world=self.share.world)
        self._round = 0  # which iteration is the current one

    def __len__(self) -> int:
        """Batches of this rank in a whole epoch. Waits for the first data server."""
        return len(self.share.ids(self._known().batches, tail=self.tail))

    @property
    def dataset(self) -> RemoteDataset:
        return RemoteDataset(self._known().samples)

    @property
    def batch_size(self) -> int:
        return self._known().batch_size

    @property
    def drop_last(self) -> bool:
        return self._known().drop_last

    @property
    def sampling(self) -> Sampling:
        """How the data hosts draw the batches."""
        return self._known()

    def set_epoch(self, epoch: int) -> None:
        """The epoch of the next iteration; without it each iteration is the next epoch."""
        if epoch != self._progress.epoch:
            self._progress = Progress(epoch=epoch, world=self.share.world)

    def state_dict(self) -> dict[str, Any]:
        """How far this rank is: the batches that the loop was given. For `load_state_dict`, of any number of ranks."""
        return progress.to_state(self._progress, self.settings.order, self._known()._asdict())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next iteration goes on from there. Raises SettingError for the state of other data or another order.

        The number of data servers may be another one, and the number of ranks too.
        """
        found = progress.from_state(state, self.settings.order, self._known()._asdict())
        self._progress = Progress(epoch=found.epoch, start=found.next_start, world=self.share.world)

    def __iter__(self) -> Iterator[Any]:
        sampling = self._known()
        self._round += 1
        return self._batches(sampling, self._round)

    def _batches(self, sampling: Sampling, own: int) -> Iterator[Any]:
        self._progress = at = Progress(self._progress.epoch, self._progress.next_start, 0, self.share.world)
        pump = self._started()
        pump.begin(at.epoch, self.share.ids(sampling.batches, at.start, self.tail))
        while True:
            taken = pump.take()
            if own != self._round:
                raise errors.DataServiceError("another iteration over this RemoteLoader began; this one has ended")
            if taken is None:
                break
            _, batch = taken
            if isinstance(batch, Failure):
                raise error_of(batch.told)
            at = at._replace(taken=at.taken + 1)
            self._progress = at
            yield batch
        self._progress = Progress(at.epoch + 1, world=self.share.world)

    def stop_servers(self) -> None:
        """End `serve` on every data host, for jobs in which no launcher does. Those that are gone are left out."""
        for server in self.servers:
            try:
                calls.call(server, self._token, control.STOP)
            except calls.CallError:
                continue

    def close(self) -> None:
        """End the threads and connections. Batches that were given out stay valid."""
        if self._pump is not None:
            self._pump.close()
            self._pump = None

    def __enter__(self) -> RemoteLoader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _started(self) -> Pump:
        if self._pump is None:
            self._pump = Pump(self.settings, self.servers, self._token, self._pool)
        return self._pump

    def _known(self) -> Sampling:
        """What the first data server describes. Raises ServersLostError where none does in time."""
        if self._sampling is None:
            pump = self._started()
            data = pump.scout.wait_for_data(self.settings.patience)
            if pump.scout.fatal is not None:
                raise pump.scout.fatal
            if data is None:
                raise errors.ServersLostError(
                    f"no data server answered for {self.settings.patience:.0f} s: {pump.describe_silence()}"
                )
            self._sampling = Sampling(**{name: data[name] for name in Sampling._fields})
        return self._sampling


def error_of(told: Mapping[str, Any]) -> errors.DataServiceError:
    """The error that a data host reported."""
    kind, host = str(told.get("type", "")), str(told.get("host", "?"))
    own = {"UnsupportedBatchError": errors.UnsupportedBatchError, "BatchTooLargeError": errors.BatchTooLargeError}
    if told.get("ours") and kind in own:
        return own[kind](f"on the data host {host}: {told.get('message')}")
    return errors.RemoteUserError(
        f"{kind} in the user's code on the data host {host} (worker {told.get('worker')}, pid {told.get('pid')},"
        f" samples {told.get('indices')}): {told.get('message')}\n\n{told.get('traceback')}",
        kind,
        host,
        str(told.get("traceback")),
    )


def _has_cuda() -> bool:
    import torch

    return bool(torch.cuda.is_available())
