# SPDX-License-Identifier: Apache-2.0
# What people and scripts call; everything real is in CMakeLists.txt. `make help` lists the targets.
SHELL := /bin/sh
JOBS ?= $(shell nproc)
T ?= 60
BUILD := build
# Of CMakePresets.json.
PRESET ?= default
CTEST := ctest --output-on-failure --no-tests=error

.PHONY: programs all run train test check lint tidy asan tsan fuzz bench nightly install clean help dependencies test-dependencies bench-dependencies vm-dependencies vm-test vm-kernel kmod build-times configure deb rpm test-packages package-dependencies

programs: configure ## build libraries, programs, manuals and NEFFs into build/
	cmake --build $(BUILD) -j $(JOBS) --target programs

all: configure ## the same with tests
	cmake --build $(BUILD) -j $(JOBS)

dependencies:
	@packaging/install-build-dependencies python

test-dependencies:
	@packaging/install-build-dependencies test browser

bench-dependencies:
	@packaging/install-build-dependencies bench vm

vm-dependencies:
	@packaging/install-build-dependencies test vm browser

configure: dependencies
	@cmake --preset $(PRESET) >$(BUILD).log 2>&1 || { cat $(BUILD).log; rm -f $(BUILD).log; exit 1; }; rm -f $(BUILD).log

run: configure ## build, then classify handwritten digits on an emulated trn1 device
	cmake --build $(BUILD) -j $(JOBS) --target neuron-digits neuron-emulator neff
	NEURON_EMULATOR=$${NEURON_EMULATOR:-trn1.2xlarge} $(BUILD)/bin/neuron-digits --model $(BUILD)/neff/digits.neff --data tools/compiler/kernels/digits/digits.csv.gz

train: configure ## train the digits model on the core in three precisions; loss.csv and loss.svg go to build/
	cmake --build $(BUILD) -j $(JOBS) --target neuron-digits neuron-emulator neff
	NEURON_EMULATOR=$${NEURON_EMULATOR:-trn1.2xlarge} $(BUILD)/bin/neuron-digits train --models $(BUILD)/neff --data tools/compiler/kernels/digits/digits.csv.gz --output $(BUILD)

test: vm-dependencies ## lint, all tests, a virtual machine, sanitizers, short fuzzing; CI runs what of it fits into twenty-eight minutes
	@tests/run-all $(JOBS)

check: test-dependencies all ## the quick tests, those without the label slow; nine minutes on two cores
	cd $(BUILD) && $(CTEST) -j $(JOBS) -LE slow

lint: test-dependencies all ## layers, circles, pictures, sizes, dialect, waits, formatting, headers, tests that promises name, exported symbols
	@tests/lint/run $(BUILD)

tidy: test-dependencies all ## clang-tidy on all sources; lint takes those that changed last
	@python3 tests/lint/tidy.py $(BUILD)

asan: test-dependencies ## the unit tests under address and undefined-behaviour sanitizers
	@tests/run-sanitized asan $(JOBS)

tsan: test-dependencies ## the unit tests under the thread sanitizer
	@tests/run-sanitized tsan $(JOBS)

fuzz: test-dependencies ## each fuzzer for T seconds: make fuzz T=60
	@tests/run-fuzzers $(T) $(JOBS)

vm-test: vm-dependencies all ## boot guests with the kernel module on emulated chips; KERNEL_MODULE=FILE tests that module
	@tests/vm/vm-test all $(BUILD)

vm-kernel: vm-dependencies ## release and headers of the guest's kernel, to build a module for KERNEL_MODULE
	@folder=$$(tests/vm/fetch-kernel $(or $(KERNEL_SERIES),6.1)) && echo "release $$(cat $$folder/release)" && echo "headers $$folder/headers"

kmod: ## neuron.ko for Linux 6.1 and 6.12 (build/kmod, build/kmod-6.12); KERNEL=HEADERS for one of your own, into build/kmod
	@packaging/build-kmod "$(KERNEL)" $(BUILD)

package-dependencies:
	@packaging/install-build-dependencies packages

deb: package-dependencies programs ## Debian packages of what is built, with the source package, into build/deb
	@packaging/build-deb $(BUILD)

rpm: package-dependencies programs ## RPM packages of what is built into build/rpm
	@packaging/build-rpm $(BUILD)

test-packages: programs ## install the Debian packages in a fresh root, follow packaging/README.md there, purge them; boot a host with them
	@packaging/install-build-dependencies packages root vm
	@tests/system/packaging/fresh-root $(BUILD)
	@tests/system/packaging/booted-host $(BUILD)

