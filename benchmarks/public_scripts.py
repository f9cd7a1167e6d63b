"""Counts the public SageMaker scripts whose imports an image can resolve.

`python benchmarks/public_scripts.py --image dlc/pytorch:2.13-training-cpu-py311 CLONE...`: each CLONE is a git clone
of a repository with examples (aws/amazon-sagemaker-examples, aws/amazon-sagemaker-examples-community,
aws/sagemaker-python-sdk). A script is a Python file that imports the image's framework, and not the other one, and
reads what SageMaker sets (`SM_...` or /opt/ml). Equal files count once; those that import smdistributed, AWS's own
library, are left out. Files in a script's folder and above it and its folder's requirements.txt count as there; an
import in a function, in a `try` or below an `if` may be missing. Nothing of a script is run: the image is asked which
modules it finds.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

# What a script imports that is one framework's.
FRAMEWORKS = {"pytorch": {"torch", "transformers"}, "tensorflow": {"tensorflow", "keras"}}
# Distributions whose module has another name.
MODULES = {
    "scikit-learn": "sklearn", "pillow": "PIL", "opencv-python": "cv2", "opencv-python-headless": "cv2",
    "pyyaml": "yaml", "sentence-transformers": "sentence_transformers", "pytorch-lightning": "pytorch_lightning",
    "sagemaker-experiments": "smexperiments", "beautifulsoup4": "bs4", "tensorflow-addons": "tensorflow_addons",
}  # fmt: skip
ASK = """
import importlib.util, json, sys
def there(name):
    try:
        return importlib.util.find_spec(name) is not None
    except Exception:
        return False
print(json.dumps([name for name in json.load(sys.stdin) if there(name)]))
"""


def git(clone: str, *words: str) -> str:
    """What git prints; files that are no text are read as far as they are."""
    argv = ["git", "-c", "core.quotepath=off", "-C", clone, *words]
    return subprocess.run(argv, capture_output=True, check=True).stdout.decode(errors="replace")


def imported(nodes: Iterable[ast.AST]) -> set[str]:
    """Top-level names of the modules that these nodes import."""
    names = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add((node.module or "").split(".")[0])
    return names


def scripts(clone: str, framework: str, seen: set[str]) -> Iterator[tuple[str, set[str]]]:
    """Path of each script, and the modules it needs from the image. `seen`: the texts of those already counted."""
    files = git(clone, "ls-tree", "-r", "--name-only", "HEAD").splitlines()
    others = {name for key, names in FRAMEWORKS.items() if key != framework for name in names}
    for path in files:
        if not path.endswith(".py"):
            continue
        text = git(clone, "show", f"HEAD:{path}")
        if text in seen or not re.search(r"SM_[A-Z]|/opt/ml", text):
            continue
        seen.add(text)
        try:
            tree = ast.parse(text)
        except SyntaxError:
            continue
        named = imported(ast.walk(tree))
        if named & FRAMEWORKS[framework] and not named & {*others, "smdistributed"}:
            folder = PurePosixPath(path).parent
            yield path, imported(tree.body) - beside(folder, files) - required(clone, folder, files)


def beside(folder: PurePosixPath, files: list[str]) -> set[str]:
    """Modules in a script's folder, and in those above it: scripts are started from there, or put them on the path."""
    above = [f"{folder}/", *(f"{parent}/" for parent in folder.parents)]
    names = {
        PurePosixPath(file.removeprefix(start)).parts[0] for start in above for file in files if file.startswith(start)
    }
    return {PurePosixPath(name).stem for name in names}


def required(clone: str, folder: PurePosixPath, files: list[str]) -> set[str]:
    """Modules that the requirements.txt beside a script installs."""
    path = str(folder / "requirements.txt")
    if path not in files:
        return set()
    named = (re.match(r"\s*([\w.-]+)", line) for line in git(clone, "show", f"HEAD:{path}").splitlines())
    names = {match[1].lower() for match in named if match}
    return {MODULES.get(name, name.replace("-", "_")) for name in names}


def resolved(image: str, names: set[str]) -> set[str]:
    """Those of the modules that a Python in the image finds."""
    argv = ["docker", "run", "--rm", "-i", "--entrypoint", "python", image, "-c", ASK]
    done = subprocess.run(argv, input=json.dumps(sorted(names)), capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--image", required=True, help="as docker knows it")
    parser.add_argument("--verbose", action="store_true", help="name each script that lacks something")
    parser.add_argument("clones", nargs="+")
    arguments = parser.parse_args()
    framework = next((name for name in FRAMEWORKS if name in arguments.image), None)
    if framework is None:
        sys.exit(f"--image {arguments.image}: expected an image of {' or '.join(FRAMEWORKS)}")
    seen: set[str] = set()
    found = [script for clone in arguments.clones for script in scripts(clone, framework, seen)]
    there = resolved(arguments.image, {name for _, needed in found for name in needed})
    lacking = {path: needed - there for path, needed in found}
    good = sum(not missing for missing in lacking.values())
    print(f"{arguments.image}: the imports of {good} of {len(found)} scripts resolve")
    for name, count in Counter(name for missing in lacking.values() for name in missing).most_common():
        print(f"  {name}: missing for {count}")
    if arguments.verbose:
        for path, missing in sorted(lacking.items()):
            print(f"{'ok ' if not missing else 'no '} {path} {' '.join(sorted(missing))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
