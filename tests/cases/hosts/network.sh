#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: An image on 9p, NFS and CIFS, served by this very machine, holds what
#   its device was given. docs/hosts.md lists which are direct.
# modes: side-by-side drop-in
# machines: stable-drop-in
# timeout: 900
# long: yes
# debug: no
# coverage: no
. tests/lib/hosts.sh

noise "$WORK/noise" 2
ip link set lo up

stop_ksmbd() {
	ksmbd.control --shutdown || killall ksmbd.mountd
	wait_until 20 no_ksmbd
}

# no_ksmbd - is it gone? A zombie counts as gone
no_ksmbd() {
	[ -z "$(ps -C ksmbd.mountd -o stat= | sed /^Z/d)" ]
}

stop_diod() {
	kill "$diod"
	wait "$diod" || true
}

serve_nfs() {
	ready_nfsd
	rpc.nfsd 2
}

serve_cifs() {
	local files=(-C "$WORK/ksmbd.conf" -P "$WORK/ksmbd.users")
	cat >"$WORK/ksmbd.conf" <<-end
		[global]
		tcp port = 4450
		[share]
		path = $below
		read only = no
	end
	ksmbd.adduser "${files[@]}" -a -p floop root
	modprobe ksmbd
	ksmbd.mountd "${files[@]}"
	later stop_ksmbd
}

serve_9p() {
	diod -f -n -L stderr -l 127.0.0.1:1564 -e "$below" &
	diod=$!
	later stop_diod
}

# remote HOST DISK TYPE CONFIG-OPTION OPTIONS WHAT - mounted, and looked at
remote() {
	kernel_has "$1" "$3" "$4" || return 0
	MNT=$WORK/remote
	mkdir -p "$MNT"
	mount_at "$6" "$MNT" "${helper[@]}" -t "$3" -o "$5"
	host "$1" "$2"
	unmount "$MNT"
}

below=$WORK/below
tcp=trans=tcp,port=1564,version=9p2000.L
smb=ip=127.0.0.1,port=4450,vers=3.1.1
serving=no
for bytes in $sector_sizes; do
	ram_disk host "$bytes" 512
	make_fs ext4 "$DISK"
	mount_at "$DISK" "$below"
	if [ $serving = no ]; then
		serving=yes
		serve_nfs
		serve_cifs
		serve_9p
	fi
	check "exported" exportfs \
		-o rw,no_root_squash,no_subtree_check,insecure \
		"127.0.0.1:$below"
	helper=()
	for version in 3 4.2; do
		remote "NFS $version" "$bytes" nfs NFS_FS \
			"vers=$version,nolock,tcp" "127.0.0.1:$below"
	done
	exportfs -u "127.0.0.1:$below"
	helper=(-i)
	for cache in none loose; do
		remote "9p, cache=$cache" "$bytes" 9p 9P_FS \
			"$tcp,uname=root,aname=$below,cache=$cache" 127.0.0.1
	done
	for cache in strict none; do
		remote "CIFS, cache=$cache" "$bytes" cifs CIFS \
			"$smb,username=root,password=floop,cache=$cache" \
			//127.0.0.1/share
	done
	# The server has files open for a while after the last use.
	echo 2 >/proc/sys/vm/drop_caches
	wait_until 30 umount "$below"
	end_disk host
done
end_hosts
