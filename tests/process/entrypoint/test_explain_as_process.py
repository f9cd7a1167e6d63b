"""What --explain=json prints is what the function says that the unit tests ask."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from harness.contract_cases import CASES, lay_out
from harness.job_folder import JobFolder


def test_the_real_process_prints_what_the_function_says(tmp_path: Path) -> None:
    job = JobFolder(tmp_path / "ml")
    lay_out(job, CASES["het-07-torchrun-with-groups"])
    command = [sys.executable, "-I", "-S", "src/entrypoint/launcher.py", "--explain=json"]
    done = subprocess.run(command, env=job.environ, capture_output=True, text=True, timeout=60, check=True)
    printed = json.loads(done.stdout.replace(str(job.base), "/opt/ml"))
    said = job.explain()
    in_place = printed["decisions"].pop()  # where the code lies is found out between reading and deciding
    assert in_place["what"].startswith("code in place")
    # Interfaces of a host with an engine come and go with its containers: between the two answers too.
    assert printed["devices"].pop("interfaces")
    assert said["devices"].pop("interfaces")
    assert printed == said
    assert printed["processes"][0]["argv"] == CASES["het-07-torchrun-with-groups"]["expect"]["cmd"]
