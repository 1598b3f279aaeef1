#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The first process of a machine with systemd (./vm --systemd), in place of
# virtme-ng's. It installs floop, has systemd start guest-run.sh at the end of
# the boot, and becomes systemd. Runs at every boot.
# Usage: guest-init.sh RUN, as for guest-run.sh.

run=$1
# PROJECT RW DRIVERS MODULE NAMES
# shellcheck source=/dev/null
. "$run/config"

mount -t tmpfs -o mode=755,nosuid,nodev run /run
mkdir /run/floop
printf 'exec bash %q %q\n' "$PROJECT/machine/guest-run.sh" "$run" \
	> /run/floop/start

# The first shared folder, the project's, is mounted.
share=0
while IFS= read -r dir; do
	if [ $share -gt 0 ]; then
		mkdir -p "$dir"
		mount -n -t 9p -o \
			version=9p2000.L,trans=virtio,access=any,msize=524288 \
			"virtme.initmount$share" "$dir"
	fi
	share=$((share + 1))
done <<< "$RW"

# updates/floop.ko may be an old build, and there is none where the in-tree
# driver is tested.
rm -f "/lib/modules/$(uname -r)/updates/floop.ko"
# Beside the module for the machine's kernel is that for the one it has changed
# to.
[ -z "$MODULE" ] || cp "${MODULE%/*/*}/$(uname -r)/${MODULE##*/}" \
	"/lib/modules/$(uname -r)/updates/"
if [ -n "$MODULE" ] && [ "$NAMES" = loop ]; then
	for kind in modprobe modules-load; do
		cp "$PROJECT/drop-in/$kind.conf" \
			"/usr/lib/$kind.d/floop-drop-in.conf"
	done
fi
mkdir -p /etc/udev/rules.d
cp "$PROJECT/cli/60-floop.rules" /etc/udev/rules.d/
cp "$PROJECT"/cli/floop{-detach,@}.service /usr/lib/systemd/system/
cp "$PROJECT/cli/target/release/floop" /usr/local/bin/
ln -sfn /usr/local/bin/floop /usr/sbin/mount.floop
ln -sfn /usr/local/bin/floop /usr/sbin/floop-extents
mkdir -p /usr/lib/systemd/system-generators
ln -sfn /usr/local/bin/floop /usr/lib/systemd/system-generators/floop-generator

mount -t proc proc /proc
mount -t sysfs sysfs /sys
for driver in $DRIVERS; do
	modprobe "$driver"
done
umount /sys /proc

export SYSTEMD_COLORS=0
exec /sbin/init
