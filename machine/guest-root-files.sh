#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Usage: guest-root-files.sh ROOT. Change the guest root after the packages are
# installed, mostly to make it boot fast under emulation.

set -euo pipefail
root=$1

# guest-run.sh starts udevd, and coldplugs only block devices. Hide udevd from
# virtme-ng, which would coldplug a hundred devices that nobody uses.
mkdir -p "$root/usr/lib/floop"
cp -P "$root/usr/bin/udevadm" "$root/usr/lib/floop/systemd-udevd"
rm -f "$root/usr/lib/systemd/systemd-udevd"

# Rules for block devices stay; those for sound, cameras, mice, network and the
# like go. guest-run.sh, not udev, loads drivers, by name.
mkdir -p "$root/etc/udev/rules.d"
for rule in "$root"/usr/lib/udev/rules.d/*.rules; do
	case ${rule##*/} in
	50-udev-default.rules | 55-dm.rules | 60-block.rules | \
		60-persistent-storage*.rules | 64-btrfs*.rules | \
		80-debian-compat.rules | 95-dm-notify.rules) ;;
	*) ln -sf /dev/null "$root/etc/udev/rules.d/${rule##*/}" ;;
	esac
done

# virtme-ng runs systemd-tmpfiles, which has nothing to make here.
ln -sf true "$root/usr/bin/systemd-tmpfiles"
rm -rf "$root/var/cache/apt" "$root/var/lib/apt/lists"
mkdir -p "$root/var/cache/apt/archives/partial" \
	"$root/var/lib/apt/lists/partial"
