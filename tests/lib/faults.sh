# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# Memory allocations that fail, on a kernel with fault injection
# (Documentation/fault-injection/fault-injection.rst).
[ -z "${FAULTS_SH-}" ] || return 0
FAULTS_SH=1
. tests/lib/case.sh

FAILSLAB=/sys/kernel/debug/failslab

# begin_faults - none fails yet
begin_faults() {
	[ -d "$FAILSLAB" ] || mount -t debugfs debugfs /sys/kernel/debug
	[ -d "$FAILSLAB" ] || fail "this kernel has no fault injection"
	later end_faults
	echo 1 >"$FAILSLAB/interval"
	echo -1 >"$FAILSLAB/times"
	echo 0 >"$FAILSLAB/verbose"
}

end_faults() {
	echo 0 >"$FAILSLAB/probability"
	echo N >"$FAILSLAB/cache-filter"
	echo Y >"$FAILSLAB/ignore-gfp-wait"
}

# failing_nowait PERCENT - of all allocations that may not wait, in the whole
# kernel
failing_nowait() {
	echo Y >"$FAILSLAB/ignore-gfp-wait"
	echo "$1" >"$FAILSLAB/probability"
}

# failing_cache CACHE - all allocations from it, whoever asks
failing_cache() {
	echo N >"$FAILSLAB/ignore-gfp-wait"
	failing_nowait_cache "$1"
}

# failing_nowait_cache CACHE - all allocations from it that may not wait
failing_nowait_cache() {
	echo 1 >"/sys/kernel/slab/$1/failslab"
	echo Y >"$FAILSLAB/cache-filter"
	echo 100 >"$FAILSLAB/probability"
}

# works_again CACHE
works_again() {
	end_faults
	echo 0 >"/sys/kernel/slab/$1/failslab"
}
