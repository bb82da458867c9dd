# Everything a contributor does. Needs make and Python 3.10 or newer, nothing else; the rest is set up in $(VENV).
#
#   make test VENV=.venv-ci JOBS=4 WITH="torch==2.13.0" ARGS="-k softmax"

PYTHON ?= python3
VENV   ?= .venv
JOBS   ?= 2
WITH   ?=
ARGS   ?=
MINUTES ?= 2
BIN    := $(VENV)/bin
PY     := $(BIN)/python
PIP    := $(PY) -m pip install --quiet --disable-pip-version-check
.DEFAULT_GOAL := help
.PHONY: help demo setup test test-all test-gpu test-simt test-sanitize test-amd test-arm test-wine fuzz lint format types bench docs clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo "  variables: PYTHON=$(PYTHON) VENV=$(VENV) JOBS=$(JOBS) WITH='more packages' ARGS='for pytest or the command'"

$(PY):
	@$(PYTHON) -c 'import sys; v = sys.version_info; (3, 10) <= v < (3, 15) or sys.exit(f"Tritium needs Python 3.10 to 3.14; $(PYTHON) is {v[0]}.{v[1]}. Choose another: make PYTHON=python3.12")'
	@echo "==> creating $(VENV)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "python3 could not create $(VENV); on Debian and Ubuntu: apt install python3-venv"; exit 1; }

$(VENV)/.base: $(PY) pyproject.toml
	@echo "==> installing tritium into $(VENV) (once; under a minute with a good connection)"
	@$(PIP) -e .
	@touch $@

$(VENV)/.dev: $(PY) pyproject.toml
	@echo "==> installing tritium[dev] into $(VENV) (once; a minute or two)"
	@$(PIP) -e '.[dev]' $(WITH)
	@touch $@ $(VENV)/.base

setup: $(VENV)/.dev  ## create $(VENV) with everything for development
	@echo "activate it with: . $(VENV)/bin/activate"

demo: $(VENV)/.base  ## compile and run four kernels natively; compare them with NumPy
	@$(BIN)/tritium demo $(ARGS)

test: $(VENV)/.dev  ## the test suite, without the long sweeps
	$(PY) -m pytest -q -n $(JOBS) --dist worksteal -m "not slow" $(ARGS)

test-all: $(VENV)/.dev  ## the test suite with the long sweeps
	$(PY) -m pytest -q -n $(JOBS) --dist worksteal $(ARGS)

test-gpu: $(VENV)/.dev  ## the tests of GPU code, on a machine with an NVIDIA GPU and torch
	$(PY) tools/test_gpu.py $(ARGS)

test-simt: $(VENV)/.dev  ## the conformance suite as GPU code, run on the CPU, for warps of 32 and of 64 lanes
	$(PY) -m pytest -q -n $(JOBS) --dist worksteal tests/conformance --device simt --lanes 32 $(ARGS)
	$(PY) -m pytest -q -n $(JOBS) --dist worksteal tests/conformance --device simt --lanes 64 $(ARGS)

test-amd: $(VENV)/.dev  ## the conformance suite as LLVM IR for AMD GPUs, executed on the CPU
	for processor in gfx942 gfx950 gfx1100 gfx1200; do \
		$(PY) -m pytest -q -n $(JOBS) --dist worksteal tests/conformance --device amd --processor $$processor $(ARGS) || exit 1; \
	done

test-sanitize: $(VENV)/.dev  ## the tutorials, the kernel library and the conformance suite under the sanitizer: no report
	$(PY) -m pytest -q -n $(JOBS) --dist worksteal tests/sanitize/test_no_report.py $(ARGS)

test-arm: $(VENV)/.dev  ## a sample of the tests on AArch64, emulated (installs qemu-user; Debian and Ubuntu)
	$(PY) tools/test_arm.py --jobs $(JOBS) $(ARGS)

test-wine: $(VENV)/.dev  ## the thread pool and kernels for Windows under Wine (installs wine64 and mingw; Debian and Ubuntu)
	$(PY) tools/test_wine.py

fuzz: $(VENV)/.dev  ## random kernels, native code against the interpreter, then against NumPy, and the other tools/fuzz_*.py, for MINUTES each
	$(PY) tools/fuzz.py --minutes $(MINUTES) --jobs $(JOBS) $(ARGS)
	$(PY) tools/fuzz_tiles.py --minutes $(MINUTES) --jobs $(JOBS)
	$(PY) tools/fuzz_kernels.py --minutes $(MINUTES) --jobs $(JOBS)
	$(PY) tools/fuzz_gluon.py --minutes $(MINUTES) --jobs $(JOBS)
	$(PY) tools/fuzz_frontend.py --minutes $(MINUTES)
	$(PY) tools/fuzz_frontend.py --minutes $(MINUTES) --scalars cpu
	$(PY) tools/fuzz_launch.py --minutes $(MINUTES)
	$(PY) tools/fuzz_sanitize.py --minutes $(MINUTES)

lint: $(VENV)/.dev  ## ruff on all Python
	$(BIN)/ruff check src tests tutorials benchmarks tools

format: $(VENV)/.dev  ## let ruff mend what it can
	$(BIN)/ruff check --fix src tests tutorials benchmarks tools

types: $(VENV)/.dev  ## pyright (strict) on src
	@$(PIP) 'pyright[nodejs]'
	$(BIN)/pyright

bench: $(VENV)/.dev  ## time Tritium, NumPy and torch (if installed); writes build/bench/
	$(PY) -m benchmarks.cpu_suite --out build/bench $(ARGS)

docs: $(VENV)/.dev  ## run the tutorials and redraw the plots in docs/
	$(PY) docs/measure.py $(ARGS)

clean:  ## remove environments, build output and tool caches
	rm -rf .venv .venv-* build dist .pytest_cache .ruff_cache .hypothesis
	find src tests tutorials benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
