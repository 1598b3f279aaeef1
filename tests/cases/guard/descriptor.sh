#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: While a descriptor of the image is anywhere (with the process that
#   attached it, in a socket, behind a mapping), nothing is mapped, and what is
#   done through it does no harm. Without it the image is mapped.
# modes: side-by-side
# machines: lts-side-by-side
# timeout: 400
. tests/lib/guard.sh
programs loopdev pattern other keeper

# not_mapped WHAT
not_mapped() {
	# The first attempt comes 10 ms after attaching, the next ones at
	# growing intervals: some have failed by now
	is "$fs: $1: epochs" "$(begun "$dev")" "$epochs"
	goes_through_file "$fs: $1" "$dev"
	is "$fs: $1: epochs after that" "$(begun "$dev")" "$epochs"
	is "$fs: $1: why" "$(attr "$dev" loop/mapped_reason)" \
		"someone else has the image open"
}

for fs in ext4 xfs; do
	begin_fs "$fs"

	# Kept by the process that attached it
	written "$MNT/image" 8M 1
	exec 9<>"$MNT/image"
	dev=$(attach "$MNT/image")
	epochs=0
	wait_until 10 grep -q someone \
		"/sys/block/${dev#/dev/}/loop/mapped_reason"
	sleep 0.5
	not_mapped "a descriptor that was there before"
	begin_writes "$dev" 4M -b 16k
	check "$fs: a hole through it" other punch 9 4M 1M
	check "$fs: shorter through it" other ftruncate 9 6M
	check "$fs: a file in its place" written "$MNT/neighbour" 4M 7
	end_writes "$fs: and writes"
	check "$fs: as long as it was, through it" other ftruncate 9 8M
	check "$fs: the neighbour" pattern check -q -s 7 "$MNT/neighbour" 4M
	check "$fs: the hole" cmp -n 1M -i 4M:0 "$dev" /dev/zero
	check "$fs: what was cut off" cmp -n 2M -i 6M:0 "$dev" /dev/zero
	exec 9<&-
	wait_mapped "$dev" 5

	# In a socket
	coproc SENDER { other socket "$MNT/image" 2M; }
	sender=$SENDER_PID
	exec 8>&"${SENDER[1]}"
	read -r -u "${SENDER[0]}" said
	is "$fs: a descriptor in a socket" "$said" sent
	epochs=$(begun "$dev")
	sleep 0.5
	not_mapped "in a socket"
	eval "exec ${SENDER[1]}>&-"
	exec 8>&-
	wait "$sender" ||
		fail "$fs: truncate through the descriptor out of the socket"
	check "$fs: a file in its place" written "$MNT/neighbour" 8M 8
	check "$fs: what is left" pattern write -d -q -s 9 "$dev" 2M
	refused "$fs: a read of what was cut off" "*" dd if="$dev" \
		of=/dev/null bs=1M skip=4 count=1 iflag=direct
	check "$fs: the neighbour" pattern check -q -s 8 "$MNT/neighbour" 8M
	wait_mapped "$dev" 2
	detach "$dev"

	# Behind a mapping
	written "$MNT/image" 8M 1
	dev=$(attach "$MNT/image")
	wait_mapped "$dev"
	coproc MAPPER { other map "$MNT/image" 1M 5 1M; }
	mapper=$MAPPER_PID
	exec 8>&"${MAPPER[1]}"
	read -r -u "${MAPPER[0]}" said
	is "$fs: a mapping in memory" "$said" mapped
	epochs=$(begun "$dev")
	sleep 0.5
	not_mapped "behind a mapping"
	check "$fs: what was written to memory" \
		pattern check -d -q -s 5 -o 1M "$dev" 1M
	eval "exec ${MAPPER[1]}>&-"
	exec 8>&-
	wait "$mapper" || fail "$fs: unmapping"
	wait_mapped "$dev"
	goes_mapped "$fs: when all of them are gone" "$dev"
	check "$fs: what was written to memory" \
		pattern check -d -q -s 5 -o 1M "$dev" 1M
	detach "$dev"
	rm "$MNT/neighbour"
	end_fs
done
