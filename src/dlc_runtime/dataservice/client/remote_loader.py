"""`RemoteLoader`: takes the DataLoader's place; its batches are made on the data hosts."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
from typing import TYPE_CHECKING

from dlc_channel import keys
from dlc_runtime.dataservice import errors
from dlc_runtime.dataservice.client import config, framework_compat
from dlc_runtime.dataservice.client.buffers import BufferPool
from dlc_runtime.dataservice.client.config import Settings
from dlc_runtime.dataservice.client.device_transfer import DeviceMover
from dlc_runtime.dataservice.client.frame_reader import RemoteFailure
from dlc_runtime.dataservice.client.lease_client import LeaseClient
from dlc_runtime.dataservice.client.lease_server import LeaseServer, open_lease_listener
from dlc_runtime.dataservice.client.prefetcher import Prefetcher
from dlc_runtime.dataservice.schedule import progress
from dlc_runtime.dataservice.schedule.assignment import Sampling
from dlc_runtime.dataservice.schedule.progress import Progress
from dlc_runtime.dataservice.wire import control_rpc, frames, tls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

LOG = logging.getLogger("dlc.dataservice")
# For a loader that nobody closed, while the garbage collector waits.
CLOSE_SECONDS = 2.0
# Data hosts and rank -> the epoch after the last one that this process began: a loader that is made anew goes on there.
_next_epochs: dict[tuple[object, ...], int] = {}


class RemoteLoader:
    """Iterate over it as over a DataLoader: each training rank gets its share of the batches of an epoch, each once.

    `order`: "deterministic", the same batches in the same order for the same seed, whatever the number of data hosts;
    or "first_come", the next batch to the rank that asks first.
    `tail`: what happens to the batches that do not divide among the ranks: "keep" gives some ranks one more, "drop"
    none. `servers`: addresses, if not the job's data group (`group`). `rank`, `world`: this process among the training
    ranks, if torch.distributed or the launcher's variables do not say. `device`: for the tensors; without it they stay
    in the CPU's memory, with `pin_memory` page-locked. Other arguments: see `client/config.py`. Raises SettingError,
    and while it iterates the errors of `errors.py`.

    It is no DataLoader, so no framework shards it a second time. But it has what they look for.
    """

    collate_fn = staticmethod(framework_compat.return_unchanged)
    # A framework that builds a DataLoader over this one asks; there are no workers.
    prefetch_factor = None

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
        leases: str | None = None,
        when_lost: str = "fail",
        lost_after: float = 15.0,
        pin_memory: bool = False,
        device: Any = None,
        prefetch: int | None = None,
        prefetch_bytes: int = 256 << 20,
        most_batch_bytes: int = frames.MOST_BATCH,
        elsewhere_after: float = 10.0,
        deadline: float = 600.0,
        patience: float = 300.0,
    ) -> None:
        control_rpc.require_packages()
        tls.check_settings(os.environ, token)
        self.settings = Settings(
            order,
            prefetch,
            prefetch_bytes,
            most_batch_bytes,
            elsewhere_after,
            deadline,
            patience,
            tail,
            when_lost,
            lost_after,
        ).check()
        self._asked_share = (rank, world)
        self.share = config.find_share(rank, world)
        self.servers = config.find_servers(servers, group, port)
        self._token = keys.data_key(os.environ, token)
        self._device_mover = DeviceMover(device)
        self._pool = BufferPool(prefetch_bytes, pinned=self._device_mover.is_cuda or (pin_memory and _has_cuda()))
        self._prefetcher: Prefetcher | None = None
        self._sampling: Sampling | None = None
        self._saved: Mapping[str, Any] | None = None
        self._progress = Progress(_next_epochs.get(self._source, 0), world=self.share.world)
        # Whether an iteration has begun the epoch that `_progress` is in.
        self._has_begun = False
        # Ids of this epoch, if order does not tell them.
        self._done: set[int] = set()
        self._lease_server: LeaseServer | None = None
        self._lease_client: LeaseClient | None = None
        self._leases = leases
        self._lease_place = self._find_lease_place()
        # Which iteration is the current one.
        self._round = 0
        self._process = os.getpid()

    @property
    def sampler(self) -> framework_compat.BatchNumbers:
        # Kept, it would make a cycle: a loader that is dropped would wait for the garbage collector.
        return framework_compat.BatchNumbers(self)

    @property
    def batch_sampler(self) -> framework_compat.BatchNumbers:
        return framework_compat.BatchNumbers(self)

    @property
    def _source(self) -> tuple[object, ...]:
        """Return what an earlier loader of this process has in common with this one, if it had the same share."""
        return (*self.servers, self.share)

    def __len__(self) -> int:
        """Return this rank's batches in a whole epoch. Waits for the first data server."""
        return len(self.share.ids(self._wait_for_sampling().batches, tail=self.settings.tail))

    @property
    def dataset(self) -> framework_compat.RemoteDataset:
        return framework_compat.RemoteDataset(self._wait_for_sampling().samples, self)

    @property
    def batch_size(self) -> int:
        return self._wait_for_sampling().batch_size

    @property
    def drop_last(self) -> bool:
        return self._wait_for_sampling().drop_last

    @property
    def sampling(self) -> Sampling:
        """Return how the data hosts draw the batches."""
        return self._wait_for_sampling()

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration; without it each iteration is the next epoch.

        So is the first one of a loader that this process makes anew, once an earlier one has begun an epoch.
        """
        if epoch != self._progress.epoch or self._has_begun:
            self._set_progress(Progress(epoch=epoch, world=self.share.world))

    def skip(self, batches: int) -> None:
        """Let the next iteration leave out this rank's first batches: for a job that counts its steps itself.

        Raises SettingError with order="first_come": a count does not say which batches were done.
        """
        if not self.settings.is_ordered:
            raise errors.SettingError(
                "RemoteLoader: with order='first_come' the number of steps does not say which batches were done; save"
                " and load state_dict() instead"
            )
        self._wait_for_sampling()
        epoch = self._progress.epoch + self._has_begun
        self._set_progress(Progress(epoch, batches * self.share.world, world=self.share.world))

    def state_dict(self) -> dict[str, Any]:
        """Return how far this rank is: the batches that the loop was given.

        With order="first_come" every rank's state is needed: each loads its own, or all load `merge_states(...)`.
        """
        at = self._progress._replace(done=progress.to_runs(self._done))
        return progress.to_state(at, self.settings.order, self._wait_for_sampling()._asdict())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next iteration go on from there. Raises SettingError if data or order differ.

        The number of data servers may differ, and the number of ranks too.
        """
        found = progress.from_state(state, self.settings.order, self._wait_for_sampling()._asdict())
        self._set_progress(Progress(found.epoch, found.next_start, world=self.share.world))
        if not found.merged or self.share.rank == 0:
            self._done = {id_ for first, end in found.done for id_ in range(first, end)}

    def _set_progress(self, at: Progress) -> None:
        self._progress, self._done, self._has_begun = at, set(), False

    def __iter__(self) -> Iterator[Any]:
        self._wait_for_sampling()
        self._round += 1
        return self._batches(self._round)

    def _batches(self, own: int) -> Iterator[Any]:
        prefetcher = self._open_prefetcher()
        # The iteration before this one was left: its rest is not made up for.
        if self._has_begun:
            self._set_progress(Progress(self._progress.epoch + 1, world=self.share.world))
        at, self._has_begun = self._progress, True
        _next_epochs[self._source] = at.epoch + 1
        self._request_batches(at)

        def current(take: Callable[[], Any]) -> Callable[[], Any]:
            def taken() -> Any:
                self._drop_after_fork()
                if own != self._round:
                    raise errors.DataServiceError("another iteration over this RemoteLoader began; this one has ended")
                return take()

            return taken

        batches = self._wait_for_sampling().batches
        last = len(self.share.ids(batches, at.start, self.settings.tail)) if self.settings.is_ordered else -1
        try:
            with framework_compat.accelerate_iteration() as told:
                for id_, batch in self._device_mover.batches(current(prefetcher.take), current(prefetcher.take_ready)):
                    if isinstance(batch, RemoteFailure):
                        raise batch.error()
                    self._count_batch(id_)
                    if told is not None:
                        told.end_of_dataloader = self._progress.taken == last
                    yield batch
        finally:
            if own == self._round and self._prefetcher is prefetcher:
                self._end_iteration(prefetcher)
        if self._lease_server is not None and self._lease_client is not None:
            # The other ranks need it until they are done.
            self._lease_server.wait_for_all(self._lease_client.round, prefetcher.raise_fatal)
        self._set_progress(Progress(at.epoch + 1, world=self.share.world))

    def _end_iteration(self, prefetcher: Prefetcher) -> None:
        """Let go of batches that came for a loop that was left: none of them is given out any more."""
        if self._lease_client is not None:
            self._lease_client.leave()
        elif self.settings.is_ordered:
            prefetcher.begin(prefetcher.epoch, ())
        self._pool.clear()

    def _count_batch(self, id_: int) -> None:
        """Count a batch as given out, before it is."""
        if self._lease_client is not None:
            self._lease_client.confirm(id_)
        if self.settings.is_ordered:
            at = self._progress
            self._progress = Progress(at.epoch, at.start, at.taken + 1, at.world)
        else:
            self._done.add(id_)

    def _request_batches(self, at: Progress) -> None:
        """Let the prefetcher request this rank's batches: its share of them, or what it is granted."""
        sampling, prefetcher, done = self._wait_for_sampling(), self._open_prefetcher(), progress.to_runs(self._done)
        if self.settings.is_ordered:
            prefetcher.begin(at.epoch, self.share.ids(sampling.batches, at.start, self.settings.tail))
        elif self.share.world == 1:
            prefetcher.begin(at.epoch, progress.missing_ids(done, sampling.batches))
        else:
            facts = {"epoch": at.epoch, "batches": sampling.batches, "world": self.share.world}
            self._open_leases().begin(at.epoch, facts, done)

    def _open_leases(self) -> LeaseClient:
        if self._lease_client is None:
            settings, token, (rank, world) = self.settings, self._token, self.share
            listen, host, port = self._lease_place
            if rank == 0:
                listener = open_lease_listener(listen, port)
                self._lease_server = LeaseServer(
                    listener, token, world, settings.when_lost, settings.lost_after, settings.patience
                )
            self._lease_client = LeaseClient(
                self._open_prefetcher(), (host, port), token, rank, settings.lost_after, settings.patience
            )
        return self._lease_client

    def stop_servers(self) -> None:
        """End `serve` on every data host that answers, for jobs in which no launcher does."""
        for target in self.servers.values():
            try:
                control_rpc.call(target, self._token, control_rpc.STOP)
            except control_rpc.CallError:
                continue

    def close(self) -> None:
        """End the threads and connections. Batches that were given out stay valid.

        With order="first_come" rank 0 waits here until the other ranks have left the epoch: it keeps their leases.
        """
        self._drop_after_fork()
        if self._lease_client is not None and self._lease_server is not None and self._prefetcher is not None:
            self._lease_client.leave()
            with contextlib.suppress(errors.DataServiceError):
                self._lease_server.wait_for_all(self._lease_client.round, self._prefetcher.raise_fatal)
        self._close_now()

    def _close_now(self) -> None:
        self._drop_after_fork()
        _close_parts(*self._take_parts())

    def _take_parts(self) -> tuple[LeaseClient | LeaseServer | Prefetcher | None, ...]:
        parts = self._lease_client, self._lease_server, self._prefetcher
        self._lease_client = self._lease_server = self._prefetcher = None
        self._pool.clear()
        return parts

    def __del__(self) -> None:
        # An error in `__init__` leaves no prefetcher; at the end of Python its threads end with it.
        if self.__dict__.get("_prefetcher") is None or os.getpid() != self._process or sys.is_finalizing():
            return
        LOG.warning(
            "data service: a RemoteLoader was dropped that nobody had closed; write `with RemoteLoader(...) as loader:`"
            ", or call close()"
        )
        # Any thread collects garbage, also one that is to end here.
        closing = threading.Thread(target=_close_parts, args=self._take_parts(), name="dlc-data-close", daemon=True)
        closing.start()
        closing.join(CLOSE_SECONDS)

    def __enter__(self) -> RemoteLoader:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self._close_now()

    def _drop_after_fork(self) -> None:
        """Drop the threads, which a forked process lacks, and the parent's connections."""
        if os.getpid() != self._process:
            self._process = os.getpid()
            self._round += 1
            self._lease_client = self._lease_server = self._prefetcher = None

    def _open_prefetcher(self) -> Prefetcher:
        if self._prefetcher is None:
            self._prefetcher = Prefetcher(self.settings, self.servers, self._token, self._pool)
        return self._prefetcher

    def _update_share(self) -> None:
        """Read rank and world again: the process group may have begun after this loader was made."""
        found = config.find_share(*self._asked_share)
        if found != self.share:
            self.share = found
            self._progress = self._progress._replace(world=found.world)
            self._lease_place = self._find_lease_place()

    def _find_lease_place(self) -> tuple[str, str, int]:
        if self.settings.is_ordered or self.share.world == 1:
            return "", "", 0
        return config.find_lease_server(self._leases)

    def _wait_for_sampling(self) -> Sampling:
        """Return what the first data server describes. Raises ServersLostError if none does in time."""
        self._drop_after_fork()
        if not self._progress.taken and not self._has_begun:
            self._update_share()
        if self._sampling is None:
            prefetcher = self._open_prefetcher()
            data = prefetcher.discovery.wait_for_data(self.settings.patience)
            if prefetcher.discovery.fatal is not None:
                raise prefetcher.discovery.fatal
            if data is None:
                raise errors.ServersLostError(
                    f"no data server answered for {self.settings.patience:.0f} s: {prefetcher.describe_silence()}"
                )
            self._sampling = Sampling(**{name: data[name] for name in Sampling._fields})
            if self.settings.is_ordered and self.settings.tail == "keep" and self._sampling.batches % self.share.world:
                LOG.warning(
                    "data service: %d batches for %d ranks: some get one more, for which DDP would wait for ever;"
                    " tail='drop' leaves the last ones out",
                    self._sampling.batches,
                    self.share.world,
                )
        return self._sampling


def _close_parts(*parts: LeaseClient | LeaseServer | Prefetcher | None) -> None:
    for part in parts:
        if part is not None:
            part.close()


def _has_cuda() -> bool:
    import torch

    return bool(torch.cuda.is_available())
