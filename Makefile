# Every task of the project; continuous integration runs these targets too.
#
#   make run     set up, build, and run the main job on real input
#   make run-storage   the main job on arrays that do not fit in memory, on real data
#   make test    set up and run the test suite
#   make check   what must pass before a change lands: lint, types, contracts, core, tests, docs, main job; it
#     leaves out the frameworks, ThreadSanitizer, and the tests in a browser
#   make check-core   random calls of the core alone, with AddressSanitizer and UBSan
#   make check-borders TIME=60   the same, and property tests, of a core whose limits are so small that every call
#     crosses some, for so many seconds; at least once for each instruction set: a minute
#   make test-frameworks   the tests with torch, JAX, TensorFlow, polars and other libraries: they install gigabytes
#   make test-large   the tests of arrays with more than 2**31 elements, and at the borders of 2**31 to 2**35
#     bytes: 8 GiB of memory
#   make check-long   16 threads for a minute, and 100,000 calls of every kind: 20 minutes
#   make check-asan   check-core, then the tests of `make test` with AddressSanitizer and UBSan, those of the
#     core for every instruction set: 20 minutes
#   make check-tsan   the tests of threads with ThreadSanitizer: 10 minutes
#   make fuzz TIME=60   fuzz the core and the readers of models, so many seconds each: needs clang; with TINY=ON a core
#     with tiny limits
#   make wheel   build dist/*.whl
#   make test-wheel   the test suite against that wheel in a fresh environment, also of another
#     interpreter and NumPy: make test-wheel PYTHON=python3.13 NUMPY='numpy==2.0.*'
#   make faults   the core is built with one fault at a time, and a test has to fail: 10 minutes
#   make mutants MUTANTS='ndgather.published.inference*'   changes of Python code that no test notices: hours for all
#   make check-portable   the core by g++ and clang++, for aarch64 (run by qemu) and for Windows; every conversion and
#     overflow checked, by clang++
#   make bench   measure against numpy, torch, onnxruntime, openvino, numba, polars ...
#   make bench-quick  every case of the benchmark at reduced size: answers, no times
#   make models  check, infer, run, compare and convert 40 models that packages ship, and then those of
#     `make exports`, beside onnxruntime: half an hour
#   make models-quick  the models of three small packages: half a minute
#   make exports  the same for 80 models that torch, tf2onnx and skl2onnx export on the spot, each in an
#     environment that is made for it: gigabytes
#   make exports-page  what runtimes make of these, also of hard indices: docs/exporters.md
#   make exports-targets  how many of their nodes restricted targets take, and which programs load them after
#     `convert --target`: a table of docs/exporters.md
#   make test-targets  many examples of the rules of `convert --target`: an hour
#   make conformance  the hard cases in those runtimes: docs/conformance.md
#   make docs    build the site, build/site/index.html, and check its links; a release has SITE and REPOSITORY in
#     its environment: the addresses of the site, with a slash at its end, and of the repository
#   make test-docs   the site in Chromium (CHROMIUM=/usr/bin/chromium): every page, accessibility, search,
#     themes, pictures; and the tour as a notebook: 10 minutes; needs npm
#   make clean   remove what building left behind

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

# An install is redone when anything that goes into the build has changed, or when a Python file has come or
# gone: an editable install has a list of them.
FILE_LIST := build/files-$(shell find src -name '*.py' | sort | cksum | cut -d ' ' -f 1)
BUILD_FILES := pyproject.toml CMakeLists.txt $(wildcard core/*.* core/*/*) $(FILE_LIST)

.PHONY: run run-storage test test-frameworks test-xarray test-targets test-large check lint fuzz faults mutants bench bench-quick models models-quick exports exports-page exports-targets conformance docs test-docs clean \
  wheel test-wheel check-core check-borders check-long check-asan check-tsan check-portable

run: $(VENV)/installed-viz-onnx
	$(BIN)/python examples/elevation.py

run-storage: $(VENV)/installed-stores-viz-samples
	$(BIN)/python examples/ship_track.py

# Files that import those packages: their examples are run with the tests of frameworks.
FRAMEWORKS := tests/frameworks $(wildcard $(addprefix src/ndgather/arrays/,torch jax tensorflow))
# Those that Triton interprets: the kernels of tensors on a GPU, on tensors of the CPU.
INTERPRETED := tests/frameworks/test_torch_kernels.py
# Files that `make test` leaves to other targets.
ELSEWHERE := $(addprefix --ignore=,$(FRAMEWORKS) tests/site tests/xarray_suite)

# Processes that share the tests between them; 0: one after the other, in this one.
TEST_WORKERS ?= 2

