# Tasks for single topics and for every night. `grep '##' nightly.mk` lists them and when you need them.

.PHONY: nightly test-frameworks test-torch test-kernels test-jax test-gpu test-runtimes test-xarray test-newer test-versions oldest-versions \
  test-large test-targets check-long test-docs wheel test-wheels release-check release-wheel check-core \
  check-borders check-asan check-tsan check-portable fuzz faults mutants bench bench-quick models models-quick exports conformance \
  nightly-environments

# Tasks run even if another one fails. Their output is in build/nightly.
nightly release-check: export SEED := $(or $(SEED),$(TODAY))

nightly:  ## every night, and before a release: everything too slow for `make check`; at most four hours; NIGHTLY=rest continues, NIGHTLY='fuzz mutants' runs parts
	$(PYTHON) -m tools.nightly $(or $(NIGHTLY),night)

release-check:  ## before a release, after a nightly run without failures; half an hour
	$(PYTHON) -m tools.nightly release

# Three parts, of which `make check` runs two at a time. Triton interprets the GPU kernels on CPU tensors.
KERNELS := tests/frameworks/test_torch_kernels.py
OF_TORCH := $(filter-out $(KERNELS),$(wildcard tests/frameworks/test_torch_*.py)) src/ndgather/arrays/torch
FRAMEWORK_TESTS := test-torch test-kernels test-jax

test-frameworks: $(FRAMEWORK_TESTS)  ## after a change to an adapter of torch, JAX, TensorFlow, polars ...: installs gigabytes

$(FRAMEWORK_TESTS): $(VENV)/built-for-jax $(RUNTIMES)/installed-frameworks

test-torch:
	$(RUNTIMES)/bin/python $(PYTEST) $(OF_TORCH) $(PYTEST_FLAGS)

test-kernels:
	NDGATHER_TORCH_KERNELS=1 TRITON_INTERPRET=1 $(RUNTIMES)/bin/python $(PYTEST) $(KERNELS) $(PYTEST_FLAGS)

test-gpu:  ## after a change for GPUs, on a machine with a GPU that the torch of PYTHON supports: make test-gpu PYTHON=python3; 3 minutes
	$(PYTHON) $(PYTEST) -o filterwarnings=default tests/frameworks/test_gpu.py tests/frameworks/test_torch_devices.py $(KERNELS) $(PYTEST_FLAGS)

test-jax:
	$(RUNTIMES)/bin/python $(PYTEST) $(addprefix --ignore=,$(OF_TORCH)) $(filter-out $(OF_TORCH),$(FRAMEWORKS)) $(PYTEST_FLAGS)

# NOT_IN is the report of `make test`. With it, only tests run that `make test` skipped, because they need a runtime.
test-runtimes: $(RUNTIMES)/installed-all  ## after a change to models: the tests that need onnxruntime and OpenVINO
	$(RUNTIMES)/bin/python $(PYTEST) -m "not slow" $(NOT_IN:%=--not-in=%) tests/models tests/cli tests/docs \
	  tests/core/package/test_private_names.py tests/operators/test_defaults.py $(PYTEST_FLAGS)

test-xarray: $(RUNTIMES)/installed-backends  ## after a change to engine="ndgather": xarray's own backend tests
	$(RUNTIMES)/bin/python $(PYTEST) -p no:cacheprovider -o strict=false -o addopts=--import-mode=importlib \
	  -o filterwarnings=ignore tests/xarray_suite/engine_tests.py $(PYTEST_FLAGS)

# The newest packages may need a newer Python than $(VENV). The stable ABI of the core works there too.
NEWER := build/newer
NEWER_PYTHON = $(shell for each in python3.14 python3.13 python3.12 ~/.pyenv/versions/3.1[432].*/bin/python3 $(PYTHON); do \
  $$each -c '' 2>/dev/null && echo $$each && break; done)
NEWER_PACKAGES := numpy zarr xarray 'dask[array]' h5py tensorstore pytest hypothesis ml_dtypes

test-newer: $(NEWER)/installed  ## after a change to stores: tests with the newest NumPy and zarr, in Python 3.12 or newer; half a minute
	PYTHONPATH=$(NEWER)/package HYPOTHESIS_PROFILE=quick $(NEWER)/bin/python $(PYTEST) -p no:cacheprovider \
	  -o filterwarnings=default tests/stored/stores/test_zarr_codecs.py tests/stored/test_definitions.py \
	  tests/core/threads/test_processes.py::test_main_interpreter_works_after_a_refusal $(PYTEST_FLAGS)

