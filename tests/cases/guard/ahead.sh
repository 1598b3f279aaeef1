#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: While zeroes are being written around a write to a hole, who opens the
#   image to write, or turns mapping off, waits until they are written; with
#   O_NONBLOCK the open fails. Readers don't wait. The zeroes spare what other
#   writes in flight go to. A discard meanwhile is done, too. If a chunk fails,
#   or is written in part, the write is done by itself. A chunk is mapped
#   without the fill. Where nothing can be mapped, one chunk is enough.
# modes: side-by-side
# machines: stable-side-by-side
# timeout: 400
# module: debug
. tests/lib/guard.sh
. tests/lib/cgroups.sh
load_debug
programs loopdev pattern other

# chunk SEED OFFSET - a write of 4k to a hole, in the background, as $writer
chunk() {
	pattern write -d -n -q -b 4k -s "$1" -o "$2" "$dev" 4k &
	writer=$!
}

zeroed() {
	[ "$(loop_stat "$dev" zeroed_bytes)" -ge "$1" ]
}

opens() {
	timeout 60 "$WORK/bin/other" "$@" "$MNT/image"
}

sparse() {
	mkimage "$1" "$MNT/image" >/dev/null
	dev=$(attach "$MNT/image")
	allocate "$dev" 64k
	wait_until 30 mapped "$dev"
	udev_settle
	wait_until 20 reads_hole 0 4096
}

# The neighbour's write comes after the zeroes, and stays
openers() {
	local opener
	sparse 8M
	dmsetup suspend --noflush --nolockfs below
	chunk 1 1044k
	wait_until 20 zeroed $((60 * 1024))
	sleep 0.2
	check "$fs: an open to read" opens nonblock r
	refused "$fs: an open to write that may not wait" \
		"*Resource temporarily unavailable*" opens nonblock rw
	pattern write -d -n -q -b 4k -s 2 -o 1060k "$MNT/image" 4k &
	opener=$!
	wait_until 20 grep -q break_lease "/proc/$opener/stack"
	sleep 0.3
	kill -0 $opener || fail "$fs: an open to write did not wait"
	kill -0 $writer || fail "$fs: the write did not hang"
	dmsetup resume below
	wait $writer || fail "$fs: the write failed"
	wait $opener || fail "$fs: the opener's write failed"
	check "$fs: the opener's write" pattern check -d -q -b 4k -s 2 \
		-o 1060k "$MNT/image" 4k
	check "$fs: ours" pattern check -d -q -b 4k -s 1 -o 1044k "$dev" 4k
	wait_until 30 mapped "$dev"
	detach "$dev"
}

# durable OFFSET - hangs, in the background
durable() {
	local file
	file=$(ios "$dev" file)
	in_group other pattern write -d -a -n -q -b 512 -s 4 -o "$1" \
		"$dev" 512 &
	durable+=($!)
	wait_until 20 more_ios "$dev" file "$file"
	sleep 0.3
}

# A durable write is none of a chunk, nor is one of a cgroup: these hang when
# the chunk is made, which is what is between their blocks. A discard of what
# the chunk covers comes later. It waits in the file system, which ends all
# direct I/O before it takes blocks away. Who opens the image in that pause
# waits for the zeroes, too.
in_flight() {
	local discard opener durable=() at
	local before=$(((3076 << 10) + 512)) behind=$(((3120 << 10) + 512))
	sparse 8M
	dmsetup suspend --noflush --nolockfs below
	durable $behind
	durable $before
	chunk 5 3100k
	wait_until 20 zeroed 1
	blkdiscard -o 3108k -l 4k "$dev" &
	discard=$!
	sleep 0.3
	kill -0 $discard || fail "$fs: a discard did not wait for a chunk"
	xfs_io -c quit "$MNT/image" &
	opener=$!
	wait_until 20 grep -q break_lease "/proc/$opener/stack"
	dmsetup resume below
	wait "${durable[@]}" || fail "$fs: a durable write failed"
	wait $writer || fail "$fs: the write beside it failed"
	wait $discard || fail "$fs: the discard failed"
	wait $opener || fail "$fs: an open to write failed"
	is "$fs: zeroes beside a write" "$(loop_stat "$dev" zeroed_bytes)" \
		$(((20 + 16) * 1024))
	for at in $before $behind; do
		check "$fs: a durable write" pattern check -d -q -b 512 -s 4 \
			-o "$at" "$dev" 512
	done
	check "$fs: the write beside it" pattern check -d -q -b 4k -s 5 \
		-o 3100k "$dev" 4k
	detach "$dev"
	is "$fs: taken on the disk" "$(stat -c '%b / 8' "$MNT/image")" \
		"88 / 8"
}

