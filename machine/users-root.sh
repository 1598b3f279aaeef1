#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Usage: users-root.sh [--base]. Make build/users.img, the disk image that
# ./vm --systemd boots: a Debian system with systemd as init and, unchanged, the
# programs that use loop devices on users' machines. The kernels come from the
# guest root, so that the module fits. The image is made again when the recipe
# below or the guest root changes. With --base, make what needs no guest root,
# if there is no image: that one can be made at the same time.

. "$(dirname "$0")/machine.sh"
. "$PROJECT/machine/roots.sh"
[ "${1:-}" = --base ] || "$PROJECT/machine/guest-root.sh"
locked users-root

suite=trixie
pockets=(updates security)
packages=(
	# systemd and what belongs to it
	systemd-sysv udev dbus dbus-bin libpam-systemd
	systemd-container systemd-repart systemd-homed systemd-cryptsetup
	# what uses loop devices, or is used on them
	udisks2 libblockdev-crypto3 cryptsetup-bin lvm2 mdadm qemu-utils
	podman crun catatonit snapd squashfs-tools
	live-boot live-boot-initramfs-tools initramfs-tools kexec-tools cpio
	# file systems
	btrfs-progs dosfstools e2fsprogs fdisk xfsprogs
	# for the cases
	busybox-static iproute2 kmod make mount procps psmisc python3 xz-utils
	zstd
)

new=$BUILD/users-root.new

# snapd's files of AppArmor profiles and the like stay.
bootstrap()
{
	as_root rm -rf "$new" "$BUILD/users.img.new"
	debian "$new"
}

base()
{
	local stamp
	stamp=$(stamp_of suite pockets packages mirror security debian \
		bootstrap < /dev/null)
	[ "$(cat "$new.stamp" 2> /dev/null)" != "$stamp" ] || return 0
	rm -f "$new.stamp"
	step "users' root: Debian $suite with systemd and programs (a minute)" \
		bootstrap
	printf '%s\n' "$stamp" > "$new.stamp"
}

