#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: The disk's I/O below a device is accounted to the cgroup that asked for
#   it. A cgroup that io.max slows down slows no other on the same device. The
#   page cache of a buffered image is charged to the cgroup that wrote it. A
#   cgroup that did I/O can be removed.
# modes: side-by-side
# machines: stable-side-by-side
# timeout: 400
. tests/lib/cgroups.sh
programs loopdev pattern

# io_of GROUP rbytes|wbytes - of the disk
io_of() {
	awk -v disk="$number" -v key="$2" '
		$1 == disk {
			for (i = 2; i <= NF; i++) {
				split($i, kv, "=")
				if (kv[1] == key)
					n = kv[2]
			}
		}
		END { print n + 0 }' "/sys/fs/cgroup/$1/io.stat"
}

# charged GROUP KEY - of its memory.stat
charged() {
	awk -v key="$2" '$1 == key { print $2 }' "/sys/fs/cgroup/$1/memory.stat"
}

mount_cgroups
make_groups first second
on_disk ext4
disk=$(the_disk 1)
number=$(cat "/sys/block/${disk#/dev/}/dev")
pattern write -q "$MNT/image" 32M
sync

# Whose I/O it is
for how in direct buffered; do
	drop_caches
	dev=$(loop_attach "$how" "$MNT/image")
	reads=$(io_of first rbytes)
	writes=$(io_of first wbytes)
	others=$(($(io_of second rbytes) + $(io_of second wbytes)))
	in_group first pattern check -q -d "$dev" 16M
	in_group first pattern write -q -d -o 16M "$dev" 8M
	reads=$(($(io_of first rbytes) - reads))
	writes=$(($(io_of first wbytes) - writes))
	echo "$how: of 16 MiB read and 8 MiB written the disk did" \
		"$((reads >> 20)) MiB and $((writes >> 20)) MiB for the cgroup"
	[ "$reads" -ge $((15 << 20)) ] ||
		fail "$how: reads are not accounted to their submitter"
	# Buffered writes are written back later, on account of the cgroup that
	# the kernel takes for the file's owner.
	[ "$how" = buffered ] || [ "$writes" -ge $((7 << 20)) ] ||
		fail "writes are not accounted to their submitter"
	is "$how: what another cgroup is charged" \
		"$(($(io_of second rbytes) + $(io_of second wbytes)))" "$others"
	loopdev detach "$dev"
done

# Whose memory
drop_caches
dev=$(loop_attach buffered "$MNT/image")
before=$(charged first file)
in_group first pattern write -q -n -d "$dev" 8M
after=$(charged first file)
echo "buffered: the cgroup is charged $(((after - before) >> 20)) MiB" \
	"of page cache for 8 MiB written"
[ $((after - before)) -ge $((6 << 20)) ] ||
	fail "the image's page cache is not charged to its writer"
loopdev detach "$dev"

# A removed cgroup is gone, whatever I/O it did on a device
dying() {
	awk '
		$1 == "nr_dying_subsys_memory" { n = $2 }
		$1 == "nr_dying_descendants" { n = $2 }
		END { print n }' \
		/sys/fs/cgroup/cgroup.stat
}
no_more_are_dying() {
	drop_caches
	[ "$(dying)" -le "$before" ]
}
before=$(dying)
mkdir /sys/fs/cgroup/third
dev=$(loop_attach direct "$MNT/image")
in_group third pattern check -q -d "$dev" 1M
rmdir /sys/fs/cgroup/third
wait_until 30 no_more_are_dying
echo "ok: a cgroup that did I/O is gone when it has been removed"
loopdev detach "$dev"

# Which cgroup waits. The first one's limit makes its reads take far longer than
# all work of the second.
for how in direct buffered; do
	drop_caches
	dev=$(loop_attach "$how" "$MNT/image")
	echo "$number rbps=131072" >/sys/fs/cgroup/first/io.max
	in_group first pattern check -q -d -b 64k "$dev" 8M &
	slow=$!
	sleep 1
	in_group second pattern check -q -d -b 64k -o 16M "$dev" 8M
	kill -0 "$slow" 2>/dev/null ||
		fail "$how: the limited cgroup was not limited"
	echo "ok: $how: the second cgroup was done while the first" \
		"was waiting for its turn"
	echo "$number rbps=max" >/sys/fs/cgroup/first/io.max
	wait "$slow"
	loopdev detach "$dev"
done
