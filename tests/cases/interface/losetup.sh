#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: The unmodified losetup attaches, lists, changes and detaches our
#   devices in drop-in mode.
# modes: drop-in in-tree
. tests/lib/case.sh

# column COLUMN DEVICE - what losetup -l says of it
column() {
	local out
	out=$(losetup -l -n -O "$1" "$2")
	echo "${out//[[:space:]]/}"
}

image=$(mkimage 8M)
printf 'label: gpt\nsize=2M\nsize=2M\n' | sfdisk -q "$image"

device=$(losetup -f --show -P "$image")
udev_settle
later sh -c "losetup -d $device 2>/dev/null || true"
is "losetup -f --show attaches" "$(column BACK-FILE "$device")" "$image"
is "-P finds the partitions" "$(glob "${device}p?")" "${device}p1 ${device}p2"
is "losetup -j finds it by its file" "$(losetup -j "$image" -n -O NAME)" \
	"$device"
is "losetup -J" "$(losetup -J | python3 -c '
import json, sys
[d] = [d for d in json.load(sys.stdin)["loopdevices"]
       if d["name"] == sys.argv[1]]
print(d["back-file"], d["sizelimit"], d["offset"], d["autoclear"], d["ro"],
      d["log-sec"])
' "$device")" "$image 0 0 False False 512"
is "lsblk" "$(lsblk -n -o TYPE,SIZE "$device" | tr -s ' \n' ' ')" \
	"loop 8M part 2M part 2M "
matches "losetup -f names another" "$(losetup -f)" "/dev/loop[0-9]*"
[ "$(losetup -f)" != "$device" ] || fail "losetup -f names a device in use"

truncate -s 16M "$image"
is "its size before -c" "$(attr "$device" size)" 16384
losetup -c "$device"
is "losetup -c: its size after" "$(attr "$device" size)" 32768
losetup -d "$device"
wait_until 20 unbound "$device"
is "losetup -d detaches" "$(losetup -j "$image")" ""

device=$(losetup -f --show -r -o 1M --sizelimit 2M "$image")
is "-r" "$(column RO "$device")" 1
is "-o" "$(column OFFSET "$device")" 1048576
is "--sizelimit" "$(column SIZELIMIT "$device")" 2097152
is "its size" "$(attr "$device" size)" 4096
refused "writing to it" "*" dd if=/dev/zero of="$device" \
	bs=512 count=1 conv=fsync
refused "an overlapping one with -L" "*overlap*" losetup -f -L -o 2M "$image"
losetup -d "$device"
wait_until 20 unbound "$device"

for size in 512 1024 4096; do
	device=$(losetup -f --show --sector-size "$size" "$image")
	is "--sector-size $size" "$(column LOG-SEC "$device")" "$size"
	losetup -d "$device"
	wait_until 20 unbound "$device"
done
device=$(losetup -f --show "$image")
losetup --sector-size 2048 "$device"
is "--sector-size of an attached one" "$(column LOG-SEC "$device")" 2048
for on in off on off; do
	losetup --direct-io="$on" "$device"
	is "--direct-io=$on" "$(column DIO "$device")" \
		"$([ "$on" = on ] && echo 1 || echo 0)"
done
losetup -d "$device"
wait_until 20 unbound "$device"
device=$(losetup -f --show --direct-io=on "$image")
is "--direct-io=on at attach" "$(column DIO "$device")" 1

second=$(losetup -f --show "$(mkimage 1M)")
losetup -D
wait_until 20 unbound "$device"
wait_until 20 unbound "$second"
is "losetup -D detaches all" "$(losetup -a)" ""
refused "a file that is not there" "*No such file*" losetup -f "$WORK/nothing"
refused "detaching what is not attached" "*" losetup -d "$device"
