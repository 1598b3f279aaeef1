#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The second part of the demo, for root, with floop side by side: the same fio
# runs on an image by the in-tree driver as losetup sets it up, by it with
# direct I/O, and by floop. Usage: speed.sh FOLDER RESULTS [instructions]
# Adds a line for each to the table in RESULTS: I/Os a second, or the
# instructions of one, where the clock counts instructions.

set -euo pipefail

folder=$1 results=$2 what=${3-ios}
floop=$(cd "$(dirname "$0")/.." && pwd)/cli/target/release/floop
image=$folder/speed.img
size=256M
[ "$what" = ios ] || size=32M
fio_options=(--direct=1 --bs=4k --ioengine=libaio --iodepth=16)

say()
{
	printf '\n# %s\n' "$*"
}

run()
{
	printf '$ %s\n' "$*"
	"$@"
}

# fio_figure DEVICE read|write: I/Os a second, or instructions of one
fio_figure()
{
	local said=$folder/fio.json
	local some=(--time_based --runtime=3)
	# One nanosecond is one instruction, and the disk takes no time.
	[ "$what" = ios ] || some=(--number_ios=4000 --size="$size")
	fio --name=demo --filename="$1" --rw="rand$2" "${fio_options[@]}" \
		"${some[@]}" --output-format=json --output="$said"
	python3 -c 'import json, sys
figures = json.load(open(sys.argv[1]))["jobs"][0][sys.argv[2]]
if sys.argv[3] == "ios":
    figure = figures["iops"]
else:
    figure = figures["runtime"] * 1e6 / figures["total_ios"]
print(f"{figure:,.0f}")' "$said" "$2" "$what"
}

# measure DRIVER HOW DEVICE
measure()
{
	local direct
	direct=$(cat "/sys/block/${3#/dev/}/loop/dio")
	[ "$direct" = 1 ] && direct=yes || direct=no
	printf '$ fio --direct=1 --bs=4k --iodepth=16 --rw=%s ...\n' \
		randread randwrite
	printf '%s\t%s\t%s\t%s\t%s\n' "$1" "$2" "$direct" \
		"$(fio_figure "$3" read)" "$(fio_figure "$3" write)" \
		>> "$results"
}

# in_tree HOW OPTION...: by losetup
in_tree()
{
	local how=$1 device
	shift
	printf '$ losetup -f --show %s\n' "${*:+$* }$image"
	device=$(losetup -f --show "$@" "$image")
	printf '%s\n' "$device"
	measure 'loop, in-tree' "$how" "$device"
	run losetup -d "$device"
}

case $what in
ios) say "How fast: random I/O of 4 KiB on one image, by three drivers" ;;
*) say "What an I/O costs: the same, where the clock counts instructions" ;;
esac
modprobe loop
printf '$ floop create %s %s\n' "$image" "$size"
"$floop" create "$image" "$size"
in_tree losetup
in_tree 'losetup --direct-io=on' --direct-io=on
printf '$ floop attach --mapping on %s\n' "$image"
device=$("$floop" attach --mapping on "$image")
printf '%s\n' "$device"
measure 'floop, mapped' 'floop attach' "$device"

if [ "$what" = ios ]; then
	say "Who does what, and what a clone of the image changes"
	printf '$ floop top --once\n'
	"$floop" top --once
	run cp --reflink=auto "$image" "$folder/clone.img"
	printf '$ floop status %s\n' "$device"
	"$floop" status "$device"
fi
printf '$ floop detach %s\n' "$device"
"$floop" detach "$device"
rm -f "$image" "$folder/clone.img"
