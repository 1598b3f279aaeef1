#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: direct I/O from and to memory at every alignment that queue/dma_alignment allows works, and other alignments change nothing
# modes: side-by-side
# machines: stable-side-by-side
# timeout: 400
. tests/guest/lib.sh
. tests/programs/lib.sh
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
