#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# What demo.sh runs in the test machine: a file system on the emulated NVMe
# disk, and the demo in it, with the module side by side, then as the loop
# driver. Usage: guest.sh RESULTS SPEEDS

set -euo pipefail
exec 2>&1 # one stream, so that everything comes in order
demo=$(dirname "$0")
mkfs.xfs -q /dev/nvme0n1
mkdir -p /mnt/disk
mount /dev/nvme0n1 /mnt/disk
bash "$demo/run.sh" side-by-side /mnt/disk "$1"
bash "$demo/speed.sh" /mnt/disk "$2"
rmmod floop loop
insmod "$demo/../build/modules/$(uname -r)/floop.ko" names=loop
bash "$demo/run.sh" drop-in /mnt/disk "$1"
