# One-line aliases; `make help` lists them.
IMAGE ?= pytorch-2.13-training-cpu-py311
GPUS ?= all
# What `make test` builds and tests: of each framework the oldest and the newest image for the CPU.
TESTED := 'pytorch-2.13-*-cpu-*' 'tensorflow-2.6-*-cpu-*' 'tensorflow-2.21-*-cpu-*'
DLC := .venv/bin/dlc
.DEFAULT_GOAL := help

help: ## show this
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

.venv/ready: requirements.lock scripts/bootstrap.sh pyproject.toml
	@scripts/bootstrap.sh

setup: .venv/ready ## the tool's own environment in .venv

image: .venv/ready ## build an image: make image IMAGE='tensorflow-*-cpu-*'
	@$(DLC) build '$(IMAGE)'

test: .venv/ready ## build three CPU images and run the tests that need no GPU on them
	@scripts/test-setup.sh && $(DLC) build $(TESTED)
	@.venv/bin/python -m pytest -n 2 tests/unit; unit=$$?; \
	.venv/bin/python -m pytest -n 2 --dist loadfile -m 'not long' $(TESTED:%=--image=%) tests/container tests/integration && exit $$unit

test-long: .venv/ready ## the tests that take minutes each, which `make test` leaves out
	@.venv/bin/python -m pytest -m long $(TESTED:%=--image=%) tests/integration

test-all: .venv/ready ## the same for every image, one after the other
	@scripts/test-all.sh $(TESTED)

test-gpu: .venv/ready ## run tests/gpu inside an image on this host's GPUs: make test-gpu IMAGE=... [GPUS=device=0]
	@scripts/test-gpu.sh '$(IMAGE)' '$(GPUS)'

unit: .venv/ready ## the tests that need no Docker engine
	@.venv/bin/python -m pytest -n 2 tests/unit

example: .venv/ready ## train the example of the default image through the launcher
	@scripts/run-example.sh '$(IMAGE)'

lint: .venv/ready ## ruff, mypy, hadolint, shellcheck, schema
	@scripts/lint.sh

tool-lock: .venv/ready ## resolve the tool's own dependencies into requirements.lock
	@scripts/lock-tool.sh

.PHONY: help setup image test test-long test-all test-gpu unit example lint tool-lock
