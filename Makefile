# floop: see README.md. `make help` lists the targets.

PREFIX ?= /usr/local
VENV := build/venv/bin
FLOOP := cli/target/release/floop

.DEFAULT_GOAL := all

## all: the module for the running kernel (if its headers are there) and the command
.PHONY: all
all: cli
	scripts/install.sh build

## setup: Debian packages, Python programs, the guest root with both kernels, the module for them
.PHONY: setup
setup:
	scripts/setup.sh

.PHONY: setup-host
setup-host:
	@scripts/host-packages.sh
	@scripts/venv.sh

# The command, with progress shown by cargo itself.
.PHONY: cli
cli: setup-host
	cargo build --release --manifest-path cli/Cargo.toml

## demo: an image becomes a disk, in the test machine; NATIVE=1: on this machine
.PHONY: demo
demo: cli
	demo/demo.sh $(if $(NATIVE),--native)

## test: every test, on both kernels and in both modes; ARGS="..." goes to pytest
.PHONY: test
test: cli setup
	@$(VENV)/pytest tests $(ARGS)

## test-debug: the tests on a kernel with KASAN, lockdep and more (takes long)
.PHONY: test-debug
test-debug: cli setup
	scripts/debug-kernel.sh stable
	@$(VENV)/pytest tests --debug-kernel $(ARGS)

## model: that the guard's protocol holds, in every state of a model of it
.PHONY: model
model: setup-host
	@model/check.py $(ARGS)

## check: checkpatch, compiler warnings, sparse, clippy, rustfmt, ruff, shellcheck
.PHONY: check
check: setup-host
	@scripts/setup.sh --no-module
	@scripts/check.sh $(CHECK)

## bench-cost: what an I/O costs, floop and its peers; KERNEL=lts; WRITE=1: into docs/benchmarks.md
.PHONY: bench-cost
bench-cost: cli setup
	@bench/cost.py $(if $(KERNEL),--kernel $(KERNEL)) $(if $(WRITE),--write) $(ARGS)

## install: the module (by DKMS where it is) and the command; DROP_IN=1: as the loop driver
.PHONY: install
install:
	PREFIX=$(PREFIX) DESTDIR=$(DESTDIR) scripts/install.sh install $(if $(DROP_IN),drop-in)

## uninstall: take all of that away
.PHONY: uninstall
uninstall:
	PREFIX=$(PREFIX) DESTDIR=$(DESTDIR) scripts/install.sh uninstall

## clean: all that was built; the guest root and the kernels too
.PHONY: clean
clean:
	@bash -c '. scripts/lib.sh; as_root rm -rf "$$BUILD"'
	rm -rf cli/target

## help: this list
.PHONY: help
help:
	@sed -n 's/^## \([a-z-]*\): /  \1\t/p' $(MAKEFILE_LIST) | expand -t 15
