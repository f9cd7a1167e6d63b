"""Import hook: waits for `import torch`. A line of a `.pth` file imports it in every Python of a job with DLC_COMPILER.

It must cost nothing if torch is never imported, and no fault here may stop the user's program.
"""

from __future__ import annotations

import os
import sys

from dlc_runtime.after_import import act_after

# For each compiler the module that starts when torch was imported.
SESSIONS = {"inductor": "dlc_runtime.compiler.pytorch.session", "xla": "dlc_runtime.compiler.pytorch_xla"}
# Inductor's own helpers import torch and train nothing.
HELPERS = ("_inductor.compile_worker", "compile_worker/__main__.py")


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
        act_after("torch", lambda _torch: start_session())


install()
