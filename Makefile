# What can be done here; `make` alone lists it. Needs make, git, a C compiler and Rust, and says so where one is missing.

CARGO ?= cargo
export CARGO
TRACE ?= data/small
PREFIX ?= /usr/local
SOAK_SECONDS ?= 600
SOAK_CASES ?= 4096
FUZZ_SECONDS ?= 60
# Passed to the test run: .ci/run asks for all failures and for what passing tests print.
TESTFLAGS ?=

BUILT := $(or $(CARGO_TARGET_DIR),target)

.DEFAULT_GOAL := help
.PHONY: help run test lint doc unit models malloc programs-short programs bench instructions soak fuzz miri arm64 install uninstall clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

run: ## replay the recorded trace data/small: a table here, a page with charts in out/report.html (TRACE=folder: another)
	@scripts/need rust cc
	$(CARGO) build --release --locked -p tenalloc-cli
	@mkdir -p out
	@$(BUILT)/release/tenalloc replay $(TRACE) --html out/report.html
	@echo "The same with charts, for a browser: file://$(CURDIR)/out/report.html"

test: ## everything that must hold: format, lints, documentation, all tests, models of the lock-free parts
	@scripts/need rust cc lints
	@$(MAKE) --no-print-directory lint doc models unit programs-short

lint: ## format and lints
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --features tenalloc/std,tenalloc/allocator-api2 --locked -- -D warnings

doc: ## the documentation, without a warning
	RUSTDOCFLAGS=-Dwarnings $(CARGO) doc --workspace --lib --no-deps --features tenalloc/std,tenalloc/allocator-api2 --locked

models: ## loom: every order of memory accesses of the lock-free parts
	$(CARGO) test --locked -p tenalloc --features loom --lib models

unit: ## all tests, and the library's examples
	$(CARGO) test --workspace --features tenalloc/std,tenalloc/allocator-api2 --locked $(TESTFLAGS)
	@set -e; for e in tenants charge_only requests layer; do \
		$(BUILT)/debug/examples/$$e >/dev/null; echo "example $$e ... ok"; done

malloc: ## out/libtenalloc-malloc.so: for LD_PRELOAD, see docs/malloc.md
	@scripts/need rust cc
	$(CARGO) build --profile malloc --locked -p tenalloc-malloc
	@install -D -m 755 $(BUILT)/malloc/libtenalloc_malloc.so out/libtenalloc-malloc.so

programs-short: malloc
	@if python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then \
		scripts/programs out/libtenalloc-malloc.so --short; \
		else echo "skipped: programs under the preload: no python3 of 3.9 or newer"; fi

programs: malloc ## real programs under the preload, beside glibc, mimalloc, jemalloc (root: gets Debian packages; ~15 minutes)
	@scripts/programs out/libtenalloc-malloc.so --install --json out/programs.json

bench: ## beside other allocators: tables of ratios, out/bench.json and charts in out/bench.html (BENCH=all: everything)
	@scripts/need rust cc
	@mkdir -p out
	@echo "Getting the peers, the first time about 2 minutes"
	@scripts/peers out/peers
	$(CARGO) build --release --locked -p tenalloc-bench
	$(CARGO) build --release --locked -p tenalloc-capi
	@crates/capi/link $(BUILT)/release/libtenalloc_capi.a out/peers
	@$(BUILT)/release/tenalloc-bench $(if $(filter all,$(BENCH)),--all) out/peers out
	@if command -v valgrind >/dev/null; then scripts/instructions; else echo "skipped: instruction counts: no valgrind"; fi

instructions: ## instructions of tenalloc's paths, beside those recorded in bench/instructions.txt (needs valgrind)
	@scripts/need rust cc
	@scripts/instructions

soak: ## repeat property tests, thread tests and random life for SOAK_SECONDS=600, with new seeds and SOAK_CASES=4096 cases
	@scripts/need rust cc
	@scripts/soak $(SOAK_SECONDS) $(SOAK_CASES)

fuzz: ## throw damaged recordings at the readers, FUZZ_SECONDS=60 a target (optional: nightly Rust, cargo-fuzz)
	@scripts/need rust cc nightly fuzz
	@scripts/fuzz $(FUZZ_SECONDS)

miri: ## owner words, lists, stocks, areas, counters, owned values and collections under miri, which sees undefined behaviour (optional: nightly, miri)
	@scripts/need rust nightly miri
	MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-permissive-provenance" PROPTEST_CASES=8 $(CARGO) +nightly miri test -p tenalloc --lib -- owners:: list:: stock:: counter:: percpu::tests
	MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-permissive-provenance -Zmiri-disable-stacked-borrows" PROPTEST_CASES=4 $(CARGO) +nightly miri test -p tenalloc --features allocator-api2 --test owned --test collections

arm64: ## the core's tests on an emulated aarch64 machine, with its restartable sequences and without (Debian: qemu-system-arm; ~9 minutes)
	@scripts/need rust
	@scripts/arm64

install: ## the command, the C library, the malloc, their manual pages, to PREFIX=/usr/local (also LIBDIR=, DESTDIR=)
	@scripts/need rust cc
	@PREFIX='$(PREFIX)' LIBDIR='$(LIBDIR)' DESTDIR='$(DESTDIR)' scripts/install --check
	$(CARGO) build --release --locked -p tenalloc-cli -p tenalloc-capi
	$(CARGO) build --profile malloc --locked -p tenalloc-malloc
	@PREFIX='$(PREFIX)' LIBDIR='$(LIBDIR)' DESTDIR='$(DESTDIR)' COMMAND='$(abspath $(BUILT))/release/tenalloc' \
		LIBRARY='$(abspath $(BUILT))/release/libtenalloc_capi.a' \
		MALLOC='$(abspath $(BUILT))/malloc/libtenalloc_malloc.so' scripts/install

uninstall: ## take away what install put there
	@PREFIX='$(PREFIX)' LIBDIR='$(LIBDIR)' DESTDIR='$(DESTDIR)' scripts/install --uninstall

clean: ## what was built, and out/
	$(CARGO) clean
	rm -rf out
