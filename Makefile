# The tasks of everybody who works on the project. Those of one topic, and of every night, are in nightly.mk.
#
#   make run           set up, build, and run the main job on real input
#   make run-storage   the main job on arrays that do not fit in memory, on real data
#   make quick         the tests of the core and of the operators, few draws: under a minute
#   make test          set up and run the test suite
#   make lint          ruff, clang-format, mypy, the stub of the core, the import contracts
#   make check         what must pass before a change lands, on two cores 20 minutes; installs gigabytes
#   make docs          build the site, build/site/index.html, and check its links; a release has SITE and REPOSITORY
#     in its environment: the addresses of the site, with a slash at its end, and of the repository
#   make clean         remove what building left behind

PYTHON ?= python3
VENV ?= .venv
RUNTIMES := build/runtimes
BIN := $(VENV)/bin
TOOLS := build/tools/bin
CMAKE := $(TOOLS)/cmake
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Python compiles a module at its first import and keeps the result; most modules that pip installs are never imported.
export PIP_COMPILE := 0
unexport PYTHONDONTWRITEBYTECODE

# The versions that are installed; empty: the newest.
CONSTRAINTS ?= constraints.txt
INSTALL = -m pip install --quiet $(CONSTRAINTS:%=--constraint %)
# How to make an environment: pip knows dependency groups from 25.1 on.
environment = $(PYTHON) -m venv $(1) && $(1)/bin/python $(INSTALL) --upgrade 'pip>=25.1'

# An install is redone when anything that goes into the build has changed, or when a Python file has come or
# gone: an editable install has a list of them.
FILE_LIST := build/files-$(shell find src -name '*.py' | sort | cksum | cut -d ' ' -f 1)
BUILD_FILES := pyproject.toml CMakeLists.txt $(wildcard core/*.* core/*/*) $(FILE_LIST)

# Half an environment is none.
.DELETE_ON_ERROR:

.PHONY: run run-storage quick test lint check docs clean

run: $(VENV)/installed-run
	$(BIN)/python examples/elevation.py

run-storage: $(VENV)/installed-samples
	$(BIN)/python examples/ship_track.py

# Files that import those packages: their examples are run with the tests of frameworks.
FRAMEWORKS := tests/frameworks $(addprefix src/ndgather/arrays/,torch jax tensorflow)
# Files that `make test` leaves to other targets.
ELSEWHERE := $(addprefix --ignore=,$(FRAMEWORKS) tests/site tests/xarray_suite)

# Where Hypothesis begins to draw; empty: anywhere, and what failed before once more.
SEED ?=
# Every run of tests leaves a report, of which tests/reports.py says what ran.
PYTEST = -m pytest -q --junit-xml=build/reports/$@.xml $(SEED:%=--hypothesis-seed=%)

# Processes that share the tests between them; 0: one after the other, in this one.
TEST_WORKERS ?= 2
SHARED := -n $(TEST_WORKERS) --dist worksteal

test: $(VENV)/installed-test
	$(BIN)/python $(PYTEST) $(SHARED) -m "not slow" $(ELSEWHERE) $(PYTEST_FLAGS)

# Tests that take their time: child processes, many threads, large arrays, each allocation.
UNHURRIED := $(addprefix tests/core/,memory threads results/test_large_arrays.py package/test_settings.py package/test_types.py)

quick: $(VENV)/installed-test
	HYPOTHESIS_PROFILE=quick $(BIN)/python $(PYTEST) $(SHARED) -m "not slow" \
	  $(addprefix --ignore=,$(UNHURRIED) tests/core/package/test_show_versions.py) \
	  -k "not most_drawn_calls" tests/core tests/operators $(PYTEST_FLAGS)

# The groups that `make lint` installs: `make check` adds those of its other steps, so that pip runs once.
LINT ?= lint

lint: $(VENV)/installed-$(LINT)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run -Werror $(wildcard core/*.* core/*/*)
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest ndgather._core ndgather.api
	$(BIN)/lint-imports

# The draws of one day are the same: a failure is found again by `make check SEED=...`.
TODAY := $(shell expr $$(date +%s) / 86400)
GROUPS := lint-docs-samples-run

