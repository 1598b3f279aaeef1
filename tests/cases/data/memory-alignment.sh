#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: Direct I/O works from and to memory of every alignment that
#   queue/dma_alignment allows, and other alignments change nothing. A file
#   system that reports no alignment (vfat) wants memory aligned to its disk's
#   sectors. LOOP_CHANGE_FD to an image there takes that over.
# modes: side-by-side
# machines: stable-side-by-side
# timeout: 400
. tests/lib/case.sh
programs loopdev memalign

for fs in ext4 btrfs; do
	on_disk "$fs"
	for how in direct buffered; do
		for size in 512 4096; do
			mkimage 1M "$MNT/image" >/dev/null
			dev=$(loop_attach "$how" -b "$size" "$MNT/image")
			echo "$fs $how, is direct: $(dio "$dev")"
			memalign "$dev"
			loopdev detach "$dev"
		done
	done
	unmount "$MNT"
done
dev=$(loop_attach direct "$(the_disk 1)")
memalign "$dev"
loopdev detach "$dev"

# A disk of sectors of 4096 bytes
disk=$(loopdev attach -b 4096 "$(mkimage 256M)")
later loopdev detach "$disk"
on_disk ext4
MNT_EXT4=$MNT
on_disk vfat "$disk" -S 4096
dd if=/dev/urandom of="$MNT/image" bs=1M count=1 status=none
dev=$(loop_attach direct -b 4096 "$MNT/image")
is "vfat: direct" "$(dio "$dev")" 1
is "vfat: memory" "$(attr "$dev" queue/dma_alignment)" 4095
memalign "$dev"
loopdev detach "$dev"
cp "$MNT/image" "$MNT_EXT4/image"
dev=$(loop_attach direct -r -b 4096 "$MNT_EXT4/image")
is "ext4: memory" "$(attr "$dev" queue/dma_alignment)" 511
check "vfat in its place" loopdev change "$dev" "$MNT/image"
is "vfat in its place: memory" "$(attr "$dev" queue/dma_alignment)" 4095
check "vfat in its place: it holds the same" cmp "$dev" "$MNT_EXT4/image"
check "vfat in its place: reads into any memory" memalign -r "$dev"
loopdev detach "$dev"
