#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The end of the demo, for root: what a clone of a mapped image changes. Usage:
# clone.sh FOLDER, where speed.sh has left its image.

. "$(dirname "$0")/lib.sh"

folder=$1
image=$folder/speed.img

say "A clone of the image in use: floop notices, and stops mapping"
attach floop "$image"
run cp --reflink=auto "$image" "$folder/clone.img"
run floop status "$device"
fio --name=busy --filename="$device" --rw=randread --bs=4k --direct=1 \
	--rate_iops=200 --time_based --runtime=10 > "$folder/output" 2>&1 &
busy=$!
printf '# a fio reads 200 times a second meanwhile\n'
run floop top --once
kill "$busy" 2> /dev/null || true
wait "$busy" || true
detach floop
rm -f "$image" "$folder/clone.img"
