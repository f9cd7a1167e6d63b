"""The cache of compiled code: what a job compiled is used again by the next one."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from torch_runs import HANGS, Runner


def test_the_second_job_uses_what_the_first_compiled(runner: Runner, tmp_path: Path) -> None:
    environ = {"DLC_COMPILE_CACHE": str(tmp_path / "cache"), "TORCHINDUCTOR_CACHE_DIR": ""}
    cold = runner.run("plain.py", environ=environ)
    shutil.move(tmp_path / "cache", tmp_path / "elsewhere")  # as a channel brings it
    warm = runner.run("plain.py", environ={**environ, "DLC_COMPILE_CACHE": str(tmp_path / "elsewhere")})
    assert cold.report["cache_hits"] == 0
    assert cold.report["cache_misses"] > 0
    assert warm.report["cache_hits"] > 0
    assert warm.report["cache_misses"] == 0
    assert warm.losses == cold.losses


def test_a_job_that_finds_all_its_code_compiled_precompiles_no_header(runner: Runner, tmp_path: Path) -> None:
    """A container has an empty temporary folder, where inductor puts its headers: making them takes longest of all."""
    made = []
    for number in ("first", "second"):
        temporary = tmp_path / number
        temporary.mkdir()
        environ = {
            "DLC_COMPILE_CACHE": str(tmp_path / "cache"),
            "TORCHINDUCTOR_CACHE_DIR": "",
            "TMPDIR": str(temporary),
        }
        job = runner.run("sequential.py", environ=environ)
        made.append([path for suffix in ("gch", "pch") for path in temporary.rglob(f"*.{suffix}")])
    if not made[0]:
        pytest.skip("this torch precompiles no header")
    assert job.report["cache_misses"] == 0
    assert made[1] == []


def test_the_second_job_does_not_try_the_processor_again(runner: Runner, tmp_path: Path) -> None:
    environ = {"DLC_COMPILE_CACHE": str(tmp_path / "cache"), "TORCHINDUCTOR_CACHE_DIR": ""}
    first, second = (runner.run("trial_libraries.py", environ=environ) for _ in range(2))
    if not first.results[0]["trials"]:
        pytest.skip("this torch tries no vector instructions in processes of their own")
    assert second.report["cache_misses"] == 0
    assert second.results[0]["trials"] == 0


def test_a_fresh_host_that_is_given_the_artefact_compiles_nothing(runner: Runner, tmp_path: Path) -> None:
    cache, file = tmp_path / "cache", tmp_path / "compiled.tar.gz"
    cold = runner.run("plain.py", environ={"DLC_COMPILE_CACHE": str(cache), "TORCHINDUCTOR_CACHE_DIR": ""})
    made = runner.run("-m", "dlc_runtime.compiler.cache", str(cache), str(file), compiler="")
    name, _, reference = made.log.strip().partition("=")
    shutil.rmtree(cache)
    warm = runner.run("plain.py", environ={name: reference, "TORCHINDUCTOR_CACHE_DIR": ""})
    assert warm.report["cache_misses"] == 0
    assert warm.losses == cold.losses
    with file.open("r+b") as stream:
        stream.write(b"changed")
    refused = runner.run("plain.py", environ={name: reference, "TORCHINDUCTOR_CACHE_DIR": ""})
    assert "is not used, this job compiles anew" in refused.log
    assert refused.report["cache_hits"] == 0
    assert refused.report["cache_misses"] == cold.report["cache_misses"]


def test_two_jobs_at_once_share_a_cache(runner: Runner, tmp_path: Path) -> None:
    environ = {"DLC_COMPILE_CACHE": str(tmp_path / "cache"), "TORCHINDUCTOR_CACHE_DIR": ""}
    jobs = [runner.start(("sequential.py",), "inductor", environ) for _ in range(2)]
    logs = [process.communicate(timeout=HANGS)[0] for process, _ in jobs]
    assert [process.returncode for process, _ in jobs] == [0, 0], logs
    after = runner.run("sequential.py", environ=environ)
    assert after.report["cache_misses"] == 0


def test_a_cache_of_which_files_were_deleted_is_compiled_anew(runner: Runner, tmp_path: Path) -> None:
    environ = {"DLC_COMPILE_CACHE": str(tmp_path / "cache"), "TORCHINDUCTOR_CACHE_DIR": ""}
    cold = runner.run("sequential.py", environ=environ)
    for library in (tmp_path / "cache").rglob("*.so"):
        library.unlink()
    after = runner.run("sequential.py", environ=environ)
    assert after.losses == cold.losses
    assert after.report["fallbacks"] == []


def test_files_that_a_lost_disk_has_cut_are_thrown_away_and_compiled_again(runner: Runner, tmp_path: Path) -> None:
    environ = {"DLC_COMPILE_CACHE": str(tmp_path / "cache"), "TORCHINDUCTOR_CACHE_DIR": ""}
    cold = runner.run("sequential.py", environ=environ)
    libraries = list((tmp_path / "cache").rglob("*.so"))
    for library in libraries:
        os.truncate(library, library.stat().st_size // 2)
    after = runner.run("sequential.py", environ=environ)
    assert f" held {len(libraries)} files that are not as a job left them, such as " in after.log
    assert after.losses == cold.losses
    assert after.report["fallbacks"] == []
    assert len(after.report["graphs"]) == len(cold.report["graphs"])
    again = runner.run("sequential.py", environ=environ)
    assert "not as a job left them" not in again.log
    assert again.report["cache_misses"] == 0


def test_a_job_that_compiled_nothing_is_not_said_to_be_faster(runner: Runner, tmp_path: Path) -> None:
    environ = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}  # a cache of torch's, which dlc does not check
    runner.run("sequential.py", environ=environ)
    for library in (tmp_path / "cache").rglob("*.so"):
        os.truncate(library, 0)
    run = runner.run("sequential.py", environ=environ)
    assert run.report["graphs"] == []
    assert "nothing was compiled in" in run.log
    assert "times as fast" not in run.log
    [failed] = run.report["fallbacks"]
    assert "raised: " in failed["reason"]  # and what, which torch says in other lines
    assert not failed["reason"].endswith((":", "C++ compile error"))
