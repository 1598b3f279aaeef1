#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# What demo.sh runs in the test machine: a file system on the emulated NVMe
# disk, and in it the round trip, side by side and as the loop driver, and the
# runs of fio. Usage: guest.sh SECONDS SPEEDS

. "$(dirname "$0")/lib.sh"

exec 2>&1 # one stream, so that everything comes in order
demo=$(dirname "$0")
module=$demo/../build/modules/$(uname -r)/floop.ko
mkfs.xfs -q /dev/nvme0n1
mkdir -p /mnt/disk
mount /dev/nvme0n1 /mnt/disk
bash "$demo/run.sh" side-by-side /mnt/disk "$1"
unload floop
unload loop
insmod "$module" names=loop
bash "$demo/run.sh" drop-in /mnt/disk
unload floop
insmod "$module" names=floop
bash "$demo/speed.sh" /mnt/disk "$2"
