#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: Sixty-four cgroups read from one buffered image. Four of them, with 64
#   reads in flight each, are throttled to nothing and could take every worker
#   of the device. Each of the others still gets its block.
# modes: side-by-side
# machines: stable-side-by-side
# timeout: 400
. tests/lib/cgroups.sh

# As few workers as two waiting readers take
later load_module "$MODULE_FILE"
load_module "$MODULE_FILE" hw_queue_depth=4
programs loopdev

mount_cgroups
groups=(reader{1..64})
make_groups "${groups[@]}"

on_disk ext4
disk=$(the_disk 1)
number=$(cat "/sys/block/${disk#/dev/}/dev")
head -c 96M /dev/urandom >"$MNT/image"
drop_caches
dev=$(loop_attach buffered "$MNT/image")
later detach "$dev"
echo 0 >"/sys/block/${dev#/dev/}/queue/read_ahead_kb"
udev_settle

throttled=("${groups[@]:0:4}")
# let_them BYTES|max - read as much in a second
let_them() {
	local group
	for group in "${throttled[@]}"; do
		echo "$number rbps=$1" >"$CGROUPS/$group/io.max"
	done
}
hogs=()
# Otherwise they keep the device open.
end_hogs() {
	kill -KILL "${hogs[@]}" 2>/dev/null || true
	wait
}
later end_hogs
later let_them max
let_them 4096
# Each has blocks of its own: a page that two of them read is read once, and the
# other one only waits for it.
for i in "${!throttled[@]}"; do
	in_group "${throttled[i]}" fio --name=hog --filename="$dev" --readonly \
		--rw=randread --direct=1 --bs=4k --ioengine=libaio \
		--iodepth=64 --offset=$((16 * i))m --size=16m --io_size=8m \
		--norandommap >/dev/null &
	hogs+=($!)
done
# reads N - has each of them read that many blocks of the disk?
reads() {
	local group
	for group in "${throttled[@]}"; do
		awk -v disk="$number" -v n="$1" '
			$1 == disk && match($0, /rios=[0-9]+/) {
				rios = substr($0, RSTART + 5, RLENGTH - 5)
				if (rios + 0 >= n)
					enough = 1
			}
			END { exit !enough }' "$CGROUPS/$group/io.stat" ||
			return 1
	done
}
# Some of their reads end, and the next ones take their places. Then none does.
# Below 10 bytes per second 7.3.4 may hang: tg_within_bps_limit() finds a
# negative time to wait, and throtl_select_dispatch() looks again for ever.
(wait_until 150 reads 6) || fail "a throttled cgroup waits for another one"
let_them 10

python3 - "$dev" "${groups[@]:4}" <<'PYTHON'
"""In each cgroup: read a block that nobody has read, and print how long."""
import mmap
import os
import select
import sys
import time

# Only throttled cgroups can hold up a block for that long.
FOR_EVER = 30 * int(os.environ["SLOWER"])

device, groups = sys.argv[1], sys.argv[2:]
worst = 0.0
for number, group in enumerate(groups):
    reader, writer = os.pipe()
    if not os.fork():
        with open(f"/sys/fs/cgroup/{group}/cgroup.procs", "w") as file:
            file.write(str(os.getpid()))
        block = mmap.mmap(-1, 4096)
        fd = os.open(device, os.O_RDONLY | os.O_DIRECT)
        start = time.monotonic()
        os.preadv(fd, [block], (64 << 20) + number * 65536)
        os.write(writer, f"{time.monotonic() - start}".encode())
        os._exit(0)
    os.close(writer)
    if not select.select([reader], [], [], FOR_EVER)[0]:
        sys.exit(
            f"{group} has waited {FOR_EVER} s for its block:"
            " it waits for the throttled ones"
        )
    took = float(os.read(reader, 100))
    os.close(reader)
    os.wait()
    worst = max(worst, took)
print(f"{len(groups)} cgroups: the longest wait was {1000 * worst:.1f} ms")
PYTHON

for hog in "${hogs[@]}"; do
	kill -0 "$hog" 2>/dev/null ||
		fail "a cgroup that is throttled to nothing is done"
done
echo "ok: the throttled ones still wait"
let_them max
for hog in "${hogs[@]}"; do
	wait "$hog" || fail "a throttled reader failed"
done
