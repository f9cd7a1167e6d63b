"""The script of docs/heterogeneous.md, as it stands there, on a data host and a training host."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

from service_runs import HERE, SOURCES, Host

from harness.ports import free_port

DOCUMENT = HERE.parents[2] / "docs/heterogeneous.md"


def test_the_documents_script_trains_on_one_group_what_the_other_serves(torch_python: str, tmp_path: Path) -> None:
    (script,) = re.findall(r"```python\n(# train.py\n.*?)```", DOCUMENT.read_text(), re.DOTALL)
    (tmp_path / "train.py").write_text(script)
    groups = [
        {"instance_group_name": "data_group", "hosts": ["algo-1"]},
        {"instance_group_name": "dnn_group", "hosts": ["algo-2"]},
    ]
    environ = {
        **os.environ,
        "PYTHONPATH": str(SOURCES),
        "OMP_NUM_THREADS": "1",
        "SM_HOSTS": '["algo-1","algo-2"]',
        "SM_RESOURCE_CONFIG": json.dumps({"instance_groups": groups}),
        "SM_DISTRIBUTION_INSTANCE_GROUPS": '["dnn_group"]',
        "SM_NETWORK_INTERFACE_NAME": "lo",
        "DLC_HOST_ADDRESSES": '{"algo-1":"127.0.0.1","algo-2":"127.0.0.1"}',
        "DLC_DATA_PORT": str(free_port()),
        "DLC_DATA_TOKEN": "of this test",
    }
    command = [torch_python, str(tmp_path / "train.py")]
    data = Host(command, tmp_path / "data.log", {**environ, "SM_CURRENT_HOST": "algo-1"})
    training = Host(command, tmp_path / "training.log", {**environ, "SM_CURRENT_HOST": "algo-2"})
    try:
        assert training.wait() == 0, training.log + data.log
        assert "epoch 0: 32 batches" in training.log
        assert "epoch 1: 32 batches" in training.log
        os.kill(data.process.pid, signal.SIGTERM)
        assert data.wait() == 0, data.log
    finally:
        for host in (data, training):
            host.kill()