# While a part of a block is being written, the rest of it is in no chunk.
beside_part() {
	local other durable=() file at=$((5 << 20))
	sparse 8M
	dmsetup suspend --noflush --nolockfs below
	durable $at
	file=$(ios "$dev" file)
	pattern write -d -n -q -b 512 -s 8 -o $((at + 512)) "$dev" 512 &
	other=$!
	wait_until 20 more_ios "$dev" file "$file"
	sleep 0.3
	dmsetup resume below
	wait "${durable[@]}" || fail "$fs: a durable write failed"
	wait $other || fail "$fs: the write beside it in its block failed"
	is "$fs: zeroes in the block of a write" \
		"$(loop_stat "$dev" zeroed_bytes)" 0
	check "$fs: the durable write" pattern check -d -q -b 512 -s 4 \
		-o $at "$dev" 512
	check "$fs: the write beside it in its block" pattern check -d -q \
		-b 512 -s 8 -o $((at + 512)) "$dev" 512
	detach "$dev"
}

# A chunk begins behind what is data, mapped or not
after_data() {
	sparse 8M
	check "$fs: data" pattern write -d -a -n -q -b 4k -s 6 -o 6152k \
		"$dev" 4k
	check "$fs: a chunk" pattern write -d -n -q -b 4k -s 7 -o 6176k \
		"$dev" 4k
	is "$fs: zeroes around it" "$(loop_stat "$dev" zeroed_bytes)" \
		$(((20 + 28) * 1024))
	check "$fs: the data before it" pattern check -d -q -b 4k -s 6 \
		-o 6152k "$dev" 4k
	detach "$dev"
}

# The file system isn't asked where a hole begins if the last block of a write,
# which has a part of it, is data: it would walk over all extents of that. The
# data isn't mapped yet.
before_data() {
	local seek=ext4_llseek at=$(((6152 << 10) - 512)) n
	[ "$fs" = ext4 ] || seek=xfs_file_llseek
	sparse 8M
	window 5000 FILL
	check "$fs: data" pattern write -d -a -n -q -b 4k -s 6 -o 6152k \
		"$dev" 4k
	wait_until 20 in_window FILL
	count_calls $seek
	n=$(calls)
	check "$fs: a write to a hole and to data" \
		pattern write -d -n -q -b 1k -s 7 -o $at "$dev" 1k
	is "$fs: asked where a hole begins" "$(($(calls) - n))" 0
	stop_counting
	window 0
	check "$fs: it is there" pattern check -d -q -b 1k -s 7 -o $at "$dev" 1k
	detach "$dev"
}

# Nobody is to wait for what may be slow: the disk may leave the idle class
# waiting, and a cgroup may be throttled.
slow() {
	sparse 8M
	check "$fs: a write of the idle class" ionice -c 3 \
		pattern write -d -n -q -b 4k -s 2 -o 1044k "$dev" 4k
	check "$fs: a write of a cgroup" in_group other \
		pattern write -d -n -q -b 4k -s 2 -o 2068k "$dev" 4k
	is "$fs: zeroes around them" "$(loop_stat "$dev" zeroed_bytes)" 0
	detach "$dev"
}

# Who turns mapping off waits for the zeroes
turned_off() {
	local off
	sparse 8M
	dmsetup suspend --noflush --nolockfs below
	chunk 9 1044k
	wait_until 20 zeroed $((60 * 1024))
	sleep 0.2
	echo 0 >"/sys/block/${dev#/dev/}/loop/mapping" &
	off=$!
	wait_until 20 grep -q floop_guard "/proc/$off/stack"
	kill -0 $writer || fail "$fs: the write did not hang"
	dmsetup resume below
	wait $off || fail "$fs: mapping can't be turned off"
	wait $writer || fail "$fs: the write failed"
	check "$fs: the write" pattern check -d -q -b 4k -s 9 -o 1044k "$dev" 4k
	detach "$dev"
}

# Whoever thaws it may open the image before
frozen() {
	sparse 8M
	fsfreeze -f "$MNT"
	later bash -c "fsfreeze -u $MNT 2>/dev/null || true"
	chunk 6 4140k
	sleep 0.5
	kill -0 $writer || fail "$fs: a write did not wait for the thaw"
	check "$fs: an open to write while it is frozen" opens nonblock rw
	fsfreeze -u "$MNT"
	wait $writer || fail "$fs: the write failed"
	check "$fs: a write after the thaw" pattern check -d -q -b 4k -s 6 \
		-o 4140k "$dev" 4k
	detach "$dev"
}

