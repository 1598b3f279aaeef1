# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# The programs of users. Their cases run on a Debian system with systemd,
# without network. $WORK is on its root file system (ext4), $BOOT is how many
# times the case has been run: 1, and one more after each reboot_machine.
[ -z "${USERS_SH-}" ] || return 0
USERS_SH=1
. tests/lib/case.sh

# Images are mapped there, as on users' machines.
map_images

# ours DEVICE - the module under test serves it
ours() {
	! in_tree || return 0
	is "the driver of $1" "$(attr "$1" loop/driver)" floop
	echo "direct I/O: $(attr "$1" loop/dio_reason)"
	echo "mapped: $(attr "$1" loop/mapped_reason)"
}

# device_of FILE - the loop device that it is attached to, or nothing
device_of() {
	losetup --noheadings --output NAME --associated "$1" | xargs
}

# detached FILE - it is attached to no device
detached() {
	[ -z "$(device_of "$1")" ]
}

# gone FILE - wait until it is attached to no device
gone() {
	wait_until 20 detached "$1"
	echo "ok: detached: ${1##*/}"
}

# reboot_machine - run the case again after a reboot (after a kexec, if a kernel
# is loaded). What it made stays; what it would have done later isn't done.
reboot_machine() {
	trap - EXIT
	exit 75
}

# clean_boot DISK - the file systems that the boot has mounted, the host's on
# DISK among them, had been unmounted or made read-only
clean_boot() {
	matches "the host's file system" \
		"$(dmesg | grep "XFS ($1): " || true)" "*Ending clean mount*"
	is "what the boot recovered" \
		"$(dmesg | grep -E '(XFS|EXT4-fs).*(recovery|orphan)' ||
		true)" ""
}

# initramfs live|drop-in KVER MODULE - $WORK/initrd: the one of that name,
# without or with the drop-in; with that build of our module, as its own may be
# older
initramfs() {
	local folder=usr/lib/modules/$2/updates
	cp "/floop/$1-$2.img" "$WORK/initrd"
	[ "$1" = drop-in ] || return 0
	mkdir -p "$WORK/$folder"
	cp "$3" "$WORK/$folder/floop.ko"
	truncate --size=%4 "$WORK/initrd"
	(cd "$WORK" && echo "$folder/floop.ko" | cpio -o -H newc --quiet) \
		>>"$WORK/initrd"
}

# tree FOLDER - a small operating system: busybox, and a name
tree() {
	mkdir -p "$1"/{dev,proc,sys,run,tmp,root,etc,var/tmp} \
		"$1"/usr/{bin,sbin,lib}
	ln -sfn usr/bin "$1/bin"
	ln -sfn usr/sbin "$1/sbin"
	ln -sfn usr/lib "$1/lib"
	cp /bin/busybox "$1/usr/bin/"
	ln -sfn busybox "$1/usr/bin/sh"
	printf '%s\n' ID=floop VERSION_ID=1 'PRETTY_NAME="A small system"' \
		>"$1/usr/lib/os-release"
	ln -sfn ../usr/lib/os-release "$1/etc/os-release"
	touch "$1/etc/resolv.conf" "$1/etc/machine-id"
	noise "$1/usr/lib/noise" 4
}

# os_image TREE - a GPT image with that folder as its root file system (ext4);
# prints its path
os_image() {
	local image
	image=$(mkimage 96M "$WORK/${1##*/}.raw")
	echo start=1MiB, size=64MiB, \
		type=4f68bce3-e8cd-4db1-96e7-fbcaf984b709 |
		sfdisk -q --label gpt "$image"
	mkfs.ext4 -q -F -d "$1" -E offset=$((1 << 20)) "$image" 64M
	echo "$image"
}

# clean_image IMAGE - the file system of os_image() is clean
clean_image() {
	dd if="$1" of="$1.root" bs=1M skip=1 count=64 status=none
	check "${1##*/} has no fault" e2fsck -fn "$1.root"
	rm "$1.root"
}
