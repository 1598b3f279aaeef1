#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: The torture notices within its time when any of seven rules of the
#   guard is broken. By hand, RULES="DRAIN EPOCH" makes it look for two more,
#   which take up to a minute each, and RULES=none for no broken rule.
# machines: stable-side-by-side
# cpus: 2
# module: debug
# debug: no
# timeout: 1500
# long: yes
. tests/lib/torture.sh
programs torture
seed

# load MODULE-FILE
load() {
	rmmod "$MODULE"
	insert "$1"
	wait_until 30 test -e "$CTL"
}

# round RULE SECONDS FS DISK [torture option]... - or none, to see that nothing
# is found
round() {
	local rule=$1 seconds=$2 fs=$3 disk=$4 status=0 begun read_only=()
	shift 4
	[[ " $* " != *" -r "* ]] || read_only=(-r)
	# The slow disk serves a small image: then much of it is in flight.
	[ "$disk" != "$slow" ] && SIZE=8m || SIZE=2m
	torture_begin "$fs" "$disk" "${read_only[@]}"
	if [ "$rule" != none ]; then
		break_rules "$rule"
		# The lease was taken with all rules in force: take another
		echo 0 >"/sys/block/${DEV#/dev/}/loop/mapping"
		echo 1 >"/sys/block/${DEV#/dev/}/loop/mapping"
	fi
	begun=$SECONDS
	torture -s "$SEED" -t "$seconds" -b -g 16 "$@" "$DEV" \
		"$MNT/image" >"$WORK/out" 2>&1 || status=$?
	break_rules
	sleep 1
	torture_end
	if [ "$rule" = none ]; then
		[ "$status" = 0 ] || {
			cat "$WORK/out"
			fail "on $fs, $*: no rule is broken"
		}
		echo "ok: on $fs, $*, no rule broken: $(head -n 1 "$WORK/out")"
	else
		grep -q 'TORTURE FAILED' "$WORK/out" || {
			cat "$WORK/out"
			fail "on $fs, $*: broken rule $rule was not noticed"
		}
		echo "ok: on $fs, $*, rule $rule broken:" \
			"after $((SECONDS - begun)) s:" \
			"$(grep 'TORTURE FAILED' "$WORK/out")"
	fi
}

later load "$MODULE_FILE"
load "${MODULE_FILE%/*}/floop-debug.ko"
echo >"/sys/module/$MODULE/parameters/helper"
disk=$(the_disk 1)
modprobe dm-delay
# Reads are fast and writes slow, so that writes stay in flight long after the
# lease is broken.
echo "0 $((700 * 2048)) delay $disk 0 0 $disk 0 100" | dmsetup create slow
later dm_remove slow
slow=/dev/mapper/slow
carve "$disk" fast 700 1200
disk=/dev/mapper/fast

time=$(more 60)
for rule in ${RULES-LEASE BREAK CLEAR CHANGES FREEZE CACHE LAYOUT}; do
	case $rule in
	LEASE) round "$rule" "$time" ext4 "$disk" -k move,open,read-direct ;;
	BREAK) round "$rule" "$time" ext4 "$disk" -k move,open,read-direct ;;
	DRAIN) round "$rule" $((time * 2)) ext4 "$slow" -w 100 -q 40 \
		-d 0 -k move ;;
	CLEAR) round "$rule" "$time" ext4 "$disk" -k move ;;
	EPOCH) round "$rule" $((time * 3)) ext4 "$slow" -w 100 -e -k move ;;
	CHANGES) round "$rule" "$time" ext4 "$disk" -d 50 -k sync,inode ;;
	FREEZE) round "$rule" "$time" ext4 "$disk" -d 0 -k freeze ;;
	CACHE) round "$rule" "$time" ext4 "$slow" -w 100 -q 40 -d 0 -k read ;;
	LAYOUT) round "$rule" "$time" xfs "$disk" -r -k dedupe ;;
	none)
		# Nothing is found where nothing is broken
		round none "$(more 8)" ext4 "$disk" \
			-k move,open,read-direct,freeze
		round none "$(more 8)" ext4 "$slow" -w 100 -q 40 -k move,read
		round none "$(more 8)" xfs "$disk" -k prealloc,read,exchange
		round none "$(more 8)" xfs "$disk" -r -k dedupe,clone
		;;
	*) fail "what is $rule? See kernel/rules.h" ;;
	esac
done
