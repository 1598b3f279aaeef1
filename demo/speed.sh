#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The second part of the demo, for root, with floop side by side: the same fio
# runs on an image by the in-tree driver as losetup sets it up, by it with
# direct I/O, and by floop. Usage: speed.sh FOLDER RESULTS
# Adds a line for each to the table in RESULTS.

set -euo pipefail

folder=$1 results=$2
floop=$(cd "$(dirname "$0")/.." && pwd)/cli/target/release/floop
image=$folder/speed.img
seconds=3

say()
{
	printf '\n# %s\n' "$*"
}

run()
{
	printf '$ %s\n' "$*"
	"$@"
}

# iops DEVICE read|write: of random I/O of 4 KiB
iops()
{
	local said=$folder/fio.json
	fio --name=demo --filename="$1" --direct=1 --rw="rand$2" --bs=4k \
		--ioengine=libaio --iodepth=16 --time_based \
		--runtime="$seconds" --output-format=json --output="$said"
	python3 -c 'import json, sys
job = json.load(open(sys.argv[1]))["jobs"][0]
print(f"{job[sys.argv[2]]["iops"]:,.0f}")' "$said" "$2"
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
		"$(iops "$3" read)" "$(iops "$3" write)" >> "$results"
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

say "How fast: random I/O of 4 KiB on one image, by three drivers"
modprobe loop
printf '$ floop create %s 256M\n' "$image"
"$floop" create "$image" 256M
in_tree losetup
in_tree 'losetup --direct-io=on' --direct-io=on
printf '$ floop attach --mapping on %s\n' "$image"
device=$("$floop" attach --mapping on "$image")
printf '%s\n' "$device"
measure 'floop, mapped' 'floop attach' "$device"

say "Who does what, and what a clone of the image changes"
printf '$ floop top --once\n'
"$floop" top --once
run cp --reflink=auto "$image" "$folder/clone.img"
printf '$ floop status %s\n' "$device"
"$floop" status "$device"
printf '$ floop detach %s\n' "$device"
"$floop" detach "$device"
rm "$image" "$folder/clone.img"
