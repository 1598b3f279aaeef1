#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: modprobe loads the module by its name, and no node of the loop driver
#   loads it. With the drop-in's modprobe.d file, whoever asks for the loop
#   driver (by name, or by opening a node) gets floop, with the parameters given
#   for either; modprobe -r loop removes it. Where floop can't be loaded, the
#   in-tree driver serves, and nothing is said about it. While one of them is
#   being unloaded, the other isn't loaded. Where there is no in-tree driver,
#   floop is loaded at boot.
# modes: side-by-side drop-in
# machines: lts-side-by-side stable-drop-in
# built-in: no
. tests/lib/modprobe.sh

is "no alias" "$(modinfo -F alias "$MODULE_FILE")" ""
is "licence" "$(modinfo -F license "$MODULE_FILE")" GPL

later insert_missing
later modprobe --quiet --remove --ignore-remove loop
unload "$MODULE"
if [ "$DRIVER_MODE" = side-by-side ]; then
	is "what loads for a node" "$(modprobe -R block-major-7-0)" loop
	quiet modprobe floop
	wait_until 20 test -e "$CTL"
	is "its names" "$(parameter names)" floop
	quiet modprobe loop
	serves loop
	refused "the loop driver's place, which is taken" "*busy*" \
		sh -c 'modprobe -r floop && modprobe floop names=loop'
	unload loop
	exit
fi

mknod "$WORK/block" b 7 0
mknod "$WORK/control" c 10 237
cp drop-in/modprobe.conf "$DROP_IN_CONF"
quiet modprobe loop
serves floop
quiet modprobe loop
matches "its version" "$(cat /sys/module/floop/version)" "floop *"
is "the module" "$(ls -d /sys/module/{f,}loop 2>/dev/null)" /sys/module/floop
matches "modinfo loop is about the in-tree module" \
	"$(modinfo -F filename loop)" "*/kernel/drivers/block/loop.ko*"
is "and not ours" "$(modinfo -F version loop)" ""
device=$(attach "$(mkimage 1M)")
refused "modprobe -r loop, in use" "*in use*" modprobe -r loop
detach "$device"
unload loop
is "after modprobe -r loop" "$(ls -d /sys/module/{f,}loop 2>/dev/null)" ""
quiet modprobe floop
serves floop
unload floop

# goes NAME - is that module being unloaded?
goes() {
	[ "$(cat "/sys/module/$1/initstate" 2>/dev/null)" = going ]
}

going_or_gone() {
	goes "$1" || [ ! -e "/sys/module/$1" ]
}

# refused_meanwhile MODULE NUMBER - `modprobe loop` is refused while MODULE is
# being unloaded, if so many devices make that long enough
refused_meanwhile() {
	local said status=0
	modprobe --ignore-install "$1" max_loop="$2"
	udev_settle
	rmmod "$1" &
	wait_until 60 going_or_gone "$1"
	said=$(modprobe loop 2>&1) || status=$?
	if ! goes "$1"; then
		wait $!
		unload loop
		return 1
	fi
	wait $!
	[ "$status" -ne 0 ] || fail "modprobe loop succeeded meanwhile"
	matches "modprobe loop" "$said" "*install command*"
	# While floop goes, the other isn't even tried: the names may be free.
	if [ "$1" = floop ] && [[ $said = *"could not insert"*busy* ]]; then
		fail "modprobe loop tried the in-tree driver"
	fi
}

for module in floop loop; do
	echo "--- while $module is unloaded"
	# The more devices, the longer that takes.
	number=100
	until refused_meanwhile $module $number; do
		number=$((number * 2))
		[ $number -le 1600 ] || fail "$module goes too fast"
	done
	is "what is loaded" "$(ls -d /sys/module/{f,}loop 2>/dev/null)" ""
done

for node in block control; do
	# The node of the disk is there once the driver is loaded.
	true <"$WORK/$node" || true
	echo "--- on demand, $node"
	serves floop
	unload loop
done

echo "options loop max_loop=3" >"$OTHER_CONF"
quiet modprobe loop max_part=7
is "parameters" "$(parameter max_loop) $(parameter max_part)" "3 7"
unload loop
echo "$(cat /proc/cmdline) loop.max_loop=5 floop.hw_queue_depth=64" \
	>"$WORK/cmdline"
mount --bind "$WORK/cmdline" /proc/cmdline
quiet modprobe loop
is "of the kernel's command line" \
	"$(parameter max_loop) $(parameter hw_queue_depth)" "5 64"
unload loop
umount /proc/cmdline
rm "$OTHER_CONF"

# falls_back WHY - the in-tree driver serves
falls_back() {
	echo "--- $1"
	quiet modprobe loop
	serves loop
	unload loop
	is "after modprobe -r loop" "$(ls -d /sys/module/loop 2>/dev/null)" ""
}

echo "blacklist floop" >"$OTHER_CONF"
falls_back blacklisted
rm "$OTHER_CONF"
# Other names than the configured ones, as if it was loaded before.
modprobe floop names=floop
falls_back "loaded side by side"
unload floop
# What the kernel refuses, as it does without a signature that it knows.
truncate -s 50000 "$TREE/updates/floop.ko"
falls_back refused
for node in block control; do
	true <"$WORK/$node" || true
	echo "--- refused, on demand, $node"
	serves loop
	unload loop
done
rm "$TREE/updates/floop.ko"
falls_back "not there"
depmod -b "$WORK"
falls_back "not known"

echo "--- back"
cp "$MODULE_FILE" "$TREE/updates/"
depmod -b "$WORK"
quiet modprobe loop
serves floop
unload loop

echo "--- at boot"
quiet modprobe floop_drop_in
is "with an in-tree driver" "$(ls -d /sys/module/{f,}loop 2>/dev/null)" ""
mv "$TREE"/kernel/drivers/block/loop.ko* "$WORK/"
depmod -b "$WORK"
quiet modprobe floop_drop_in
serves floop
mv "$WORK"/loop.ko* "$TREE/kernel/drivers/block/"
depmod -b "$WORK"

rm "$DROP_IN_CONF"
unload floop
quiet modprobe loop
serves loop
unload loop
