#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: An image can become immutable or append-only by its path, without an
#   open and so without breaking a lease (file_setattr(2), 7.3). From then on it
#   isn't written to on the mapped path. Once the flag is gone it is mapped
#   again. Kernel 6.12 has no such call.
# modes: side-by-side
# machines: stable-side-by-side lts-side-by-side
# timeout: 400
. tests/lib/guard.sh
programs loopdev pattern other keeper

# <linux/fs.h>: FS_XFLAG_IMMUTABLE, FS_XFLAG_APPEND
flags=(0x8 0x10)

# writes_on - $content: the seed of the data that has to be there, by whether a
# write succeeds
writes_on() {
	content=1
	! pattern write -d -q -b 64k -s 2 "$dev" 64k || content=2
}

for fs in ext4 xfs; do
	begin_mapped $fs 8M
	if [ "$KERNEL" = lts ]; then
		refused "$fs: file_setattr(2)" "*not implemented*" \
			other flags "$MNT/image" "+${flags[0]}"
		detach "$dev"
		end_fs
		continue
	fi
	for flag in "${flags[@]}"; do
		wait_mapped "$dev"
		udev_settle
		mapped=$(ios "$dev" mapped)
		check "$fs: +$flag by path" other flags "$MNT/image" "+$flag"
		is "$fs: +$flag: why it is not mapped" \
			"$(attr "$dev" loop/mapped_reason)" \
			"the file needs its file system for every I/O"
		writes_on
		is "$fs: +$flag: I/O that was mapped" \
			$(($(ios "$dev" mapped) - mapped)) 0
		not_mapped "the file needs its file system"
		check "$fs: -$flag by path" other flags "$MNT/image" "-$flag"
		wait_mapped "$dev"
		goes_mapped "$fs: -$flag" "$dev"
		check "$fs: what the device has" \
			pattern check -d -q -b 64k -s $content "$dev" 64k
		check "$fs: what the file has" \
			pattern check -q -b 64k -s $content "$MNT/image" 64k
		check "$fs: as it was" pattern write -d -q -s 1 "$dev" 64k
	done

	# In the midst of writes, which may fail
	wait_mapped "$dev"
	begin_writes "$dev" 4M -e -b 16k -t 4
	mapped=$(ios "$dev" mapped)
	wait_until 20 more_ios "$dev" mapped $((mapped + 50))
	check "$fs: in the midst of writes" \
		other flags "$MNT/image" "+${flags[0]}"
	mapped=$(ios "$dev" mapped)
	wait_until 20 grep -q "needs its file system" \
		"/sys/block/${dev#/dev/}/loop/mapped_reason"
	sleep 0.5
	is "$fs: mapped after that" $(($(ios "$dev" mapped) - mapped)) 0
	check "$fs: still in the midst of them" \
		other flags "$MNT/image" "-${flags[0]}"
	wait_until 20 more_ios "$dev" mapped $((mapped + 50))
	end_writes "$fs: writes"
	check "$fs: where nobody wrote" \
		pattern check -d -q -s 1 -o 4M "$dev" 4M
	detach "$dev"
	end_fs
done
