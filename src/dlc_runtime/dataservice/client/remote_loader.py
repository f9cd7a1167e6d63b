"""`RemoteLoader`: stands where the DataLoader stood; its batches are made on the data hosts."""

from __future__ import annotations

import contextlib
import logging
import os
from typing import TYPE_CHECKING

from dlc_runtime.dataservice import errors
from dlc_runtime.dataservice.client import config, framework_compat
from dlc_runtime.dataservice.client.buffers import Pool
from dlc_runtime.dataservice.client.config import Settings, check_above_zero
from dlc_runtime.dataservice.client.device_transfer import Mover
from dlc_runtime.dataservice.client.lease_client import Lessee
from dlc_runtime.dataservice.client.lease_server import Keeper
from dlc_runtime.dataservice.client.prefetcher import Pump
from dlc_runtime.dataservice.client.worker_connection import Failure
from dlc_runtime.dataservice.schedule import progress
from dlc_runtime.dataservice.schedule.assignment import TAILS, WHEN_LOST, Sampling
from dlc_runtime.dataservice.schedule.progress import Progress
from dlc_runtime.dataservice.wire import addresses, channel, control_rpc, frames, tls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

LOG = logging.getLogger("dlc.dataservice")


class RemoteLoader:
    """Iterate over it as over a DataLoader: each training rank gets its share of the batches of an epoch, each once.

    `order`: "deterministic", the same batches in the same order for the same seed, whatever the number of data hosts;
    or "first_come", the next batch to the rank that asks first.
    `tail`: what happens to the batches that do not divide among the ranks: "keep" gives some ranks one more, "drop"
    none. `servers`: addresses, where the job's data group (`group`) is not to be used. `rank`, `world`: this process
    among the training ranks, where torch.distributed or the launcher's variables do not say. `device`: where the
    tensors go; without it they stay in the CPU's memory, with `pin_memory` page-locked. Other arguments: see
    `client/config.py`. Raises SettingError, and while it iterates the errors of `errors.py`.

    It is no DataLoader, so no framework shards it a second time. But it has what they ask one for.
    """

    collate_fn = staticmethod(framework_compat.as_it_is)
    prefetch_factor = None  # of a DataLoader that a framework builds over this one: it has no workers

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
        if tail not in TAILS:
            raise errors.SettingError(f"RemoteLoader: tail: expected one of {TAILS}, found {tail!r}")
        self.settings = Settings(
            order, prefetch, prefetch_bytes, most_batch_bytes, elsewhere_after, deadline, patience
        ).check()
        if when_lost not in WHEN_LOST:
            raise errors.SettingError(f"RemoteLoader: when_lost: expected one of {WHEN_LOST}, found {when_lost!r}")
        if order == "deterministic" and when_lost == "give_back":
            raise errors.SettingError(
                "RemoteLoader: when_lost='give_back' needs order='first_come': a deterministic order names each rank's"
                " batches, so the loss of a rank has to fail the job"
            )
        check_above_zero("lost_after", lost_after)
        self.when_lost, self.lost_after = when_lost, lost_after
        self._asked_share = (rank, world)
        self.tail, self.share = tail, config.share(rank, world)
        self.servers = config.servers(servers, group, port)
        self._token = channel.job_token(os.environ, token)
        self._mover = Mover(device)
        self._pool = Pool(prefetch_bytes, pinned=self._mover.is_cuda or (pin_memory and _has_cuda()))
        self._pump: Pump | None = None
        self._sampling: Sampling | None = None
        self._saved: Mapping[str, Any] | None = None
        self._progress = Progress(epoch=0, world=self.share.world)
        self._is_begun = False  # whether an iteration has begun the epoch that `_progress` is in
        self._done: set[int] = set()  # ids of this epoch, where order does not tell them
        self._keeper: Keeper | None = None
        self._lessee: Lessee | None = None
        self._leases = leases
        self._lease_place = self._find_lease_place()
        self._round = 0  # which iteration is the current one
        self._process = os.getpid()
        self.sampler = self.batch_sampler = framework_compat.BatchNumbers(self)

    def __len__(self) -> int:
        """Batches of this rank in a whole epoch. Waits for the first data server."""
        return len(self.share.ids(self._known().batches, tail=self.tail))

    @property
    def dataset(self) -> framework_compat.RemoteDataset:
        return framework_compat.RemoteDataset(self._known().samples, self)

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
        if epoch != self._progress.epoch or self._is_begun:
            self._begin(Progress(epoch=epoch, world=self.share.world))

    def skip(self, batches: int) -> None:
        """Let the next iteration leave out this rank's first batches: for a job that counts its steps itself.

        Raises SettingError with order="first_come", where a count does not say which batches were done.
        """
        if not self.settings.ordered:
            raise errors.SettingError(
                "RemoteLoader: with order='first_come' the number of steps does not say which batches were done; save"
                " and load state_dict() instead"
            )
        self._known()
        epoch = self._progress.epoch + self._is_begun
        self._begin(Progress(epoch, batches * self.share.world, world=self.share.world))

    def state_dict(self) -> dict[str, Any]:
        """How far this rank is: the batches that the loop was given. For `load_state_dict`.

        With order="first_come" every rank's state is needed: each loads its own, or all load `merge_states(...)`.
        """
        at = self._progress._replace(done=progress.to_runs(self._done))
        return progress.to_state(at, self.settings.order, self._known()._asdict())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next iteration goes on from there. Raises SettingError for the state of other data or another order.

        The number of data servers may be another one, and the number of ranks too.
        """
        found = progress.from_state(state, self.settings.order, self._known()._asdict())
        self._begin(Progress(found.epoch, found.next_start, world=self.share.world))
        if not found.merged or self.share.rank == 0:
            self._done = {id_ for first, end in found.done for id_ in range(first, end)}

    def _begin(self, at: Progress) -> None:
        self._progress, self._done, self._is_begun = at, set(), False

    def __iter__(self) -> Iterator[Any]:
        self._known()
        self._round += 1
        return self._batches(self._round)

    def _batches(self, own: int) -> Iterator[Any]:
        pump = self._started()
        if self._is_begun:  # the iteration before this one was left: its rest is not made up for
            self._begin(Progress(self._progress.epoch + 1, world=self.share.world))
        at, self._is_begun = self._progress, True
        self._ask_for(at)

        def current(take: Callable[[], Any]) -> Callable[[], Any]:
            def taken() -> Any:
                self._leave_to_parent()
                if own != self._round:
                    raise errors.DataServiceError("another iteration over this RemoteLoader began; this one has ended")
                return take()

            return taken

        last = len(self.share.ids(self._known().batches, at.start, self.tail)) if self.settings.ordered else -1
        try:
            with framework_compat.iteration() as told:
                for id_, batch in self._mover.batches(current(pump.take), current(pump.take_ready)):
                    if isinstance(batch, Failure):
                        raise error_of(batch.told)
                    self._took(id_)
                    if told is not None:
                        told.end_of_dataloader = self._progress.taken == last
                    yield batch
        finally:
            if self._lessee is not None and own == self._round:
                self._lessee.leave()
        if self._keeper is not None and self._lessee is not None:
            self._keeper.wait_for_all(self._lessee.round, pump.check)  # the other ranks need it until they are done
        self._begin(Progress(at.epoch + 1, world=self.share.world))

    def _took(self, id_: int) -> None:
        """Count a batch as given out, before it is."""
        if self._lessee is not None:
            self._lessee.took(id_)
        if self.settings.ordered:
            at = self._progress
            self._progress = Progress(at.epoch, at.start, at.taken + 1, at.world)
        else:
            self._done.add(id_)

    def _ask_for(self, at: Progress) -> None:
        """Let the pump ask for this rank's batches: its share of them, or what it is granted."""
        sampling, pump, done = self._known(), self._started(), progress.to_runs(self._done)
        if self.settings.ordered:
            pump.begin(at.epoch, self.share.ids(sampling.batches, at.start, self.tail))
        elif self.share.world == 1:
            pump.begin(at.epoch, progress.missing_ids(done, sampling.batches))
        else:
            facts = {"epoch": at.epoch, "batches": sampling.batches, "world": self.share.world}
            self._leasing().begin(at.epoch, facts, done)

    def _leasing(self) -> Lessee:
        if self._lessee is None:
            listen, host, port = self._lease_place
            if self.share.rank == 0:
                try:
                    listener = addresses.open_listener(listen, port)
                except OSError as error:
                    raise errors.SettingError(
                        f"RemoteLoader: rank 0 cannot keep the leases at {addresses.join_host_port(listen, port)}:"
                        f" {error.strerror}; name another place with leases=, or DLC_DATA_LEASE_PORT on every host"
                    ) from error
                settings = (self.share.world, self.when_lost, self.lost_after, self.settings.patience)
                self._keeper = Keeper(listener, self._token, *settings)
            where = (host, port)
            self._lessee = Lessee(
                self._started(), where, self._token, self.share.rank, self.lost_after, self.settings.patience
            )
        return self._lessee

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
        self._leave_to_parent()
        if self._lessee is not None and self._keeper is not None and self._pump is not None:
            self._lessee.leave()
            with contextlib.suppress(errors.DataServiceError):
                self._keeper.wait_for_all(self._lessee.round, self._pump.check)
        self._close_at_once()

    def _close_at_once(self) -> None:
        self._leave_to_parent()
        for part in (self._lessee, self._keeper, self._pump):
            if part is not None:
                part.close()
        self._lessee = self._keeper = self._pump = None

    def __enter__(self) -> RemoteLoader:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self._close_at_once()

    def _leave_to_parent(self) -> None:
        """In a forked process: the threads are not here, and the connections are the parent's to read."""
        if os.getpid() != self._process:
            self._process = os.getpid()
            self._round += 1
            self._lessee = self._keeper = self._pump = None

    def _started(self) -> Pump:
        if self._pump is None:
            self._pump = Pump(self.settings, self.servers, self._token, self._pool)
        return self._pump

    def _settle_share(self) -> None:
        """The process group may have begun after this loader was made: then it says which rank this is."""
        found = config.share(*self._asked_share)
        if found != self.share:
            self.share = found
            self._progress = self._progress._replace(world=found.world)
            self._lease_place = self._find_lease_place()

    def _find_lease_place(self) -> tuple[str, str, int]:
        if self.settings.ordered or self.share.world == 1:
            return "", "", 0
        return config.leases(self._leases)

    def _known(self) -> Sampling:
        """What the first data server describes. Raises ServersLostError where none does in time."""
        self._leave_to_parent()
        if not self._progress.taken and not self._is_begun:
            self._settle_share()
        if self._sampling is None:
            pump = self._started()
            data = pump.discovery.wait_for_data(self.settings.patience)
            if pump.discovery.fatal is not None:
                raise pump.discovery.fatal
            if data is None:
                raise errors.ServersLostError(
                    f"no data server answered for {self.settings.patience:.0f} s: {pump.describe_silence()}"
                )
            self._sampling = Sampling(**{name: data[name] for name in Sampling._fields})
            if self.settings.ordered and self.tail == "keep" and self._sampling.batches % self.share.world:
                LOG.warning(
                    "data service: %d batches for %d ranks: some get one more, for which DDP would wait for ever;"
                    " tail='drop' leaves the last ones out",
                    self._sampling.batches,
                    self.share.world,
                )
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
