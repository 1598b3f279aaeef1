# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# A host is a file system below an image. A case makes one after the other, on
# RAM disks with sectors of 512 and of 4096 bytes. host() examines each, and
# end_hosts() compares the results with the tables of docs/hosts.md.
[ -z "${HOSTS_SH-}" ] || return 0
HOSTS_SH=1
. tests/lib/images.sh
. tests/lib/nfs.sh

map_images
rows=$WORK/rows
: >"$rows"

# The disk's sectors and the kernel are tested independently: one sector size on
# each kernel, and both with LONG. hosts/disks runs on both kernels; the others
# run on LTS with --everywhere only.
sector_sizes=4096
[ "$KERNEL" != lts ] || sector_sizes=512
[ -z "${LONG-}" ] || sector_sizes="512 4096"

# row HOST DISK ASKED SECTORS DIRECT MAPPED - of the table; "-" for nothing
row() {
	local IFS="|"
	echo "row: $*"
	echo "$*" >>"$rows"
}

# kernel_has HOST TYPE OPTION - can the kernel mount it? If not, a row says
# why, from the kernel's own config
kernel_has() {
	local config
	if ! grep -qw "$2" /proc/filesystems; then
		modprobe -q "fs-$2" || modprobe -q "$2" || true
	fi
	if grep -qw "$2" /proc/filesystems; then
		return 0
	fi
	config=/boot/config-$(uname -r)
	[ -e "$config" ] || config=/lib/modules/$(uname -r)/config
	config=$(grep -E "^(# )?CONFIG_$3[ =]" "$config") ||
		config="there is no CONFIG_$3"
	[[ $config != *=[my] ]] ||
		fail "$1: $config, and modprobe finds nothing"
	row "$1" - - - "the kernel has none: ${config#\# }" -
	return 1
}

# settled DEVICE - is its mapping in a final state?
settled() {
	local reason
	reason=$(attr "$1" loop/mapped_reason)
	[[ $reason != "not yet" && $reason != "someone else has"* &&
		$reason != "the image's pages"* ]]
}

# describe HOST DISK ASKED DEVICE - its row
describe() {
	local direct=yes mapped=yes sectors
	wait_until 30 settled "$4"
	sectors=$(attr "$4" queue/logical_block_size)
	[ "$(dio "$4")" = 1 ] || direct="no: $(attr "$4" loop/dio_reason)"
	[ "$(attr "$4" loop/mapped)" = 1 ] ||
		mapped="no: $(attr "$4" loop/mapped_reason)"
	is_direct "$4" "$(dio "$4")"
	row "$1" "$2" "$3" "$sectors" "$direct" "$mapped"
}

# write_both FROM AT BYTES DEVICE MODEL [DD-OPTION]... - from that place of
# $WORK/noise, in one write
write_both() {
	local target
	for target in "$4" "$5"; do
		dd if="$WORK/noise" of="$target" bs="$3" count=1 skip="$1" \
			seek="$2" iflag=skip_bytes,fullblock oflag=seek_bytes \
			conv=notrunc status=none "${@:6}"
		# The options are for the device.
		set -- "${@:1:5}"
	done
}

# holds HOST DEVICE IMAGE MODEL - the device, the file and the model are the
# same after the same writes, discards and flushes
holds() {
	local host=$1 device=$2 image=$3 model=$4 sector
	sector=$(attr "$device" queue/logical_block_size)
	put "$WORK/noise" 1 2 "$model"
	put "$WORK/noise" 1 2 "$device" oflag=direct
	put "$WORK/noise" 4 1 "$model"
	put "$WORK/noise" 4 1 "$device"
	# A sector, and a piece that neither begins nor ends where a page does
	write_both 0 $((sector * 9)) "$sector" "$device" "$model" oflag=direct
	write_both $((sector * 5)) $((sector * 1003)) $((sector * 77)) \
		"$device" "$model" oflag=direct
	check "$host: flush" sync "$device"
	check "$host: the device reads as written" cmp "$device" "$model"
	# Where the file system has no discard nothing happens, and is no error.
	if blkdiscard -o 1M -l 512k "$device" &&
		cmp -s -n 512k -i 1M:0 "$device" /dev/zero; then
		dd if=/dev/zero of="$model" bs=64k seek=16 count=8 \
			conv=notrunc status=none
		echo "ok: $host: discard"
	fi
	dd if=/dev/zero of="$model" bs=64k seek=64 count=4 conv=notrunc \
		status=none
	check "$host: write zeroes" blkdiscard -z -o 4M -l 256k "$device"
	check "$host: flush" sync "$device"
	drop_caches
	check "$host: the device reads as written, directly" cmp "$model" \
		<(dd if="$device" bs=64k iflag=direct status=none)
	check "$host: and so does the file" cmp "$image" "$model"
}

