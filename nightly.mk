# The tasks of one topic, and those of every night.
#
#   make nightly       all that is too long for `make check`, one after the other, and a page of how it went; also parts:
#     make nightly NIGHTLY='fuzz mutants'
#   make test-frameworks   the tests with torch, JAX, TensorFlow, polars and other libraries: they install gigabytes
#   make test-gpu   the tests of tensors and arrays on a GPU, with what is installed there: 3 minutes on 16 processors
#   make test-runtimes   the tests of models with onnxruntime and OpenVINO, and others that need these or a framework;
#     only those that `make test` has skipped: make test test-runtimes NOT_IN=build/reports/test.xml
#   make test-xarray   xarray's own tests of its backends, by engine="ndgather"
#   make test-versions   the tests of the extras with the oldest packages that these take, and with the newest, and the
#     table of both in docs/install.md: an hour, and 20 GB; the oldest are in tests/versions/oldest.txt, which
#     make oldest-versions writes anew after a change of pyproject.toml
#   make test-large   the tests of arrays with more than 2**31 elements, and at the borders of 2**31 to 2**35
#     bytes: 8 GiB of memory; and of models with thousands of nodes
#   make test-targets  many examples of the rules of `convert --target`: an hour
#   make test-docs   the site in Chromium (CHROMIUM=/usr/bin/chromium): every page, accessibility, search,
#     themes, pictures; and the tour as a notebook: 10 minutes; needs npm
#   make wheel   build dist/*.tar.gz, and dist/*.whl from it, for all systems whose glibc is as new as the compiler asks for
#   make test-wheel   the test suite against that wheel in a fresh environment, also of another
#     interpreter and NumPy: make test-wheel PYTHON=python3.13 NUMPY='numpy==2.3.*'
#   make test-wheels   the tests of the core against that wheel, by every interpreter that is found, with the lowest NumPy
#     and the newest: INTERPRETERS='python3.12=2.3.2' has one, and its lowest
#   make release-check   all that a release needs, and a page of how it went: half an hour
#   make check-core   random calls of the core alone, with AddressSanitizer and UBSan
#   make check-borders TIME=60   the same, and property tests, of a core whose limits are so small that every call
#     crosses some, for so many seconds; at least once for each instruction set: a minute
#   make check-long   16 threads for a minute, 100,000 calls of every kind, and other slow tests: 20 minutes
#   make check-asan   check-core, then the tests of `make test` with AddressSanitizer and UBSan, those of the
#     core for every instruction set: 20 minutes
#   make check-tsan   the tests of threads with ThreadSanitizer: 10 minutes
#   make check-portable   the core by g++ and clang++, for aarch64 (run by qemu) and Windows (by wine); every conversion and
#     overflow checked, by clang++
#   make fuzz TIME=60   fuzz the core and the readers of models, so many seconds each: needs clang; with TINY=ON a core
#     with tiny limits
#   make faults   the core is built with one fault at a time, and a test has to fail: 20 minutes; FAULTS='out-over-data';
#     like `make mutants` it installs gigabytes
#   make mutants MUTANTS='ndgather.published.inference*'   changes of Python code that no test notices: hours for all
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
#   make conformance  the hard cases in those runtimes: docs/conformance.md

.PHONY: nightly test-frameworks test-torch test-kernels test-gpu test-jax test-runtimes test-xarray test-versions \
  test-versions-oldest test-versions-newest oldest-versions test-large test-targets test-docs wheel test-wheel test-wheels \
  release-check check-core check-borders check-long check-asan check-tsan check-portable fuzz faults mutants bench \
  bench-quick models models-quick exports exports-page exports-targets conformance

# What a night runs. Property tests draw thousands of examples: nightly-draws.
NIGHTLY ?= nightly-draws nightly-frameworks nightly-runtimes test-large test-xarray test-targets check-long \
  check-asan check-tsan nightly-borders nightly-fuzz faults nightly-mutants check-portable
PAGE := build/nightly/page.txt

# What a release needs beside a night without a failure; the tag is a person's: CONTRIBUTING.md.
release-check: NIGHTLY := release-state release-wheel test-wheels test-wheel lint docs

