# The commands of this project. Building is CMake's work: see CMakePresets.json and CONTRIBUTING.md.
#
#   make demo     install what is needed, build, write a story
#   make test     install what is needed, build, run the quick tests
#   make full     the long tests too
#   make format   clang-format over all sources
#   make tidy     clang-tidy over all sources
#   make install  build and install below PREFIX (/usr/local)

PRESET ?= release
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
BUILD := build/$(PRESET)

.PHONY: demo test full build setup format tidy install clean

demo: setup
	cmake --preset $(PRESET)
	cmake --build --preset $(PRESET) --target lamina_command --parallel $(JOBS)
	$(BUILD)/lamina run models/tales "Once upon a time"

test: build
	ctest --preset $(PRESET) --parallel $(JOBS)

full: build
	ctest --test-dir $(BUILD) --output-on-failure --parallel $(JOBS)

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
