#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: Everything is done to an image and its neighbours while its device is
#   in full use: opens, truncates, holes, reflinks, dedupe, moved and exchanged
#   blocks, freezes. No sector is lost, none is foreign, none lands in another's
#   block, no request fails and nothing hangs.
# modes: side-by-side
# cpus: 2
# timeout: 600
# long: lts
. tests/lib/torture.sh
programs torture
seed

disk=$(the_disk 1)
for fs in ext4 xfs; do
	echo "--- $fs"
	set_helper "$EXTENTS_HELPER"
	torture_begin "$fs" "$disk"
	# Openers wait for a chunk, and where the image shares blocks.
	allocate "$DEV" auto
	torture -s "$SEED" -t "$(more 5)" -o "$DEV" "$MNT/image"
	torture_end
	fsck_of "$fs" "$disk"

	# From the first clone on, an image on xfs shares blocks.
	without=()
	[ "$fs" != xfs ] || without=(-K "clone,dedupe,clone-in,copy-range")
	set_helper ""
	# As many extents that the map has tables of them
	SCATTERED=1 torture_begin "$fs" "$disk"
	torture -s "$SEED" -t "$(more 9)" "${without[@]}" "$DEV" "$MNT/image"
	torture_end
	fsck_of "$fs" "$disk"
done
echo "--- xfs, read-only"
torture_begin xfs "$disk" -r
torture -s "$SEED" -t "$(more 3)" -r -K clone,dedupe "$DEV" "$MNT/image"
# From the first clone or deduplication on it isn't mapped any more.
torture -s "$SEED" -t "$(more 2)" -r -b "$DEV" "$MNT/image"
torture_end
fsck_of xfs "$disk"