$(NEWER)/installed: $(VENV)/built pyproject.toml
	rm -rf $(NEWER)
	$(NEWER_PYTHON) -m venv --without-pip $(NEWER)
	$(BIN)/python -m pip --python $(NEWER)/bin/python install --quiet --only-binary :all: $(NEWER_PACKAGES)
	mkdir -p $(NEWER)/package/ndgather
	ln -s $(abspath src/ndgather)/* $(NEWER)/package/ndgather
	rm -f $(NEWER)/package/ndgather/_core.*so
	cp $$($(BIN)/python -c 'from ndgather import _core; print(_core.__file__)') $(NEWER)/package/ndgather
	touch $@

VERSIONS := build/versions

test-versions: $(VERSIONS)/built  ## after a change to an extra: tests with the oldest and newest packages; an hour, 20 GB; VERSIONS_OF='oldest-torch' runs parts
	$(PYTHON) -m tools.versions test $(VERSIONS_OF)

$(VERSIONS)/built: $(BUILD_FILES) $(JAXLIB)/installed $(shell find src -type f -name '*.py*')
	rm -rf $(VERSIONS)/wheel
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir $(VERSIONS)/wheel . $(FOR_JAX)
	touch $@

oldest-versions:  ## after a change to a lower bound in pyproject.toml: write tests/versions/oldest.txt
	$(PYTHON) -m venv $(VERSIONS)/uv
	$(VERSIONS)/uv/bin/python -m pip install --quiet uv
	$(PYTHON) -m tools.versions oldest $(VERSIONS)/uv/bin/uv

LARGE := tests/core/memory/test_two_gib.py tests/core/memory/test_real_borders.py tests/models/test_large_models.py

test-large: $(VENV)/installed-test  ## after a change to offsets or limits: arrays of 2**31 elements and more; needs 8 GiB
	$(BIN)/python $(PYTEST) -m slow $(LARGE) $(PYTEST_FLAGS)

check-long: $(RUNTIMES)/installed-exports  ## after a change to threads or memory: 100,000 calls of every kind; 20 minutes
	$(RUNTIMES)/bin/python $(PYTEST) -m slow $(addprefix --ignore=,$(LARGE)) $(ELSEWHERE) tests $(PYTEST_FLAGS)

test-targets: $(RUNTIMES)/installed-exports  ## after a change to `convert --target`: many random models; 2 minutes
	HYPOTHESIS_PROFILE=nightly $(RUNTIMES)/bin/python $(PYTEST) -o faulthandler_timeout=1800 tests/models/test_targets.py $(PYTEST_FLAGS)

CHROMIUM ?= $(shell command -v chromium)

test-docs: docs $(VENV)/installed-site build/browser/node_modules/axe-core/axe.min.js  ## after a change to the site: tests in Chromium, with axe for accessibility; 10 minutes, needs npm
	CHROMIUM="$(CHROMIUM)" $(BIN)/python $(PYTEST) -p no:cacheprovider tests/site $(PYTEST_FLAGS)

build/browser/node_modules/axe-core/axe.min.js:
	npm install --silent --no-fund --no-audit --prefix build/browser axe-core@4

# The tools for releases have their own environment, because cffconvert needs old packages.
RELEASE := build/release/venv/bin

build/release/installed: pyproject.toml
	$(call environment,build/release/venv)
	$(RELEASE)/python -m pip install --quiet --group release
	touch $@

# Build the sdist, and the wheel from it, with the time of the commit. The C++ library is linked statically, so the wheel
# runs on all systems with this version of glibc or newer. It contains the handler that XLA calls.
build_release = rm -rf $(1) && LDFLAGS='-static-libstdc++ -Wl,--exclude-libs,ALL -Wl,--gc-sections' \
  SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct 2>/dev/null || echo 1764201600) $(RELEASE)/python -m build --quiet \
  --config-setting cmake.define.NDGATHER_JAX=$(abspath $(JAXLIB)/jaxlib/include) --outdir $(1) .

wheel: dist/built  ## to try or publish a build: dist/*.whl and dist/*.tar.gz
	@ls -l dist/*.whl

dist/built: $(BUILD_FILES) README.md LICENSE $(shell find src -type f -name '*.py*') build/release/installed $(JAXLIB)/installed
	rm -rf dist
	$(call build_release,build/release/first)
	PATH="$(abspath $(RELEASE)):$$PATH" $(RELEASE)/auditwheel repair --wheel-dir dist build/release/first/*.whl
	cp build/release/first/*.tar.gz dist
	touch $@

test-wheels: wheel  ## after a change to packaging: all tests with the wheel, and tests of the core with every installed Python
	$(PYTHON) -m tools.wheels $(SEED:%=--hypothesis-seed=%) $(ELSEWHERE) $(PYTEST_FLAGS)

release-wheel: build/release/installed  ## part of release-check: consistent versions, reproducible bytes, and checks by other tools
	$(RELEASE)/cffconvert --validate
	$(RELEASE)/python -m tools.release check
	rm -rf dist
	$(MAKE) dist/built
	$(call build_release,build/release/again)
	for file in build/release/first/*; do cmp $$file build/release/again/$$(basename $$file) || exit; done
	$(RELEASE)/auditwheel show dist/*.whl
	$(RELEASE)/abi3audit --strict dist/*.whl
	$(RELEASE)/check-wheel-contents dist/*.whl
	$(RELEASE)/twine check --strict dist/*.whl dist/*.tar.gz
	$(RELEASE)/cibuildwheel --platform linux --archs x86_64 --print-build-identifiers
	@cd dist && echo "the same bytes twice: $$(sha256sum *.whl | cut -c 1-12) $$(ls *.whl *.tar.gz | xargs)"

INSTRUCTION_SETS := baseline avx2 avx512
SANITIZED := -q -p no:cacheprovider $(SEED:%=--hypothesis-seed=%) $(PYTEST_FLAGS) $(ELSEWHERE)
UNDER_ASAN := tests/core/run.sh address build/address
UNDER_TSAN := tests/core/run.sh thread build/thread

check-core: build/address-core/core_calls  ## after a change to the core: random calls with AddressSanitizer and UBSan; 1 minute
	$(PYTHON) -m zipfile -e fuzz/corpus/core.zip build/address-core/seeds
	for set in $(INSTRUCTION_SETS); do \
	  NDGATHER_INSTRUCTION_SET=$$set LEAKS=1 $(UNDER_ASAN)-core/core_calls 4 500 $(SEED) && \
	  NDGATHER_INSTRUCTION_SET=$$set $(UNDER_ASAN)-core/core_fuzz build/address-core/seeds/* || exit; done

TIME ?= 60

check-borders: build/borders/built  ## after a change to the core: random calls with tiny limits, so that every call crosses some, for TIME seconds
	$(BIN)/python tests/core/borders.py build/borders $(TIME)

check-asan: check-core build/address/installed  ## after a change to binding/: all tests with AddressSanitizer and UBSan; 20 minutes
	$(UNDER_ASAN)/venv/bin/python -m pytest $(SANITIZED) -m "not slow and not plain"
	for set in baseline avx2; do \
	  NDGATHER_INSTRUCTION_SET=$$set $(UNDER_ASAN)/venv/bin/python -m pytest $(SANITIZED) -m "not slow and not plain" \
	    tests/core || exit; done

# Skip tests of how long a call holds the GIL, because calls take minutes here.
check-tsan: build/thread/built build/thread/installed  ## after a change to threads: ThreadSanitizer; 10 minutes
	for set in $(INSTRUCTION_SETS); do \
	  NDGATHER_INSTRUCTION_SET=$$set $(UNDER_TSAN)/core/core_calls 16 1000 || exit; done
	$(UNDER_TSAN)/venv/bin/python -m pytest $(SANITIZED) -m "not slow and not races and not plain" -k "not gil" \
	  tests/core/threads tests/core/memory/test_reused_memory.py

CLANGXX ?= clang++
TINY ?= OFF
FUZZER := build/fuzzer-$(TINY)

fuzz: $(FUZZER)/core_fuzz  ## after a change to the core or to readers of models: TIME seconds each; needs clang; TINY=ON for tiny limits
	PYTHON=$(BIN)/python CORE_FUZZ=$< fuzz/run.sh $(TIME)

faults: build/mutants/installed $(CMAKE)  ## after a change to the tests of the core: they must detect each fault; FAULTS='out-over-data' runs one
	PATH="$(abspath $(TOOLS)):$$PATH" build/mutants/venv/bin/python tests/core/faults.py $(CMAKE) build/faults $(FAULTS)

# mutmut changes a copy of the sources in mutants/, which needs the core next to it. SAMPLE: the number of random changes.
mutants: build/mutants/installed  ## after a change to Python rules: list changes that no test detects; MUTANTS='ndgather.published.inference*'
ifdef SAMPLE
	build/mutants/venv/bin/python -m tools.mutants $(SAMPLE)
else
	rm -rf mutants
	mkdir -p mutants/src/ndgather
	cp build/mutants/venv/lib/python3*/site-packages/ndgather/_core.*so mutants/src/ndgather
	HYPOTHESIS_PROFILE=fixed build/mutants/venv/bin/mutmut run $(MUTANTS)
	build/mutants/venv/bin/mutmut results