test: $(VENV)/installed-test
	$(BIN)/python -m pytest -q -n $(TEST_WORKERS) --dist worksteal -m "not slow" $(ELSEWHERE) $(PYTEST_FLAGS)

# Many examples of the rules for restricted targets, also run by onnxruntime.
test-targets: $(VENV)/installed-test $(RUNTIMES)/installed-exports
	HYPOTHESIS_PROFILE=nightly $(RUNTIMES)/bin/python -m pytest -q -o faulthandler_timeout=1800 tests/models/test_targets.py $(PYTEST_FLAGS)

test-frameworks: $(VENV)/built-for-jax
	$(BIN)/python -m pytest -q $(FRAMEWORKS) $(PYTEST_FLAGS)
	NDGATHER_TORCH_KERNELS=1 TRITON_INTERPRET=1 $(BIN)/python -m pytest -q $(INTERPRETED) $(PYTEST_FLAGS)

LARGE := tests/core/test_two_gib.py tests/core/test_real_borders.py

test-large: $(VENV)/installed-test
	$(BIN)/python -m pytest -q -m slow $(PYTEST_FLAGS) $(LARGE)

check-long: $(VENV)/installed-test
	$(BIN)/python -m pytest -q -m slow $(PYTEST_FLAGS) tests/core \
	  $(addprefix --ignore ,$(LARGE))

# The extras that `make lint` installs: `make check` adds those of its other steps, so that pip runs once.
LINT ?= lint

lint: $(VENV)/installed-$(LINT)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest ndgather._core ndgather.api
	$(BIN)/lint-imports

# Two at a time where nothing is timed. Property tests draw an eighth of the examples that `make test` draws.
check:
	$(MAKE) --jobs 2 --output-sync=target lint check-core LINT=lint-docs-samples
	touch $(addprefix $(VENV)/installed-,test docs viz-onnx stores-viz-samples)
	$(MAKE) check-borders TIME=0
	HYPOTHESIS_PROFILE=short $(MAKE) test
	$(MAKE) --jobs 2 --output-sync=target docs test-large run-storage bench-quick models-quick run

faults: build/mutants/installed $(CMAKE)
	PATH="$(abspath $(TOOLS)):$$PATH" build/mutants/venv/bin/python tests/core/faults.py $(CMAKE) build/faults

# mutmut changes a copy of the sources in mutants/; the core has to stand beside them. Which modules, and
# which tests have to notice: pyproject.toml.
mutants: build/mutants/installed
	rm -rf mutants
	mkdir -p mutants/src/ndgather
	cp build/mutants/venv/lib/python3*/site-packages/ndgather/_core.*so mutants/src/ndgather
	CI=true build/mutants/venv/bin/mutmut run $(MUTANTS)
	build/mutants/venv/bin/mutmut results

# xarray's own tests of its backends, which are part of its package, with data sets opened by engine="ndgather".
test-xarray: $(VENV)/installed-backends
	$(BIN)/python -m pytest -q -p no:cacheprovider -o strict=false -o addopts=--import-mode=importlib \
	  -o filterwarnings=ignore $(PYTEST_FLAGS) tests/xarray_suite/engine_tests.py

check-portable: $(CMAKE)
	PATH="$(abspath $(TOOLS)):$$PATH" tests/core/portable.sh $(CMAKE) build/portable

