# SPDX-License-Identifier: GPL-2.0-only
# floop: see README.md. `make help` lists the targets.

PREFIX ?= /usr/local
VENV := build/venv/bin
FLOOP := cli/target/release/floop
# The flags of debian/rules, so that cargo compiles each crate once for both.
CARGO_HOME ?= $(HOME)/.cargo
export RUSTFLAGS ?= --remap-path-prefix=$(CARGO_HOME)=/cargo

.DEFAULT_GOAL := all

## all: the module for the running kernel (if it has headers), and the command
.PHONY: all
all: cli pages
	scripts/install.sh build

## setup: packages, Python programs, the guest roots, the module for them
.PHONY: setup
setup:
	machine/setup.sh

# What one machine needs: ./vm makes its module, and the users' root if asked.
.PHONY: setup-machine
setup-machine:
	@machine/setup.sh --no-module

.PHONY: setup-host
setup-host:
	@machine/host-packages.sh
	@machine/venv.sh

# Whoever only builds and installs needs no test machine's packages.
.PHONY: cargo
cargo:
	@command -v cargo > /dev/null || machine/host-packages.sh

# The command; cargo shows its own progress.
.PHONY: cli
cli: cargo
	cargo build --release --manifest-path cli/Cargo.toml

# The man pages and the shells' completions, in build/pages/
.PHONY: pages
pages: cargo
	cargo build --release --manifest-path cli/Cargo.toml --example pages
	cli/target/release/examples/pages build/pages

## demo: an image becomes a disk, in the test machine; NATIVE=1: on this machine
.PHONY: demo
demo: setup-host
	@scripts/together.sh cli $(if $(NATIVE),,setup-machine)
	demo/demo.sh $(if $(NATIVE),--native)

## test: the tests, on both kernels, in both modes; ARGS="..." is for pytest
.PHONY: test
test: setup-host
	@scripts/together.sh "cli pages" \
		$(if $(LONG),"setup packages-roots" packages,setup)
	$(if $(LONG),@machine/packages-module.sh)
	@$(VENV)/pytest tests $(ARGS)

## test-long: with those that take long, as LONG=1 make test
.PHONY: test-long
test-long:
	@$(MAKE) --no-print-directory test LONG=1

## packages: make the Debian packages and the RPMs, in dist/
.PHONY: packages
packages: setup-host
	@scripts/packages.sh

.PHONY: packages-roots
packages-roots: setup-host
	@machine/packages-roots.sh

# The module as DKMS builds it from the package, for the test machine
.PHONY: packages-module
packages-module: packages packages-roots
	@machine/packages-module.sh

## test-packages: the tests of the packages only
.PHONY: test-packages
test-packages: export LONG := 1
test-packages: cli setup packages packages-roots packages-module
	@$(VENV)/pytest tests/packages tests/packages/twice.py \
		tests/cases/users/packages.sh $(ARGS)

## try: one case on one kernel; CASE=guard/hang KERNEL=lts MODE=drop-in
.PHONY: try
try:
	@[ -e build/venv/stamp ] || machine/setup.sh --no-module
	@cargo build --release --manifest-path cli/Cargo.toml
	@$(VENV)/python tests/try.py --kernel "$(KERNEL)" --mode "$(MODE)" \
		"$(CASE)"

## test-debug: the tests on a kernel with KASAN, lockdep and more (takes long)
.PHONY: test-debug
test-debug: cli setup
	machine/debug-kernel.sh stable
	@$(VENV)/pytest tests --debug-kernel $(ARGS)

## test-rt: the tests on a PREEMPT_RT kernel
.PHONY: test-rt
test-rt: cli setup
	machine/rt-kernel.sh
	@$(VENV)/pytest tests/cases --kernel rt $(ARGS)

# What writes images, with more of it mapped and allocated ahead than in `make
# test`, where most cases are about the file path.
## test-ahead: the tests of data with mapping on, at three settings of allocate
.PHONY: test-ahead
test-ahead: cli setup
	@for unit in off 64K auto; do \
		echo "== allocate=$$unit"; \
		$(VENV)/pytest tests/cases/data tests/cases/guard \
			tests/cases/power tests/cases/stress \
			--parameter mapping=Y --parameter allocate=$$unit \
			$(ARGS) || failed=1; \
	done; [ -z "$$failed" ]

## coverage: list the branches of the I/O paths that no test takes (takes long)
.PHONY: coverage
coverage: cli setup
	machine/debug-kernel.sh coverage
	rm -rf build/test/coverage
	-@$(VENV)/pytest -q tests/cases --kernel coverage \
		--results build/test/coverage $(ARGS)
	@scripts/coverage.py build/test/coverage

