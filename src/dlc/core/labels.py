"""The names of the labels that dlc gives to images, containers and networks, and reads from them."""

from __future__ import annotations

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
