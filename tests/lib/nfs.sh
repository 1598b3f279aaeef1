# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Files that are exported by NFS.
[ -z "${NFS_SH-}" ] || return 0
NFS_SH=1
# shellcheck source=/dev/null
. tests/lib/case.sh

stop_nfsd() {
	exportfs -au
	rpc.nfsd 0
	killall -q nfsdcld rpc.mountd rpcbind
	wait_until 20 no_daemons
}

no_daemons() {
	! pgrep --runstates R,S,D -x 'nfsdcld|rpc.mountd|rpcbind' >/dev/null
}

# ready_nfsd - set up everything but nfsd's own threads (rpc.nfsd N), until the
# case ends
ready_nfsd() {
	ip link set lo up
	modprobe nfsd
	mount_at nfsd /proc/fs/nfsd -t nfsd
	mount_at sunrpc /run/rpc_pipefs -t rpc_pipefs
	mkdir -p /run/rpcbind /var/lib/nfs/nfsdcld
	later stop_nfsd
	rpcbind -w
	rpc.mountd
	# Without clients from before a restart there is no grace period
	nfsdcld
}