# The next task begins whatever came of the last one, and the next part of a task; what each said is in build/nightly.
nightly release-check: export SEED := $(or $(SEED),$(TODAY))
nightly release-check:
	@rm -rf build/nightly build/reports && mkdir -p build/nightly
	@{ echo "$$(date -u '+%Y-%m-%d %H:%M'), SEED=$(SEED)"; \
	  echo "   s  rc  task"; \
	  for task in $(NIGHTLY); do \
	    begun=$$(date +%s); rc=0; log=build/nightly/$$task.log; \
	    $(MAKE) --keep-going $$task > $$log 2>&1 < /dev/null || rc=$$?; \
	    printf '%4d %3d  %s: %s\n' $$(($$(date +%s) - begun)) $$rc $$task "$$(grep -v '^make' $$log | tail -n 1 | cut -c 1-150)"; \
	  done; } | tee $(PAGE)
	@[ "$$(grep -Ec '^ *[0-9]+ +0  ' $(PAGE))" = $(words $(NIGHTLY)) ]

.PHONY: nightly-draws nightly-frameworks nightly-runtimes nightly-borders nightly-fuzz nightly-mutants
nightly-draws: export HYPOTHESIS_PROFILE := nightly
nightly-draws: PYTEST_FLAGS += -o faulthandler_timeout=3600
nightly-draws: test
nightly-frameworks nightly-runtimes: export HYPOTHESIS_PROFILE := dev
nightly-frameworks: test-frameworks
nightly-runtimes: test-runtimes
nightly-borders: export TIME := 3600
nightly-borders: check-borders
nightly-fuzz: export TIME := 600
nightly-fuzz: fuzz
nightly-mutants:
	$(MAKE) mutants SAMPLE='300 $(SEED)'

# Three parts, of which `make check` runs two at a time. The kernels of tensors on a GPU are interpreted by Triton, on
# tensors of the CPU.
KERNELS := tests/frameworks/test_torch_kernels.py
OF_TORCH := $(filter-out $(KERNELS),$(wildcard tests/frameworks/test_torch_*.py)) src/ndgather/arrays/torch
FRAMEWORK_TESTS := test-torch test-kernels test-jax

test-frameworks: $(FRAMEWORK_TESTS)

$(FRAMEWORK_TESTS): $(VENV)/built-for-jax $(RUNTIMES)/installed-frameworks

test-torch:
	$(RUNTIMES)/bin/python $(PYTEST) $(OF_TORCH) $(PYTEST_FLAGS)

test-kernels:
	NDGATHER_TORCH_KERNELS=1 TRITON_INTERPRET=1 $(RUNTIMES)/bin/python $(PYTEST) $(KERNELS) $(PYTEST_FLAGS)

# On a machine with a GPU, in the environment that has torch for it: make test-gpu PYTHON=python3
test-gpu:
	$(PYTHON) $(PYTEST) -o filterwarnings=default tests/frameworks/test_gpu.py tests/frameworks/test_torch_devices.py $(KERNELS) $(PYTEST_FLAGS)

test-jax:
	$(RUNTIMES)/bin/python $(PYTEST) $(addprefix --ignore=,$(OF_TORCH)) $(filter-out $(OF_TORCH),$(FRAMEWORKS)) $(PYTEST_FLAGS)

# Here are tests that `make test` skips: they need a runtime or a framework. Which these are says its report, NOT_IN.
NOT_IN ?=

test-runtimes: $(RUNTIMES)/installed-all
	$(RUNTIMES)/bin/python $(PYTEST) -m "not slow" $(NOT_IN:%=--not-in=%) tests/models tests/cli tests/docs \
	  tests/core/test_vjp.py tests/core/test_private_names.py $(PYTEST_FLAGS)

# xarray's own tests are part of its package.
test-xarray: $(RUNTIMES)/installed-backends
	$(RUNTIMES)/bin/python $(PYTEST) -p no:cacheprovider -o strict=false -o addopts=--import-mode=importlib \
	  -o filterwarnings=ignore tests/xarray_suite/engine_tests.py $(PYTEST_FLAGS)

