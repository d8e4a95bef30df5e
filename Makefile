# Thin: every target does its own set-up, then calls a script or CMake.
.DEFAULT_GOAL := help
PYTHON := .venv/bin/python
CONFIGURE = cmake --preset release
BUILD = cmake --build --preset release --target

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## library and command line tool in build/release
	@scripts/setup.sh build
	@$(CONFIGURE)
	@$(BUILD) libshardsolve.so shardsolve_cli

.PHONY: demo
demo: ## a real problem, from a file to a certified answer
	@scripts/setup.sh demo
	@$(CONFIGURE) > build/release-configure.log || { cat build/release-configure.log; exit 1; }
	@$(BUILD) shardsolve_cli
	@SHARDSOLVE_CLI=build/release/shardsolve $(PYTHON) examples/digits.py

.PHONY: test
test: ## all tiers, sanitizers and the proof of the waits, in short forms
	@scripts/setup.sh test
	@scripts/test.sh

.PHONY: test-tsan-long
test-tsan-long: ## all tiers under ThreadSanitizer, repeatedly
	@scripts/setup.sh test
	@scripts/test.sh tsan-long

.PHONY: test-waits-long
test-waits-long: ## every event wait removed in turn: is each removal noticed?
	@scripts/setup.sh test
	@scripts/test.sh waits-long

.PHONY: bench
bench: ## speed and memory against LAPACK, SciPy and JAX
	@scripts/setup.sh bench
	@$(CONFIGURE) -DSHARDSOLVE_BUILD_BENCH=ON
	@$(BUILD) bench/all
	@$(BUILD) shardsolve_cli
	@SHARDSOLVE_BUILD=build/release $(PYTHON) bench/run.py

.PHONY: check
check: ## format and lint: clang-format, clang-tidy, ruff
	@scripts/setup.sh check
	@scripts/check.sh

.PHONY: clean
clean: ## remove build and out (.venv stays)
	rm -rf build out
