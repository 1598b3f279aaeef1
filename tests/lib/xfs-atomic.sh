#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Usage: xfs-atomic.sh DISK. Shows, without any module of ours, that xfs lets
# direct I/O in flight land in another file's blocks: docs/safety.md, "A hole of
# xfs's own". The DISK (320 MiB or more) is formatted. Exit status 1: it did;
# 0: it didn't. In the test machine:
#
#   ./vm --no-module --disk nvme:1G -- tests/lib/xfs-atomic.sh /dev/nvme0n1
set -euo pipefail

disk=$(realpath "${1:?which disk}")
here=$(dirname "$0")
out=${OUT:-$here/../../build/programs}
out=$(realpath -m "$out")
make -s -C "$here/../programs" OUT="$out" "$out"/{other,pattern}
PATH=$out:$PATH
mnt=$(mktemp -d)
group=/sys/fs/cgroup/xfs-atomic

end() {
	echo "$number wbps=max" >"$group/io.max"
	wait
	umount "$mnt"
	rmdir "$mnt" "$group"
}

[ -e /sys/fs/cgroup/cgroup.controllers ] ||
	mount -t cgroup2 cgroup2 /sys/fs/cgroup
echo "+io" >/sys/fs/cgroup/cgroup.subtree_control
mkdir "$group"
number=$(cat "/sys/block/${disk#/dev/}/dev")
# Without reserves, so that another file gets the blocks that the first loses
mkfs.xfs -q -f -K -m reflink=1,rmapbt=0,finobt=0 -d size=320m "$disk"
mount "$disk" "$mnt"
xfs_io -x -c "resblks 0" "$mnt" >/dev/null
trap end EXIT

# 4 MiB of a file, and next to nothing else is free
pattern write -q -s 1 "$mnt/file" 4M
fallocate -l $((($(stat -f -c '%a * %S' "$mnt") >> 20) - 6))M "$mnt/filler"
sync

# Asynchronous direct writes to half of it, which the disk doesn't get for now
echo "$number wbps=4096" >"$group/io.max"
mkfifo "$mnt.said"
(
	echo "$BASHPID" >"$group/cgroup.procs"
	exec other aio "$mnt/file" 0 3 2M 64k
) >"$mnt.said" &
late=$!
read -r _ <"$mnt.said"
rm "$mnt.said"

# Atomic writes to the same blocks go elsewhere, and the blocks are free
other atomic "$mnt/file" 0 4 2M 64k
sync
pattern write -d -q -b 64k -s 7 "$mnt/another" 1g || true
size=$(($(stat -c %s "$mnt/another") / 4096 * 4096))
sync
[ -e "/proc/$late" ] || echo "the disk had the first writes already"

# Now the first ones reach the disk
echo "$number wbps=max" >"$group/io.max"
wait $late
echo 3 >/proc/sys/vm/drop_caches
if pattern check -q -b 4k -s 7 "$mnt/another" $size; then
	echo "nothing has come of it"
else
	echo "another file has been written to"
	exit 1
fi
