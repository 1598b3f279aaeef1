#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: QEMU's programs work on a device: qemu-img, qemu-io with native AIO and
#   io_uring, qemu-nbd.
# modes: drop-in in-tree
# machines: stable-drop-in stable-in-tree
# init: systemd
# long: yes
. tests/lib/users.sh

image=$(mkimage 64M)
device=$(losetup --find --show --direct-io=on "$image")
later losetup --detach "$device"
ours "$device"
noise "$WORK/data" 24
truncate -s 64M "$WORK/data"
check "a disk of another format" qemu-img convert -f raw -O qcow2 \
	"$WORK/data" "$WORK/disk.qcow2"
check "convert to the device" qemu-img convert -n -f qcow2 -O raw \
	-t none -T none "$WORK/disk.qcow2" "$device"
check "compare" qemu-img compare -f qcow2 -F raw "$WORK/disk.qcow2" "$device"
check "the file holds it" cmp "$WORK/data" "$image"

for aio in threads native io_uring; do
	out=$(qemu-io -f raw --nocache --aio $aio -c 'write -P 0x5a 32M 1M' \
		-c 'aio_write -P 0xa5 33M 1M' -c aio_flush \
		-c 'aio_write -z 40M 4M' -c aio_flush \
		-c 'discard 48M 8M' -c flush \
		-c 'read -P 0x5a 32M 1M' -c 'read -P 0xa5 33M 1M' \
		-c 'read -P 0 40M 4M' \
		-c 'read -P 0 48M 8M' "$device" 2>&1) ||
		fail "qemu-io with $aio: $out"
	case $out in
	*failed*) fail "qemu-io with $aio: $out" ;;
	esac
	echo "ok: qemu-io with $aio"
done

nbd="nbd+unix:///?socket=$WORK/nbd"
qemu-nbd --persistent --format=raw --cache=none --aio=native \
	--socket="$WORK/nbd" "$device" &
server=$!
later eval "kill $server; wait $server || true"
wait_until 30 test -S "$WORK/nbd"
check "compare through qemu-nbd" qemu-img compare -f raw -F raw "$image" "$nbd"
check "write through qemu-nbd" qemu-io -f raw -c 'write -P 0x77 1M 1M' \
	-c flush "$nbd"
head -c 1M /dev/zero | tr '\0' '\167' >"$WORK/written"
check "what the file holds" cmp -i 0:1M -n 1M "$WORK/written" "$image"
