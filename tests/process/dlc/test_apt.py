"""debian.apt: no service starts, new packages are recorded, and nothing else is left on the host."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dlc.core.errors import HostError, PackageIndexError
from dlc.debian import apt

ROOT = Path(__file__).parents[3]
ADMINISTRATORS = "#!/bin/sh\nexit 101\n"
# An apt-get that says what the guard was while it worked, and takes its time where it is told to.
APT = """#!/bin/sh
echo "$@" >>{folder}/calls
case "$*" in
*--simulate*install*) echo 'Inst old [1.0] (2.0 Debian)'; echo 'Inst tool (1.0 Debian)'; echo 'Inst libtool (1.0)' ;;
*install*) cat {folder}/policy-rc.d >{folder}/seen 2>&1; while [ -e {folder}/slow ]; do sleep 0.05; done ;;
esac
"""


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a policy file and an apt-get of its own, first on PATH."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/apt-get").write_text(APT.format(folder=tmp_path))
    (tmp_path / "bin/apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setattr(apt, "POLICY", tmp_path / "policy-rc.d")
    monkeypatch.setattr(apt, "UNFINISHED", tmp_path / "updates")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    return tmp_path


def wait_for(path: Path, there: bool = True) -> None:
    deadline = time.monotonic() + 60
    while path.exists() is not there:
        assert time.monotonic() < deadline, f"{path}: {'not there' if there else 'still there'}"
        time.sleep(0.02)


def test_no_service_starts_while_packages_are_installed_and_the_guard_goes(host: Path) -> None:
    apt.install_packages(["tool"], host / "work")
    assert "exit 101" in (host / "seen").read_text()
    assert not apt.POLICY.exists()


def test_stdout_stays_free_for_what_was_asked_for(host: Path, capfd: pytest.CaptureFixture[str]) -> None:
    apt.install_packages(["tool"], host / "work")
    out, err = capfd.readouterr()
    assert (out, err) == ("", "installing tool (Debian packages)\n")


def test_an_administrators_own_policy_is_used_and_kept(host: Path) -> None:
    apt.POLICY.write_text(ADMINISTRATORS)
    apt.install_packages(["tool"], host / "work")
    assert (host / "seen").read_text() == ADMINISTRATORS
    assert apt.POLICY.read_text() == ADMINISTRATORS


def test_a_guard_that_was_left_behind_goes_with_the_next_call(host: Path) -> None:
    apt.POLICY.write_text(f"#!/bin/sh\n{apt.MARK}: why\nexit 101\n")
    apt.remove_guard()
    assert not apt.POLICY.exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["kill -9", "SIGTERM"])
def test_a_killed_dlc_leaves_no_guard_behind(host: Path, number: int) -> None:
    (host / "slow").touch()
    program = (
        "import os, sys; from pathlib import Path; from dlc.debian import apt; os.geteuid = lambda: 0;"
        "apt.POLICY, apt.UNFINISHED = Path(sys.argv[1], 'policy-rc.d'), Path(sys.argv[1], 'updates');"
        "apt.install_packages(['tool'], Path(sys.argv[1], 'work'))"
    )
    dlc = subprocess.Popen([sys.executable, "-c", program, str(host)], stderr=subprocess.DEVNULL)
    wait_for(host / "seen")
    assert apt.POLICY.exists()
    dlc.send_signal(number)
    dlc.wait(60)
    (host / "slow").unlink()
    wait_for(apt.POLICY, there=False)


def test_what_was_not_there_before_is_remembered_before_it_is_installed(
    host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apt, "_run_guarded", lambda argv: sys.exit("killed"))
    with pytest.raises(SystemExit):
        apt.install_packages(["tool"], host / "work")
    assert (host / "work/installed").read_text().split() == ["libtool", "tool"]


def test_of_what_was_remembered_only_what_is_still_installed_counts(tmp_path: Path) -> None:
    (tmp_path / "installed").write_text("dpkg\nno-such-package-1\n")
    assert apt.list_brought(tmp_path) == ["dpkg"]
    assert apt.list_brought(tmp_path / "nothing") == []


def test_packages_that_would_go_along_are_named() -> None:
    simulated = "Remv libtool [1.0] [tool:amd64 ]\nPurg tool [1.0]\nPurg libtool [1.0]\nInst x (1.0)\n"
    assert apt.parse_removed_packages(simulated) == ["libtool", "tool", "libtool"]


def test_an_installation_that_was_cut_short_is_finished_first(host: Path) -> None:
    (host / "updates").mkdir()
    (host / "updates/0001").touch()
    dpkg = host / "bin/dpkg"
    dpkg.write_text(f'#!/bin/sh\necho dpkg "$@" >>{host}/calls\n')
    dpkg.chmod(0o755)
    apt.install_packages(["tool"], host / "work")
    calls = (host / "calls").read_text().splitlines()
    assert calls.index("dpkg --configure -a") < max(i for i, call in enumerate(calls) if "install" in call)


def test_what_apt_says_reaches_the_user(host: Path) -> None:
    (host / "bin/apt-get").write_text("#!/bin/sh\necho 'E: Unable to locate package tool' >&2; exit 100\n")
    with pytest.raises(PackageIndexError, match="exit code 100: E: Unable to locate package tool"):
        apt.install_packages(["tool"], host / "work")


def test_who_is_not_root_is_told_what_root_has_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(HostError, match="cannot install tini: not root") as caught:
        apt.install_packages(["tini"], tmp_path)
    assert caught.value.remedy == "as root: apt-get install tini"
    assert list(tmp_path.iterdir()) == []
