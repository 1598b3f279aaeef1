#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: Devices can be stacked on devices without file systems between them. A
#   cycle is refused.
# machines: lts-drop-in
. tests/lib/images.sh

image=$(mkimage 8M)
device=$(attach "$image")
later detach "$device"
first=$device
for _ in 2 3 4 5 6 7 8; do
	device=$(attach "$device")
	later detach "$device"
done
passes_on "$device" "$image" 2

free=/dev/$PREFIX$(loopdev free)
is "a device is not its own image" "$(errno attach -n "${free##*[!0-9]}" "$free")" \
	EBADF
is "one in use is not attached again" \
	"$(errno attach -n "${first##*[!0-9]}" "$device")" EBUSY

# LOOP_CHANGE_FD gives a read-only device no image that is on top of it.
low=$(attach --read-only "$image")
later detach "$low"
high=$(attach --read-only "$low")
later detach "$high"
higher=$(attach --read-only "$high")
later detach "$higher"
is "not to itself" "$(errno change "$low" "$low")" EBADF
is "not to what is on it" "$(errno change "$low" "$high")" EBADF
is "nor further up" "$(errno change "$low" "$higher")" EBADF
is "it is as before" "$(attr "$low" loop/backing_file)" "$image"
