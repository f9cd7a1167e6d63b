"""Counts the public SageMaker training scripts whose imports an image can resolve.

`python benchmarks/public_scripts.py --image dlc/pytorch:2.13-training-cpu-py311 CLONE...`: each CLONE is a git clone
of a repository with examples (aws/amazon-sagemaker-examples, huggingface/notebooks, aws/sagemaker-python-sdk).
A training script is a Python file that runs as a program, imports the image's framework, and reads what SageMaker sets
(`SM_...` or /opt/ml). Files beside it and its folder's requirements.txt count as there; an import in a `try` or below
an `if` may be missing. Nothing of a script is run: the image is asked which modules it finds.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePosixPath

# What a script imports that is one framework's, and what no script of the framework imports.
FRAMEWORKS = {"pytorch": {"torch", "transformers"}, "tensorflow": {"tensorflow", "keras"}}
OTHERS = {"pytorch": {"tensorflow"}, "tensorflow": {"torch"}}
NO_TRAINING = re.compile(r"inference|deploy|serv(e|ing)|evaluat|preprocess|postprocess|conftest|(^|/)tests?/")
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


def imported(tree: ast.Module) -> set[str]:
    """Top-level names of the modules that the script cannot start without."""
    names = set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add((node.module or "").split(".")[0])
    return names


def scripts(clone: str, framework: str) -> Iterator[tuple[str, set[str]]]:
    """Path of each training script, and the modules it needs from the image."""
    files = git(clone, "ls-tree", "-r", "--name-only", "HEAD").splitlines()
    for path in files:
        if not path.endswith(".py") or NO_TRAINING.search(path.lower()):
            continue
        text = git(clone, "show", f"HEAD:{path}")
        if "__main__" not in text or not re.search(r"SM_[A-Z]|/opt/ml", text):
            continue
        try:
            needed = imported(ast.parse(text))
        except SyntaxError:
            continue
        if FRAMEWORKS[framework].isdisjoint(needed) or not OTHERS[framework].isdisjoint(needed):
            continue
        folder = PurePosixPath(path).parent
        beside = {PurePosixPath(f).relative_to(folder).parts[0] for f in files if f.startswith(f"{folder}/")}
        yield path, needed - {PurePosixPath(name).stem for name in beside} - required(clone, folder, files)


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
    found = [script for clone in arguments.clones for script in scripts(clone, framework)]
    there = resolved(arguments.image, {name for _, needed in found for name in needed})
    lacking = {path: needed - there for path, needed in found}
    good = sum(not missing for missing in lacking.values())
    print(f"{arguments.image}: the imports of {good} of {len(found)} training scripts resolve")
    for name, count in Counter(name for missing in lacking.values() for name in missing).most_common():
        print(f"  {name}: missing for {count}")
    if arguments.verbose:
        for path, missing in sorted(lacking.items()):
            print(f"{'ok ' if not missing else 'no '} {path} {' '.join(sorted(missing))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
