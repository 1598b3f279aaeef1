#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: With an image whose file system nfsd exports, a client breaks the lease
#   by reads (not on xfs), by writes, by truncates (SETATTR, with no open in
#   NFSv3) and by holding it open (NFSv4). Nothing is written to blocks that
#   another file has got.
# modes: side-by-side
# machines: stable-side-by-side
# timeout: 400
# debug: no
. tests/lib/guard.sh
programs loopdev pattern other keeper

ready_nfsd

# client_reads WHAT COMMAND... - breaks the lease on ext4. On xfs a reader
# doesn't, but nfsd may close only now what an earlier write has opened
client_reads() {
	if [ "$fs" = ext4 ]; then
		breaks "$@"
	else
		check "$fs: $1" "${@:2}"
	fi
}

for fs in ext4 xfs; do
	rpc.nfsd 2
	begin_mapped "$fs" 16M
	check "$fs: exported" \
		exportfs -o rw,no_root_squash,no_subtree_check,insecure \
		"127.0.0.1:$MNT"
	for version in 3 4; do
		mount_at "127.0.0.1:$MNT" "$WORK/nfs$version" -t nfs \
			-o "vers=$version,nolock,tcp,noac,lookupcache=none"
	done
	begin_writes "$dev" 4M -b 16k -t 2
	for version in 3 4; do
		client=$WORK/nfs$version
		client_reads "NFSv$version READ" dd if="$client/image" \
			of=/dev/null bs=64k skip=64 count=8 iflag=direct \
			status=none
		breaks "NFSv$version WRITE" pattern write -d -q -b 64k -s 1 \
			-o 8M "$client/image" 1M
	done
	wait_mapped "$dev"
	exec 9<>"$WORK/nfs4/image"
	is "$fs: while a client has it open" \
		"$(attr "$dev" loop/mapped_reason)" \
		"someone else has the image open"
	exec 9<&-
	end_writes "$fs: what was written meanwhile"
	breaks "NFSv3 SETATTR" other truncate "$WORK/nfs3/image" 8M
	is "$fs: as long as the client says" "$(stat -c %s "$MNT/image")" \
		$((8 << 20))
	nothing_lands 8M 8M
	check "$fs: what is left of the image" \
		keeper check -b 16k -m "$WORK/model" "$MNT/image" 4M
	for version in 3 4; do
		unmount "$WORK/nfs$version"
	done
	detach "$dev"
	# nfsd keeps files open for a while after their last use, and closes
	# them when it ends
	exportfs -u "127.0.0.1:$MNT"
	rpc.nfsd 0
	end_fs
done
