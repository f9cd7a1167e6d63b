# One-line aliases; `make help` lists them.
IMAGE ?= pytorch-2.13-training-cpu-py311
GPUS ?= all
# The image of `make test`, and those of `make test-images`: of each framework the oldest and the newest for the CPU.
DEFAULT := pytorch-2.13-training-cpu-py311
TESTED := 'pytorch-2.13-*-cpu-*' 'tensorflow-2.6-*-cpu-*' 'tensorflow-2.21-*-cpu-*'
DLC := .venv/bin/dlc
# More tests at once than cores, because most of a test's time is waiting.
WORKERS ?= $(shell expr 3 \* $$(nproc))
# More options for pytest, such as OPTIONS='--random-order'.
OPTIONS ?=
PYTEST := .venv/bin/python -m pytest $(OPTIONS)
# The same with the dlc that ships: its wheel, and the packages that an index serves today.
INSTALLED := .venv/bin/python tests/harness/installed.py $(OPTIONS)
IN_FILES := -n $(WORKERS) --dist loadfile --no-loadscope-reorder
.DEFAULT_GOAL := help

help: ## show this
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 13

.venv/ready: requirements.lock scripts/bootstrap.sh pyproject.toml
	@scripts/bootstrap.sh

.venv/ready-dev: .venv/ready requirements-dev.lock
	@scripts/bootstrap.sh dev

setup: .venv/ready ## dlc in .venv

image: .venv/ready ## build an image: make image IMAGE='tensorflow-*-cpu-*' (3 min)
	@$(DLC) build '$(IMAGE)'

example: .venv/ready ## train the example of the default image through the launcher
	@scripts/run-example.sh '$(IMAGE)'

test: .venv/ready-dev ## unit tests; on the default image its container tests and a job of each kind (8 min)
	@scripts/test-setup.sh && $(DLC) build $(DEFAULT)
	@$(PYTEST) -n auto tests/unit; unit=$$?; \
	$(INSTALLED) $(IN_FILES) -m 'core and not long' --image=$(DEFAULT) tests/process tests/container tests/integration && exit $$unit

test-images: .venv/ready-dev ## what `make test` leaves out: three CPU images, more jobs and builds, faults (19 min)
	@scripts/test-setup.sh && $(DLC) build $(TESTED)
	@$(INSTALLED) $(IN_FILES) -m 'not long' --core-was-run-on=$(DEFAULT) $(TESTED:%=--image=%) tests/container tests/integration

test-long: .venv/ready-dev ## what takes minutes for a test, other systems, strangers' attacks, all examples of the property tests (nightly)
	@scripts/test-setup.sh && $(DLC) build $(TESTED)
	@DLC_TEST_EXAMPLES=all $(PYTEST) -n auto tests/unit; unit=$$?; \
	$(INSTALLED) -n $$(expr 3 \* $$(nproc) / 2) --dist loadfile -m long $(TESTED:%=--image=%) tests/process tests/container tests/attacks tests/integration && exit $$unit

test-all: .venv/ready-dev ## `make test` and `make test-images`, then the same for every other image, one after the other
	@scripts/test-all.sh $(TESTED)

test-gpu: .venv/ready ## run tests/gpu inside an image on this host's GPUs: make test-gpu IMAGE=... [GPUS=device=0]
	@scripts/test-gpu.sh '$(IMAGE)' '$(GPUS)'

unit: .venv/ready-dev ## the unit tests, which start nothing (1 min)
	@$(PYTEST) -n auto tests/unit

check: .venv/ready-dev ## what changed since main: ruff, mypy, its unit tests (below 1 min)
	@.venv/bin/python scripts/check.py

lint: .venv/ready-dev ## ruff, mypy, hadolint, shellcheck, schema
	@scripts/lint.sh

tool-lock: .venv/ready ## resolve the tool's own dependencies into requirements*.lock
	@scripts/lock-tool.sh

.PHONY: help setup image example test test-images test-long test-all test-gpu unit check lint tool-lock
