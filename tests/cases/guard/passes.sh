#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: Flags, priority and write hint of a mapped I/O reach the disk
#   unchanged, and so does the priority of one through the file system. Polled
#   I/O is refused. The cgroup that asked is charged once on each device, and
#   the device's own statistics are true.
# modes: side-by-side
# machines: stable-side-by-side
# debug: no
# coverage: no
# timeout: 400
. tests/lib/guard.sh
programs loopdev pattern

disk=$(the_disk 1)
name=${disk#/dev/}
begin_tracing

# The kernel's names for the numbers are in its type information (BTF), which
# the debug kernel has none of.
probe_off() {
	echo 0 >"$tracing/events/passes/enable"
	echo "-:passes/bio" >>"$tracing/kprobe_events"
	echo >"$tracing/trace"
}
later probe_off
echo 'p:passes/bio submit_bio_noacct dev=bio->bi_bdev->bd_dev:u32 opf=bio->bi_opf:x32 hint=bio->bi_write_hint:u8 prio=bio->bi_ioprio:x16' \
	>>"$tracing/kprobe_events"

# number_of BLOCK-DEVICE - as the kernel has it
number_of() {
	local major minor
	IFS=: read -r major minor <"/sys/block/${1#/dev/}/dev"
	echo $((major << 20 | minor))
}

# seen DEVICE - fio's bios that reached it, one a line
seen() {
	awk -v dev="dev=$(number_of "$1")" '
		$1 ~ /^fio-/ {
			for (i = 2; i < NF; i++)
				if ($i == dev)
					print $(i + 1), $(i + 2), $(i + 3)
		}' \
		"$tracing/trace"
}

# traced FIO-OPTION... - eight mapped I/Os of 4 KiB, one after the other
traced() {
	local file
	file=$(ios "$dev" file)
	echo >"$tracing/trace"
	echo 1 >"$tracing/events/passes/enable"
	fio --name=passes --filename="$dev" --direct=1 --bs=4k --number_ios=8 \
		--size=4m --allow_mounted_write=1 "$@" \
		>"$WORK/fio" 2>&1 || { cat "$WORK/fio"; fail "fio $*"; }
	echo 0 >"$tracing/events/passes/enable"
	is "fio $*: through the file system" "$(($(ios "$dev" file) - file))" 0
}

# same WHAT [PATTERN] - the disk got the bios as the device did, and all of them
# match the pattern
same() {
	seen "$dev" >"$WORK/device"
	seen "$disk" >"$WORK/disk"
	[ "$(wc -l <"$WORK/device")" -ge 8 ] ||
		fail "$1: not all was seen: $(cat "$WORK/device")"
	check "$1: as it came" diff "$WORK/device" "$WORK/disk"
	[ $# -eq 1 ] ||
		is "$1: of those like $2" "$(grep -c "$2" "$WORK/disk")" \
			"$(wc -l <"$WORK/device")"
}

poll_queues "$disk"

for fs in $(file_systems ext4); do
	on_disk "$fs" "$disk"
	written "$MNT/image" 8M 1
	dev=$(attach "$MNT/image")
	wait_mapped "$dev"

	traced --rw=randread
	same "$fs: reads"
	traced --rw=randwrite
	same "$fs: writes"
	# Real-time, level 3: IOPRIO_PRIO_VALUE(1, 3)
	traced --rw=randwrite --prioclass=1 --prio=3
	same "$fs: with a priority" "prio=0x2003$"
	# RWH_WRITE_LIFE_LONG
	traced --rw=randwrite --write_hint=long
	same "$fs: with a write hint" "hint=4 "
	traced --rw=randwrite --sync=dsync
	same "$fs: with FUA"
	# REQ_FUA is 1 << 17; a flush follows each
	is "$fs: of those with FUA" "$(grep -c \
		"opf=0x[0-9a-f]*[2367abef][0-9a-f]\{4\} " "$WORK/disk")" 8
	traced --rw=randread --ioengine=io_uring --nowait=1
	same "$fs: that may not wait"

	# As with the in-tree driver, whatever the disk below can
	is "$fs: that it can be polled for" "$(attr "$dev" queue/io_poll)" 0
	refused "$fs: a read to be polled for" "*Operation not supported*" \
		fio --name=passes --filename="$dev" --direct=1 --bs=4k \
		--number_ios=8 --size=4m --rw=randread --ioengine=io_uring \
		--hipri=1 --output="$WORK/fio"

	# Through the file system a worker submits it, with the same priority
	echo 0 >"/sys/block/${dev#/dev/}/loop/mapping"
	echo >"$tracing/trace"
	echo 1 >"$tracing/events/passes/enable"
	check "$fs: not mapped: with a priority" \
		fio --name=passes --filename="$dev" --direct=1 --bs=4k \
		--number_ios=8 --size=4m --allow_mounted_write=1 --rw=randread \
		--prioclass=1 --prio=3
	echo 0 >"$tracing/events/passes/enable"
	n=$(grep -c "dev=$(number_of "$disk") .*prio=0x2003$" \
		"$tracing/trace" || true)
	[ "$n" -ge 8 ] ||
		fail "$fs: not mapped: $n reads have it:" \
			"$(tail -n 5 "$tracing/trace")"
	echo "ok: $fs: not mapped: $n reads of the disk have it"
	detach "$dev"
	unmount "$MNT"
done

# The same with cgroups
[ -e /sys/fs/cgroup/cgroup.controllers ] ||
	mount -t cgroup2 cgroup2 /sys/fs/cgroup
echo "+io" >/sys/fs/cgroup/cgroup.subtree_control
group=/sys/fs/cgroup/passes
mkdir "$group"
later rmdir "$group"

in_group() {
	(
		echo "$BASHPID" >"$group/cgroup.procs"
		exec "$@"
	)
}

# charged DEVICE KEY
charged() {
	awk -v dev="$(cat "/sys/block/${1#/dev/}/dev")" -v key="$2" '
		$1 == dev {
			for (i = 2; i <= NF; i++) {
				split($i, kv, "=")
				if (kv[1] == key)
					n = kv[2]
			}
		}
		END { print n + 0 }' "$group/io.stat"
}

# stat_of DEVICE N - the Nth field of its statistics
# (Documentation/block/stat.rst)
stat_of() {
	awk -v n="$2" '{ print $n }' "/sys/block/${1#/dev/}/stat"
}

on_disk ext4 "$disk"
written "$MNT/image" 16M 1
dev=$(attach "$MNT/image")
wait_mapped "$dev"
udev_settle
before=("$(stat_of "$dev" 1)" "$(stat_of "$dev" 3)" "$(stat_of "$dev" 5)"
	"$(stat_of "$dev" 7)")
in_group pattern check -q -d -b 64k -s 1 "$dev" 16M
is "reads that its statistics have" "$(($(stat_of "$dev" 1) - before[0]))" 256
is "sectors that were read" "$(($(stat_of "$dev" 3) - before[1]))" $((16 << 11))
in_group pattern write -q -d -n -b 64k -s 2 -o 4M "$dev" 8M
for device in "$dev" "$disk"; do
	is "$device: charged for 16 MiB of reads" \
		"$(charged "$device" rbytes)" $((16 << 20))
	is "$device: charged for 8 MiB of writes" \
		"$(charged "$device" wbytes)" $((8 << 20))
done
is "writes that its statistics have" "$(($(stat_of "$dev" 5) - before[2]))" 128
is "sectors that were written" "$(($(stat_of "$dev" 7) - before[3]))" \
	$((8 << 11))
udev_settle
is "in flight afterwards" "$(stat_of "$dev" 9)" 0
detach "$dev"
unmount "$MNT"
