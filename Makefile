# Thin: every target does its own set-up, then calls a script or CMake.
.DEFAULT_GOAL := help
PYTHON := .venv/bin/python
# For GPUs it is built where one is; `make demo SHARDSOLVE_CUDA=ON` builds it for all kinds elsewhere, too.
export SHARDSOLVE_CUDA
CONFIGURE = cmake --preset release $(SHARDSOLVE_CUDA:%=-DSHARDSOLVE_CUDA=%)
# The package is then used from the source tree: PYTHONPATH=python.
WITH_PYTHON = -DSHARDSOLVE_BUILD_PYTHON=ON -DPython_EXECUTABLE=$(CURDIR)/$(PYTHON)
BUILD = cmake --build --preset release --target

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## library and command line tool in build/release, for GPUs too where one is and CUDA 13
	@scripts/setup.sh build
	@$(CONFIGURE)
	@$(BUILD) libshardsolve.so shardsolve_cli shardsolve_backends

.PHONY: demo
demo: ## a real problem, from a file to a certified answer
	@scripts/setup.sh demo
	@$(CONFIGURE) $(WITH_PYTHON) > build/release-configure.log || { cat build/release-configure.log; exit 1; }
	@$(BUILD) shardsolve_cli shardsolve_jax shardsolve_backends shardsolve_beam
	@cmake --install build/release --component python --prefix python > build/python-install.log
	@SHARDSOLVE_CLI=build/release/shardsolve $(PYTHON) examples/digits.py
	@PYTHONPATH=python $(PYTHON) examples/gaussian_process.py
	@SHARDSOLVE_CLI=build/release/shardsolve $(PYTHON) examples/quantum_dot.py
	@PYTHONPATH=python $(PYTHON) examples/networks.py
	@PYTHONPATH=python $(PYTHON) examples/open_channels.py
	@build/release/beam linear --solver cg --preconditioner blocks --ranks 2 --until 1 --output out/beam
	@$(PYTHON) examples/beam/picture.py out/beam

.PHONY: test
test: ## the library, the command and the JAX package: what a user should see pass
	@scripts/setup.sh test
	@scripts/test.sh

.PHONY: test-all
test-all: ## also the wheel, the oldest and the newest jax, other numbers of devices, sanitizers, the proof of the waits
	@scripts/setup.sh test
	@scripts/test.sh all

.PHONY: test-tsan-long
test-tsan-long: ## all tiers under ThreadSanitizer, repeatedly
	@scripts/setup.sh test
	@scripts/test.sh tsan-long

.PHONY: test-waits-long
test-waits-long: ## every event wait removed in turn: is each removal noticed?
	@scripts/setup.sh test
	@scripts/test.sh waits-long

.PHONY: test-faults-long
test-faults-long: ## each call, message and allocation of each rank fails in turn
	@scripts/setup.sh test
	@scripts/test.sh faults-long

.PHONY: bench
bench: ## speed and memory against LAPACK, SciPy and JAX; the whole beam in JAX
	@scripts/setup.sh bench
	@$(CONFIGURE) -DSHARDSOLVE_BUILD_BENCH=ON $(WITH_PYTHON)
	@$(BUILD) bench/all
	@$(BUILD) shardsolve_cli shardsolve_jax shardsolve_backends
	@cmake --install build/release --component python --prefix python > build/python-install.log
	@SHARDSOLVE_BUILD=build/release $(PYTHON) bench/run.py
	@$(PYTHON) bench/krylov.py
	@PYTHONPATH=python $(PYTHON) examples/beam_jax.py

.PHONY: bench-engines
bench-engines: ## the factorisation in one process, over MPI, by ScaLAPACK and by LAPACK
	@scripts/setup.sh bench
	@$(CONFIGURE) -DSHARDSOLVE_BUILD_BENCH=ON
	@$(BUILD) bench/all
	@$(BUILD) shardsolve_cli shardsolve_backends
	@SHARDSOLVE_BUILD=build/release $(PYTHON) bench/engines.py

.PHONY: bench-jax
bench-jax: ## what a call from JAX costs, beside C++ and beside jax.scipy on one device
	@scripts/setup.sh bench
	@$(CONFIGURE) -DSHARDSOLVE_BUILD_BENCH=ON $(WITH_PYTHON)
	@$(BUILD) bench/all
	@$(BUILD) shardsolve_jax shardsolve_backends
	@cmake --install build/release --component python --prefix python > build/python-install.log
	@SHARDSOLVE_BUILD=build/release PYTHONPATH=python $(PYTHON) bench/front.py

.PHONY: check
check: ## format, lint and types: clang-format, clang-tidy, ruff, mypy; builds the documentation
	@scripts/setup.sh check
	@scripts/check.sh

.PHONY: clean
clean: ## remove build and out (.venv stays)
	rm -rf build out
