#!/bin/bash
# What demo.sh runs in the test machine: a file system on the emulated NVMe disk, and the demo in it.
# Usage: guest.sh side-by-side|drop-in RESULTS

set -euo pipefail
exec 2>&1 # one stream, so that everything comes in order
mkfs.xfs -q /dev/nvme0n1
mkdir -p /mnt/disk
mount /dev/nvme0n1 /mnt/disk
exec bash "$(dirname "$0")/run.sh" "$1" /mnt/disk "$2"