endif

check-portable: $(CMAKE)  ## after a change to the core: other compilers, aarch64 with qemu, Windows with wine, all overflow checks
	PATH="$(abspath $(TOOLS)):$$PATH" tests/core/portable.sh $(CMAKE) build/portable

bench: $(VENV)/installed-bench  ## after a change to speed, on an idle machine: compare with numpy, torch, numba ...
	$(BIN)/python -m bench --page

bench-quick: $(VENV)/installed-test  ## after a change to the benchmark: check the results of every case at reduced size, without times
	$(BIN)/python -m bench --quick

models: exports  ## before a release: every command on 40 models from packages and on the models of `make exports`; half an hour
	$(RUNTIMES)/bin/python -m tools.models

exports: $(RUNTIMES)/installed-exports  ## after a change to models: 80 models from exporters; EXPORTS='--page' writes docs/exporters.md
	$(RUNTIMES)/bin/python -m tools.exports $(EXPORTS)

models-quick: $(RUNTIMES)/installed-models  ## after a change to models: models of three small packages; half a minute
	$(RUNTIMES)/bin/python -m tools.models --short

conformance: $(VENV)/installed-bench  ## after a change to the conformance cases: run them in all libraries and write docs/conformance.md
	$(BIN)/python -m conformance --format md > docs/conformance.md

