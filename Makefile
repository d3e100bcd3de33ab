# Two commands set everything up: `make demo` and `make test`.
#
#   PYTHON=python3.11   another interpreter (3.11, or a newer one, which is untried)
#   VENV=.venv          where the virtual environment lives
#   TORCH_INDEX=…       the package index of PyTorch's CPU builds: a far smaller download than CUDA's on Linux

PYTHON ?= python3
VENV ?= .venv
TORCH_INDEX ?=
SEED ?= 1
RUNS ?= runs
PYTEST_WORKERS ?= 2

BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt \
	$(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))
# with one thread each, the test workers do not fight over the cores; a worker keeps to neighbouring tests, which share
# what a module sets up, until the other has none left
RUN_TESTS := $(BIN)/python -m pytest -n $(PYTEST_WORKERS) --dist worksteal
PYTEST := OMP_NUM_THREADS=1 $(RUN_TESTS)
# tests that compare numbers; trainings to a score say nothing about rounding
NUMERIC_TESTS := tests/test_rounding.py tests/backends tests/learners tests/parity \
	tests/agents/test_determinism.py tests/faults/test_determinism.py \
	-k "not learns and not learn_on_kernels and not test_cartpole"

.PHONY: help demo test lint docs test-arithmetic test-clients test-install dist-test test-slow bench bench-all deploy-page format clean

help:
	@echo "make demo             install, train PPO on CartPole-v1 until solved, film the agent"
	@echo "make test             install what tests need; lint, types, import contract, tests"
	@echo "make docs             the documentation site into build/docs; warnings are errors, pages are tried in chromium"
	@echo "make test-arithmetic  the numeric tests as other x86-64 CPUs compute: without FMA; with AVX2 and two threads"
	@echo "make test-clients     RL Zoo, PettingZoo, highway-env, imitation and others, unchanged; a virtual environment of its own"
	@echo "make test-install     each extra alone, installed and used offline, its packages read-only: about ten minutes"
	@echo "make dist-test        the source distribution and the wheel, built and used in an empty environment"
	@echo "make test-slow        the long proofs: trainings to a score, faults in great number"
	@echo "make bench            the speed comparison with Stable-Baselines3"
	@echo "make bench-all        that, and those with rllte, of PPG, of checkpoints and of clients: hours"
	@echo "make deploy-page      build/deploy: CartPole in a web page, balanced by an exported policy; needs npm"
	@echo "make format           format the code and mend what the linter can"
	@echo "make clean            remove the virtual environment and all caches (runs stay)"

demo: $(VENV)/.installed-demo
	$(BIN)/proximo train CartPole-v1 --seed $(SEED) --until 475 --eval-episodes 100 --video --runs-dir $(RUNS)

test: lint
	$(PYTEST)

lint: $(VENV)/.installed-test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# notebooks run while the site is built; the tests look at it in a browser, where there is one
docs: $(VENV)/.installed-test
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -j 2 -W --keep-going -n -q docs build/docs
	$(BIN)/python -m pytest -q tests/documents/test_site.py

# Compiled kernels have a folder per CPU, so neither pass finds the other's. Threads that wait awake would take the cores
# from the other worker.
test-arithmetic: $(VENV)/.installed-test
	ATEN_CPU_CAPABILITY=default NUMBA_CPU_NAME=generic NUMBA_CPU_FEATURES= MKL_ENABLE_INSTRUCTIONS=SSE4_2 \
		OMP_NUM_THREADS=1 $(RUN_TESTS) $(NUMERIC_TESTS)
	ATEN_CPU_CAPABILITY=avx2 NUMBA_CPU_NAME=haswell NUMBA_CPU_FEATURES=+avx2,+fma MKL_ENABLE_INSTRUCTIONS=AVX2 \
		OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive $(RUN_TESTS) $(NUMERIC_TESTS)

# these packages bring so many others that they have an environment of their own
test-clients: $(VENV)-clients/.installed
	OMP_NUM_THREADS=1 $(VENV)-clients/bin/python -m pytest -n $(PYTEST_WORKERS) -m slow tests/clients

test-install: $(VENV)/.installed-test
	$(BIN)/python -m pytest -m slow tests/installation/test_extras.py

dist-test: $(VENV)/.installed-test
	$(BIN)/python -m pytest -m "slow or not slow" tests/installation/test_distribution.py

# the faults are counted by one process, which writes their table; trainings can share the cores
test-slow: $(VENV)/.installed-test
	$(PYTEST) -m slow --ignore tests/faults --ignore tests/installation --ignore tests/clients
	OMP_NUM_THREADS=1 PROXIMO_FAULT_TABLE=docs/faults.md $(BIN)/python -m pytest -m "slow or not slow" tests/faults

bench-all: bench $(VENV)-clients/.installed
	$(BIN)/python -m benchmarks.run_rllte
	$(BIN)/python -m benchmarks.run_procgen
	$(BIN)/python -m benchmarks.run_checkpoints
	$(VENV)-clients/bin/python -m benchmarks.run_clients
	$(BIN)/python -m benchmarks.ppg_learning

bench: $(VENV)/.installed-test
	$(BIN)/proximo bench

deploy-page: $(VENV)/.installed-test
	$(BIN)/python examples/deploy/browser/build.py build/deploy

format: $(VENV)/.installed-test
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) $(VENV)-clients build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# ---------------------------------------------------------------- installing, again only when these two files change

$(VENV)/.installed-demo: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e '.[classic,video]'
	@touch $@

$(VENV)/.installed-test: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e '.[test]'
	@touch $@ $(VENV)/.installed-demo

$(VENV)-clients/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)-clients
	$(subst $(BIN)/,$(VENV)-clients/bin/,$(INSTALL)) -e '.[clients]'
	$(subst $(BIN)/,$(VENV)-clients/bin/,$(INSTALL)) --no-deps imitation seals rllte-core==1.0.1
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Proximo needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python3.11 …"; exit 1; }
	$(PYTHON) -m venv $(VENV)
