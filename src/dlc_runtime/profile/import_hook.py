"""Import hook: waits for the data modules of torch and TensorFlow. Imported in each Python of a job with DLC_PROFILE=1.

It must cost nothing if neither is imported, and no fault here may stop the user's program.
"""

from __future__ import annotations

import os
import sys

from dlc_runtime.after_import import act_after

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

WATCHED = {
    "torch.utils.data.dataloader": "dlc_runtime.profile.torch_loader",
    "tensorflow.python.data.ops.iterator_ops": "dlc_runtime.profile.tf_dataset",
}

PATCHED = "_dlc_profile"


def patch_module(module: ModuleType) -> None:
    try:
        from importlib import import_module

        if not getattr(module, PATCHED, False):
            setattr(module, PATCHED, True)
            import_module(WATCHED[module.__name__]).patch(module)
    except Exception as fault:
        _log(f"nothing will be measured: {fault}")


def _log(text: str) -> None:
    print(f"dlc profile: {text}", file=sys.stderr, flush=True)


def install() -> None:
    from dlc_runtime.profile.settings import read_settings

    try:
        if not read_settings(os.environ).on:
            return
    except ValueError as error:
        _log(f"nothing will be measured: {error}")
        return
    patch_imported()
    for name in WATCHED:
        act_after(name, patch_module)


def patch_imported() -> None:
    for name in WATCHED:
        if name in sys.modules:
            patch_module(sys.modules[name])


install()
