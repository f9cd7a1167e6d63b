"""When the launcher has ended, none of the processes that the job started is left, however hard they hold on."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.images import Image
from harness.job import Job

pytestmark = [pytest.mark.integration, pytest.mark.when(framework="pytorch")]

SCRIPT = Path(__file__).parent / "scripts" / "leave_a_daemon.py"
# The launcher as a child of a shell, which looks around after it.
LOOK_AROUND = """
/usr/bin/python3 -I -S /opt/dlc/entrypoint/launcher.py train
code=$?
for process in /proc/[0-9]*; do tr '\\0' ' ' < $process/cmdline; echo; done > /opt/ml/left
exit $code
"""


def test_a_daemon_in_its_own_session_that_ignores_sigterm_is_gone(image: Image, tmp_path: Path) -> None:
    environment = {"DLC_END_GRACE": "2"}
    with Job(image, tmp_path, SCRIPT, command=("sh", "-c", LOOK_AROUND), environment=environment) as job:
        assert job.wait() == {"algo-1": 0}
        assert "left-behind runs as" in job.log()
        left = (job.opt_ml() / "left").read_text()
    assert "launcher.py train" in left, "the shell itself has the launcher's name in its script"
    assert SCRIPT.name not in left
