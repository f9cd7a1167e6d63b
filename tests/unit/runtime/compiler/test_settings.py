"""The compiler's settings, read from the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlc_runtime.compiler import settings
from dlc_runtime.compiler.settings import CompilerError


def test_settings_are_read_from_the_environment() -> None:
    found = settings.read_settings(
        {"DLC_COMPILER": "Inductor", "DLC_COMPILER_STRICT": "1", "DLC_COMPILER_DYNAMIC": "0"}
    )
    assert (found.backend, found.strict, found.dynamic) == ("inductor", True, False)
    assert settings.read_settings({}).backend == "off"
    assert settings.read_settings({}).dynamic is None


def test_the_report_stays_where_it_was_asked_for_when_the_script_changes_its_folder() -> None:
    assert settings.read_settings({"DLC_COMPILER_REPORT": "found"}).report == str(Path.cwd() / "found")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DLC_COMPILER", "tvm"),
        ("DLC_COMPILER_STRICT", "perhaps"),
        ("DLC_COMPILER_EAGER_STEPS", "0"),
        ("DLC_COMPILER_EAGER_STEPS", "many"),
        ("DLC_COMPILER_REPORT_MINUTES", "nan"),
        ("DLC_COMPILER_MODE", "fast"),
        ("DLC_COMPILER_EFFORT", "most"),
        ("DLC_COMPILER_BUDGET", "5 percent"),
        ("DLC_COMPILER_BUDGET", "-1"),
        ("DLC_COMPILER_OPTIMIZER", "fused"),
    ],
)
def test_a_wrong_value_is_an_error_that_names_it(name: str, value: str) -> None:
    with pytest.raises(CompilerError, match=f"{name}={value}: expected"):
        settings.read_settings({name: value})


@pytest.mark.parametrize(
    ("text", "seconds", "share"),
    [
        ("", 0.0, 0.02),
        ("60,5%", 60.0, 0.05),
        ("30", 30.0, 0.0),
        ("2%", 0.0, 0.02),
        ("30, 2%", 30.0, 0.02),
        ("0", 0.0, 0.0),
    ],
)
def test_a_budget_is_seconds_a_share_of_the_job_or_both(text: str, seconds: float, share: float) -> None:
    assert settings.read_settings({"DLC_COMPILER_BUDGET": text}).budget == (seconds, share)


def test_xla_in_tensorflow_has_a_budget_in_which_it_begins_at_once() -> None:
    assert settings.read_settings({"DLC_COMPILER": "xla"}).budget == (60.0, 0.05)
