"""pages: what is written of an image, and that only facts which stay the same from build to build are in it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from image_facts import specimen_facts

from dlc.core.checkout import find_root
from dlc.inspection.facts import Facts
from dlc.inspection.pages import BEGIN, END, NOT_BUILT, README, brief, page, readme, row, table
from dlc.plan.contexts import Repo
from dlc.plan.targets import Target

FACTS = specimen_facts()
TOY = "toy-1.17-training-cpu-py311"
LABELS = {"org.dlc.framework": "other", "org.dlc.framework.version": "2.0", "org.dlc.device": "cu132",
          "org.dlc.python": "3.13", "org.dlc.os": "debian-trixie"}  # fmt: skip
TARGETS = [
    Target(name, "Dockerfile", Repo("nothing"), labels=LABELS) for name in (TOY, "other-2.0-training-cu132-py313")
]
UNBUILT = f"| `{TARGETS[1].id}` | other 2.0 | cu132 | 3.13 | debian-trixie | {NOT_BUILT} |"


def another(identifier: str) -> Facts:
    return replace(FACTS, labels={**FACTS.labels, "org.dlc.id": identifier})


def test_a_built_image_has_a_row_of_its_facts() -> None:
    assert row(FACTS).startswith(f"| `{TOY}` | 1.17.0 |")
    assert "Debian GNU/Linux 12 (bookworm)" in row(FACTS)


def test_rows_stand_in_the_order_of_the_buildspec_whatever_was_asked_first() -> None:
    images = [another(TARGETS[1].id), FACTS]
    assert table("", TARGETS, images).splitlines()[2:] == [row(FACTS), row(images[0])]
    assert table("", TARGETS[::-1], images).splitlines()[2:] == [row(images[0]), row(FACTS)]


def test_the_row_of_an_image_that_is_not_here_stays_as_it_was_written() -> None:
    written = table("", TARGETS, [FACTS, another(TARGETS[1].id)])
    assert table(written, TARGETS, []) == written
    assert table(written, TARGETS, [FACTS]) == written


def test_an_image_that_was_never_built_has_a_row_that_says_so_until_it_is() -> None:
    written = table("", TARGETS, [FACTS])
    assert written.splitlines()[3] == UNBUILT
    renamed = replace(TARGETS[1], labels={**LABELS, "org.dlc.framework.version": "2.1"})
    assert "other 2.1" in table(written, [TARGETS[0], renamed], [])
    assert NOT_BUILT not in table(written, TARGETS, [another(TARGETS[1].id)])


def test_an_image_that_left_the_buildspec_loses_its_row_and_its_section() -> None:
    written = page("", TARGETS, [FACTS, another(TARGETS[1].id)])
    assert TARGETS[1].id in written
    assert page(written, TARGETS[:1], []) == page("", TARGETS[:1], [FACTS])


def test_only_what_stands_between_the_markers_is_written() -> None:
    text = readme(f"before\n{BEGIN}old\n{END}after\n", TARGETS, [FACTS])
    assert text == f"before\n{BEGIN}{table('', TARGETS, [FACTS])}{END}after\n"
    assert readme(text, TARGETS, [FACTS]) == text


def test_the_page_has_layers_packages_and_licences() -> None:
    text = page("", TARGETS, [FACTS])
    assert "| six | 1.17.0 | MIT | 0.0 |" in text
    assert "libc6 2.36-9, tini 0.19.0" in text
    assert "| `RUN install six` | 0 |" in text


def test_the_page_keeps_the_sections_of_images_that_are_not_here() -> None:
    both = page("", TARGETS, [FACTS, another(TARGETS[1].id)])
    grown = replace(FACTS, packages=FACTS.packages[:1])
    assert page(both, TARGETS, [FACTS]) == both
    assert page(page(both, TARGETS, [grown]), TARGETS, [FACTS]) == both
    assert page(both, TARGETS, [grown]).partition(f"## {TARGETS[1].id}")[2] == both.partition(f"## {TARGETS[1].id}")[2]


def test_the_day_the_digest_and_the_commit_of_a_build_are_not_in_it() -> None:
    other = replace(FACTS, digest="sha256:2", created="2030-01-01T00:00:00Z",
                    labels={**FACTS.labels, "org.opencontainers.image.revision": "f" * 40})  # fmt: skip
    assert page("", TARGETS, [other]) == page("", TARGETS, [FACTS])


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
