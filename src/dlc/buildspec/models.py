"""The models of the buildspec files: which keys there are, what they may hold, and what they mean."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal

from packaging.requirements import InvalidRequirement
from packaging.requirements import Requirement as Parsed
from packaging.version import InvalidVersion
from packaging.version import Version as ParsedVersion
from pydantic import AfterValidator, Field

from dlc.buildspec.requirement_forms import explain_address
from dlc.buildspec.versions import debian_clauses, is_range
from dlc.checked_yaml.patterns import (
    ADDRESS,
    DATE,
    DAY_LIMIT,
    DEBIAN_NAME,
    DEVICE,
    EFA_SOURCE,
    FLAVOR,
    IMAGE_REF,
    INDEX,
    LETTERS,
    LINE,
    NO_SPACES,
    NUMBER,
    OPTIONAL_ADDRESS,
    OWN_REQUIREMENT,
    PLATFORM_NAME,
    PYTHON,
    RELEASE,
    REPOSITORY,
    REQUIREMENT,
    SERIES,
    SHA256,
    USER,
    VARIABLE,
    VERSION,
    WHOLE,
)
from dlc.checked_yaml.validation import Model

# Stands for a price that is not known.
UNKNOWN = "unknown"
# Stands for a version: `dlc lock` finds the newest that goes with all else.
NEWEST = "*"

# Users and groups of Debian, and of packages that images have or that many add.
SYSTEM_USERS = frozenset((
    "root", "daemon", "bin", "sys", "sync", "games", "man", "lp", "mail", "news", "uucp", "proxy", "www-data",
    "backup", "list", "irc", "gnats", "nobody", "nogroup", "sshd", "adm", "tty", "disk", "dialout", "fax", "voice",
    "cdrom", "floppy", "tape", "sudo", "audio", "dip", "operator", "src", "shadow", "utmp", "video", "sasl",
    "plugdev", "staff", "users", "crontab", "input", "sgx", "kvm", "render", "netdev", "messagebus", "rdma",
    "docker", "ssl-cert", "postgres", "mysql", "redis", "ntp",
))  # fmt: skip
PEOPLE = range(1000, 60000)


def _real_day(text: str) -> str:
    """Raise ValueError for a day that no calendar has, such as the 30th of February."""
    try:
        return text and date.fromisoformat(text).isoformat()
    except ValueError as error:
        raise ValueError(f"a value that exists ({error})") from None


def _real_requirement(text: str) -> str:
    """Raise ValueError for what installers would refuse, such as a version `1.0.x`."""
    try:
        Parsed(text)
    except InvalidRequirement:
        raise ValueError("NAME==VERSION with a version that Python packages may have (PEP 440)") from None
    return text


def _real_own_requirement(text: str) -> str:
    """Raise ValueError for what installers would refuse, and for an address that `dlc lock` does not take."""
    try:
        parsed = Parsed(text)
    except InvalidRequirement:
        raise ValueError("a requirement that Python packages may have (PEP 440, PEP 508)") from None
    if parsed.url is not None and (wrong := explain_address(parsed.url)):
        raise ValueError(wrong)
    return text


def _real_version(text: str) -> str:
    try:
        ParsedVersion("0" if text == NEWEST else text)
    except InvalidVersion:
        raise ValueError("a version that Python packages may have (PEP 440)") from None
    return text


def _real_limit(text: str) -> str:
    _real_day(text[2:])
    return text


def _real_condition(text: str) -> str:
    """Raise ValueError for a range with a mistake: taken as a glob, it would match nothing."""
    if text.startswith(("<", ">", "=", "!", "~")) and not is_range(text):
        raise ValueError("a version range such as >=3.10,<3.14, or a glob")
    return text


def _real_debian_condition(text: str) -> str:
    debian_clauses(text)
    return text


def _free_user(text: str) -> str:
    if text in SYSTEM_USERS or text.startswith("systemd-"):
        raise ValueError("a name that is no user or group of Debian, and not root")
    return text


def _people_uid(text: str) -> str:
    if int(text) not in PEOPLE:
        raise ValueError(f"a number from {PEOPLE.start} to {PEOPLE.stop - 1}, which Debian leaves to people")
    return str(int(text))


OsPackage = Annotated[str, Field(pattern=DEBIAN_NAME)]
Requirement = Annotated[str, Field(pattern=REQUIREMENT), AfterValidator(_real_requirement)]
# What a user may ask for besides: a range of versions, or the address of a wheel or of a git commit.
OwnRequirement = Annotated[str, Field(pattern=OWN_REQUIREMENT), AfterValidator(_real_own_requirement)]
PythonVersion = Annotated[str, Field(pattern=PYTHON)]
CudaMajor = Annotated[str, Field(pattern=WHOLE)]
Letters = Annotated[str, Field(pattern=LETTERS)]
Name = Annotated[str, Field(pattern=NO_SPACES)]
Version = Annotated[str, Field(pattern=VERSION), AfterValidator(_real_version)]
Condition = Annotated[str, Field(min_length=1), AfterValidator(_real_condition)]
DebianCondition = Annotated[str, AfterValidator(_real_debian_condition)]
IndexName = Annotated[str, Field(pattern=INDEX)]
EfaFact = Literal["source", "version"]
PlatformName = Annotated[str, Field(pattern=PLATFORM_NAME)]
Day = Annotated[str, Field(pattern=DATE), AfterValidator(_real_day)]
DayLimit = Annotated[str, Field(pattern=DAY_LIMIT), AfterValidator(_real_limit)]
ListName = Annotated[str, Field(pattern=INDEX)]
Variable = Annotated[str, Field(pattern=VARIABLE)]
Line = Annotated[str, Field(pattern=LINE)]


class Base(Model):
    """What the framework is installed on."""

    image: Annotated[str, Field(pattern=IMAGE_REF)] = Field(
        description="Debian or Ubuntu image to start from; empty: dlc makes one from Debian packages"
    )
    os_packages: tuple[OsPackage, ...] = Field(description="Debian packages of every image")


class Packages(Model):
    """Python packages; a bare name gets its version from pins.yml."""

    framework: tuple[Requirement, ...] = Field(
        description="the framework itself first, then packages that must match it"
    )
    lists: tuple[ListName, ...] = Field(default=(), description="names of the lists that this image has")
    training: tuple[OwnRequirement, ...] = Field(
        description="what training scripts import besides the framework and its lists; replaces a list's NAME"
    )
    missing: dict[Name, str] = Field(
        default={}, description="name of a list -> why this image cannot have it; an empty reason: it has it"
    )
    provides: dict[Name, Name] = Field(
        default={}, description="name -> the framework's package that is it too: neither is installed over the other"
    )
    source: tuple[Requirement, ...] = Field(
        description="names of those that have no wheel and are compiled in a stage of their own"
    )
    compiled: tuple[Requirement, ...] = Field(
        description="names of those compiled against the framework, each by docker/scripts/NAME/build.sh"
    )


class Index(Model):
    """An index of Python packages, used for the packages that it lists and for no other."""

    address: Annotated[str, Field(pattern=ADDRESS)] = Field(description="address of its simple pages (PEP 503)")
    packages: tuple[Requirement, ...] = Field(min_length=1, description="names of the packages that come from it")


# Libraries of CUDA, which gzip shrinks least, take 0.7.
COMPRESSED_SHARE = 0.75


class Budget(Model):
    """How large an image may become."""

    gigabytes: Annotated[str, Field(pattern=NUMBER)] = Field(
        description="largest unpacked size of the image, in GB (1,000,000,000 bytes)"
    )
    why: str = Field(min_length=1, description="the reason for that size, shown when it is exceeded")
    compressed: Annotated[str, Field(pattern=NUMBER)] = Field(
        default="0", description="largest size as it is pushed, in GB; 0: three quarters of the unpacked one"
    )

    @property
    def compressed_bytes(self) -> float:
        """Return the largest compressed size in bytes."""
        return float(self.compressed) * 1e9 or COMPRESSED_SHARE * self.bytes

    @property
    def bytes(self) -> float:
        """Return the largest size in bytes."""
        return float(self.gigabytes) * 1e9


class Efa(Model):
    """What NCCL needs for an Elastic Fabric Adapter: libfabric, verbs libraries, and a plug-in of NCCL."""

    source: Annotated[str, Field(pattern=EFA_SOURCE)] = Field(
        description="distro: libfabric without the plug-in; installer: with it (docs/efa.md)"
    )
    version: Annotated[str, Field(pattern=RELEASE)] = Field(description="release of the installer")
    url: Annotated[str, Field(pattern=OPTIONAL_ADDRESS)] = Field(description="the vendor's installer, a .tar.gz")
    sha256: Annotated[str, Field(pattern=SHA256)] = Field(description="hash of the installer")
    os_packages: tuple[OsPackage, ...] = Field(description="Debian packages of libfabric and its EFA provider")


class CudaCompat(Model):
    """NVIDIA's package with the driver's user library of a newer CUDA, for hosts with an older driver."""

    url: Annotated[str, Field(pattern=OPTIONAL_ADDRESS)] = Field(
        default="", description="NVIDIA's package cuda-compat-MAJOR-MINOR, a .deb (docs/gpu-hosts.md)"
    )
    sha256: Annotated[str, Field(pattern=SHA256)] = Field(default="", description="hash of the package")


class User(Model):
    """Who runs in a project's image in the place of root."""

    name: Annotated[str, Field(pattern=USER), AfterValidator(_free_user)] = Field(
        description="the user's name, with a home folder and a group of this name"
    )
    uid: Annotated[str, Field(pattern=WHOLE), AfterValidator(_people_uid)] = Field(
        default="1000", description="the number of user and group"
    )


