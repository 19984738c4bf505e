# Two commands for a newcomer: `make demo` and `make test`. Each sets up what it needs, in .venv.
#
#   make demo PYTHON=python3.12    set up with another Python
#   make test PY=python            use the Python environment that you are in, set up nothing

PYTHON = python3
VENV = .venv
PY = $(VENV)/bin/python
READY := $(if $(filter command,$(firstword $(origin PY))),,$(VENV)/.ready)
export PYTHONPATH := $(CURDIR)/src$(if $(PYTHONPATH),:$(PYTHONPATH))

.DEFAULT_GOAL := help
.PHONY: help venv demo test fmt gpu-test golden lab fuzz peer clean

help:
	@echo "make demo      capture, fuse, verify, time and explain a transformer block on this machine"
	@echo "make test      linters, types, import contract and every test that needs no GPU"
	@echo "make gpu-test  the tests that need a CUDA device"
	@echo "make golden    write the golden files again; then read the diff"
	@echo "make lab       time the lab on this machine (DEVICE=cpu or a GPU's name) and write docs/lab.md again"
	@echo "make fuzz      10,000 random graphs and programs against eager: a nightly run"
	@echo "make peer      PyTorch's own samples of every operator (DEVICE=cpu or cuda, JOBS=processes): some hours"
	@echo "make fmt       format, and fix what the linter can fix"
	@echo "make venv      only set up $(VENV)"
	@echo "make clean     remove $(VENV) and the tools' caches"

venv: $(READY)

# Made again when the dependencies or their pinned versions change.
$(VENV)/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    echo "Fusewise needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>/dev/null || echo not there)."; \
	    echo "Name another: make $(or $(MAKECMDGOALS),venv) PYTHON=python3.12"; exit 1; } >&2
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	    echo "'$(PYTHON)' cannot make virtual environments: its modules venv and ensurepip are missing."; \
	    echo "On Debian and Ubuntu: apt install python3-venv"; exit 1; } >&2
	@command -v $(firstword $(CXX)) >/dev/null || { \
	    echo "Fusewise builds CPU kernels with a C++ compiler, but '$(CXX)' is not there."; \
	    echo "On Debian and Ubuntu: apt install g++. Or name another: CXX=clang++ make $(MAKECMDGOALS)"; exit 1; } >&2
	@echo "Setting up $(VENV): PyTorch is a large download, so the first time takes some minutes."
	@$(PYTHON) -m venv $(VENV)
	@$(PY) -m pip install -qq --disable-pip-version-check --constraint constraints.txt --editable '.[dev,plot,triton]'
	@touch $@

demo: $(READY)
	@$(PY) -m fusewise demo

# pytest comes last, so that its closing line is the last of the run.
test: $(READY)
	$(PY) -m ruff check --quiet .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(PY) -c 'from importlinter.cli import lint_imports_command; lint_imports_command()' --no-logo
	$(PY) -m pytest -q -n auto --dist worksteal -m "not gpu"

gpu-test: $(READY)
	$(PY) -m pytest -q -m gpu

golden: $(READY)
	$(PY) -m pytest -q tests/golden tests/offline/test_golden_registers.py --update-golden

# Some minutes, on a machine that does nothing else.
DEVICE = cpu
LAB = $(PY) -m fusewise lab
lab: $(READY)
	for verb in sweep fat modes phases; do $(LAB) $$verb --device $(DEVICE) \
	    --csv benchmarks/results/lab-$(DEVICE)-$$verb.csv --plot docs/img/lab-$(DEVICE)-$$verb.png || exit 1; done
	$(LAB) sweep --published --device $(DEVICE) --csv benchmarks/results/lab-$(DEVICE)-sweep-published.csv \
	    --plot docs/img/lab-$(DEVICE)-sweep-published.png
	if [ $(DEVICE) != cpu ]; then $(LAB) modes --published --device $(DEVICE) \
	    --csv benchmarks/results/lab-$(DEVICE)-modes-published.csv; fi
	$(PY) docs/make_lab.py

fuzz: $(READY)
	$(PY) -m tests.fuzz --count 10000 --minutes 120

# Each of JOBS processes keeps one operator at a time; a failure is counted in the report.
PEER = $(VENV)/peer
JOBS = $(shell getconf _NPROCESSORS_ONLN)
peer: $(READY)
	mkdir -p $(PEER)
	-$(PY) tests/peer/opinfo.py --device $(DEVICE) --dtypes f32,f64,bf16,f16,i64,i32,u8,bool --backward --jobs $(JOBS) \
	    --out $(PEER)/$(DEVICE).jsonl
	$(PY) tests/peer/report.py $(PEER)/$(DEVICE).jsonl --out benchmarks/results/opinfo-$(DEVICE).json

fmt: $(READY)
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
