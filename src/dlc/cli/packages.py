"""`dlc packages`: installs Debian packages for scripts of the repository."""

from __future__ import annotations

import argparse

HELP = "install Debian packages without starting their services; `dlc engine remove` removes them"
EXAMPLE = "dlc packages tini"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the names."""
    parser.add_argument("names", nargs="+", metavar="PACKAGE")


def run(args: argparse.Namespace) -> int:
    """Install the packages. Raises HostError and PackageIndexError."""
    from dlc.core.environment import cache_folder
    from dlc.debian import apt

    apt.install_packages(args.names, cache_folder() / "apt")
    return 0
