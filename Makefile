# SPDX-License-Identifier: MIT
#
# make                  builds build/hiwater with Meson, and everything that is installed with it; ninja -C build: the tests too
# make deps             installs missing dependencies (Debian packages; Python packages into .venv)
# make test             runs every test; ends with "N passed, N failed, N skipped"
# make test-full        also runs the slow tests: Slurm, cgroup v2, the wheel for old systems, clang, training frameworks, notebooks
# make truth            compares reported memory with the known use of test jobs; fails where a bound is wrong
# make truth-full       the same in the background, also as a user and on a busy machine, three times each;
#                       BASE=PATH: compares the CPU time with that of another build
# make truth-ablation   measures what each rule of the memory estimator contributes, on the recorded calls of the same jobs
# make demo             trains real models under hiwater and prints their use; make study: with 50 iterations
# make bench            measures the budgets of docs/design.md
# make overhead         measures what other tools and hiwater cost while a training runs, and writes docs/study (OVERHEAD=quick, 20 to 30 minutes,
#                       or full, hours; it goes on where it was interrupted)
# make fuzz             fuzzes each parser for FUZZ_SECONDS (30)
# make check-gpu        compares hiwater with jobs of known use on a real GPU; make check-gpu-bundle: dist/check-gpu, to copy to a machine with one
# make wheel            builds manylinux wheels in dist/, for x86_64 and aarch64
# make docs             builds the site in build-docs/html: tutorials, every command, option, metric, function and class
# make install          installs into PREFIX (/usr/local), below DESTDIR if given
BUILD ?= build
TARGET ?= product
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 30

# Programs that make deps installed come first. Recipes run commands through env, which searches this PATH; make itself may not.
export PATH := $(CURDIR)/.venv/bin:$(PATH)

.PHONY: all prefix deps deps-test test test-full truth truth-full truth-ablation demo study bench overhead fuzz wheel docs install format docs-check check-gpu check-gpu-bundle clean

all: prefix
	@env ninja -C $(BUILD) $(TARGET)

$(BUILD)/build.ninja:
	@tools/check-meson
	env meson setup $(BUILD) --prefix=$(PREFIX)

# A PREFIX given now overrides the one with which the build folder was set up.
prefix: $(BUILD)/build.ninja
ifneq ($(origin PREFIX),file)
	env meson configure $(BUILD) --prefix=$(PREFIX)
endif

deps:
	@tools/install-deps build
	@tools/venv .venv tools/requirements-build.txt

deps-test:
	@tools/install-deps build test
	@tools/venv .venv tools/requirements-build.txt tools/requirements-test.txt

test: deps-test
	@.venv/bin/python tools/run-tests

test-full: deps-test
	@tools/install-deps full
	@tools/venv .venv-wheel tools/requirements-build.txt tools/requirements-wheel.txt
	@tools/venv .venv-full tools/requirements-full.txt
	@tools/venv .venv-docs tools/requirements-docs.txt
	@tools/venv .venv-judges tools/requirements-judges.txt
	@tools/venv .venv-memory-trackers tools/requirements-memory-trackers.txt
	@tools/venv .venv-gpu-tracker tools/requirements-gpu-tracker.txt
	@tools/venv .venv-gpu-tracker-2 tools/requirements-gpu-tracker-2.txt
	@.venv/bin/python tools/run-tests --full

truth: deps-test
	@$(MAKE) --no-print-directory all
	@.venv/bin/python tests/truth/scoreboard --hiwater $(BUILD)/hiwater

# The table is written to the file row by row; its last lines list the missed targets. The last line of the log has the exit status.
truth-full: deps-test
	@$(MAKE) --no-print-directory all
	@{ .venv/bin/python tests/truth/scoreboard --full --hiwater $(BUILD)/hiwater $(if $(BASE),--base $(BASE)) --json $(BUILD)/truth-full.json \
		--output $(BUILD)/truth-full.txt; echo "exit status $$?"; } > $(BUILD)/truth-full.log 2>&1 < /dev/null & \
		echo "process $$! writes $(BUILD)/truth-full.txt and .log"

truth-ablation: deps-test
	@$(MAKE) --no-print-directory all TARGET="hiwater hiwater-journal truth-replay"
	@.venv/bin/python tests/truth/scoreboard --ablation --hiwater $(BUILD)/hiwater

demo study: deps
	@$(MAKE) --no-print-directory all
	@tools/venv .venv-demo examples/models/requirements.txt
	@examples/models/study $(if $(filter study,$@),--iterations 50)

bench: deps
	@tools/install-deps bench
	@$(MAKE) --no-print-directory all BUILD=build-bench TARGET=all
	@tools/venv .venv-bench tools/requirements-bench.txt
	@tools/venv .venv-demo examples/models/requirements.txt
	@tools/venv .venv-memory-trackers tools/requirements-memory-trackers.txt
	@.venv-bench/bin/python bench/run build-bench $(BENCH)

overhead: deps
	@case "$(OVERHEAD)" in ""|quick|full) ;; *) echo "make overhead: OVERHEAD is quick or full, not $(OVERHEAD)" >&2; exit 2 ;; esac
	@tools/install-deps bench
	@$(MAKE) --no-print-directory all BUILD=build-bench TARGET=all
	@tools/venv .venv-overhead tools/requirements-overhead.txt
	@.venv-overhead/bin/python bench/study/study $(or $(OVERHEAD),quick)

fuzz: deps
	@tools/install-deps fuzz
	@tools/fuzz $(FUZZ_SECONDS)

wheel: deps
	@tools/venv .venv-wheel tools/requirements-build.txt tools/requirements-wheel.txt
	@tools/make-wheel dist x86_64
	@tools/make-wheel dist aarch64

docs: deps
	@$(MAKE) --no-print-directory all
	@tools/venv .venv-docs tools/requirements-docs.txt
	@.venv-docs/bin/python tools/docs/build $(BUILD)/hiwater

install: all
	env meson install -C $(BUILD) --no-rebuild $(if $(DESTDIR),--destdir $(abspath $(DESTDIR)))
	$(if $(DESTDIR),,@env PATH="$(PATH):/usr/sbin:/sbin" ldconfig 2>/dev/null || :) # lets programs find the library at once; fails without root

format: deps-test
	@.venv/bin/clang-format -i $$(git ls-files '*.c' '*.h' ':!tests/trees')

docs-check:
	@tools/check-docs

check-gpu: deps
	@tools/check-gpu $(CHECK)

check-gpu-bundle: deps
	@tools/check-gpu --bundle dist/check-gpu

clean:
	rm -rf build build-* dist
