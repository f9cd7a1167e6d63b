"""`--fix` changes only what its findings name: but for that the script runs as before, and every comment stays."""

from __future__ import annotations

import ast
import io
import stat
import sys
import tokenize
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlc_lint import lint
from dlc_lint.check import fix
from dlc_lint.rules import ALL
from harness.lint_runs import Here

# Script, and the calls that the fix changes: before -> after (None: gone).
XLA = """\
# A script with comments everywhere.
import torch
import torch_xla
import torch_xla.core.xla_model as xm  # its usual name

device = torch_xla.device()
model = torch.nn.Linear(8, 1).to(device)
optimizer = torch.optim.AdamW(
    model.parameters(),  # all of them
    lr=1e-3,
    fused=True,
)
for batch in range(2):  # two steps
    loss = model(batch)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    xm.mark_step()
    # the step ends here
torch.save(model.state_dict(), "model.pt")  # for serving
"""
CASES = {
    "DLC125": (XLA, {"torch.save": "torch_xla.core.xla_model.save"}),
    "DLC123": (XLA, {"torch_xla.core.xla_model.mark_step": None}),
    "DLC127": (XLA, {"torch.optim.AdamW": "torch.optim.AdamW"}),
    "DLC117": (
        "losses = []  # of each step\nfor batch in range(20):\n    loss = net(batch)\n    loss.backward()\n"
        "    losses.append(loss)  # for the plot\n",
        {},
    ),
    "DLC226": (
        "import tensorflow as tf\n\nstep = tf.function(net, experimental_compile=True)  # old\nstep(1)\n",
        {"tensorflow.function": "tensorflow.function"},
    ),
}

ADDED = "net().detach"  # what a fix calls besides; it changes no other call


class Recorder(types.ModuleType):
    """Stands for any module or object; notes down each call with its arguments."""

    def __init__(self, name: str, calls: list[tuple[str, str]]) -> None:
        super().__init__(name)
        self.__dict__.update(_name=name, _calls=calls, __path__=[])

    def __getattr__(self, name: str) -> Recorder:
        if name.startswith("__"):
            raise AttributeError(name)
        return Recorder(f"{self._name}.{name}", self._calls)

    def __call__(self, *args: object, **keywords: object) -> Recorder:
        shown = [str(getattr(one, "_name", one)) for one in args]
        self._calls.append((self._name, ", ".join([*shown, *(f"{k}={v}" for k, v in keywords.items())])))
        return Recorder(f"{self._name}()", self._calls)


@pytest.fixture
def no_frameworks() -> Iterator[None]:
    yield
    for name in [name for name in sys.modules if isinstance(sys.modules[name], Recorder)]:
        del sys.modules[name]


def execute(text: str) -> list[tuple[str, str]]:
    """The calls of a script whose frameworks only note them down."""
    calls: list[tuple[str, str]] = []
    tree = ast.parse(text)
    for name in (
        "torch",
        "torch.nn",
        "torch.nn.parallel",
        "torch_xla",
        "torch_xla.core",
        "torch_xla.core.xla_model",
        "tensorflow",
    ):
        sys.modules[name] = Recorder(name, calls)
    for parent, child in (
        ("torch_xla.core", "xla_model"),
        ("torch_xla", "core"),
        ("torch.nn", "parallel"),
        ("torch", "nn"),
    ):
        setattr(sys.modules[parent], child, sys.modules[f"{parent}.{child}"])
    exec(compile(tree, "script", "exec"), {"net": Recorder("net", calls)})
    return calls


def comments(text: str) -> list[str]:
    return [one.string for one in tokenize.generate_tokens(io.StringIO(text).readline) if one.type == tokenize.COMMENT]


def test_every_rule_that_can_be_fixed_has_a_case() -> None:
    assert {rule.code for rule in ALL if rule.fixable} == set(CASES)