class Settings(Model):
    """All that defaults.yml sets and a file, a variant or --set may change."""

    repository: Annotated[str, Field(pattern=REPOSITORY)] = Field(description="first part of every image reference")
    platform: PlatformName = Field(default="linux/amd64", description="platform of the image and of its lock")
    platforms: tuple[PlatformName, ...] = Field(
        default=(), description="platforms of which each gets an image of its own; none: `platform` alone"
    )
    by_platform: dict[PlatformName, dict[str, object]] = Field(
        default={}, description="platform -> settings that only its image has, on top of all others"
    )
    python: PythonVersion = Field(description="Python of the image, as the suite packages it")
    device: Annotated[str, Field(pattern=DEVICE)] = Field(description="what the framework computes on")
    flavor: Annotated[str, Field(pattern=FLAVOR)] = Field(
        default="", description="last part of the image's name, if it differs from that of the plain image"
    )
    suites: dict[PythonVersion, Letters] = Field(description="Debian suite that packages each Python")
    base: Base
    os_packages: tuple[OsPackage, ...] = Field(description="Debian packages of this image, on top of the base's")
    build_packages: tuple[OsPackage, ...] = Field(description="Debian packages that only compiling from source needs")
    cuda_build_packages: dict[CudaMajor, tuple[OsPackage, ...]] = Field(
        default={}, description="major version of CUDA -> Debian packages that compiling for it needs on top"
    )
    packages: Packages
    lists: dict[ListName, tuple[Requirement, ...]] = Field(
        default={}, description="name -> Python packages; `packages.lists` and `extras` name those of an image"
    )
    extras: tuple[ListName, ...] = Field(default=(), description="names of lists that an image has on top, for --set")
    env: dict[Variable, Line] = Field(default={}, description="environment variables of the image")
    user: User | None = Field(default=None, description="who runs in a project's image; without it root")
    indexes: dict[IndexName, Index] = Field(
        default={},
        description="name -> address and packages: an index for these packages only; the user's own indexes come first",
    )
    efa: Efa
    cuda_compat: CudaCompat = CudaCompat()
    budget: Budget
    labels: dict[Name, str] = Field(description="labels of the image besides those that dlc sets")


