#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# `make demo`: a disk image becomes a block device that is partitioned,
# formatted, filled, checked and detached, through floop. Then the same fio runs
# on the in-tree driver and on floop. Both end in a table. In the test machine;
# with --native on this machine, for root, where the running kernel can load the
# module.

. "$(dirname "$0")/../scripts/common.sh"
cd "$PROJECT"

results=$(mktemp "$BUILD/demo.XXXXXX")
speeds=$(mktemp "$BUILD/demo.XXXXXX")
costs=$(mktemp "$BUILD/demo.XXXXXX")
trap 'rm -f "$results" "$speeds" "$costs"' EXIT
seconds=$SECONDS

in_machine()
{
	./vm --disk nvme:2G -- demo/guest.sh "$results" "$speeds"
	./vm --icount -- demo/cost.sh "$costs"
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
	demo/run.sh side-by-side "$folder" "$results"
	demo/speed.sh "$folder" "$speeds"
	rmmod floop
	if [ -e /sys/module/loop ] && ! modprobe -r loop; then
		echo 'The loop driver is built in or in use: no drop-in part.'
	else
		load loop
		demo/run.sh drop-in "$folder" "$results"
		rmmod floop
	fi
	rm -rf "$folder"
}

if [ "${1:-}" = --native ]; then native; else in_machine; fi

printf '\n'
{
	printf '%s\t' driver 'attached by' device 'direct I/O' seconds \
		'context switches'
	printf 'pages of the image in the page cache\n'
	cat "$results"
} | column -t -s $'\t'
printf '\nEach line is all of the work between attaching and detaching.\n\n'
# Without that machine there are no costs.
[ -s "$costs" ] || sed 's/.*/\t\t\t-\t-/' "$speeds" > "$costs"
{
	printf '%s\t' driver 'attached by' 'direct I/O' 'reads/s' 'writes/s'
	printf 'instructions a read\ta write\n'
	paste "$speeds" <(cut -f 4- "$costs")
} | column -t -s $'\t'
printf '\nRandom direct I/O of 4 KiB at a depth of 16, once: for 3 s on the'
printf ' emulated disk,\nwhere only the ratios count, and 4,000 I/Os on a RAM'
printf ' disk, with the instructions\nof fio itself. docs/benchmarks.md has'
printf ' more of both.\n\n'
printf 'Took %d s in all.\n' $((SECONDS - seconds))
