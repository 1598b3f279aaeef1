#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: Without leases (fs.leases-enable=0) nothing is mapped, and with them
#   again it is. A lease that is held when they are turned off is still broken
#   by openers. While another's lease is being broken, the image isn't mapped.
# modes: side-by-side
# machines: lts-side-by-side
# timeout: 400
. tests/lib/guard.sh
programs loopdev pattern

# Takes a lease, and breaks it itself, which has it asked to drop the lease.
other_lease='
import fcntl, os, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
file = os.open(sys.argv[1], os.O_RDONLY)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
try:
    os.open(sys.argv[1], os.O_RDWR | os.O_NONBLOCK)
except BlockingIOError:
    print("broken", flush=True)
sys.stdin.read()'

later sysctl -q fs.leases-enable=1
for fs in ext4 xfs; do
	begin_fs "$fs"
	sysctl -q fs.leases-enable=0
	written "$MNT/image" 4M 1
	dev=$(attach "$MNT/image")
	wait_until 20 grep -q "grants no lease" \
		"/sys/block/${dev#/dev/}/loop/mapped_reason"
	goes_through_file "$fs: without leases" "$dev"
	check "$fs: what it reads" pattern check -d -q -s 1 "$dev" 4M
	sysctl -q fs.leases-enable=1
	wait_mapped "$dev"
	# A lease that is held stays: an opener of the image still breaks it
	sysctl -q fs.leases-enable=0
	check "$fs: a hole" xfs_io -c "fpunch 0 1m" "$MNT/image"
	[ "$(broken "$dev")" -gt 0 ] || fail "$fs: no lease was broken"
	check "$fs: a hole" cmp -n 1M "$dev" /dev/zero
	sysctl -q fs.leases-enable=1
	detach "$dev"

	# Another's lease that is being broken
	coproc LEASE { python3 -c "$other_lease" "$MNT/image"; }
	lease=$LEASE_PID
	later stop_writes "$lease"
	exec 7>&"${LEASE[1]}"
	read -r -u "${LEASE[0]}" said
	is "$fs: another's lease" "$said" broken
	dev=$(attach --read-only "$MNT/image")
	not_mapped "has the image open"
	eval "exec ${LEASE[1]}>&-"
	exec 7>&-
	wait "$lease" || fail "$fs: the process with the other lease"
	wait_mapped "$dev" 3
	detach "$dev"
	end_fs
done