# One wheel, with the handler that XLA calls. TensorFlow holds other packages back: those of stores are tested without.
OF_STORES := tests/arrays tests/stored tests/cli $(addprefix tests/core/test_,adapters.py exchange.py private_names.py)
TORCH_TESTS := $(filter-out src/%,$(OF_TORCH))
# Tests of ONNX itself belong to one version of onnx.
OF_MODELS := --ignore=tests/models/test_backend.py $(addprefix --ignore=,$(TORCH_TESTS)) tests/frameworks tests/models tests/core/test_private_names.py
VERSIONS := build/versions

test-versions: test-versions-oldest test-versions-newest
	$(PYTHON) -m tools.versions table

# Steps that add packages to one environment; `make --keep-going` has the next ones run after a failure.
VERSIONS_STEPS := stores torch models kernels
OF_OLDEST := $(addprefix test-versions-oldest-,$(VERSIONS_STEPS))
OF_NEWEST := $(addprefix test-versions-newest-,$(VERSIONS_STEPS))

.PHONY: $(OF_OLDEST) $(OF_NEWEST)
test-versions-oldest: $(OF_OLDEST)
test-versions-newest: $(OF_NEWEST)

$(OF_OLDEST): private CONSTRAINTS := tests/versions/oldest.txt
$(OF_NEWEST): private CONSTRAINTS :=
# What another version warns of is shown, and fails nothing.
$(OF_OLDEST) $(OF_NEWEST): private PYTEST_FLAGS += -o filterwarnings=default
$(OF_OLDEST) $(OF_NEWEST): export HYPOTHESIS_PROFILE := short

$(filter %-stores,$(OF_OLDEST) $(OF_NEWEST)): test-versions-%-stores: $(VERSIONS)/built
	rm -rf $(VERSIONS)/$*
	$(call environment,$(VERSIONS)/$*)
	$(call tested-with,test,stores,$(SHARED) $(OF_STORES))

$(filter %-torch,$(OF_OLDEST) $(OF_NEWEST)): test-versions-%-torch:
	$(call tested-with,all,torch,$(TORCH_TESTS))

$(filter %-models,$(OF_OLDEST) $(OF_NEWEST)): test-versions-%-models:
	$(call tested-with,all,models,$(OF_MODELS))

$(filter %-kernels,$(OF_OLDEST) $(OF_NEWEST)): test-versions-%-kernels:
	NDGATHER_TORCH_KERNELS=1 TRITON_INTERPRET=1 $(VERSIONS)/$*/bin/python $(PYTEST) $(KERNELS) $(PYTEST_FLAGS)

# Installs a group, keeps the list of versions by a name, and runs tests.
define tested-with
$(VERSIONS)/$*/bin/python $(INSTALL) $(VERSIONS)/wheel/*.whl --group $(1)
$(VERSIONS)/$*/bin/python -m pip freeze > $(VERSIONS)/$*-$(2).txt
$(VERSIONS)/$*/bin/python $(PYTEST) -m "not slow" $(3) $(PYTEST_FLAGS)
endef

$(VERSIONS)/built: $(BUILD_FILES) $(JAXLIB)/installed $(shell find src -type f -name '*.py*')
	rm -rf $(VERSIONS)/wheel
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir $(VERSIONS)/wheel . $(FOR_JAX)
	touch $@

oldest-versions:
	$(PYTHON) -m venv $(VERSIONS)/uv
	$(VERSIONS)/uv/bin/python -m pip install --quiet uv
	$(PYTHON) -m tools.versions oldest $(VERSIONS)/uv/bin/uv

LARGE := tests/core/test_two_gib.py tests/core/test_real_borders.py tests/models/test_large_models.py

test-large: $(VENV)/installed-test
	$(BIN)/python $(PYTEST) -m slow $(LARGE) $(PYTEST_FLAGS)

# One of these converts the node tests of ONNX, which onnxruntime runs.
check-long: $(RUNTIMES)/installed-exports
	$(RUNTIMES)/bin/python $(PYTEST) -m slow $(addprefix --ignore=,$(LARGE)) $(ELSEWHERE) tests $(PYTEST_FLAGS)

