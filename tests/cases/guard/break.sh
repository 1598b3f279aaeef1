#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: Every way to open the image breaks the lease, on xfs if it is opened
#   to write, and no opener waits for it. Writes in flight go on and none is
#   lost. When the opener is gone the
#   image is mapped again. Root is told who it was, and nobody else.
# modes: side-by-side
# machines: stable-side-by-side
# cpus: 2
# timeout: 400
. tests/lib/guard.sh
programs loopdev pattern keeper other

another_device() {
	local device
	device=$(attach --read-only "$MNT/image")
	sleep 0.2
	detach "$device"
}

for fs in ext4 xfs; do
	begin_fs "$fs"
	written "$MNT/image" 8M 1
	dev=$(attach "$MNT/image")
	wait_mapped "$dev"
	begin_writes "$dev" 8M -b 16k -t 4
	reads_file "a reader" dd if="$MNT/image" of=/dev/null bs=1M status=none
	reads_file "a direct reader" dd if="$MNT/image" of=/dev/null bs=1M \
		iflag=direct status=none
	reads_file "O_RDONLY|O_NONBLOCK" other nonblock r "$MNT/image"
	breaks "O_WRONLY|O_NONBLOCK" other nonblock w "$MNT/image"
	breaks "O_RDWR|O_NONBLOCK" other nonblock rw "$MNT/image"
	breaks "open by handle" other handle "$MNT/image"
	reads_file "another device" another_device
	before=$(broken "$dev")
	wait_mapped "$dev"
	check "$fs: stat" stat "$MNT/image"
	is "$fs: leases broken by a stat" \
		"$(($(broken "$dev") - before))" 0
	# A delegation is broken by these, too
	check "$fs: a link" ln "$MNT/image" "$MNT/link"
	check "$fs: another name" mv "$MNT/link" "$MNT/other"
	check "$fs: no name" rm "$MNT/other"
	end_writes "$fs: all that was written is on the device"

	# Writes go on while the image is opened and closed
	wait_mapped "$dev"
	begin_writes "$dev" 8M -b 16k -t 2
	mapped=$(ios "$dev" mapped)
	wait_until 10 more_ios "$dev" mapped $((mapped + 20))
	before=$(date +%s)
	exec 9<>"$MNT/image"
	is "$fs: who broke it" "$(loop_stat "$dev" broken_pid)" $$
	is "$fs: and its name" "$(loop_stat "$dev" broken_by)" "$(</proc/$$/comm)"
	stat=/sys/block/${dev#/dev/}/loop/stat
	is "$fs: what others are told of it" \
		"$(setpriv --reuid 1000 grep -E "^broken_(pid|by)" "$stat")" \
		"broken_pid 0"$'\n'"broken_by "
	at=$(loop_stat "$dev" broken_at)
	# The kernel's seconds may end some milliseconds after those of date
	[ "$at" -ge $((before - 1)) ] ||
		fail "$fs: and when: $at, and it was not before $before"
	[ "$at" -le "$(date +%s)" ] ||
		fail "$fs: and when: $at, and that is still to come"
	is "$fs: while it is open" "$(attr "$dev" loop/mapped_reason)" \
		"someone else has the image open"
	epoch=$(ios "$dev" file_epoch)
	wait_until 10 more_ios "$dev" file_epoch $((epoch + 20))
	mapped=$(ios "$dev" mapped)
	file=$(ios "$dev" file)
	wait_until 10 more_ios "$dev" file $((file + 20))
	is "$fs: mapped I/O while it is open" \
		"$(($(ios "$dev" mapped) - mapped))" 0
	exec 9<&-
	wait_mapped "$dev"
	mapped=$(ios "$dev" mapped)
	wait_until 10 more_ios "$dev" mapped $((mapped + 20))
	end_writes "$fs: and on the device after that"
	check "$fs: and in the file" keeper check -b 16k -m "$WORK/model" \
		"$MNT/image" 8M
	detach "$dev"
	end_fs
done