wheel: dist/built
	@ls -l dist/*.whl

dist/built: $(BUILD_FILES) README.md LICENSE $(shell find src -type f -name '*.py*')
	rm -rf dist
	$(PYTHON) -m pip wheel --quiet --no-deps --wheel-dir dist .
	touch $@

NUMPY ?= numpy
WHEEL_VENV := build/wheel/venv

test-wheel: wheel
	rm -rf build/wheel
	$(PYTHON) -m venv $(WHEEL_VENV)
	$(WHEEL_VENV)/bin/python -m pip install --quiet "$$(echo dist/*.whl)[test]" '$(NUMPY)'
	$(WHEEL_VENV)/bin/python -m pytest -q -m "not slow" $(PYTEST_FLAGS) $(ELSEWHERE) tests README.md

# AddressSanitizer keeps freed memory, and so the process grows.
INSTRUCTION_SETS := baseline avx2 avx512
SANITIZED := -q -p no:cacheprovider $(PYTEST_FLAGS) $(ELSEWHERE) \
  --deselect tests/core/test_reused_memory.py::test_memory_of_the_process_stays_flat
UNDER_ASAN := tests/core/run.sh address build/address
UNDER_TSAN := tests/core/run.sh thread build/thread

check-core: build/address-core/core_calls
	$(PYTHON) -m zipfile -e fuzz/corpus/core.zip build/address-core/seeds
	for set in $(INSTRUCTION_SETS); do \
	  NDGATHER_INSTRUCTION_SET=$$set LEAKS=1 $(UNDER_ASAN)-core/core_calls 4 500 && \
	  NDGATHER_INSTRUCTION_SET=$$set $(UNDER_ASAN)-core/core_fuzz build/address-core/seeds/* || exit; done

TIME ?= 60

# The core with tiny limits, for so many seconds: every call crosses some border.
check-borders: build/borders/built
	$(BIN)/python tests/core/borders.py build/borders $(TIME)

check-asan: check-core build/address/installed
	$(UNDER_ASAN)/venv/bin/python -m pytest $(SANITIZED) -m "not slow"
	for set in baseline avx2; do \
	  NDGATHER_INSTRUCTION_SET=$$set $(UNDER_ASAN)/venv/bin/python -m pytest $(SANITIZED) -m "not slow" \
	    tests/core || exit; done

OF_THREADS := $(addprefix tests/core/test_,concurrent_calls.py interrupts.py processes.py \
  shapes_that_change.py thread_count.py)

# How long a call keeps the GIL is measured elsewhere: calls take minutes here.
check-tsan: build/thread/built build/thread/installed
	for set in $(INSTRUCTION_SETS); do \
	  NDGATHER_INSTRUCTION_SET=$$set $(UNDER_TSAN)/core/core_calls 16 1000 || exit; done
	$(UNDER_TSAN)/venv/bin/python -m pytest $(SANITIZED) -m "not slow and not races" -k "not gil" \
	  $(OF_THREADS) tests/core/test_scatter_threads.py tests/core/test_reused_memory.py \
	  tests/core/test_shared_memory.py

CLANGXX ?= clang++
TINY ?= OFF
FUZZER := build/fuzzer-$(TINY)

fuzz: $(FUZZER)/core_fuzz
	PYTHON=$(BIN)/python CORE_FUZZ=$< fuzz/run.sh $(TIME)

bench: $(VENV)/installed-bench
	$(BIN)/python -m bench --page

bench-quick: $(VENV)/installed-test
	$(BIN)/python -m bench --quick

models: $(RUNTIMES)/installed-exports
	$(RUNTIMES)/bin/python -m tools.models
	$(RUNTIMES)/bin/python -m tools.exports

exports: $(RUNTIMES)/installed-exports
	$(RUNTIMES)/bin/python -m tools.exports

exports-page: $(RUNTIMES)/installed-exports
	$(RUNTIMES)/bin/python -m tools.exports --page

exports-targets: exports
	$(RUNTIMES)/bin/python -m tools.targets
	$(RUNTIMES)/bin/python -m tools.exports --from-results

models-quick: $(RUNTIMES)/installed-models
	$(RUNTIMES)/bin/python -m tools.models --short

conformance: $(VENV)/installed-bench
	$(BIN)/python -m tools.conformance --format md > docs/conformance.md

# A warning of the build is an error; no network is used.
docs: $(VENV)/installed-docs
	$(BIN)/python -m sphinx --quiet --fresh-env --jobs 2 --fail-on-warning --builder html --doctree-dir build/doctrees docs build/site
	$(BIN)/python -m pytest -q -p no:cacheprovider --noconftest tests/site/test_links.py
	@echo "build/site/index.html: $$(find build/site -name '*.html' | wc -l) pages"

CHROMIUM ?= $(shell command -v chromium)

test-docs: docs $(VENV)/installed-site build/browser/node_modules/axe-core/axe.min.js
	CHROMIUM="$(CHROMIUM)" $(BIN)/python -m pytest -q -p no:cacheprovider tests/site $(PYTEST_FLAGS)

# axe checks accessibility: screen readers, keyboards and contrast.
build/browser/node_modules/axe-core/axe.min.js:
	npm install --silent --no-fund --no-audit --prefix build/browser axe-core@4

$(CMAKE):
	$(PYTHON) -m venv build/tools
	$(TOOLS)/python -m pip install --quiet 'cmake>=3.26' 'ninja>=1.11'

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(FILE_LIST):
	@mkdir -p build
	@rm -f build/files-*
	@touch $@

# `make $(VENV)/built` builds the core and installs the package: Python files are used from src/.
$(VENV)/built: $(BUILD_FILES) | $(VENV)/bin/python
	@echo "Installing ndgather in $(VENV): its C++ core is compiled, which takes one to two minutes."
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

# `make $(VENV)/installed-a-b` adds what the extras a and b ask for; nothing is built again.
$(VENV)/installed-%: $(VENV)/built
	$(BIN)/python -m pip install --quiet 'ndgather[$(subst -,$(comma),$*)]'
	touch $@

# `make $(RUNTIMES)/installed-a` adds what the extra a asks for to an environment over $(VENV): it has all that is in
# $(VENV), which stays as it is, without onnxruntime, with which more of the tests would run.
$(RUNTIMES)/installed-%: $(VENV)/built | $(RUNTIMES)/bin/python
	$(RUNTIMES)/bin/python -m pip install --quiet 'ndgather[$(subst -,$(comma),$*)]'
	touch $@

PACKAGES_OF := -c 'import site; print(site.getsitepackages()[0])'

$(RUNTIMES)/bin/python: | $(VENV)/bin/python
	$(BIN)/python -m venv --without-pip $(RUNTIMES)
	echo "import site; site.addsitedir('$$($(BIN)/python $(PACKAGES_OF))')" > "$$($@ $(PACKAGES_OF))/over.pth"

# `make $(VENV)/built-for-jax` builds the core once more, with the handler that XLA calls; see CMakeLists.txt.
$(VENV)/built-for-jax: $(VENV)/installed-test-frameworks
	$(BIN)/python -m pip install --quiet --editable . --config-settings \
	  cmake.define.NDGATHER_JAX="$$($(BIN)/python -c 'import jax; print(jax.ffi.include_dir())')"
	touch $@

comma := ,

CORE_CALLS := $(wildcard tests/core/*.h tests/core/*.cpp fuzz/*.cpp)

# `make build/address/built` installs an instrumented core in an environment of its own;
# `make build/address/installed` adds what the tests need.
build/%/built: $(BUILD_FILES) $(CORE_CALLS)
	$(PYTHON) -m venv build/$*/venv
	build/$*/venv/bin/python -m pip install --quiet --editable . \
	  --config-settings build-dir=build/$*/core --config-settings cmake.build-type=Debug \
	  --config-settings cmake.define.NDGATHER_SANITIZE=$*
	touch $@