# Boot to a target of our own, so that no timer and no getty starts by itself.
# All services are there, and start when a program asks for them.
settings()
{
	local units=$1/etc/systemd/system unit
	echo floop > "$1/etc/hostname"
	echo 0f100b000f100b000f100b000f100b00 > "$1/etc/machine-id"
	: > "$1/etc/fstab"
	: > "$1/etc/resolv.conf"
	cat > "$units/floop.target" <<-END
		[Unit]
		Requires=basic.target
		Wants=floop-run.service
		After=basic.target
		AllowIsolate=yes
	END
	cat > "$units/floop-run.service" <<-END
		[Unit]
		Description=What ./vm is to run
		After=basic.target

		[Service]
		Type=exec
		Environment=HOME=/root
		ExecStart=/bin/bash /run/floop/start
		StandardOutput=journal+console
		KillMode=mixed
		TimeoutStopSec=20
	END
	ln -sf floop.target "$units/default.target"
	# /tmp is on the disk, where the images of users are.
	ln -sf /dev/null "$units/tmp.mount"
	# Emulated, the machine would load drivers for a minute that no test
	# needs: guest-init.sh loads those of its disks.
	mkdir "$units/systemd-udev-trigger.service.d"
	cat > "$units/systemd-udev-trigger.service.d/floop.conf" <<-END
		[Service]
		ExecStart=
		ExecStart=udevadm trigger --action=add --subsystem-match=block \
			--subsystem-match=misc
	END
	# A busy host makes it slower than systemd waits for a device.
	mkdir -p "$1/etc/systemd/system.conf.d"
	printf '%s\n' '[Manager]' DefaultDeviceTimeoutSec=10min \
		DefaultTimeoutStartSec=10min \
		> "$1/etc/systemd/system.conf.d/slow.conf"
	# Nothing here uses these, and each takes a tenth of a second or two of
	# a boot.
	for unit in systemd-random-seed.service systemd-binfmt.service \
		modprobe@{configfs,efi_pstore}.service \
		proc-sys-fs-binfmt_misc.automount dev-{hugepages,mqueue}.mount \
		sys-kernel-{debug,tracing}.mount; do
		ln -sf /dev/null "$units/$unit"
	done
	echo 'LOAD_KEXEC=false' > "$1/etc/default/kexec"
	# What a live system needs, and what this one does (kexec).
	printf '%s\n' nvme ext4 squashfs overlay loop \
		virtio_pci virtio_blk 9p 9pnet_virtio \
		> "$1/etc/initramfs-tools/modules"
	sed -i 's/^MODULES=.*/MODULES=list/; s/^COMPRESS=.*/COMPRESS=zstd/' \
		"$1/etc/initramfs-tools/initramfs.conf"
	rm -rf "$units/timers.target.wants" "$units/default.target.wants"
	rm -rf "$1"/var/cache/apt/*.bin "$1"/var/lib/apt/lists/*
}

# Copy the kernels with our module, which guest-init.sh replaces by the newest,
# and make an initramfs with live-boot for each, without the drop-in and with
# it. Drivers of hardware that an emulated machine doesn't have stay out: depmod
# reads every module, in two minutes there, and DKMS runs it.
install_kernels()
{
	local kver modules pid pids=()
	local drivers='block|cdrom|char|crypto|dax|md|net|nvdimm|nvme|scsi|virtio'
	local hook=usr/share/initramfs-tools/hooks/floop
	local conf=usr/lib/modprobe.d/floop-drop-in.conf
	mkdir -p "$1/floop" "$1/boot" "$1/usr/lib/modules"
	for kver in $(kernels); do
		modules=$1/usr/lib/modules/$kver
		cp -a "$ROOT/boot/vmlinuz-$kver" "$ROOT/boot/config-$kver" \
			"$1/boot/"
		cp -a "$ROOT/lib/modules/$kver" "$1/usr/lib/modules/"
		rm -r "$modules/kernel/sound"
		find "$modules/kernel/drivers" -regextype posix-extended \
			-mindepth 1 -maxdepth 1 -not -regex ".*/($drivers)" \
			-exec rm -r {} +
		rm -r "$modules"/kernel/drivers/{net,scsi}/*/
		mkdir -p "$modules/updates"
		cp "$BUILD/modules/$kver/floop.ko" "$modules/updates/"
		chroot "$1" depmod "$kver" &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do wait "$pid"; done
	initramfs "$1" live
	cp "$PROJECT/drop-in/modprobe.conf" "$1/$conf"
	cp "$PROJECT/drop-in/initramfs-hook" "$1/$hook"
	initramfs "$1" drop-in
	rm "$1/$conf" "$1/$hook"
}

# initramfs ROOT NAME: make /floop/NAME-KVER.img for each kernel.
initramfs()
{
	local kver pid pids=()
	for kver in $(kernels); do
		chroot "$1" mkinitramfs -o "/floop/$2-$kver.img" "$kver" &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do wait "$pid"; done
}

# Do now what systemd would do at the first boot after an update.
up_to_date()
{
	chroot "$1" ldconfig
	chroot "$1" /usr/lib/systemd/systemd-update-done
}

finish()
{
	as_root unshare --mount --fork bash -euc "
		$(declare -p ROOT BUILD PROJECT)
		$(declare -f "${parts[@]}")
		mount --make-rprivate /
		mount -t proc proc \"\$1/proc\"
		settings \"\$1\"
		install_kernels \"\$1\"
		up_to_date \"\$1\"
	" finish "$new"
}

# With a journal: at the next boot its recovery shows how the last one ended.
image()
{
	disk_image "$new" "$BUILD/users.img.new" floop-users 2048
}

if [ "${1:-}" = --base ]; then
	[ -s "$BUILD/users.img" ] || base
	exit 0
fi

parts=(settings install_kernels initramfs kernels up_to_date)
stamp=$(stamp_of suite pockets packages mirror security debian bootstrap \
	"${parts[@]}" finish disk_image image < <(cat "$ROOT/floop/stamp" \
	"$PROJECT"/drop-in/{modprobe.conf,initramfs-hook}))
[ "$(cat "$BUILD/users.stamp" 2> /dev/null)" = "$stamp" ] &&
	[ -s "$BUILD/users.img" ] && exit 0

for kver in $(kernels); do
	"$PROJECT/machine/module.sh" "$kver" floop
done
base
# What is half finished is made anew.
rm "$new.stamp"
step "users' root: the kernels and an initramfs for each" finish
step "users' root: a disk image of it" image
as_root rm -rf "$new"
as_root mv "$BUILD/users.img.new" "$BUILD/users.img"
printf '%s\n' "$stamp" > "$BUILD/users.stamp"
