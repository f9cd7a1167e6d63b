"""Import hook: waits for what steps and batches are seen by. Imported in each Python of a job with DLC_STEPS_DIR."""

from __future__ import annotations

import sys

from dlc_runtime.after_import import act_after

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

# A module, what patches it when it was imported
WATCHED = {
    "torch.optim.optimizer": "dlc_runtime.steps.torch_steps",
    "torch.utils.data.dataloader": "dlc_runtime.steps.torch_batches",
    "transformers.trainer_callback": "dlc_runtime.steps.trainers",
    "lightning.pytorch.trainer.trainer": "dlc_runtime.steps.trainers",
    "pytorch_lightning.trainer.trainer": "dlc_runtime.steps.trainers",
    "keras.src.callbacks.callback_list": "dlc_runtime.steps.keras_steps",
    "keras.src.callbacks": "dlc_runtime.steps.keras_steps",
    "keras.callbacks": "dlc_runtime.steps.keras_steps",
    "tf_keras.src.callbacks": "dlc_runtime.steps.keras_steps",
}


def patch_module(module: ModuleType) -> None:
    try:
        name = WATCHED[module.__name__]
        __import__(name)
        sys.modules[name].patch(module)
    except Exception as fault:
        print(f"dlc: steps are not counted: {fault!r}", file=sys.stderr, flush=True)


def install() -> None:
    for name in WATCHED:
        if name in sys.modules:
            patch_module(sys.modules[name])
        else:
            act_after(name, patch_module)


install()