# The same without Python and its binding, for the programs that call the core by themselves.
build/%-core/core_calls: $(BUILD_FILES) $(CORE_CALLS) | $(CMAKE)
	$(CMAKE) -S . -B $(@D) -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(TOOLS))/ninja --log-level=WARNING \
	  -DNDGATHER_CORE_ONLY=ON -DNDGATHER_SANITIZE=$* -DCMAKE_BUILD_TYPE=Debug
	MAKEFLAGS= $(CMAKE) --build $(@D) -- --quiet
	touch $@

# The package is that of src/, with a core of its own; other packages are those of $(VENV), whose core is left out, as
# a path in a .pth file brings no other .pth file with it.
build/borders/built: $(BUILD_FILES) $(CORE_CALLS) $(VENV)/installed-test | $(CMAKE)
	$(CMAKE) -S . -B $(@D) -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(TOOLS))/ninja --log-level=WARNING \
	  -DNDGATHER_SANITIZE=address -DNDGATHER_TINY=ON -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS=-O1 \
	  -DPython_EXECUTABLE=$(abspath $(BIN)/python)
	MAKEFLAGS= $(CMAKE) --build $(@D) -- --quiet
	rm -rf $(@D)/venv $(@D)/package
	$(BIN)/python -m venv --without-pip $(@D)/venv
	$(BIN)/python $(PACKAGES_OF) > "$$($(@D)/venv/bin/python $(PACKAGES_OF))/over.pth"
	mkdir -p $(@D)/package/ndgather
	ln -s $(abspath src/ndgather)/* $(@D)/package/ndgather
	rm -f $(@D)/package/ndgather/_core.*so
	cp $(@D)/_core.*so $(@D)/package/ndgather
	touch $@

# Not editable: mutmut and `make faults` import a copy of the sources, which stands before this on sys.path.
build/mutants/installed: $(BUILD_FILES)
	$(PYTHON) -m venv build/mutants/venv
	build/mutants/venv/bin/python -m pip install --quiet '.[mutants]'
	touch $@

build/%/installed: build/%/built
	build/$*/venv/bin/python -m pip install --quiet 'ndgather[test]'
	touch $@

$(FUZZER)/core_fuzz: $(BUILD_FILES) $(CORE_CALLS) $(VENV)/installed-fuzz
	@command -v $(CLANGXX) >/dev/null || \
	  { echo "make fuzz needs clang and its libFuzzer (apt-get install clang, or CLANGXX=...)"; exit 1; }
	$(BIN)/cmake -S . -B $(@D) -G Ninja -DNDGATHER_SANITIZE=fuzzer -DNDGATHER_TINY=$(TINY) -DCMAKE_BUILD_TYPE=RelWithDebInfo \
	  -DCMAKE_CXX_COMPILER=$(CLANGXX) -DPython_EXECUTABLE=$(abspath $(BIN)/python)
	$(BIN)/cmake --build $(@D) --target core_fuzz

clean:
	rm -rf build dist mutants $(VENV) examples/output bench/results .*_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
