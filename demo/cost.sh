#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# What demo.sh runs in the machine whose clock counts instructions: an xfs on a
# RAM disk, which takes no time, and the runs of fio. Usage: cost.sh RESULTS

set -euo pipefail
exec 2>&1
modprobe brd rd_nr=1 rd_size=$((512 << 10))
mkfs.xfs -q /dev/ram0
mkdir -p /mnt/disk
mount /dev/ram0 /mnt/disk
bash "$(dirname "$0")/speed.sh" /mnt/disk "$1" instructions
