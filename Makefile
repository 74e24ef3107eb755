# The tasks that every contributor needs. nightly.mk has tasks for single topics and for every night.
#
#   make run           set up, build, and run the main example on real input
#   make run-storage   the main example on stored arrays: real data that do not fit in memory
#   make quick         the tests of the core and of the operators with few examples; under 45 seconds
#   make test          set up, and run the test suite
#   make lint          ruff, clang-format, mypy, the stub of the core, the import contracts
#   make check         everything that must pass before a change lands; 20 minutes on two cores, installs gigabytes
#   make docs          build the site (build/site/index.html) and check its links; for a release, set the environment
#     variables SITE and REPOSITORY to the URLs of the site (with a trailing slash) and of the repository
#   make clean         delete everything that was built

PYTHON ?= python3
VENV ?= .venv
RUNTIMES := build/runtimes
BIN := $(VENV)/bin
TOOLS := build/tools/bin
CMAKE := $(TOOLS)/cmake
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Python compiles modules at their first import; most modules that pip installs are never imported.
export PIP_COMPILE := 0
unexport PYTHONDONTWRITEBYTECODE

# The file with the versions to install. Empty: the newest versions.
CONSTRAINTS ?= constraints.txt
INSTALL = -m pip install --quiet $(CONSTRAINTS:%=--constraint %)
# Create an environment. Dependency groups need pip 25.1.
environment = $(PYTHON) -m venv $(1) && $(1)/bin/python $(INSTALL) --upgrade 'pip>=25.1'

# Install again when a file of the build changes, or when a Python file is added or removed: an editable install
# contains a list of them.
FILE_LIST := build/files-$(shell find src -name '*.py' | sort | cksum | cut -d ' ' -f 1)
BUILD_FILES := pyproject.toml CMakeLists.txt $(wildcard core/*.* core/*/*) $(FILE_LIST)

# Delete a partially built environment.
.DELETE_ON_ERROR:

.PHONY: run run-storage quick test lint check docs clean

run: $(VENV)/installed-run
	$(BIN)/python examples/elevation.py

run-storage: $(VENV)/installed-samples
	$(BIN)/python examples/ship_track.py

# These files import frameworks: their examples run with the tests of frameworks.
FRAMEWORKS := tests/frameworks $(addprefix src/ndgather/arrays/,torch jax tensorflow)
# Files that other targets than `make test` run.
ELSEWHERE := $(addprefix --ignore=,$(FRAMEWORKS) tests/site tests/xarray_suite)

# The seed of Hypothesis. Empty: a random seed, after the examples that failed before.
SEED ?=
# Every test run writes a report; tests/reports.py says which tests ran.
PYTEST = -m pytest -q --junit-xml=build/reports/$@.xml $(SEED:%=--hypothesis-seed=%)

# The number of processes that run the tests. 0: run them in this process.
TEST_WORKERS ?= 2
SHARED := -n $(TEST_WORKERS) --dist worksteal

test: $(VENV)/installed-test
	$(BIN)/python $(PYTEST) $(SHARED) -m "not slow" $(ELSEWHERE) $(PYTEST_FLAGS)

quick: $(VENV)/installed-test
	HYPOTHESIS_PROFILE=quick $(BIN)/python $(PYTEST) $(SHARED) -m "not slow and not unhurried" \
	  tests/core tests/operators $(PYTEST_FLAGS)

# The groups that `make lint` installs. `make check` adds the groups of its other steps, so that pip runs once.
LINT ?= lint

lint: $(VENV)/installed-$(LINT)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run -Werror $(wildcard core/*.* core/*/*)
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest ndgather._core ndgather.api
	$(BIN)/lint-imports

# All runs on a day use the same random examples; `make check SEED=...` reproduces a failure.
TODAY := $(shell expr $$(date +%s) / 86400)
GROUPS := lint-docs-samples-run

# Steps without timing run in pairs, the longest first. Property tests use a fifth of the examples of `make test`, and
# `make test-runtimes` skips tests that `make test` ran. If a step fails, the others still run, and the summary names it.
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
	$(MAKE) --jobs 2 --output-sync=target --keep-going TIME=0 check-borders test-jax test-torch test-runtimes test-xarray test-newer \
	  docs test-kernels test-large bench-quick models-quick run run-storage || rc=1; \
	$(BIN)/python -m tests.reports build/reports || rc=1; \
	[ $$rc = 0 ] || echo "failed: look for *** above"; exit $$rc

# Warnings are errors. The build uses no network.
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
	@echo "Installing ndgather in $(VENV) and compiling its C++ core, which takes one to two minutes."
	$(BIN)/python $(INSTALL) --editable .
	touch $@

# The same with the handler that XLA calls, which needs the headers of jaxlib: see CMakeLists.txt.
JAXLIB := build/jaxlib
FOR_JAX := --config-settings cmake.define.NDGATHER_JAX=$(abspath $(JAXLIB)/jaxlib/include)

$(JAXLIB)/installed: constraints.txt | $(VENV)/bin/python
	$(BIN)/python $(INSTALL) --no-deps --upgrade --target $(JAXLIB) jaxlib
	touch $@

$(VENV)/built-for-jax: $(BUILD_FILES) $(JAXLIB)/installed
	$(BIN)/python $(INSTALL) --editable . $(FOR_JAX)
	touch $@ $(VENV)/built

# `make $(VENV)/installed-a-b` adds the dependency groups a and b without building again.
groups = $(patsubst %,--group %,$(subst -, ,$(1)))

$(VENV)/installed-%: $(VENV)/built constraints.txt
	$(BIN)/python $(INSTALL) $(call groups,$*)
	touch $@

# `make $(RUNTIMES)/installed-a` adds the group a to a second environment, which also sees the packages of $(VENV).
# $(VENV) itself has no onnxruntime, because more tests would run with it.
$(RUNTIMES)/installed-%: $(VENV)/installed-test | $(RUNTIMES)/bin/python
	$(RUNTIMES)/bin/python $(INSTALL) $(call groups,$*)
	touch $@

PACKAGES_OF := -c 'import site; print(site.getsitepackages()[0])'

$(RUNTIMES)/bin/python: | $(VENV)/bin/python
	$(BIN)/python -m venv --without-pip $(RUNTIMES)
	ln -s $(abspath $(BIN)/ndgather) $(RUNTIMES)/bin
	echo "import site; site.addsitedir('$$($(BIN)/python $(PACKAGES_OF))')" > "$$($@ $(PACKAGES_OF))/over.pth"

include nightly.mk
