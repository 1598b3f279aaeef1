# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# The program torture.
[ -z "${TORTURE_SH-}" ] || return 0
TORTURE_SH=1
. tests/lib/case.sh

# scatter FILE - the same content, in as many extents as it has blocks
scatter() {
	python3 - "$1" <<-'END'
		import os, sys

		with open(sys.argv[1], "rb") as file:
		    data = file.read()
		os.unlink(sys.argv[1])
		fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT, 0o600)
		os.truncate(fd, len(data))
		for first in 0, 4096:
		    for at in range(first, len(data), 8192):
		        os.pwrite(fd, data[at:at + 4096], at)
		    os.fsync(fd)
	END
}

# torture_begin FS DISK [-r] - a small file system with little room, and on it
# an image, attached: $DEV and $MNT/image. Nothing is allocated ahead: that
# keeps openers out. $SCATTERED: every block of the image is an extent.
torture_begin() {
	local fs=$1 disk=$2 free leave=$((120 << 20)) options=() sector=512
	shift 2
	case $fs in
	ext4) options=(-b 4096 -E "lazy_itable_init=0,lazy_journal_init=0") ;;
	xfs)
		options=(-m reflink=1 -i exchange=1)
		# A reflinked file takes whole blocks only.
		sector=4096
		;;
	esac
	make_fs "$fs" "$disk" "${options[@]}" || make_fs "$fs" "$disk"
	MNT=$WORK/torture
	mkdir -p "$MNT"
	mount "$disk" "$MNT"
	torture -i -s "$SEED" "$MNT/image" "${SIZE:-16m}"
	[ -z "${SCATTERED-}" ] || scatter "$MNT/image"
	# Other files soon get the blocks that the image loses.
	free=$(bytes_free)
	[ "$free" -le "$leave" ] ||
		fallocate -l $((free - leave)) "$MNT/ballast"
	set_mapping 1
	DEV=$(loopdev attach -d -b $sector "$@" -s "${SIZE:-16m}" "$MNT/image")
	allocate "$DEV" off
}

# torture_end - remove everything; ignores errors, for the file system may be
# damaged
torture_end() {
	detach "$DEV"
	set_mapping 0
	unmount "$MNT"
}
