# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# The kernel's tracing.
[ -z "${TRACING_SH-}" ] || return 0
TRACING_SH=1

# begin_tracing - $tracing, until the case ends
begin_tracing() {
	mount_at none "$WORK/tracing" -t tracefs
	# shellcheck disable=SC2034 # the cases use it
	tracing=$WORK/tracing
	later trace_off
}

trace_off() {
	echo 0 >"$tracing/events/enable"
	echo >"$tracing/trace"
}

# count_calls FUNCTION - of the kernel, from here to stop_counting
count_calls() {
	echo "p:counted/calls $1" >>"$tracing/kprobe_events"
	echo 1 >"$tracing/events/counted/enable"
	later stop_counting
}

stop_counting() {
	[ -e "$tracing/events/counted" ] || return 0
	echo 0 >"$tracing/events/counted/enable"
	echo "-:counted/calls" >>"$tracing/kprobe_events"
}

# calls - how often it was called
calls() {
	awk '$1 == "calls" { print $2 }' "$tracing/kprobe_profile"
}

# reached WHAT PATTERN COMMAND... - the disk got requests like that (F: flush,
# WF: with FUA) meanwhile, $n
reached() {
	local what=$1 pattern=$2
	shift 2
	echo 0 >"$tracing/trace"
	echo 1 >"$tracing/events/block/block_rq_issue/enable"
	"$@"
	echo 0 >"$tracing/events/block/block_rq_issue/enable"
	n=$(grep -cE "block_rq_issue: [0-9]+,[0-9]+ $pattern" \
		"$tracing/trace" || true)
	[ "$n" -gt 0 ] ||
		fail "$what: not on the disk: $(tail -n 5 "$tracing/trace")"
	echo "ok: $what: $n on the disk"
}

# fua_writes DEVICE - the flushes and FUA writes on the first disk that an
# O_DSYNC write to it causes, before the flush that the kernel sends after it
fua_writes() {
	local disk
	disk=$(the_disk 1)
	echo >"$tracing/trace"
	echo 1 >"$tracing/events/block/block_bio_queue/enable"
	echo 1 >"$tracing/events/block/block_rq_issue/enable"
	dd if=/dev/zero of="$1" bs=4k count=1 oflag=direct,dsync \
		conv=notrunc status=none
	echo 0 >"$tracing/events/block/enable"
	awk -v device=": $(tr : , <"/sys/block/${1#/dev/}/dev") " \
		-v disk=": $(tr : , <"/sys/block/${disk#/dev/}/dev") " '
		/block_bio_queue/ && index($0, device "WF") { inside = 1 }
		/block_bio_queue/ && index($0, device "F") { inside = 0 }
		inside && /block_rq_issue/ &&
			(index($0, disk "F") || index($0, disk "WF")) { n++ }
		END { print n + 0 }' "$tracing/trace"
}
