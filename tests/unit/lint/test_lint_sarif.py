"""SARIF 2.1.0: what its schema requires, and the codes, places and fixes of the findings."""

from __future__ import annotations

import json

from harness.lint_runs import BREAKS, Here

DOUBLED = "import torch_xla\n\nfor _ in range(9):\n    model.step()\n    torch_xla.sync()\n    torch_xla.sync()\n"


def log(here: Here) -> dict:  # type: ignore[type-arg]
    folder = here.folder / "a folder"
    folder.mkdir()
    (folder / "train.py").write_text(BREAKS, newline="")
    (here.folder / "xla.py").write_text(DOUBLED)
    argv = ["a folder/train.py", "xla.py", "missing.py", "--sarif", "--no-torchfix"]
    return json.loads(here("dlc lint", *argv).stdout)


def test_every_field_that_the_schema_requires_is_there(here: Here) -> None:
    document = log(here)
    assert set(document) == {"$schema", "version", "runs"}
    assert document["version"] == "2.1.0"
    for one in document["runs"]:
        assert one["tool"]["driver"]["name"] == "dlc lint"
        assert one["columnKind"] in ("utf16CodeUnits", "unicodeCodePoints")
        ids = [rule["id"] for rule in one["tool"]["driver"]["rules"]]
        assert len(ids) == len(set(ids))
        for result in one["results"]:
            assert result["message"]["text"]
            assert result["level"] in ("none", "note", "warning", "error")
            assert ids[result["ruleIndex"]] == result["ruleId"]
            for change in [part for fix in result.get("fixes", []) for part in fix["artifactChanges"]]:
                assert change["artifactLocation"]["uri"]
                assert all("deletedRegion" in replacement for replacement in change["replacements"])
        for invocation in one["invocations"]:
            assert isinstance(invocation["executionSuccessful"], bool)
            assert all(note["message"]["text"] for note in invocation["toolExecutionNotifications"])


def test_places_count_from_1_and_paths_are_uris(here: Here) -> None:
    (one,) = log(here)["runs"]
    first, second = one["results"]
    where = first["locations"][0]["physicalLocation"]
    assert where["artifactLocation"]["uri"] == "a%20folder/train.py"
    assert where["region"] == {"startLine": 10, "startColumn": 9, "endLine": 10, "endColumn": 17}
    assert (first["ruleId"], second["ruleId"]) == ("DLC113", "DLC123")
    (change,) = second["fixes"][0]["artifactChanges"]
    assert change["replacements"] == [
        {
            "deletedRegion": {"startLine": 6, "startColumn": 1, "endLine": 7, "endColumn": 1},
            "insertedContent": {"text": ""},
        }
    ]


def test_a_file_that_cannot_be_read_makes_the_run_unsuccessful(here: Here) -> None:
    (invocation,) = log(here)["runs"][0]["invocations"]
    assert invocation["executionSuccessful"] is False
    (note,) = invocation["toolExecutionNotifications"]
    assert "No such file" in note["message"]["text"]
    assert note["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "missing.py"
