#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: the torture notices within its time when the lease, its break, or the end of the map with the epoch does not hold. By hand, RULES="EPOCH CHANGES ..." has it look for others: those are not yet found every time
# machines: stable-side-by-side
# module: debug
# debug: no
# timeout: 1500
. tests/guest/lib.sh
. tests/programs/lib.sh
. tests/programs/torture.sh
programs torture
seed

# load MODULE-FILE
load() {
	rmmod "$MODULE"
	insmod "$1"
	wait_until 30 test -e "$CTL"
}

# round RULE SECONDS FS DISK [torture option]... - a number of enum floop_rule, or none
round() {
	local rule=$1 seconds=$2 fs=$3 disk=$4 parameter=/sys/module/$MODULE/parameters/break_rules status=0 begun read_only=()
	shift 4
	[[ " $* " != *" -r "* ]] || read_only=(-r)
	# The slow disk serves a small image: then much of it is in flight.
	[ "$disk" != "$slow" ] && SIZE=8m || SIZE=2m
	torture_begin "$fs" "$disk" "${read_only[@]}"
	[ "$rule" = none ] || echo $((1 << rule)) >"$parameter"
	begun=$SECONDS
	torture -s "$SEED" -t "$seconds" -b -g 16 "$@" "$DEV" "$MNT/image" >"$WORK/out" 2>&1 || status=$?
	echo 0 >"$parameter"
	sleep 1
	torture_end
	if [ "$rule" = none ]; then
		[ "$status" = 0 ] || { cat "$WORK/out"; fail "on $fs, $*: no rule is broken"; }
		echo "ok: on $fs, $*, no rule broken: $(head -n 1 "$WORK/out")"
	else
		grep -q 'TORTURE FAILED' "$WORK/out" || { cat "$WORK/out"; fail "on $fs, $*: rule $rule is broken, and it was not noticed"; }
		echo "ok: on $fs, $*, rule $rule broken: after $((SECONDS - begun)) s: $(grep 'TORTURE FAILED' "$WORK/out")"
	fi
}

later load "$MODULE_FILE"
load "${MODULE_FILE%/*}/floop-debug.ko"
disk=$(the_disk 1)
modprobe dm-delay
# Reads at once, writes late: what is in flight when the lease is broken is long in flight.
echo "0 $((700 * 2048)) delay $disk 0 0 $disk 0 100" | dmsetup create slow
later dm_remove slow
slow=/dev/mapper/slow
carve "$disk" fast 700 1200
disk=/dev/mapper/fast

time=$(more 60)
# DRAIN and LAYOUT (RULES=...) have not been caught yet.
for rules in ${RULES-LEASE BREAK CLEAR}; do
	case $rules in
	LEASE) round 0 "$time" ext4 "$disk" -k move,open,read-direct ;;
	BREAK) round 1 "$time" ext4 "$disk" -k move,open,read-direct ;;
	DRAIN) round 2 "$time" xfs "$slow" -w 100 -q 40 -k clone ;;
	CLEAR) round 3 "$time" ext4 "$disk" -k move ;;
	EPOCH) round 4 "$time" ext4 "$slow" -w 100 -e -k move ;;
	CHANGES) round 6 "$time" ext4 "$disk" -k open ;;
	FREEZE) round 7 "$time" ext4 "$disk" -k freeze ;;
	CACHE) round 8 "$time" ext4 "$slow" -w 100 -q 40 -k read ;;
	LAYOUT) round 9 "$time" xfs "$disk" -r -k dedupe ;;
	none)
		round none "$(more 8)" ext4 "$disk" -k move,open,read-direct,freeze
		round none "$(more 8)" ext4 "$slow" -w 100 -q 40 -k move,read
		round none "$(more 8)" xfs "$disk" -k prealloc,read,exchange
		round none "$(more 8)" xfs "$disk" -r -k dedupe,clone
		;;
	esac
done