# Two at a time where nothing is timed, those that take longest first. Property tests draw a fifth of the examples that
# `make test` draws; what ran there is left out of `make test-runtimes`. Whatever fails, the rest runs, and the page of
# reports at the end names it.
check: export HYPOTHESIS_PROFILE := short
check: export SEED := $(or $(SEED),$(TODAY))
check: export LINT := $(GROUPS)
check: export NOT_IN := build/reports/test.xml
check:
	rm -rf build/reports
	@echo "make check SEED=$(SEED) draws these examples again"
	$(MAKE) $(VENV)/built-for-jax
	$(MAKE) $(VENV)/installed-$(GROUPS)
	touch $(addprefix $(VENV)/installed-,test docs samples run)
	$(MAKE) --jobs 2 --output-sync=target lint check-core $(RUNTIMES)/installed-all
	touch $(addprefix $(RUNTIMES)/installed-,frameworks backends models)
	@rc=0; $(MAKE) test || rc=1; \
	$(MAKE) --jobs 2 --output-sync=target --keep-going TIME=0 check-borders test-jax test-torch test-runtimes test-xarray \
	  docs test-kernels test-large bench-quick models-quick run run-storage || rc=1; \
	$(BIN)/python -m tests.reports build/reports || rc=1; \
	[ $$rc = 0 ] || echo "failed: look for *** above"; exit $$rc

# A warning of the build is an error; no network is used.
docs: $(VENV)/installed-docs
	$(BIN)/python -m sphinx --quiet --fresh-env --jobs 2 --fail-on-warning --builder html --doctree-dir build/doctrees docs build/site
	$(BIN)/python $(PYTEST) -p no:cacheprovider --noconftest tests/site/test_links.py
	@echo "build/site/index.html: $$(find build/site -name '*.html' | wc -l) pages"

clean:
	rm -rf build dist mutants $(VENV) examples/output bench/results .*_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

$(CMAKE):
	$(PYTHON) -m venv build/tools
	$(TOOLS)/python $(INSTALL) 'cmake>=3.26' 'ninja>=1.11'

$(VENV)/bin/python:
	$(call environment,$(VENV))

$(FILE_LIST):
	@mkdir -p build
	@rm -f build/files-*
	@touch $@

# `make $(VENV)/built` builds the core and installs the package: Python files are used from src/.
$(VENV)/built: $(BUILD_FILES) | $(VENV)/bin/python
	@echo "Installing ndgather in $(VENV): its C++ core is compiled, which takes one to two minutes."
	$(BIN)/python $(INSTALL) --editable .
	touch $@

# The same with the handler that XLA calls, for which jaxlib has the headers; see CMakeLists.txt.
JAXLIB := build/jaxlib
FOR_JAX := --config-settings cmake.define.NDGATHER_JAX=$(abspath $(JAXLIB)/jaxlib/include)

$(JAXLIB)/installed: constraints.txt | $(VENV)/bin/python
	$(BIN)/python $(INSTALL) --no-deps --upgrade --target $(JAXLIB) jaxlib
	touch $@

$(VENV)/built-for-jax: $(BUILD_FILES) $(JAXLIB)/installed
	$(BIN)/python $(INSTALL) --editable . $(FOR_JAX)
	touch $@ $(VENV)/built

# `make $(VENV)/installed-a-b` adds the dependency groups a and b; nothing is built again.
groups = $(patsubst %,--group %,$(subst -, ,$(1)))

$(VENV)/installed-%: $(VENV)/built constraints.txt
	$(BIN)/python $(INSTALL) $(call groups,$*)
	touch $@

# `make $(RUNTIMES)/installed-a` adds the group a to an environment over $(VENV): it has all that is in $(VENV), which
# stays as it is, without onnxruntime, with which more of the tests would run.
$(RUNTIMES)/installed-%: $(VENV)/installed-test | $(RUNTIMES)/bin/python
	$(RUNTIMES)/bin/python $(INSTALL) $(call groups,$*)
	touch $@

PACKAGES_OF := -c 'import site; print(site.getsitepackages()[0])'

$(RUNTIMES)/bin/python: | $(VENV)/bin/python
	$(BIN)/python -m venv --without-pip $(RUNTIMES)
	ln -s $(abspath $(BIN)/ndgather) $(RUNTIMES)/bin
	echo "import site; site.addsitedir('$$($(BIN)/python $(PACKAGES_OF))')" > "$$($@ $(PACKAGES_OF))/over.pth"

include nightly.mk
