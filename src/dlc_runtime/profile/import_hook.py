"""Import hook: waits for the data modules of torch and TensorFlow. Imported in each Python of a job with DLC_PROFILE=1.

It must cost nothing if neither is imported, and no fault here may stop the user's program.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

WATCHED = {
    "torch.utils.data.dataloader": "dlc_runtime.profile.torch_loader",
    "tensorflow.python.data.ops.iterator_ops": "dlc_runtime.profile.tf_dataset",
}


PATCHED = "_dlc_profile"


class Finder:
    """Lets the usual finders find a module and has it patched when its import has ended."""

    def __init__(self) -> None:
        self._asking = ""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name not in WATCHED or self._asking == name:
            return None
        from importlib.util import find_spec

        self._asking = name
        try:
            spec = find_spec(name)
        finally:
            self._asking = ""
        if spec is not None and spec.loader is not None:
            _patch_after(spec.loader)
        return spec


def _patch_after(loader: Any) -> None:
    run = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        run(module)
        patch_module(module)

    loader.exec_module = exec_module


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
    sys.meta_path.insert(0, Finder())


def patch_imported() -> None:
    for name in WATCHED:
        if name in sys.modules:
            patch_module(sys.modules[name])


install()
