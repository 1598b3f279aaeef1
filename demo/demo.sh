#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# `make demo`: a disk image becomes a block device that is partitioned,
# formatted, filled, checked and detached, by the in-tree driver, by it with
# direct I/O, and by floop; then losetup uses it by floop. The same fio runs on
# the three, a table shows all of it, and an image is cloned. In the test
# machine; with --native on this machine, for root, where the running kernel can
# load the module.

. "$(dirname "$0")/../scripts/common.sh"
cd "$PROJECT"
. demo/lib.sh

trips=$(mktemp "$BUILD/demo.XXXXXX")
speeds=$(mktemp "$BUILD/demo.XXXXXX")
costs=$(mktemp "$BUILD/demo.XXXXXX")
trap 'rm -f "$trips" "$speeds" "$costs"' EXIT
seconds=$SECONDS

in_machine()
{
	./vm --disk nvme:2G -- demo/guest.sh "$trips" "$speeds"
	./vm --icount -- demo/cost.sh "$trips" "$speeds" "$costs"
}

# load NAMES: load our module under these names, or say why that fails.
load()
{
	local why
	why=$(insmod "$BUILD/native/$(uname -r)/floop.ko" "names=$1" 2>&1) &&
		return
	die "this kernel does not load floop.ko: $why" \
		"(make demo without NATIVE=1 runs in a test machine)"
}

native()
{
	local folder
	[ "$(id -u)" = 0 ] ||
		die "loading a module needs root: sudo make demo NATIVE=1"
	scripts/install.sh build
	[ -e "$BUILD/native/$(uname -r)/floop.ko" ] ||
		die "no module for the running kernel"
	folder=$(mktemp -d "$BUILD/demo-native.XXXXXX")
	load floop
	demo/run.sh side-by-side "$folder" "$trips"
	unload floop
	if [ -e /sys/module/loop ] && ! modprobe -r loop; then
		echo 'The loop driver is built in or in use: no drop-in part.'
	else
		load loop
		demo/run.sh drop-in "$folder"
		unload floop
	fi
	load floop
	demo/speed.sh "$folder" "$speeds"
	demo/table.sh "$trips" "$speeds" "$costs"
	demo/clone.sh "$folder"
	unload floop
	rm -rf "$folder"
}

if [ "${1:-}" = --native ]; then native; else in_machine; fi

printf '\nTook %d s in all.\n' $((SECONDS - seconds))