# Many examples of the rules for restricted targets, also run by onnxruntime.
test-targets: $(RUNTIMES)/installed-exports
	HYPOTHESIS_PROFILE=nightly $(RUNTIMES)/bin/python $(PYTEST) -o faulthandler_timeout=1800 tests/models/test_targets.py $(PYTEST_FLAGS)

CHROMIUM ?= $(shell command -v chromium)

test-docs: docs $(VENV)/installed-site build/browser/node_modules/axe-core/axe.min.js
	CHROMIUM="$(CHROMIUM)" $(BIN)/python $(PYTEST) -p no:cacheprovider tests/site $(PYTEST_FLAGS)

# axe checks accessibility: screen readers, keyboards and contrast.
build/browser/node_modules/axe-core/axe.min.js:
	npm install --silent --no-fund --no-audit --prefix build/browser axe-core@4

# What builds and looks at a release, in an environment of its own: cffconvert asks for old packages.
RELEASE := build/release/venv/bin

build/release/installed: pyproject.toml
	$(call environment,build/release/venv)
	$(RELEASE)/python -m pip install --quiet --group release
	touch $@

# The sdist and the wheel of it in a folder; files bear the time of the commit. What the core needs of the C++ library is
# inside, so that the C library alone says on which systems a wheel runs; and so is the handler that XLA calls.
build_release = rm -rf $(1) && LDFLAGS='-static-libstdc++ -Wl,--exclude-libs,ALL -Wl,--gc-sections' \
  SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct 2>/dev/null || echo 1764201600) $(RELEASE)/python -m build --quiet \
  --config-setting cmake.define.NDGATHER_JAX=$(abspath $(JAXLIB)/jaxlib/include) --outdir $(1) .

