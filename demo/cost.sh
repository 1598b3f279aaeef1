#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# What demo.sh runs in the machine whose clock counts instructions: an xfs on a
# RAM disk, which takes no time, the runs of fio, the table with what has been
# measured before, and the clone. Usage: cost.sh SECONDS SPEEDS COSTS

set -euo pipefail
exec 2>&1
demo=$(dirname "$0")
modprobe brd rd_nr=1 rd_size=$((512 << 10))
mkfs.xfs -q /dev/ram0
mkdir -p /mnt/disk
mount /dev/ram0 /mnt/disk
bash "$demo/speed.sh" /mnt/disk "$3" instructions
bash "$demo/table.sh" "$@"
bash "$demo/clone.sh" /mnt/disk
