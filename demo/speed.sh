#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The second part of the demo, for root, with floop side by side: the same fio
# runs on an image by each of the three drivers. Usage:
#   speed.sh FOLDER RESULTS [instructions]
# RESULTS gets a line for each: I/Os a second, reads and writes, or, where the
# clock counts instructions, the instructions of one. Leaves FOLDER/speed.img.

. "$(dirname "$0")/lib.sh"

folder=$1 results=$2 what=${3-ios}
image=$folder/speed.img
size=256M
[ "$what" = ios ] || size=32M

# fio_figure read|write: put it in $figure.
fio_figure()
{
	local said=$folder/fio.json
	local options=(--direct=1 --bs=4k --ioengine=libaio --iodepth=16)
	# One nanosecond is one instruction, and the disk takes no time.
	case $what in
	ios) options+=(--time_based --runtime=3) ;;
	*) options+=(--number_ios=4000 --size="$size") ;;
	esac
	printf '$ fio --direct=1 --bs=4k --iodepth=16 --rw=rand%s ...\n' "$1"
	fio --name=demo --filename="$device" --rw="rand$1" "${options[@]}" \
		--output-format=json --output="$said"
	figure=$(python3 -c 'import json, sys
figures = json.load(open(sys.argv[1]))["jobs"][0][sys.argv[2]]
if sys.argv[3] == "ios":
    figure = figures["iops"]
else:
    figure = figures["runtime"] * 1e6 / figures["total_ios"]
print(f"{figure:,.0f}")' "$said" "$1" "$what")
}

case $what in
ios) say "How fast: random I/O of 4 KiB on one image, by three drivers" ;;
*) say "What an I/O costs: the same, where the clock counts instructions" ;;
esac
modprobe loop
run floop create "$image" "$size"
for way in "${ways[@]}"; do
	attach "$way" "$image"
	fio_figure read
	reads=$figure
	fio_figure write
	printf '%s\t%s\n' "$reads" "$figure" >> "$results"
	detach "$way"
done
