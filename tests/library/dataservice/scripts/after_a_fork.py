"""Forks after the loader began to work; prints, as JSON, what the child and then the parent get from it."""

from __future__ import annotations

import json
import os

from forked_host import data_host

from dlc_runtime.dataservice import RemoteLoader
from dlc_runtime.dataservice.errors import DataServiceError


def left_behind(batches: object) -> str:
    """What is said of an iteration that the parent began."""
    try:
        next(batches)  # type: ignore[call-overload]
    except DataServiceError as error:
        return str(error)
    return ""


def main() -> None:
    with data_host(list(range(40)), collate=list, batch_size=4, workers=2) as address:
        loader = RemoteLoader([address], rank=0, world=1, patience=240)
        begun = iter(loader)
        first = next(begun)
        read, write = os.pipe()
        child = os.fork()
        if not child:
            said = left_behind(begun)
            os.write(write, json.dumps({"said": said, "batches": list(loader)}).encode())
            loader.close()
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as stream:
            told = json.loads(stream.read())
        os.waitpid(child, 0)
        print(json.dumps({"child": told, "parent": [first, *begun]}))
        loader.close()


if __name__ == "__main__":
    main()