bench: bench-dependencies configure ## one JSON object a line: ours against a named peer; make bench ONLY=name for one
	@cmake -S . -B $(BUILD) -DNEURON_BENCH=ON >/dev/null
	@cmake --build $(BUILD) -j $(JOBS) >/dev/null
	@if [ -z "$(ONLY)" ]; then $(BUILD)/bench/neuron-ratios; first=$$?; $(BUILD)/tests/model-times --table || first=$$?; \
	NEURON_EMULATOR=trn1.2xlarge $(BUILD)/tests/compiler-times --quick || first=$$?; \
	$(BUILD)/bench/ccom-ratios && exit $$first; \
	elif [ "$(ONLY)" = model-time ]; then $(BUILD)/tests/model-times --table; \
	elif [ "$(ONLY)" = compiler ]; then NEURON_EMULATOR=trn1.2xlarge $(BUILD)/tests/compiler-times --quick; \
	elif $(BUILD)/bench/ccom-ratios --has "$(ONLY)"; then $(BUILD)/bench/ccom-ratios --only "$(ONLY)"; \
	else $(BUILD)/bench/neuron-ratios --only "$(ONLY)"; fi

nightly: test ## the long lanes: clang-tidy, thread sanitizer, long fuzzing, kills, the whole matrix of collectives, public models from npm, exported functions that do nothing, 10,000 faults, a soak of half an hour, an attack of ten minutes, networks, virtual machines, a debug kernel, retraining
	$(MAKE) tidy
	tests/run-sanitized asan $(JOBS) long
	$(MAKE) tsan
	TSAN_OPTIONS=halt_on_error=1 build-tsan/tests/wire_fuzz --seconds 3600 --last build-tsan/wire_fuzz.input tests/fuzz/corpus/wire
	$(MAKE) fuzz T=1800
	packaging/install-build-dependencies models
	NEURON_BUILD_DIR=$(abspath $(BUILD)) /usr/bin/python3 tests/system/models/models_test.py
	NEURON_TEST_ONNX_CASES=all $(BUILD)/tests/onnx --gtest_filter='OnnxCases*' --gtest_brief=1
	RC_PARAMS="max_success=10000" $(BUILD)/tests/property_compiler
	NEURON_TEST_GRAPH_NODES=1000 RC_PARAMS="max_success=200" $(BUILD)/tests/property_compiler
	NEURON_TEST_KILLS=200 $(BUILD)/tests/multi --gtest_filter=SharedDevice.AClientKilledAtAnyPoint*
	$(BUILD)/tests/multi --gtest_filter=SharedDevice.ADaemonThatIsKilled* --gtest_repeat=200 --gtest_brief=1
	NEURON_TEST_KILLS=5000 $(BUILD)/tests/serve --gtest_filter='*ManyKills*' --gtest_brief=1
	GLIBC_TUNABLES=glibc.malloc.tcache_count=0 NEURON_TEST_SOAK_SECONDS=1800 $(BUILD)/tests/soak --gtest_brief=1
	NEURON_TEST_ATTACK_SECONDS=600 $(BUILD)/tests/attack --gtest_brief=1
	NEURON_TEST_MATRIX=all $(BUILD)/tests/matrix --gtest_brief=1
	tests/mutation/exported $(BUILD)
	CCOM_TEST_FAULTS=10000 $(BUILD)/tests/unit_ccom_api --gtest_filter='*RandomFaults*'
	$(BUILD)/tests/network --gtest_filter=-'*InstancesOf*' --gtest_repeat=20 --gtest_brief=1
	NEURON_TEST_NETWORK=all $(BUILD)/tests/network --gtest_filter='*InstancesOf*' --gtest_brief=1
	tests/system/network/faults 10000 $(BUILD)
	NEURON_TEST_INSTANCE_RANKS=32 NEURON_TEST_NETWORK=all $(BUILD)/tests/network --gtest_filter='*InstancesOf*' --gtest_brief=1
	NEURON_TEST_RUNS=1000 $(BUILD)/tests/api --gtest_filter='Every/CollectiveTimes*' --gtest_brief=1
	NEURON_TEST_RUNS=100 $(BUILD)/tests/differential_repeats --gtest_brief=1
	for target in trn1 trn2 trn3; do NEURON_BUILD_DIR=$(abspath $(BUILD)) /usr/bin/python3 tests/differential/instructions/check.py --target $$target --seed $$(date +%Y%m%d) --seeds 50 || exit 1; done
	NEURON_TEST_BUILDER_PROGRAMS=100 $(BUILD)/tests/property_builder --gtest_brief=1
	$(MAKE) vm-test
	tests/vm/vm-test late-writes $(BUILD)
	tests/vm/vm-test debug $(BUILD)
	$(MAKE) test-packages
	/usr/bin/python3 tools/compiler/kernels/digits/train.py --check

build-times: ## minutes of the last build by folder, and its twenty slowest units
	@cmake/build-times $(BUILD)

install: programs ## make install DESTDIR=...
	DESTDIR=$(DESTDIR) cmake --install $(BUILD)
	DESTDIR=$(DESTDIR) cmake --install $(BUILD) --component original_layout

clean: ## remove everything that was built
	rm -rf build build-debug build-asan build-tsan

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile
