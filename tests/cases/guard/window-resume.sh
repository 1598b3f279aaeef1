#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: Someone opens and closes the image just before a discard's pause ends.
#   The image is mapped again, and the device can be detached at that moment.
#   Another discard that begins just then keeps the image from being mapped
#   until it has ended.
# modes: side-by-side
# machines: stable-side-by-side
# module: debug
# timeout: 120
. tests/lib/guard.sh
load_debug
programs loopdev pattern other

# discard - what is mapped: a known hole would need no pause
discard() {
	check "$fs: a discard" blkdiscard -o "$at" -l 64k "$dev"
	at=$((at + 65536))
}

# meanwhile - an opener, once the pause of a discard is about to end
meanwhile() {
	wait_mapped "$dev" 6
	discard
	wait_until 20 in_window RESUME
	check "$fs: an opener meanwhile" \
		timeout 60 "$WORK/bin/other" nonblock rw "$MNT/image"
}

# go_on - and wait again the next time
go_on() {
	window 0
	wait_until 20 out_of_window
	window 5000 RESUME
}

out_of_window() {
	! in_window RESUME
}

for fs in $(file_systems xfs); do
	begin_mapped "$fs" 8M
	at=$((1 << 20))
	window 5000 RESUME
	meanwhile
	go_on
	wait_mapped "$dev" 6
	check "$fs: a read" pattern check -d -q -s 1 -o 4M "$dev" 4M
	loopdev detach "$dev" &
	detacher=$!
	wait_until 60 unbound "$dev"
	wait "$detacher" || fail "$fs: detaching"
	echo "ok: $fs: detached"

	# And with the window still open when it is detached
	dev=$(attach "$MNT/image")
	meanwhile
	loopdev detach "$dev" &
	detacher=$!
	wait_until 60 unbound "$dev"
	wait "$detacher" || fail "$fs: detaching at once"
	echo "ok: $fs: detached at once"

	dev=$(attach "$MNT/image")
	for _ in 1 2 3; do
		meanwhile
		check "$fs: a write" pattern write -d -q -s 2 -o 4M "$dev" 4M
		go_on
	done
	window 0
	wait_mapped "$dev" 6

	window 5000 RESUME
	discard
	wait_until 20 in_window RESUME
	window 5000 RESUME CHANGE
	blkdiscard -o 2M -l 64k "$dev" &
	discarder=$!
	wait_until 20 in_window CHANGE
	window 5000 CHANGE
	sleep 0.5
	in_window CHANGE ||
		fail "$fs: the window was closed too early to show anything"
	unmapped "$dev" || fail "$fs: mapped while a discard changes the image"
	window 0
	wait "$discarder" || fail "$fs: another discard"
	echo "ok: $fs: not mapped during another discard"
	wait_mapped "$dev" 6
	check "$fs: what it holds" pattern check -d -q -s 2 -o 4M "$dev" 4M
	detach "$dev"
	end_fs
done