class Header(Model):
    """What names the images of one file, and the list of its variants."""

    framework: Letters = Field(description="folder of docker/ that holds the Dockerfile")
    version: Annotated[str, Field(pattern=SERIES)] = Field(description="series of the framework")
    job: Letters = Field(description="what the image is for")
    ga: Day = Field(default="", description="general availability: day of the first release")
    eop: Day = Field(default="", description="end of patch: last day on which fixes are released")
    unsupported: str = Field(default="", description="why nobody mends it any more; `dlc push` then needs a flag")
    unavailable: dict[Name, str] = Field(default={}, description="what this version cannot have, and why")
    variants: tuple[dict[str, object], ...] = Field(min_length=1, description="settings of each image")


class Pins(Model):
    """pins.yml: the versions that images share."""

    packages: dict[Name, Version] = Field(description="exact version of each package")


class ScanException(Model):
    """One advisory that `dlc scan` lets pass for a while."""

    advisory: Name = Field(description="its identifier or an alias, such as CVE-2026-0001; NAME-update for Debian's")
    package: str = Field(default="", description="the package it is excepted for; all without it")
    reason: str = Field(min_length=1, description="why it does not matter here")
    owner: str = Field(min_length=1, description="who is responsible for the exception")
    expires: Annotated[Day, Field(min_length=1)] = Field(description="last day of the exception")


class ScanExceptions(Model):
    """scan-exceptions.yml: advisories that `dlc scan` lets pass."""

    exceptions: tuple[ScanException, ...]


class Conditions(Model):
    """What a rule asks of an image: a version range (`>=3.10,<3.14`) or a glob for each fact it names."""

    framework: Condition | None = None
    version: Condition | None = None
    job: Condition | None = None
    device: Condition | None = None
    python: Condition | None = None
    eop: DayLimit | None = None
    unsupported: Condition | None = Field(default=None, description="of the reason; ?* if there must be one")
    suite: Condition | None = None
    efa: dict[EfaFact, Condition] = Field(default={}, description="of the EFA software's source and version")
    packages: dict[Name, Condition] = Field(default={}, description="of the versions required of these packages")
    has: tuple[Name, ...] = Field(default=(), description="packages that the buildspec must ask for")
    locked: dict[Name, Condition] = Field(default={}, description="of the versions of these packages in the lock")
    debian: dict[Name, DebianCondition] = Field(
        default={}, description="of the recorded versions of these Debian packages"
    )


class Rule(Model):
    """An image that fulfils `when` must fulfil `then`."""

    when: Conditions
    then: Conditions
    why: str = Field(min_length=1, description="the reason, shown when the rule is broken")


class PlatformRule(Model):
    """No image that fulfils `when` can be made for a platform."""

    platform: PlatformName
    when: Conditions
    why: str = Field(min_length=1, description="the reason, which `dlc list` shows")


class Compat(Model):
    """compat.yml: what goes with what."""

    rules: tuple[Rule, ...]
    platforms: tuple[PlatformRule, ...] = Field(
        default=(), description="which images cannot be made for a platform; of several rules the first counts"
    )
