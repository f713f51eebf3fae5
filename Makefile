# Two commands do all the set-up: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Bytecode is compiled as modules are imported: most of what is installed never is.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile

.PHONY: demo docs test test-slow mutants lint cifar10-small clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(PIP) -e .
	@touch $@

$(VENV)/.installed-test: pyproject.toml | $(BIN)/python
	$(PIP) -e '.[test]'
	# Without torchvision, which may replace torch; tests have a stand-in for it.
	-$(PIP) --no-deps timm open_clip_torch
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-label: pyproject.toml | $(BIN)/python
	$(PIP) -e '.[label]'
	@touch $@ $(VENV)/.installed

demo: $(VENV)/.installed-label  ## learn on real digits by the default strategy and at random, then write a report
	$(BIN)/steepest demo

$(VENV)/.installed-docs: pyproject.toml | $(BIN)/python
	$(PIP) -e '.[docs,sklearn]'
	@touch $@ $(VENV)/.installed

docs: $(VENV)/.installed-docs  ## the documentation site, in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	! git grep -nE '(/wor[k]/|[.][.]/share[d]|/hom[e]/|/roo[t]/)' -- . ':!.ci'  # no place on one machine

# Hundreds of tests start Python, which would compile everything each time.
test: export PYTHONDONTWRITEBYTECODE =
test: lint  ## ruff, mypy strict, and the tests with warnings as errors
	$(BIN)/pytest -n 2 --dist worksteal

cifar10-small: $(VENV)/.installed  ## the whole path on real CIFAR-10, on a CPU; needs STEEPEST_DATA
	$(BIN)/steepest compare cifar10-small --strategies entropy-gradnorm,margin,fisher-gradnorm \
	  --seeds 3 --out steepest-runs/cifar10-small

test-slow: $(VENV)/.installed-test  ## the checks that take minutes
	$(BIN)/pytest -m slow

mutants: $(VENV)/.installed-test  ## faults put into a copy of the sources, which tests have to notice
	$(BIN)/python tests/mutations/mutants.py

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
