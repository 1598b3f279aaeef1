#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: With a helper that isn't there, fails, or does nothing, an image that
#   shares blocks is not mapped, and all else goes on: attach, I/O, detach. The
#   module stays loaded for as long as the helper runs, and no longer.
# modes: side-by-side
# machines: stable-side-by-side
# timeout: 120
. tests/lib/guard.sh
programs pattern

parameter=/sys/module/$MODULE/parameters/helper

# goes_on - the device works, and nothing of it is mapped
goes_on() {
	wait_until 30 reads_shared
	check "a write" pattern write -d -q -s 2 -o 1M "$dev" 64k
	check "is read" pattern check -d -q -s 2 -o 1M "$dev" 64k
	is "mapped" "$(loop_stat "$dev" mapped_bytes)" 0
}

# with PROGRAM - as the helper of a device with a clone
with() {
	set_helper "$1"
	dev=$(attach "$MNT/image")
	goes_on
}

refused "a helper without a path" "*Invalid argument*" \
	bash -c "echo program >$parameter"
begin_fs xfs
written "$MNT/image" 8M 1
cp --reflink=always "$MNT/image" "$MNT/clone"
sync
for program in /nowhere/program /bin/false /bin/true; do
	with "$program"
	detach "$dev"
done

cat >"$WORK/slow" <<-END
	#!/bin/sh
	echo "\$\$" >"$WORK/pid.new"
	mv "$WORK/pid.new" "$WORK/pid"
	exec sleep 1000
END
chmod +x "$WORK/slow"
with "$WORK/slow"
wait_until 30 test -e "$WORK/pid"
detach "$dev"
echo >"$parameter"
refused "the module, while the helper runs" "*in use*" rmmod "$MODULE"
kill "$(cat "$WORK/pid")"
unload "$MODULE"
insert
wait_until 30 test -e "$CTL"
udev_settle
end_fs
