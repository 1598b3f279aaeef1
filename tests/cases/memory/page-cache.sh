#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: While a file is the image of a device or of two, or since
#   LOOP_CHANGE_FD, memory for its page cache is allocated without I/O and
#   without the file system. Before and afterwards it is as for any file.
# modes: side-by-side
# machines: stable-side-by-side
. tests/lib/case.sh
programs loopdev

# Without mapping: the mask concerns the page cache only.
set_mapping 0
begin_tracing
echo 'comm == "dd"' >"$tracing/events/kmem/mm_page_alloc/filter"
echo 'comm == "dd"' \
	>"$tracing/events/filemap/mm_filemap_add_to_page_cache/filter"

# asked FILE - how a page for its page cache is asked for, by somebody who
# writes to it
asked() {
	local inode
	inode=$(printf %x "$(stat -c %i "$1")")
	drop_caches
	echo >"$tracing/trace"
	echo 1 >"$tracing/events/kmem/mm_page_alloc/enable"
	echo 1 >"$tracing/events/filemap/enable"
	dd if=/dev/zero of="$1" bs=64k count=4 conv=notrunc status=none
	echo 0 >"$tracing/events/enable"
	awk -v inode="$inode" '
		function word(name) {
			match($0, " " name "[= ][^ ]*")
			return substr($0, RSTART + length(name) + 2,
				      RLENGTH - length(name) - 2)
		}
		/: mm_page_alloc: / { asked[word("pfn")] = word("gfp_flags") }
		/: mm_filemap_add_to_page_cache: / && word("ino") == inode {
			print asked[word("pfn")]
		}' "$tracing/trace" | sort -u
}

# may_wait WHAT FILE - for the file system or the disk
may_wait() {
	matches "$fs: $1: memory is asked for" "$(asked "$2")" \
		"*GFP_@(NOFS|USER|HIGHUSER|KERNEL|IO|FS)*"
}

# may_not WHAT FILE
may_not() {
	local flags
	flags=$(asked "$2")
	[ -n "$flags" ] || fail "$fs: $1: no page was seen"
	[[ $flags != *GFP_@(NOFS|USER|HIGHUSER|KERNEL|TRANSHUGE|IO|FS)* ]] ||
		fail "$fs: $1: memory for the image is asked for with $flags"
	echo "ok: $fs: $1: memory is asked for without I/O: $flags"
}

for fs in $(file_systems xfs); do
	on_disk "$fs"
	for name in image other; do
		dd if=/dev/zero of="$MNT/$name" bs=1M count=4 status=none
	done
	# Otherwise the kernel frees their inodes when the caches are dropped.
	exec 7<"$MNT/image" 8<"$MNT/other"
	before=$(asked "$MNT/image")
	may_wait "before" "$MNT/image"

	for how in direct buffered; do
		dev=$(loop_attach "$how" "$MNT/image")
		may_not "attached, $how" "$MNT/image"
		is "$fs: another file" "$(asked "$MNT/other")" "$before"
		detach "$dev"
		is "$fs: detached" "$(asked "$MNT/image")" "$before"
	done

	# Whichever goes first
	for last in 0 1; do
		devices=("$(attach "$MNT/image")" "$(attach "$MNT/image")")
		may_not "attached twice" "$MNT/image"
		detach "${devices[1 - last]}"
		may_not "one of them detached" "$MNT/image"
		detach "${devices[last]}"
		is "$fs: both detached" "$(asked "$MNT/image")" "$before"
	done

	dev=$(attach --read-only "$MNT/image")
	check "$fs: another image" loopdev change "$dev" "$MNT/other"
	is "$fs: the old image" "$(asked "$MNT/image")" "$before"
	may_not "the new image" "$MNT/other"
	detach "$dev"
	is "$fs: detached" "$(asked "$MNT/other")" "$before"
	exec 7<&- 8<&-
	unmount "$MNT"
done
