"""Shell scripts of the images, run on this host with stand-ins for what they call."""

from __future__ import annotations

import subprocess
from pathlib import Path

from dlc.core.checkout import find_root
from dlc.debian import suites

SCRIPTS = find_root(Path(__file__).parent) / "docker/scripts/horovod"
# As clang 19 calls it.
CLANG = "-64 --create out.fatbin --image=profile=sm_90,file=a.o --image=profile=compute_90,file=a.s"
EXPECTED = "--compress=false -64 --create out.fatbin --image3=kind=elf,sm=90,file=a.o --image3=kind=ptx,sm=90,file=a.s"


def test_code_for_gpus_is_joined_uncompressed_as_older_drivers_need_it() -> None:
    argv = [SCRIPTS / "fatbinary.sh", *CLANG.split()]
    done = subprocess.run(argv, env={"FATBINARY": "/bin/echo"}, capture_output=True, text=True, check=True)
    assert done.stdout.split() == EXPECTED.split()


def test_preferences_reach_the_base_by_a_path_of_any_name(tmp_path: Path) -> None:
    file = tmp_path / "a folder" / "recorded"
    setup, clean = suites.pin_arguments(file)
    words = subprocess.run(["sh", "-c", f"printf '%s\\n' {setup.partition('=')[2]}"], capture_output=True, text=True,
                           check=True).stdout.splitlines()  # fmt: skip
    assert words == ["copy-in", str(file), "/etc/apt/preferences.d"]
    assert clean == '--customize-hook=rm "$1/etc/apt/preferences.d/recorded"'
