"""Makes the links that links.txt, beside this file, lists. Standard library only."""

from pathlib import Path


def link(folders, target, name):
    """A relative link in each folder that a glob finds, where there is something that it can point to."""
    for folder in Path("/").glob(folders.lstrip("/")):
        if Path(folder, target).exists() and not Path(folder, name).exists():
            Path(folder, name).symlink_to(target)


if __name__ == "__main__":
    for line in Path(__file__).with_name("links.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            link(*line.split())
