"""Where a training container keeps things: /opt/ml and its folders, moved by SAGEMAKER_BASE_DIR."""

from __future__ import annotations

import os

from launch.base.compat import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_BASE = "/opt/ml"
# The image's Python environment
DEFAULT_VENV = "/opt/venv"
# In the output data: what the launcher itself adds to the results
LOG_FOLDER = "launcher"
# What a program tells the launcher, by making the file that a variable names (in the run directory, by process).
PROGRAM_FILES = {"replaceable": "DLC_TAKEOVER_FILE", "serves": "DLC_SERVES_FILE"}
# What the launcher tells programs, in a file that this variable names: the hosts whose part has ended, as JSON.
ENDED_HOSTS_FILE = "DLC_ENDED_HOSTS_FILE"
# In the run directory: what the parents of ranks and the launcher tell each other
RANK_FOLDER = "ranks"
# There too: how many steps each process of a rank has made
STEPS_FOLDER = "steps"


def stated_folder(environ: Mapping[str, str], name: str, default: str) -> str:
    """Return the folder that a variable names, absolute: processes have working directories of their own."""
    return os.path.abspath(environ.get(name) or default)


class Paths(NamedTuple):
    """The layout below one base folder (contract, section 1)."""

    base: str = DEFAULT_BASE

    @property
    def input(self) -> str:
        return f"{self.base}/input"

    @property
    def config(self) -> str:
        return f"{self.input}/config"

    @property
    def data(self) -> str:
        return f"{self.input}/data"

    @property
    def code(self) -> str:
        return f"{self.base}/code"

    @property
    def model(self) -> str:
        return f"{self.base}/model"

    @property
    def checkpoints(self) -> str:
        return f"{self.base}/checkpoints"

    @property
    def output(self) -> str:
        return f"{self.base}/output"

    @property
    def output_data(self) -> str:
        return f"{self.output}/data"

    @property
    def output_intermediate(self) -> str:
        return f"{self.output}/intermediate"

    @property
    def failure(self) -> str:
        return f"{self.output}/failure"

    @property
    def success(self) -> str:
        return f"{self.output}/success"

    @property
    def launcher(self) -> str:
        """Return what the launcher itself adds to the results."""
        return f"{self.output_data}/{LOG_FOLDER}"

    @staticmethod
    def of(environ: Mapping[str, str]) -> Paths:
        """Return the layout of this job."""
        return Paths(stated_folder(environ, "SAGEMAKER_BASE_DIR", DEFAULT_BASE))

    def channel(self, name: str) -> str:
        """Return the folder (or, in pipe mode, the prefix of the FIFOs) of one input channel."""
        return f"{self.data}/{name}"