wheel: dist/built
	@ls -l dist/*.whl

dist/built: $(BUILD_FILES) README.md LICENSE $(shell find src -type f -name '*.py*') build/release/installed $(JAXLIB)/installed
	rm -rf dist
	$(call build_release,build/release/first)
	PATH="$(abspath $(RELEASE)):$$PATH" $(RELEASE)/auditwheel repair --wheel-dir dist build/release/first/*.whl
	cp build/release/first/*.tar.gz dist
	touch $@

NUMPY ?= numpy
WHEEL_VENV := build/wheel/venv

test-wheel: wheel
	rm -rf build/wheel
	$(call environment,$(WHEEL_VENV))
	$(WHEEL_VENV)/bin/python -m pip install --quiet dist/*.whl --group test '$(NUMPY)'
	$(WHEEL_VENV)/bin/python $(PYTEST) -m "not slow" $(PYTEST_FLAGS) $(ELSEWHERE) tests README.md

# Interpreters, and the lowest NumPy that has a wheel for each.
INTERPRETERS ?= python3.11=2.3.2 python3.12=2.3.2 python3.13=2.3.2 python3.14=2.3.2
WHEELS := build/wheels

test-wheels: wheel
	@rm -rf $(WHEELS)
	@tried=; for pair in $(INTERPRETERS); do \
	  python=$${pair%=*}; \
	  $$python -c '' 2> /dev/null || { echo "$$python is not found"; continue; }; \
	  $$python -m venv $(WHEELS)/$$python || exit; \
	  for numpy in numpy==$${pair#*=} numpy; do \
	    $(WHEELS)/$$python/bin/python -m pip install --quiet --upgrade --only-binary :all: \
	      dist/*.whl "$$numpy" pytest hypothesis ml_dtypes || exit; \
	    echo "== $$python, $$numpy"; \
	    HYPOTHESIS_PROFILE=quick $(WHEELS)/$$python/bin/python $(PYTEST) -m "not slow" \
	      $(addprefix --ignore=,$(UNHURRIED)) -k "not most_drawn_calls" tests/core $(PYTEST_FLAGS) || exit; \
	    tried="$$tried $$python with $$numpy;"; \
	  done; \
	done; echo "passed by:$$tried"; [ -n "$$tried" ]

.PHONY: release-state release-wheel

release-state: build/release/installed
	$(RELEASE)/cffconvert --validate
	$(RELEASE)/python -m tools.release check

# The same bytes twice, and what the tools of the field say of them.
release-wheel: build/release/installed
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

check-core: build/address-core/core_calls
	$(PYTHON) -m zipfile -e fuzz/corpus/core.zip build/address-core/seeds
	for set in $(INSTRUCTION_SETS); do \
	  NDGATHER_INSTRUCTION_SET=$$set LEAKS=1 $(UNDER_ASAN)-core/core_calls 4 500 $(SEED) && \
	  NDGATHER_INSTRUCTION_SET=$$set $(UNDER_ASAN)-core/core_fuzz build/address-core/seeds/* || exit; done

TIME ?= 60

# The core with tiny limits, for so many seconds: every call crosses some border.
check-borders: build/borders/built
	$(BIN)/python tests/core/borders.py build/borders $(TIME)

check-asan: check-core build/address/installed
	$(UNDER_ASAN)/venv/bin/python -m pytest $(SANITIZED) -m "not slow and not plain"
	for set in baseline avx2; do \
	  NDGATHER_INSTRUCTION_SET=$$set $(UNDER_ASAN)/venv/bin/python -m pytest $(SANITIZED) -m "not slow and not plain" \
	    tests/core || exit; done

OF_THREADS := $(addprefix tests/core/test_,concurrent_calls.py interrupts.py processes.py \
  shapes_that_change.py thread_count.py)

# How long a call keeps the GIL is measured elsewhere: calls take minutes here.
check-tsan: build/thread/built build/thread/installed
	for set in $(INSTRUCTION_SETS); do \
	  NDGATHER_INSTRUCTION_SET=$$set $(UNDER_TSAN)/core/core_calls 16 1000 || exit; done
	$(UNDER_TSAN)/venv/bin/python -m pytest $(SANITIZED) -m "not slow and not races and not plain" -k "not gil" \
	  $(OF_THREADS) tests/core/test_scatter_threads.py tests/core/test_reused_memory.py \
	  tests/core/test_shared_memory.py

CLANGXX ?= clang++
TINY ?= OFF
FUZZER := build/fuzzer-$(TINY)

fuzz: $(FUZZER)/core_fuzz
	PYTHON=$(BIN)/python CORE_FUZZ=$< fuzz/run.sh $(TIME)

faults: build/mutants/installed $(CMAKE)
	PATH="$(abspath $(TOOLS)):$$PATH" build/mutants/venv/bin/python tests/core/faults.py $(CMAKE) build/faults $(FAULTS)

# mutmut changes a copy of the sources in mutants/; the core has to stand beside them. Which modules, and
# which tests have to notice: pyproject.toml.
ifdef SAMPLE  # so many changes of all modules, drawn by the day
mutants: build/mutants/installed
	build/mutants/venv/bin/python -m tools.mutants $(SAMPLE)
else
mutants: build/mutants/installed
	rm -rf mutants
	mkdir -p mutants/src/ndgather
	cp build/mutants/venv/lib/python3*/site-packages/ndgather/_core.*so mutants/src/ndgather
	HYPOTHESIS_PROFILE=fixed build/mutants/venv/bin/mutmut run $(MUTANTS)
	build/mutants/venv/bin/mutmut results
endif

check-portable: $(CMAKE)
	PATH="$(abspath $(TOOLS)):$$PATH" tests/core/portable.sh $(CMAKE) build/portable

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

CORE_CALLS := $(wildcard tests/core/*.h tests/core/*.cpp fuzz/*.cpp)

# `make build/address/built` installs an instrumented core in an environment of its own;
# `make build/address/installed` adds what the tests need.
build/%/built: $(BUILD_FILES) $(CORE_CALLS)
	$(call environment,build/$*/venv)
	build/$*/venv/bin/python $(INSTALL) --editable . \
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

# Not editable: mutmut and `make faults` import a copy of the sources, which stands before this on sys.path. Other
# packages are those of $(RUNTIMES), so that tests of runtimes and frameworks can notice a change.
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
