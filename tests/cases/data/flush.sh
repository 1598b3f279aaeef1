#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: fsync of the device and O_DSYNC writes reach the disk below the image
#   as flushes or FUA writes, after the data before them.
# modes: side-by-side
# machines: stable-side-by-side
# disks: nvme:1G nvme:3G
# timeout: 400
. tests/lib/case.sh
programs loopdev pattern logreplay

disk=$(the_disk 1)
carve "$disk" below 0 400
carve "$(the_disk 2)" log 0 400
carve "$(the_disk 2)" replay 400 400
carve "$(the_disk 2)" looked 800 400
# an empty disk, over and over again
echo "0 $(sectors /dev/mapper/below) zero" | dmsetup create empty
later dm_remove empty

mark() {
	dmsetup message logged 0 mark "$1"
}

# durable FROM TO - entries between two marks that make something durable
durable() {
	awk -v from="$1" -v to="$2" '
		/ mark / && $NF == to { inside = 0 }
		inside && (/ flush/ || / fua/) { n++ }
		/ mark / && $NF == from { inside = 1 }
		END { print n + 0 }' "$WORK/log"
}

for pair in ext4:direct xfs:buffered; do
	IFS=: read -r fs how <<<"$pair"
	# no discards, the log is long enough without them
	if [ "$fs" = ext4 ]; then keep=(-E nodiscard); else keep=(-K); fi
	echo "0 $(sectors /dev/mapper/below) log-writes" \
		/dev/mapper/below /dev/mapper/log | dmsetup create logged
	make_fs "$fs" /dev/mapper/logged "${keep[@]}"
	mkdir -p "$WORK/$fs"
	mount /dev/mapper/logged "$WORK/$fs"
	image=$WORK/$fs/image
	pattern write -q -s 9 "$image" 4M
	dev=$(loop_attach "$how" "$image")
	sync

	mark begin
	pattern write -q -n -d -s 1 "$dev" 1M
	mark written
	sync "$dev"
	mark synced
	pattern write -q -n -d -a -b 64k -s 2 -o 1M "$dev" 64k
	mark dsync
	pattern write -q -n -a -b 64k -s 3 -o 2M "$dev" 64k
	mark buffered
	pattern write -q -b 64k -s 4 -o 3M "$dev" 64k
	mark end

	loopdev detach "$dev"
	unmount "$WORK/$fs"
	dm_remove logged
	logreplay list /dev/mapper/log >"$WORK/log"
	grep -q ' mark end$' "$WORK/log" || fail "the log has not all of it"
	for step in "written synced" "synced dsync" "dsync buffered" \
		"buffered end"; do
		# shellcheck disable=SC2086
		n=$(durable $step)
		[ "$n" -gt 0 ] ||
			fail "$fs $how: ${step#* }: nothing was flushed"
		echo "ok: $fs $how: ${step#* }:" \
			"$n flushes and FUA writes on the disk"
	done

	# Replay the log up to each mark: the image holds all data that was
	# reported durable by then.
	dm_snapshot replayed empty replay
	from=0
	for step in "synced 1 0 1M" "dsync 2 1M 64k" "buffered 3 2M 64k" \
		"end 4 3M 64k"; do
		read -r name seed at size <<<"$step"
		to=$(awk -v name="$name" \
			'/ mark / && $NF == name { print $1 }' "$WORK/log")
		logreplay run /dev/mapper/log /dev/mapper/replayed "$from" \
			"$to" >"$WORK/out"
		from=$to
		dm_snapshot look replayed looked
		mount /dev/mapper/look "$WORK/$fs"
		check "$fs $how: $name: the data is there after a power cut" \
			pattern check -b 64k -s "$seed" -o "$at" "$image" \
			"$size"
		unmount "$WORK/$fs"
		dm_remove look
	done
	dm_remove replayed
done