@pytest.mark.parametrize("code", CASES)
@pytest.mark.usefixtures("no_frameworks")
def test_the_fixed_script_makes_the_same_calls_but_for_what_was_found(code: str) -> None:
    before, changed = CASES[code]
    fixed = fix(before, "train.py")
    assert code in {one.code for one in fixed.done}
    assert code not in {one.code for one in fixed.left}
    assert comments(fixed.text) == comments(before)
    all_changed: dict[str, str | None] = {}
    for text, names in CASES.values():
        all_changed.update(names if text == before else {})
    old = [(all_changed.get(name, name), args) for name, args in execute(before)]
    new = [one for one in execute(fixed.text) if one[0] != ADDED]
    assert [name for name, _ in new] == [name for name, _ in old if name]
    differ = {
        name for (name, args), (_, other) in zip([one for one in old if one[0]], new, strict=True) if args != other
    }
    assert differ <= set(changed.values()) | set(all_changed.values())


def test_the_whole_text_of_a_fixed_script() -> None:
    assert fix(XLA, "train.py").text == XLA.replace("    lr=1e-3,\n    fused=True,\n", "    lr=1e-3,\n").replace(
        "    xm.mark_step()\n", ""
    ).replace("torch.save(", "xm.save(")


def test_a_script_without_fixable_findings_keeps_every_byte() -> None:
    for path in sorted((Path(__file__).parent / "mistakes").rglob("*.py")):
        text = path.read_text()
        fixed = fix(text, str(path))
        if not any(one.edits for one in lint(text, str(path))):
            assert fixed.text == text
        assert not any(one.edits for one in fixed.left)
        ast.parse(fixed.text)


UNSAFE = {
    "a save that only one process would reach": """\
import torch
import torch_xla.core.xla_model as xm
m = net.to(xm.xla_device())
if xm.is_master_ordinal():
    torch.save(m.state_dict(), "m.pt")
""",
    "a comment would go": """\
import torch
import torch_xla
o = torch.optim.Adam(
    net.parameters(),
    # needed for speed
    fused=True,
)
""",
    "a graph that the script may still need": """\
losses = []
for batch in batches:
    loss = net(batch)
    loss.backward(retain_graph=True)
    losses.append(loss)
""",
    "a comment on the line": """\
import torch_xla
import torch_xla.core.xla_model as xm
for _ in range(3):
    torch_xla.sync()
    xm.mark_step()  # both, to be sure
""",
}


@pytest.mark.parametrize("text", UNSAFE.values(), ids=UNSAFE)
def test_what_is_not_safe_is_found_and_not_changed(text: str) -> None:
    fixed = fix(text, "train.py")
    assert fixed.text == text
    assert len(fixed.left) >= 1


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_ends_byte_order_mark_and_rights_stay(end: str, mark: str, here: Here) -> None:
    path = here.folder / "train.py"
    path.write_bytes((mark + "# Größe\n" + XLA).replace("\n", end).encode())
    path.chmod(0o750)
    link = here.folder / "link.py"
    link.symlink_to(path)
    done = here("dlc lint", "link.py", "--fix", "--no-torchfix")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("fixed link.py:") == 3
    wanted = (mark + "# Größe\n" + fix(XLA, "x").text).replace("\n", end).encode()
    assert path.read_bytes() == wanted
    assert stat.S_IMODE(path.stat().st_mode) == 0o750
    assert link.is_symlink()
    assert sorted(one.name for one in here.folder.iterdir()) == ["link.py", "train.py"]


def test_a_script_in_the_encoding_that_it_states_is_fixed_and_stays_in_it(here: Here) -> None:
    path = here.folder / "train.py"
    stated = "# coding: latin-1\n# Größe\n"
    path.write_bytes((stated + XLA).encode("latin-1"))
    done = here("dlc lint", "train.py", "--fix", "--no-torchfix")
    assert done.returncode == 0, done.stdout + done.stderr
    assert path.read_bytes() == (stated + fix(XLA, "x").text).encode("latin-1")


def test_an_unused_noqa_is_removed_and_other_codes_stay() -> None:
    text = "x = 1  # noqa: DLC113\ny = 2  # noqa: E501, DLC113\nz = 3  # kept # noqa: DLC113\n"
    assert fix(text, "train.py").text == "x = 1\ny = 2  # noqa: E501\nz = 3  # kept\n"


def test_without_fix_nothing_is_written(here: Here) -> None:
    path = here.folder / "train.py"
    path.write_text(XLA)
    path.chmod(0o444)
    assert here("dlc lint", "train.py", "--no-torchfix").returncode == 1
    assert path.read_text() == XLA
