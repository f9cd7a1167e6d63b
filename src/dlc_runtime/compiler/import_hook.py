"""Import hook: waits for `import torch`. A line of a `.pth` file imports it in every Python of a job with DLC_COMPILER.

It must cost nothing if torch is never imported, and no fault here may stop the user's program.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

# For each compiler the module that starts when torch was imported.
SESSIONS = {"inductor": "dlc_runtime.compiler.pytorch.session", "xla": "dlc_runtime.compiler.pytorch_xla"}
# Inductor's own helpers import torch and train nothing.
HELPERS = ("_inductor.compile_worker", "compile_worker/__main__.py")


class TorchFinder:
    """Lets the usual finders find torch and has a session started when its import has ended.

    It stays until then: libraries look for torch without importing it.
    """

    asking = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != "torch" or self.asking:
            return None
        from importlib.util import find_spec

        self.asking = True
        try:
            spec = find_spec(name)
        finally:
            self.asking = False
        if spec is not None and spec.loader is not None:
            self.start_after(spec.loader)
        return spec

    def start_after(self, loader: Any) -> None:
        run = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                start_session()

        loader.exec_module = exec_module


def start_session() -> None:
    try:
        # Inductor's session says what is wrong with another value.
        name = SESSIONS.get(requested_compiler(), SESSIONS["inductor"])
        __import__(name)
        sys.modules[name].start()
    except Exception as fault:
        from dlc_runtime.compiler.hooks import log

        log(f"nothing will be compiled: {fault}")


def requested_compiler() -> str:
    return os.environ.get("DLC_COMPILER", "").strip().lower()


def request_dumps() -> None:
    """Ask torch for dumps; it reads the variables while it is imported."""
    try:
        from dlc_runtime.compiler.pytorch.debug_dumps import request_dumps
        from dlc_runtime.compiler.settings import read_settings

        settings = read_settings(os.environ)
    except Exception:  # told when torch was imported
        return
    if settings.debug:
        request_dumps(os.environ, settings.report)


def is_helper(arguments: list[str]) -> bool:
    return any(name in argument for name in HELPERS for argument in arguments[:8])


def install() -> None:
    if requested_compiler() in ("", "off") or is_helper(getattr(sys, "orig_argv", [])):
        return
    if requested_compiler() == "inductor" and os.environ.get("DLC_COMPILER_DEBUG"):
        request_dumps()
    if requested_compiler() == "xla":  # which compiles both frameworks
        from dlc_runtime.compiler.tensorflow_xla import import_hook

        import_hook.install()
    if "torch" in sys.modules:
        start_session()
    else:
        sys.meta_path.insert(0, TorchFinder())


install()
