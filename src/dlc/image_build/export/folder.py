"""Lists the files of an exported folder: Dockerfile, locks, scripts, launcher, library, README, bake file. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from dlc.buildspec.lockfile import without_headers
from dlc.core import labels
from dlc.core.checkout import SourceFile, Tree, files_below
from dlc.image_build.export.bake import BAKE_FILE, render_bake
from dlc.image_build.export.dockerfile import LOCKS, find_stage_name, is_of_packages, list_indexed, render_dockerfile
from dlc.plan.contexts import Repo
from dlc.plan.plan import Plan
from dlc.plan.targets import CHANNEL, ENTRYPOINT, RUNTIME, SCRIPTS

PREPARE = "docker/export/prepare"
# What users may add: git keeps no empty folder.
OWN = ("own/ca/.gitkeep", "own/wheels/.gitkeep")
README = """\
# {ref}

{title}. Content key `{key}`, label `{label}`.

    docker build -t {ref} .

- `Dockerfile` is the whole recipe. `locks` pins Python packages by hash, `debian/versions.txt` the Debian packages.
- On a host of another platform: `--platform {platform}`. A proxy: `--build-arg HTTPS_PROXY=...`.
- A CA bundle of your own: the file `own/ca/ca.pem`. Wheels of your own: files in `own/wheels`.
- Your package indexes: `--secret id=index_url,env=UV_DEFAULT_INDEX` and `--secret id=extra_index_url,env=UV_INDEX`.
- Logins: `--secret id=netrc,src=$HOME/.netrc`.{indexes}
- {base}
- `--build-arg SOURCE_DATE_EPOCH={epoch}` gives the image the date of its sources.{bake}
"""
INDEXES = " A mirror of {addresses}: `--build-arg INDEXES='{words}'`."
OF_PACKAGES = (
    "Debian is unpacked in `--build-arg DEBIAN_IMAGE=debian:bookworm-slim`; mirrors of it, or a day of "
    "its snapshot archive: `--build-arg DEBIAN_MIRROR=... --build-arg DEBIAN_SECURITY=...`, both."
)
OF_IMAGE = "The base file system is that of `--build-arg BASE_IMAGE={image}`."
WITH_BAKE = " `docker buildx bake` does so, and takes proxies and indexes from your variables."


def list_files(plan: Plan, tree: Tree, stamps: Mapping[str, str], epoch: int, *, bake: bool = False) -> Tree:
    """Return the files of the folder for the plan's one image, by their path from it.

    Raises as `render_dockerfile` does.
    """
    image = plan.target(plan.selected[0])
    texts = {
        "Dockerfile": render_dockerfile(plan, tree, stamps),
        "README.md": _write_readme(plan, tree, epoch, bake=bake),
    }
    texts |= dict.fromkeys(OWN, "")
    for name, (_, locked) in list_indexed(plan, tree).items():
        texts |= {f"{LOCKS}/indexes/{name}/{package}.txt": f"{entry}\n" for package, entry in locked.items()}
    if bake:
        texts[BAKE_FILE] = render_bake(image, find_stage_name(image, tree), epoch)
    files = {path: SourceFile(text.encode()) for path, text in texts.items()}
    for folder, source in _list_folders(plan).items():
        files |= {f"{folder}/{path}": file for path, file in without_headers(files_below(tree, source)).items()}
    return files


def _list_folders(plan: Plan) -> dict[str, str]:
    """Map each folder to the one of the repository that it is a copy of."""
    image = plan.target(plan.selected[0])
    contexts = {name: context for target in plan.targets for name, context in target.contexts.items()}
    folders = {LOCKS: image.context, "scripts": SCRIPTS, "launcher": ENTRYPOINT, "library": RUNTIME,
               "channel": CHANNEL, "debian": contexts["debian"], "prepare": Repo(PREPARE)}  # fmt: skip
    if "project-scripts" in contexts:
        folders["project"] = contexts["project-scripts"]
    return {name: context.folder for name, context in folders.items() if isinstance(context, Repo)}


def _write_readme(plan: Plan, tree: Tree, epoch: int, *, bake: bool) -> str:
    image = plan.target(plan.selected[0])
    indexes = {name: index.address for name, (index, _) in list_indexed(plan, tree).items()}
    words = " ".join(f"{name}=ADDRESS" for name in indexes)
    return README.format(
        ref=image.tags[0],
        title=image.labels[labels.TITLE],
        key=image.key,
        label=labels.KEY,
        platform=image.platform,
        indexes=INDEXES.format(addresses=", ".join(indexes.values()), words=words) if indexes else "",
        base=OF_PACKAGES if is_of_packages(plan) else OF_IMAGE.format(image=image.labels[labels.OS]),
        epoch=epoch,
        bake=WITH_BAKE if bake else "",
    )
