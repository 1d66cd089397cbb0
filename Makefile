# The commands of this project. Building is CMake's work: see CMakePresets.json and CONTRIBUTING.md.
#
#   make demo     install what is needed, build, write a story
#   make test     install what is needed, build, run the quick tests
#   make full     the long tests too
#   make fuzz     libFuzzer on the reader of models for FUZZ_SECONDS (60); needs Debian's clang
#   make format   clang-format over all sources
#   make tidy     clang-tidy over all sources
#   make install  build and install below PREFIX (/usr/local)

PRESET ?= release
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
BUILD := build/$(PRESET)

FUZZ_SECONDS ?= 60

.PHONY: demo test full fuzz build setup format tidy install clean

demo: setup
	cmake --preset $(PRESET)
	cmake --build --preset $(PRESET) --target lamina_command --parallel $(JOBS)
	$(BUILD)/lamina run models/tales "Once upon a time"

test: build
	ctest --preset $(PRESET) --parallel $(JOBS)

full: build
	ctest --test-dir $(BUILD) --output-on-failure --parallel $(JOBS)

fuzz:
	cmake -S . -B build/fuzz -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
	  -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ -DLAMINA_FUZZ=ON
	cmake --build build/fuzz --target fuzz_onnx_reader --parallel $(JOBS)
	mkdir -p build/fuzz/corpus
	for model in tests/data/zoo/*/model.onnx; do cp "$$model" "build/fuzz/corpus/$$(basename "$$(dirname "$$model")")"; done
	build/fuzz/fuzz_onnx_reader -max_len=65536 -rss_limit_mb=2048 -timeout=20 -max_total_time=$(FUZZ_SECONDS) \
	  -artifact_prefix=build/fuzz/ build/fuzz/corpus

build: setup
	cmake --preset $(PRESET)
	cmake --build --preset $(PRESET) --parallel $(JOBS)

setup:
	scripts/setup.sh

format:
	git ls-files '*.cc' '*.h' '*.cu' '*.cuh' | xargs clang-format -i

tidy: build
	scripts/tidy.sh

install: build
	cmake --install $(BUILD) --prefix $(PREFIX)

clean:
	rm -rf build
