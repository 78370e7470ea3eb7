# The doors to everything else; `make help` lists them. Presets (CMakePresets.json) do the work.
.DEFAULT_GOAL := help
.PHONY: help build run test test-long soak check format fuzz bench hooks clean

JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 600

help:            ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' Makefile | expand -t 12

build:           ## the command alone: build/release/bin/tiercel (installs what that needs)
	@scripts/setup --run
	@scripts/build-command $(JOBS)

run: build       ## drives a synthetic conversation through this machine's RAM and disk; report in out/
	@scripts/run-demo

test:            ## release suite, ASan/UBSan suite, TSan of what has threads (what CI runs)
	@scripts/setup --test
	@scripts/run-tests --jobs $(JOBS) release asan tsan:cache_threads,tier_threads,io

test-long:       ## make test and more: clang, TSan of everything, 500 kills, a minute of each fuzz target
	@scripts/setup --check
	@scripts/fuzz-all 60
	@scripts/run-tests --jobs $(JOBS) release asan tsan clang
	@tests/crash/kill_store --kills 500
	@build/release/bin/power_loss --all-modes 1 --prompts 400 --seed 2

soak:            ## an hour-long drive at a cap that forces reclaim, watched from outside
	@$(MAKE) --no-print-directory build
	@scripts/soak

check:           ## format, layers, links, clang-tidy of changed files, then make test
	@scripts/check

format:          ## formats every source in place
	@scripts/format

fuzz:            ## every fuzz target side by side, FUZZ_SECONDS each
	@scripts/setup --check
	@scripts/fuzz-all $(FUZZ_SECONDS)

bench:           ## every micro-benchmark, in full
	@scripts/setup --check
	@scripts/bench-all $(JOBS)

hooks:           ## runs the fast checks before each commit of this clone
	@scripts/install-hooks

clean:           ## removes build/ and out/
	rm -rf build out