CORE_CALLS := $(wildcard tests/core/*.h tests/core/*.cpp fuzz/*.cpp)

# An instrumented core in its own environment. `make build/address/installed` adds the packages for the tests.
build/%/built: $(BUILD_FILES) $(CORE_CALLS)
	$(call environment,build/$*/venv)
	build/$*/venv/bin/python $(INSTALL) --editable . \
	  --config-settings build-dir=build/$*/core --config-settings cmake.build-type=Debug \
	  --config-settings cmake.define.NDGATHER_SANITIZE=$*
	touch $@

# The same without Python and the binding, for C++ programs that call the core directly.
build/%-core/core_calls: $(BUILD_FILES) $(CORE_CALLS) | $(CMAKE)
	$(CMAKE) -S . -B $(@D) -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(TOOLS))/ninja --log-level=WARNING \
	  -DNDGATHER_CORE_ONLY=ON -DNDGATHER_SANITIZE=$* -DCMAKE_BUILD_TYPE=Debug
	MAKEFLAGS= $(CMAKE) --build $(@D) -- --quiet
	touch $@

# The package in src/ with another core. The .pth file adds the packages of $(VENV) except its core, because Python
# ignores .pth files in folders added by a .pth file.
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

# Not editable, because mutmut and `make faults` import a copy of the sources that comes first on sys.path. The other
# packages come from $(RUNTIMES), so that tests of runtimes and frameworks can detect a change.
build/mutants/installed: $(BUILD_FILES) $(JAXLIB)/installed $(RUNTIMES)/installed-all
	$(call environment,build/mutants/venv)
	for each in $(RUNTIMES)/bin $(BIN); do $$each/python $(PACKAGES_OF) || exit; done \
	  > "$$(build/mutants/venv/bin/python $(PACKAGES_OF))/over.pth"
	build/mutants/venv/bin/python $(INSTALL) . --group mutants $(FOR_JAX)
	touch $@

build/%/installed: build/%/built
	build/$*/venv/bin/python $(INSTALL) --group test
	touch $@

$(FUZZER)/core_fuzz: $(BUILD_FILES) $(CORE_CALLS) $(VENV)/installed-fuzz
	@command -v $(CLANGXX) >/dev/null || \
	  { echo "make fuzz needs clang and its libFuzzer (apt-get install clang, or CLANGXX=...)"; exit 1; }
	$(BIN)/cmake -S . -B $(@D) -G Ninja -DNDGATHER_SANITIZE=fuzzer -DNDGATHER_TINY=$(TINY) -DCMAKE_BUILD_TYPE=RelWithDebInfo \
	  -DCMAKE_CXX_COMPILER=$(CLANGXX) -DPython_EXECUTABLE=$(abspath $(BIN)/python)
	$(BIN)/cmake --build $(@D) --target core_fuzz

# Two tasks that run at the same time must not build the same file.
OF_NIGHT := $(VENV)/built-for-jax $(addprefix $(RUNTIMES)/installed-,all exports frameworks) $(CMAKE) \
  build/address-core/core_calls build/address/installed build/thread/installed build/borders/built \
  build/mutants/installed $(FUZZER)/core_fuzz

nightly-environments: $(OF_NIGHT)  ## part of nightly: builds what several of its tasks need
