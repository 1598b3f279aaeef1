#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: Mapped reads and writes of twelve jobs change no byte of what the
#   driver allocates for the device and its image: all counters are per CPU.
# modes: side-by-side
# machines: stable-side-by-side
# debug: no
# timeout: 300
. tests/lib/guard.sh
programs loopdev pattern

begin_tracing
probes_off() {
	echo 0 >"$tracing/events/kmem/kmalloc/enable"
	echo 0 >"$tracing/events/shares/enable"
	echo "-:shares/opened" >>"$tracing/kprobe_events"
	echo "-:shares/used" >>"$tracing/kprobe_events"
	echo >"$tracing/trace"
	echo 1400 >"$tracing/buffer_size_kb"
}
later probes_off
echo "p:shares/opened $MODULE:floop_image_open device=\$arg1:x64" \
	>>"$tracing/kprobe_events"
echo "p:shares/used $MODULE:floop_remap image=\$arg1:x64" \
	>>"$tracing/kprobe_events"

# first FIELD LINE-PATTERN - of the first such event
first() {
	local value
	value=$(sed -nE "s/.*$2.* $1=([0-9a-fx]+).*/\1/p" \
		"$tracing/trace" | head -n 1)
	[ -n "$value" ] ||
		fail "no $1 in the trace:" \
			"$(grep -E "$2" "$tracing/trace" | head -n 3)"
	echo "$value"
}

begin_fs ext4
written "$MNT/image" 16M 1
echo 20000 >"$tracing/buffer_size_kb"
echo >"$tracing/trace"
echo 1 >"$tracing/events/kmem/kmalloc/enable"
echo 1 >"$tracing/events/shares/enable"
number=$(loopdev add 77)
dev=$(attach --device "/dev/${PREFIX}77" "$MNT/image")
echo 0 >"$tracing/events/kmem/kmalloc/enable"
dd if="$dev" of=/dev/null bs=4k count=1 iflag=direct status=none
wait_mapped "$dev"
echo 0 >"$tracing/events/shares/enable"
device=$(first device "opened:")
image=$(first image "used:")
device_size=$(first bytes_req "call_site=floop_device_add")
image_size=$(first bytes_req "call_site=floop_image_open")
echo "$number: the device: $device_size bytes at $device;" \
	"its image: $image_size bytes at $image"

# snapshot NAME
snapshot() {
	python3 tests/lib/kmem.py "$device" "$device_size" >"$WORK/device.$1"
	python3 tests/lib/kmem.py "$image" "$image_size" >"$WORK/image.$1"
}

# The first write marks the file's times as due. Later writes find that done.
pattern write -q -d -n -s 1 "$dev" 64k
without_udev
for rw in randread randwrite; do
	mapped=$(ios "$dev" mapped)
	snapshot before
	fio --name=shares --filename="$dev" --direct=1 --bs=4k --size=16m \
		--ioengine=psync --numjobs=12 --number_ios=500 \
		--rw=$rw >"$WORK/fio" 2>&1 ||
		{ cat "$WORK/fio"; fail "fio $rw"; }
	snapshot after
	[ "$(($(ios "$dev" mapped) - mapped))" -ge 6000 ] ||
		fail "$rw: not all was mapped"
	for what in device image; do
		differs=$(cmp -l "$WORK/$what.before" \
			"$WORK/$what.after" | wc -l)
		is "$rw: bytes of the $what that changed with 6000 I/Os" \
			"$differs" 0
	done
done

# The comparison notices a change
snapshot before
echo 0 >"/sys/block/${dev#/dev/}/loop/mapping"
snapshot after
cmp -s "$WORK/image.before" "$WORK/image.after" &&
	fail "turning mapping off changes nothing: this looks at something else"
detach "$dev"
loopdev remove 77
end_fs
