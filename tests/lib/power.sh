# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Power cuts.
#
# A file system's user (fsyncer) works on a file system on a device, whose image
# is on a file system on a disk that logs every write in the order in which it
# became durable (dm-log-writes). Then the power fails, at any point of that
# log: the disk is restored to that point, everything is mounted again, and
# fsyncer checks that all data is there that was reported durable.
[ -z "${POWER_SH-}" ] || return 0
POWER_SH=1
. tests/lib/case.sh

programs loopdev fsyncer logreplay

# Of each log, beside the marks
points=2
[ -z "${LONG-}" ] || points=30

# the disk as it was before; and on the second disk: the log, what the run
# writes, what a look afterwards writes
power_disks() {
	local size=512
	carve "$(the_disk 1)" base 0 $size
	carve "$(the_disk 2)" log 0 1000
	carve "$(the_disk 2)" written 1000 $size
	carve "$(the_disk 2)" looked $((1000 + size)) $size
	mkdir -p "$WORK/below" "$WORK/above"
}

# power_meanwhile IMAGE DEVICE - what goes on beside the work on the device,
# until it is killed; the work waits for a character of its output per round,
# until that ends. power_afterwards DEVICE - when the work is done
power_meanwhile() {
	:
}

power_afterwards() {
	:
}

# power_run BELOW ABOVE HOW ROUNDS SEED [MOUNT-OPTION]... - leaves the log in
# /dev/mapper/log; $ALLOCATE: what the device allocates ahead
power_run() {
	local below=$1 above=$2 how=$3 rounds=$4 seed=$5 dev beside turns
	shift 5
	wipefs -qa /dev/mapper/base
	make_fs "$below" /dev/mapper/base
	mount -t "$below" /dev/mapper/base "$WORK/below"
	mkimage 330M "$WORK/below/image" >/dev/null
	dev=$(loop_attach "$how" "$WORK/below/image")
	make_fs "$above" "$dev"
	loopdev detach "$dev"
	unmount "$WORK/below"

	dm_snapshot run base written
	echo "0 $(sectors /dev/mapper/run) log-writes" \
		/dev/mapper/run /dev/mapper/log | dmsetup create logged
	mount -t "$below" "$@" /dev/mapper/logged "$WORK/below"
	dev=$(loop_attach "$how" "$WORK/below/image")
	allocate "$dev" "${ALLOCATE-off}"
	mount -t "$above" "$dev" "$WORK/above"
	exec {turns}< <(power_meanwhile "$WORK/below/image" "$dev")
	beside=$!
	fsyncer work "$WORK/above" "$rounds" "$seed" logged <&"$turns"
	kill $beside 2>/dev/null || true
	wait $beside || true
	exec {turns}<&-
	unmount "$WORK/above"
	power_afterwards "$dev"
	loopdev detach "$dev"
	unmount "$WORK/below"
	dm_remove logged
	dm_remove run
	logreplay points /dev/mapper/log >"$WORK/points"
	awk '
		{ n[$2]++ }
		END {
			for (k in n)
				printf "%d %ss ", n[k], k
			print "in the log"
		}' "$WORK/points"
}

# power_look DISK BELOW ABOVE HOW ROUNDS SEED - check the disk as it was when
# the power failed. 0: all durable data is there
power_look() {
	local below=$2 above=$3 how=$4 rounds=$5 seed=$6 dev bad=0
	dm_snapshot look "$1" looked
	if mount -t "$below" /dev/mapper/look "$WORK/below"; then
		dev=$(loop_attach "$how" "$WORK/below/image")
		if mount -t "$above" "$dev" "$WORK/above"; then
			[ "$rounds" = none ] ||
				fsyncer check "$WORK/above" "$rounds" "$seed" ||
				bad=1
			unmount "$WORK/above"
			fsck_of "$above" "$dev" >"$WORK/out" 2>&1 ||
				{ cat "$WORK/out"; bad=1; }
		else
			bad=1
		fi
		loopdev detach "$dev"
		unmount "$WORK/below"
		fsck_of "$below" /dev/mapper/look >"$WORK/out" 2>&1 ||
			{ cat "$WORK/out"; bad=1; }
	else
		bad=1
	fi
	dm_remove look
	return $bad
}

# power_points N - N points spread over the log, the last one included, and all
# marks: at a mark data was just reported durable, and nothing is flushed since
power_points() {
	awk -v n="$1" '
		{ line[NR] = $0; mark[NR] = $2 == "mark" }
		END {
			step = NR > n ? NR / n : 1
			for (i = step; i < NR; i += step)
				chosen[int(i)] = 1
			chosen[NR] = 1
			for (i = 1; i <= NR; i++)
				if (chosen[i] || mark[i])
					print line[i]
		}' "$WORK/points"
}

# power_check BELOW ABOVE HOW SEED POINTS [logreplay option]... - check that
# many points; prints errors and counts them in $bad
power_check() {
	local below=$1 above=$2 how=$3 seed=$4 from=0 to kind mark good=0
	power_points "$5" >"$WORK/chosen"
	shift 5
	bad=0
	while read -r to kind mark; do
		logreplay "$@" run /dev/mapper/log /dev/mapper/base "$from" \
			"$to" >"$WORK/replayed"
		from=$to
		if power_look base "$below" "$above" "$how" "$mark" \
			"$seed" >"$WORK/look" 2>&1; then
			good=$((good + 1))
		else
			bad=$((bad + 1))
			echo "entry $to ($kind, round $mark):" \
				"$(grep -v '^ok' "$WORK/look" | tail -3)"
		fi
	done <"$WORK/chosen"
	echo "$below / $how / $above: $good points right, $bad wrong"
}