## test-race: torture and stress on a kernel with KCSAN
.PHONY: test-race
test-race: cli setup
	machine/debug-kernel.sh race
	@LONG=$${LONG:-4} $(VENV)/pytest tests/cases/stress \
		tests/cases/guard/torture.sh tests/cases/guard/adversary.sh \
		--kernel race $(ARGS)

# A static command, which rustup's tool chain can link by itself.
.PHONY: cli-i386
cli-i386:
	rustup target add i686-unknown-linux-musl
	cargo build --release --manifest-path cli/Cargo.toml \
		--target i686-unknown-linux-musl \
		--config 'target.i686-unknown-linux-musl.linker="rust-lld"'

## test-i386: the tests of the interface on a system of 32 bits
.PHONY: test-i386
test-i386: cli-i386 setup
	machine/i386-root.sh
	machine/small-kernel.sh i386
	@$(VENV)/pytest tests/cases/interface --kernel i386 $(ARGS)

## test-built-in: the interface where the loop driver is built into the kernel
.PHONY: test-built-in
test-built-in: cli setup
	machine/small-kernel.sh built-in
	@$(VENV)/pytest tests/cases/interface tests/cases/cli \
		--kernel built-in $(ARGS)

## test-planted: check that the tests notice the planted bugs (hours); ONLY=
.PHONY: test-planted
test-planted: cli setup
	machine/debug-kernel.sh stable
	@$(VENV)/python tests/planted/run.py $(ARGS) $(ONLY)

# A case that fails because the page differs leaves its results all the same.
## hosts-table: write docs/hosts.md's tables from what the test machine finds
.PHONY: hosts-table
hosts-table: cli setup
	@rm -rf build/hosts
	@LONG=1 $(VENV)/pytest tests/cases/hosts --everywhere \
		--mode drop-in || true
	@scripts/hosts-table.py

## model: check every state of a model of the guard's protocol
.PHONY: model
model: setup-host
	@model/check.py $(ARGS)

## lint: the checks without root and a guest: clippy, ruff, shellcheck, ...
.PHONY: lint
lint:
	@scripts/check.sh lint

## check: lint, and the module's builds and docs/safety.md; CHECK="clippy ruff"
.PHONY: check
check:
	@scripts/check.sh $(CHECK)

## check-kernels: compile for every kernel of Debian; ONLY='*-rt-*'
.PHONY: check-kernels
check-kernels:
	@scripts/check-kernels.sh $(if $(ONLY),'$(ONLY)')

## bench: floop and its peers; ONLY=cost,stacks QUICK=1 WRITE=1 ARGS=--help
.PHONY: bench
bench: $(if $(NATIVE),setup-host,cli setup)
	@$(VENV)/python bench/run.py $(if $(ONLY),--only $(ONLY)) \
		$(if $(PEERS),--peers $(PEERS)) $(if $(QUICK),--quick) \
		$(if $(KERNEL),--kernel $(KERNEL)) $(if $(WRITE),--write) \
		$(if $(NATIVE),--native) $(if $(DISK),--disk $(DISK)) $(ARGS)

## bench-cost: the sections of bench that count instructions per I/O
.PHONY: bench-cost
bench-cost:
	@$(MAKE) --no-print-directory bench ONLY=cost,cost-ext4,levels

## bench-compare: show changes beyond the noise, from A.json to B.json
.PHONY: bench-compare
bench-compare: setup-host
	@$(VENV)/python bench/compare.py $(filter-out $@,$(MAKECMDGOALS))

# bench-compare's arguments are files, not targets.
ifneq ($(filter bench-compare,$(MAKECMDGOALS)),)
.PHONY: $(sort $(filter-out bench-compare,$(MAKECMDGOALS)))
$(sort $(filter-out bench-compare,$(MAKECMDGOALS))): ; @:
endif

## install: the module and the command; DROP_IN=1: as the loop driver
.PHONY: install
install:
	PREFIX=$(PREFIX) DESTDIR=$(DESTDIR) \
		scripts/install.sh install $(if $(DROP_IN),drop-in)

## uninstall: remove the module and the command
.PHONY: uninstall
uninstall:
	PREFIX=$(PREFIX) DESTDIR=$(DESTDIR) scripts/install.sh uninstall

## clean: remove everything built, the guest roots and the kernels included
.PHONY: clean
clean:
	@bash -c '. scripts/common.sh; as_root rm -rf "$$BUILD"'
	rm -rf cli/target

## help: this list
.PHONY: help
help:
	@sed -n 's/^## \([a-z0-9-]*\): /  \1\t/p' $(MAKEFILE_LIST) | \
		expand -t 17