# Of a chunk that is written in part there are its first block and the data
in_part() {
	sparse 8M
	window 0 SHORT
	check "$fs: a short write" pattern write -d -q -b 4k -s 3 \
		-o 2068k "$dev" 4k
	window 0
	check "$fs: it is there" pattern check -d -q -b 4k -s 3 -o 2068k \
		"$dev" 4k
	is "$fs: taken on the disk" "$(stat -c '%b / 8' "$MNT/image")" "16 / 8"
	is "$fs: spare" "$(loop_stat "$dev" spare_bytes)" 0
	detach "$dev"
	check "$fs: zeroes before it" cmp -n 2068k "$MNT/image" /dev/zero
}

# What has to be copied for direct I/O isn't written as a chunk
bounced() {
	sparse 8M
	window 0 BOUNCE
	check "$fs: a bounced write" pattern write -d -n -q -b 4k -s 2 \
		-o 2068k "$dev" 4k
	window 0
	check "$fs: it is there" pattern check -d -q -b 4k -s 2 -o 2068k \
		"$dev" 4k
	detach "$dev"
}

# A chunk is mapped at once, whatever keeps the fill
mapped_at_once() {
	local bytes
	sparse 8M
	window 60000 FILL
	check "$fs: a write that the fill has to find" \
		pattern write -d -a -n -q -b 4k -s 7 -o 1044k "$dev" 4k
	wait_until 20 in_window FILL
	bytes=$(loop_stat "$dev" mapped_bytes)
	check "$fs: a chunk" \
		pattern write -d -n -q -b 4k -s 8 -o 5140k "$dev" 4k
	wait_until 20 maps "$dev" $((bytes + 65536))
	window 0
	detach "$dev"
}

# What a chunk has zeroed is no hole, though it isn't mapped yet: it may be, and
# be written to, before the zeroes of the next one are
zeroed_once() {
	sparse 8M
	window 60000 CHUNK
	check "$fs: a chunk" \
		pattern write -d -n -q -b 4k -s 1 -o 1M "$dev" 4k
	wait_until 20 in_window CHUNK
	check "$fs: one elsewhere" \
		pattern write -d -n -q -b 4k -s 2 -o 3M "$dev" 4k
	check "$fs: a write to the zeroes of the first" \
		pattern write -d -n -q -b 4k -s 3 -o 1032k "$dev" 4k
	is "$fs: zeroes" "$(loop_stat "$dev" zeroed_bytes)" $((2 * 61440))
	window 0
	detach "$dev"
}

# xfs doesn't say where a file's blocks are if it shares some
unmappable() {
	local n at epoch zeroed
	rm "$MNT/image"
	sparse 8M
	detach "$dev"
	pattern write -q -b 4k -s 1 "$MNT/image" 4k
	cp --reflink=always "$MNT/image" "$MNT/clone"
	# An epoch lasts until the driver looks again, 10 s after the attach
	for n in 1 3 5; do
		dev=$(attach "$MNT/image")
		allocate "$dev" 64k
		wait_until 30 reads_shared
		wait_until 30 mapped "$dev"
		epoch=$(begun "$dev")
		for at in $n $((n + 1)); do
			check "xfs: a write that can't be mapped" pattern \
				write -d -n -q -b 4k -s 1 -o "${at}M" "$dev" 4k
			sleep 0.3
		done
		zeroed=$(loop_stat "$dev" zeroed_bytes)
		[ "$(begun "$dev")" != "$epoch" ] || break
		[ "$n" != 5 ] || fail "xfs: no epoch lasts"
		detach "$dev"
	done
	is "xfs: zeroes where nothing can be mapped" "$zeroed" 61440
	detach "$dev"
	rm "$MNT/clone"
}

begin_tracing
mount_cgroups
make_groups other
for fs in ext4 xfs; do
	begin_fs "$fs"
	later dmsetup resume below
	openers
	in_flight
	beside_part
	after_data
	before_data
	slow
	turned_off
	frozen
	in_part
	bounced
	mapped_at_once
	zeroed_once
	end_fs
done
mount_at /dev/mapper/below "$MNT"
set_helper ""
unmappable
end_fs
