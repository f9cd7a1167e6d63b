"""A RemoteLoader in the training loops of Hugging Face's Trainer, of Accelerate and of Lightning, as real processes."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest
from service_runs import Service, Taken, python_with, release_of

from dlc_runtime.dataservice.schedule.assignment import Epoch, Sampling

ROWS, BATCH = 50, 4  # 12 whole batches and one of two
SAMPLING = Sampling(ROWS, BATCH, shuffle=True, drop_last=True, seed=3)
FRAMEWORKS = {
    "with_trainer.py": "transformers",
    "with_accelerate.py": "accelerate",
    "with_lightning.py": "lightning",
}


@pytest.fixture(params=FRAMEWORKS)
def script(request: pytest.FixtureRequest) -> str:
    needs("torch", FRAMEWORKS[request.param])
    return str(request.param)


def needs(*modules: str) -> None:
    if python_with(*modules) is None:
        pytest.skip(f"the Python that runs the scripts lacks one of {modules}; DLC_TEST_TORCH_PYTHON names another")


def serve(service: Service, **options: Any) -> int:
    sampling = {name: value for name, value in SAMPLING._asdict().items() if name != "samples"}
    return service.serve("Rows", ROWS, script="serve_rows.py", **{**sampling, **options})[1]


def batches(epoch: int) -> list[list[int]]:
    plan = Epoch(SAMPLING, epoch)
    return [plan.indices(id_) for id_ in range(SAMPLING.batches)]


def finish(service: Service, script: str, port: int, world: int = 1, **options: Any) -> list[Taken]:
    return [rank.finish() for rank in service.train(script, port, world, **options)]


def test_each_epoch_is_trained_once_in_its_own_order(service: Service, script: str) -> None:
    (taken,) = finish(service, script, serve(service), epochs=2)
    assert taken.batches == batches(0) + batches(1)
    assert taken.end["length"] == 12


def test_ranks_share_an_epoch_and_no_framework_shares_it_out_again(service: Service, script: str) -> None:
    ranks = finish(service, script, serve(service), world=2, epochs=2)
    for rank, taken in enumerate(ranks):
        assert taken.batches == batches(0)[rank::2] + batches(1)[rank::2]
        assert taken.end["length"] == 6
    assert sorted(chain(*chain(*(taken.batches[:6] for taken in ranks)))) == sorted(chain(*batches(0)))


@pytest.mark.parametrize("world", [1, 2])
def test_trainer_resumes_in_the_middle_of_an_epoch_and_asks_for_no_batch_again(service: Service, world: int) -> None:
    needs("torch", "transformers")
    if world > 1 and release_of("torch") == "2.6":
        pytest.skip("torch.load of PyTorch 2.6 refuses cpu:0, the device that Accelerate gives a rank on a CPU")
    port, share = serve(service), 12 // world
    stop = share + 2  # in the second epoch
    first = finish(service, "with_trainer.py", port, world, epochs=3, stop_at=stop)
    checkpoint = str(service.folder / f"checkpoints/checkpoint-{stop}")
    second = finish(service, "with_trainer.py", port, world, epochs=3, resume=checkpoint)
    for rank in range(world):
        whole = [batch for epoch in range(3) for batch in batches(epoch)[rank::world]]
        assert first[rank].batches == whole[:stop]
        assert second[rank].batches == whole[stop:]
        assert second[rank].end["steps"] == share * 3


@pytest.mark.parametrize("stop", [5, 12, 14])
def test_lightning_saves_the_loaders_place_and_resumes_there(service: Service, stop: int) -> None:
    needs("torch", "lightning")
    port = serve(service)
    (first,) = finish(service, "with_lightning.py", port, epochs=3, stop_at=stop)
    (second,) = finish(service, "with_lightning.py", port, epochs=3, resume=str(service.folder / "place.ckpt"))
    assert first.batches + second.batches == batches(0) + batches(1) + batches(2)


def test_accelerate_saves_the_loaders_place_and_resumes_there(service: Service) -> None:
    needs("torch", "accelerate")
    port, folder = serve(service), str(service.folder / "place")
    (first,) = finish(service, "with_accelerate.py", port, stop_at=5, save=folder)
    (second,) = finish(service, "with_accelerate.py", port, resume=folder)
    assert first.batches + second.batches == batches(0)


def test_accelerate_leaves_out_the_first_batches_of_an_epoch(service: Service) -> None:
    needs("torch", "accelerate")
    (taken,) = finish(service, "with_accelerate.py", serve(service), epochs=2, skip=5)
    assert taken.batches == batches(0)[5:] + batches(1)[5:]


def test_accelerate_takes_the_optimizers_step_at_the_end_of_an_epoch_that_does_not_divide(service: Service) -> None:
    needs("torch", "accelerate")
    (taken,) = finish(service, "with_accelerate.py", serve(service, batch_size=10), epochs=2, accumulate=2)
    assert taken.end["steps"] == [[epoch, number] for epoch in range(2) for number in (1, 3, 4)]
    assert taken.end["ours"]


def test_trainer_accumulates_over_the_end_of_an_epoch_that_does_not_divide(service: Service) -> None:
    needs("torch", "transformers")
    (taken,) = finish(service, "with_trainer.py", serve(service, batch_size=10), epochs=2, accumulate=2)
    assert len(taken.batches) == 10
    assert taken.end["steps"] == 6
