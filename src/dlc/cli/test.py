"""`dlc test`: runs tests/container on the built images."""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

from uv import find_uv_bin

from dlc.buildspec.matrix import load_variants
from dlc.cli.shared.arguments import add_globs, fill_globs, parse_path, say_progress, show_work
from dlc.core.atomic_files import draft_folder, hold_lock, replace_folder, report_disk_errors, scratch_folder
from dlc.core.checkout import INSTALLED, find_workspace, read_workspace
from dlc.core.environment import cache_folder, host_platform
from dlc.core.errors import ImageTestError, PackageIndexError, UsageError
from dlc.core.process import run_program, stream_program
from dlc.engine import images
from dlc.engine.connection import connect
from dlc.engine.pushed import pull_pushed
from dlc.inspection.junit import read_report
from dlc.proof.tested import make_record, write_record

HELP = "run the container tests on the built images"
EXAMPLE = "dlc test 'pytorch-*-cpu-*' --all"
CONTAINER, JOBS = "tests/container", "tests/integration"
# What the tests import, and the versions of the checkout that the wheel was made from.
PYTEST = ("pytest", "pytest-testinfra", "pytest-timeout", "pytest-xdist", "spdx-tools")
VERSIONS = "requirements-dev.lock"
INSTALL_SECONDS = 600.0
# Lines of pytest with several workers: a test has ended, and a test will run.
RESULT = re.compile(r"\[gw\d+\] \[ *(\d+)%\] ([A-Z]+) (.*?) *$")
SCHEDULED = re.compile(r"(?:\S+::\S.* |scheduling tests via \S+)$")
QUIET = ("PASSED", "SKIPPED", "XFAIL")
# Bound of a test whose image an emulator runs.
EMULATED_SECONDS = 5400


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add GLOB, --platform, --junitxml, --all."""
    add_globs(parser, at_least_one=True)
    parser.add_argument("--junitxml", type=parse_path, metavar="FILE", help="also write the results here, as JUnit XML")
    parser.add_argument("--all", action="store_true", help="run jobs on one host and on several too, in a checkout")


def run(args: argparse.Namespace) -> int:
    """Run pytest. Raises ImageTestError for an exit code of pytest other than 0."""
    workspace = find_workspace()
    root = workspace.recipes
    tree = read_workspace(workspace)
    fill_globs(args, tree)
    # A selector that matches nothing is an error before anything runs.
    variants = load_variants(tree, args.globs, platform=args.platform)
    refs = {variant.ref: variant.id for variant in variants}
    folders = [CONTAINER, JOBS] if args.all else [CONTAINER]
    for folder in folders:
        if not (root / folder).is_dir():
            raise UsageError(f"{root}: expected {folder}, found none", "run dlc test inside a checkout")
    found = _find_pytest(root)
    engine = connect()
    pull_pushed(engine, refs)
    emulated = any(variant.platform.name != host_platform() for variant in variants)
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *_run_side_by_side(emulated)]
    argv += [*(str(root / folder) for folder in folders), "-m", "image", *(f"--image={id_}" for id_ in refs.values())]
    digests = {image.digest: refs[ref] for ref, image in images.find_images(engine, refs).items()}
    with scratch_folder("dlc-test-") as place:
        report = place / "report.xml"
        with show_work("tests", f"of {', '.join(refs.values())}") as say:
            code = stream_program(
                [*argv, "--verbose", f"--junitxml={report}"],
                Tally(say, lambda line: print(line, flush=True)).take,
                env={**engine.environment, **found},
                cwd=workspace.root,
            )
        _keep_results(report, digests)
        if args.junitxml and report.exists():
            args.junitxml.write_bytes(report.read_bytes())
    if code:
        raise ImageTestError(f"{', '.join(args.globs)}: the tests did not pass (pytest's exit code {code})")
    return 0


@dataclass
class Tally:
    """Counts the tests that pytest reports. Tests that passed or were skipped are counted, and not printed."""

    say: Callable[[str], None]
    show: Callable[[str], None]
    counts: Counter[str] = field(default_factory=Counter)

    def take(self, line: str) -> None:
        """Take one line of pytest's output."""
        if not (match := RESULT.match(line)):
            if not SCHEDULED.match(line):
                self.show(line)
            return
        percent, result, test = match.groups()
        self.counts[result.lower()] += 1
        found = ", ".join(f"{count} {name}" for name, count in sorted(self.counts.items()))
        self.say(f"{percent} % of the tests: {found}")
        if result not in QUIET:
            self.show(f"{result} {test}")


def _run_side_by_side(emulated: bool) -> list[str]:
    """Return pytest's options: more at once than cores, for jobs wait more than they compute. An emulator computes."""
    cores = os.cpu_count() or 1
    bound = ["-o", f"timeout={EMULATED_SECONDS}"] if emulated else []
    return ["-n", str(cores if emulated else 3 * cores), "--dist", "loadfile", "--no-loadscope-reorder", *bound]


def _keep_results(report: Path, digests: Mapping[str, str]) -> None:
    """Keep what was found of each image, for `dlc push --sign`. A pytest that was ended leaves no report."""
    if not report.exists():
        return
    found = read_report(report.read_text(), digests.values())
    for digest, identifier in digests.items():
        tests = found.get(identifier)
        if tests and (tests.passed or tests.failed):
            write_record(cache_folder(), make_record(digest, tests.passed, tests.failed, datetime.now(UTC)))


def _find_pytest(root: Path) -> Mapping[str, str]:
    """Return the variables with which this Python finds pytest and its plug-ins; of an installed dlc in the cache."""
    if find_spec("xdist") and find_spec("testinfra"):
        return {}
    if root != INSTALLED:
        raise UsageError(
            "dlc test needs pytest with its plug-ins, which this Python does not have",
            "scripts/bootstrap.sh dev, in a checkout",
        )
    cache = cache_folder()
    with report_disk_errors(cache):
        folder = _install_pytest(root / VERSIONS, cache / "pytest")
    return {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}


def _install_pytest(versions: Path, home: Path) -> Path:
    """Install what the tests import into a folder of its own, once for these versions and this Python."""
    asked = hashlib.sha256(versions.read_bytes() + " ".join(PYTEST).encode()).hexdigest()
    folder = home / f"{sys.version_info.major}.{sys.version_info.minor}-{asked[:12]}"
    home.mkdir(parents=True, exist_ok=True)
    with hold_lock(home, INSTALL_SECONDS), draft_folder(home, ".drafts") as draft:
        if not folder.is_dir():
            say_progress(f"{', '.join(PYTEST)}: installed in {folder}")
            argv = [find_uv_bin(), "pip", "install", "--quiet", "--target", str(draft / "new"), "--python"]
            argv += [sys.executable, "--constraint", str(versions), *PYTEST]
            done = run_program(argv, check=False, timeout=INSTALL_SECONDS)
            if done.returncode:
                raise PackageIndexError(
                    f"dlc test could not install what its tests import:\n{done.stderr.strip()}",
                    f"check that the package index answers, or install {' '.join(PYTEST)} beside dlc",
                )
            replace_folder(draft / "new", folder)
    return folder