# attach_asked yes|no [OPTION]... IMAGE - with direct I/O asked for
attach_asked() {
	if [ "$1" = yes ]; then
		attach --direct "${@:2}"
	else
		attach "${@:2}"
	fi
}

# let_go - of what is attached when a check fails, so that $MNT can go
let_go() {
	unbound "$device" || detach "$device"
}

# host HOST DISK [REMOUNT]... - $MNT, on a disk of such sectors or "-": images
# on it hold what their devices get. Where the sectors of a blank image keep I/O
# from being direct, it is asked for next. REMOUNT mounts the host anew
host() {
	local host=$1 disk=$2 asked image=$MNT/image why_not
	later let_go
	for asked in no yes; do
		mkimage 6M "$image" >/dev/null
		mkimage 6M "$WORK/model" >/dev/null
		device=$(attach_asked "$asked" "$image")
		holds "$host" "$device" "$image" "$WORK/model"
		# Direct I/O may have been refused meanwhile.
		describe "$host" "$disk" "$asked" "$device"
		why_not=$(attr "$device" loop/dio_reason)
		detach "$device"
		"${@:3}"
		drop_caches
		check "$host: after detaching the file is as the model" \
			cmp "$image" "$WORK/model"
		[[ $why_not == "the block size"* ]] || break
	done
}

# read_only_host HOST DISK IMAGE - the image is $WORK/noise
read_only_host() {
	local host=$1 disk=$2 image=$3 asked why_not
	later let_go
	for asked in no yes; do
		device=$(attach_asked "$asked" --read-only "$image")
		check "$host: the device reads as it should" \
			cmp "$device" "$WORK/noise"
		drop_caches
		check "$host: and directly" cmp "$WORK/noise" \
			<(dd if="$device" bs=64k iflag=direct status=none)
		refused "$host: a write" "*" dd if=/dev/zero of="$device" \
			bs=4k count=1 conv=fsync status=none
		describe "$host" "$disk" "$asked" "$device"
		why_not=$(attr "$device" loop/dio_reason)
		detach "$device"
		[[ $why_not == "the block size"* ]] || break
	done
}

# mounts_on_disk HOST DISK TYPE OPTIONS MKFS... - made on $DISK and mounted at
# $MNT; if that can't be done a row says so
mounts_on_disk() {
	local host=$1 bytes=$2 type=$3 options=$4
	if ! "${@:5}" >"$WORK/out" 2>&1; then
		cat "$WORK/out"
		row "$host" "$bytes" - - "can't be made" -
		return 1
	fi
	udev_settle
	MNT=$WORK/host
	mkdir -p "$MNT"
	# No mount helpers: they start daemons, or need a cluster.
	if ! mount -i -t "$type" -o "$options" "$DISK" "$MNT"; then
		row "$host" "$bytes" - - "can't be mounted" -
		return 1
	fi
	later unmount "$MNT"
}

# remount TYPE OPTIONS - $DISK, anew
remount() {
	unmount "$MNT"
	mount -i -t "$1" -o "$2" "$DISK" "$MNT"
}

# documented CASE KERNEL - the rows of docs/hosts.md that there should be
documented() {
	awk -v name="$1" -v kernel="$2" -v sizes=" - $sector_sizes " \
		-F ' *[|] *' '
		/^<!--/ { here = index($0, "<!-- " name " ") }
		here && /^[|] / && ($3 == kernel || $3 == "both") &&
		index(sizes, " " $4 " ") {
			print $2 "|" $4 "|" $5 "|" $6 "|" $7 "|" $8
		}' docs/hosts.md
}

# end_hosts - the results are the rows of docs/hosts.md
end_hosts() {
	local name found
	name=$(basename "$0" .sh)
	found=$PROJECT/build/hosts/$KERNEL-$name
	mkdir -p "${found%/*}"
	cp "$rows" "$found"
	diff -u --label docs/hosts.md --label "found on this kernel" \
		<(documented "$name" "$KERNEL" | sort) <(sort "$rows") ||
		fail "docs/hosts.md has something else: see above;" \
			"\`make hosts-table\` writes what is found"
	echo "ok: all is as docs/hosts.md has it"
}
