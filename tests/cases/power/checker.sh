#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: The power-cut checker notices a disk that is never flushed and one that
#   loses a write now and then, so the other cases here can fail.
# disks: nvme:1G nvme:3G
# timeout: 400
# kernels: stable
# modes: side-by-side
. tests/lib/power.sh

power_disks

# Without barriers the file system below flushes nothing: as if the driver
# swallowed FLUSH. The check at a mark must find that files are missing.
power_run ext4 ext4 direct 4 1 -o nobarrier
power_check ext4 ext4 direct 1 8
[ "$bad" -gt 0 ] || fail "flushes that never reach the disk go unnoticed"
echo "ok: flushes that never reach the disk are noticed"

power_run ext4 ext4 direct 4 1
power_check ext4 ext4 direct 1 4 -l 7
[ "$bad" -gt 0 ] || fail "lost writes go unnoticed"
echo "ok: lost writes are noticed"
