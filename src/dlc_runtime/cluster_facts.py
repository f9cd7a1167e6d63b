"""What a script has to know about its job (group, rank, peers), and what it may tell the launcher. Imports nothing.

Not named `cluster`: importing a module of that name would replace the function `dlc_runtime.cluster`.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

DEFAULT_GROUP = "homogeneousCluster"  # SageMaker's name for the only group of an ordinary job
ALONE = "localhost"
CONFIG_FOLDER = "/opt/ml/input/config"


class ClusterError(RuntimeError):
    """The launcher's variables do not say what was asked, or contradict each other."""


class Peer(NamedTuple):
    """A host of the job."""

    host: str
    group: str
    rank: int  # its place in its group, from 0
    address: str  # what a connection is made to


class Cluster(NamedTuple):
    """The job as one of its hosts sees it. `hosts` are in the order in which the launcher counts ranks."""

    host: str
    group: str
    rank: int  # this host's place in its group
    hosts: tuple[Peer, ...]
    training_groups: tuple[str, ...]  # groups that a distributed strategy runs on; empty: none was asked for
    interface: str

    @property
    def me(self) -> Peer:
        return next(peer for peer in self.hosts if peer.host == self.host)

    @property
    def peers(self) -> tuple[Peer, ...]:
        """Return the hosts of this host's own group, itself among them, by rank."""
        return self.hosts_of(self.group)

    @property
    def groups(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(peer.group for peer in self.hosts))

    @property
    def is_training(self) -> bool:
        """Tell whether this host belongs to a group that trains; every host does if no group is named."""
        return not self.training_groups or self.group in self.training_groups

    def hosts_of(self, group: str) -> tuple[Peer, ...]:
        """Return the hosts of a group by rank. Raises ClusterError if the job has no such group."""
        found = tuple(peer for peer in self.hosts if peer.group == group)
        if not found:
            raise ClusterError(
                f"the job has no instance group {group!r}; expected one of {', '.join(map(repr, self.groups))}; name"
                " the group as the job's request does"
            )
        return found


def read(environ: Mapping[str, str] = os.environ) -> Cluster:
    """Return the cluster that the launcher's variables describe; this host alone if there are none.

    Raises ClusterError for variables that are malformed.
    """
    hosts = _names(environ, "SM_HOSTS") or [environ.get("SM_CURRENT_HOST") or ALONE]
    current = environ.get("SM_CURRENT_HOST") or hosts[0]
    if current not in hosts:
        raise ClusterError(f"SM_CURRENT_HOST: expected one of {hosts}, found {current!r}; the launcher sets both")
    grouped = _groups(environ, hosts)
    addresses = _addresses(environ, hosts)
    peers = [
        Peer(host, group, rank, addresses.get(host, host))
        for group, members in grouped.items()
        for rank, host in enumerate(members)
    ]
    me = next((peer for peer in peers if peer.host == current), None)
    if me is None:
        raise ClusterError(f"no instance group holds the host {current!r}; the groups are {grouped}")
    return Cluster(
        host=current,
        group=me.group,
        rank=me.rank,
        hosts=tuple(peers),
        training_groups=tuple(_names(environ, "SM_DISTRIBUTION_INSTANCE_GROUPS")) if len(grouped) > 1 else (),
        interface=environ.get("SM_NETWORK_INTERFACE_NAME", ""),
    )


def _groups(environ: Mapping[str, str], hosts: list[str]) -> dict[str, list[str]]:
    """Group name -> its hosts. SageMaker may list one name several times: those are one group here."""
    found: dict[str, list[str]] = {}
    for item in _listed(environ):
        try:
            members = found.setdefault(item["instance_group_name"], [])
            members += [host for host in item["hosts"] if host not in members]
        except (KeyError, TypeError, AttributeError) as error:
            raise ClusterError(
                f"instance_groups: expected objects with instance_group_name and hosts, found {item!r}"
            ) from error
    return found or {environ.get("SM_CURRENT_INSTANCE_GROUP") or DEFAULT_GROUP: hosts}


def _listed(environ: Mapping[str, str]) -> Iterable[Any]:
    """Return the groups as SageMaker lists them: from a variable, else from its file.

    A job of a thousand hosts has no variable: it would be longer than Linux takes.
    """
    config = _parsed(environ, "SM_RESOURCE_CONFIG")
    if config is None and "SM_HOSTS" in environ:
        path = os.path.join(environ.get("SM_INPUT_CONFIG_DIR") or CONFIG_FOLDER, "resourceconfig.json")
        try:
            with open(path, encoding="utf-8") as file:
                config = json.load(file)
        except FileNotFoundError:
            config = None
        except (OSError, ValueError) as error:
            raise ClusterError(f"{path}: expected JSON; {error}") from error
    if config is not None and not isinstance(config, dict):
        raise ClusterError(f"SM_RESOURCE_CONFIG: expected a JSON object, found {config!r}")
    return (config or {}).get("instance_groups") or ()


def _addresses(environ: Mapping[str, str], hosts: list[str]) -> Mapping[str, str]:
    """Map hosts to addresses, for hosts whose name does not resolve: the launcher learned it when the hosts met."""
    if len(hosts) == 1:
        return {hosts[0]: ALONE}  # nobody may have given the only host a name that resolves
    known = _parsed(environ, "DLC_HOST_ADDRESSES")
    if known is not None and not isinstance(known, dict):
        raise ClusterError(f"DLC_HOST_ADDRESSES: expected a JSON object of host to address, found {known!r}")
    return known or {}


def _names(environ: Mapping[str, str], name: str) -> list[str]:
    found = _parsed(environ, name)
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise ClusterError(f"{name}: expected a JSON list of names, found {environ[name]!r}; the launcher sets it")
    return found


def _parsed(environ: Mapping[str, str], name: str) -> Any:
    """Return the variable's JSON value, None if it is not set."""
    text = environ.get(name)
    if not text:
        return None
    try:
        return json.loads(text)
    except ValueError as error:
        raise ClusterError(f"{name}: expected JSON, found {text!r}; the launcher sets it") from error


def tell_launcher(variable: str, what: str) -> None:
    """Tell the launcher something by making the file that a variable names; nothing if it does not ask."""
    path = os.environ.get(variable)
    if path:
        try:
            with open(path, "wb"):
                pass
        except OSError as error:
            import logging

            log = logging.getLogger("dlc.dataservice")
            log.warning("data service: the launcher cannot be told that %s: %s", what, error)


def read_ended_hosts() -> frozenset[str]:
    """Return the hosts of which the launcher says that their program has ended; none if it says nothing."""
    try:
        with open(os.environ.get("DLC_ENDED_HOSTS_FILE", ""), encoding="utf-8") as file:
            return frozenset(map(str, json.load(file)))
    except (OSError, ValueError, TypeError):
        return frozenset()


def tell_that_this_serves() -> None:
    """Let the job end with the hosts that train: what runs here only serves them."""
    tell_launcher("DLC_SERVES_FILE", "this host serves others")
