"""The labels that dlc gives to images, containers and networks, and reads from them: names, and the form of times."""

from __future__ import annotations

from datetime import UTC, datetime

KEY = "org.dlc.content-key"
ID = "org.dlc.id"
FRAMEWORK = "org.dlc.framework"
FRAMEWORK_VERSION = "org.dlc.framework.version"
PYTHON = "org.dlc.python"
DEVICE = "org.dlc.device"
OS = "org.dlc.os"
FLAVOR = "org.dlc.flavor"
UNSUPPORTED = "org.dlc.unsupported"
PLATFORM = "org.dlc.platform"

# Containers and the network of a job that `dlc run` started have this label.
JOB = "org.dlc.job"

# https://github.com/opencontainers/image-spec/blob/main/annotations.md
TITLE = "org.opencontainers.image.title"
VERSION = "org.opencontainers.image.version"
LICENSES = "org.opencontainers.image.licenses"
CREATED = "org.opencontainers.image.created"
REVISION = "org.opencontainers.image.revision"


def format_time(moment: datetime | int) -> str:
    """Return a time, or the seconds since 1970, as labels have it: RFC 3339, in whole seconds of UTC."""
    found = datetime.fromtimestamp(moment, UTC) if isinstance(moment, int) else moment.astimezone(UTC)
    return found.strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: str) -> datetime | None:
    """Return the time in a label, in UTC; None if the text is no time."""
    try:
        found = datetime.fromisoformat(text)
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None
