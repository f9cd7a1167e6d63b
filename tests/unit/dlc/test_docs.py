"""dlc.docs: what is written of an image, and that only facts which stay the same from build to build are in it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from image_facts import specimen_facts

from dlc.docs import BEGIN, END, README, brief, page, readme, table
from dlc.tree import find_root

FACTS = specimen_facts()


def test_the_table_has_a_row_for_each_image() -> None:
    row = table([FACTS]).splitlines()[2]
    assert row.startswith("| `toy-1.17-training-cpu-py311` | 1.17.0 |")
    assert "Debian GNU/Linux 12 (bookworm)" in row


def test_only_what_stands_between_the_markers_is_written() -> None:
    text = readme(f"before\n{BEGIN}old\n{END}after\n", [FACTS])
    assert text == f"before\n{BEGIN}{table([FACTS])}{END}after\n"
    assert readme(text, [FACTS]) == text


def test_the_page_has_layers_packages_and_licences() -> None:
    text = page([FACTS])
    assert "| six | 1.17.0 | MIT | 0.0 |" in text
    assert "libc6 2.36-9, tini 0.19.0" in text
    assert "| `RUN install six` | 0 |" in text


def test_the_day_the_digest_and_the_commit_of_a_build_are_not_in_it() -> None:
    other = replace(FACTS, digest="sha256:2", created="2030-01-01T00:00:00Z",
                    labels={**FACTS.labels, "org.opencontainers.image.revision": "f" * 40})  # fmt: skip
    assert page([other]) == page([FACTS])


@pytest.mark.parametrize(
    ("command", "short"),
    [
        ("RUN /bin/sh -c /scripts/python-packages/install.sh /lock/framework.txt     && /usr/bin/python3 -I -S "
         "/scripts/finish/prune.py # buildkit", "python-packages/install.sh /lock/framework.txt, finish/prune.py"),
        ("ADD rootfs.tar / # buildkit", "ADD rootfs.tar /"),
        ("RUN " + "x" * 200, "RUN " + "x" * 83 + "..."),
    ],
)  # fmt: skip
def test_a_step_is_shown_by_the_scripts_it_runs(command: str, short: str) -> None:
    assert brief(command) == short


def test_the_readme_has_the_markers() -> None:
    text = (find_root() / README).read_text()
    assert text.count(BEGIN) == text.count(END) == 1
