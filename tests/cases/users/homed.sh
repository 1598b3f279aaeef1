#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: systemd-homed makes a home in an encrypted image, opens it, grows it
#   and removes it.
# modes: drop-in in-tree
# machines: stable-drop-in stable-in-tree
# init: systemd
# long: yes
. tests/lib/users.sh

image=/home/ada.home
export PASSWORD='a long pass phrase 1843' NEWPASSWORD='a long pass phrase 1843'

later systemctl stop systemd-homed.service
check "homed" systemctl start systemd-homed.service
later homectl remove ada
check "create" homectl create ada --storage=luks --fs-type=ext4 \
	--disk-size=64M --image-path=$image \
	--luks-pbkdf-type=pbkdf2 --luks-pbkdf-force-iterations=1000 \
	--enforce-password-policy=no --real-name="Ada" --auto-resize-mode=off \
	--luks-offline-discard=no
gone $image
later homectl deactivate ada
check "activate" homectl activate ada
ours "$(device_of $image)"
is "the file system" "$(findmnt -n -o FSTYPE /home/ada)" ext4
noise /home/ada/noise 8
sum=$(sum_of /home/ada/noise)
before=$(findmnt -n -b -o SIZE /home/ada)
check "grow it while it is open" homectl resize ada 96M
after=$(findmnt -n -b -o SIZE /home/ada)
[ "$after" -gt "$before" ] || fail "it didn't grow: $before, then $after"
check "deactivate" homectl deactivate ada
gone $image
check "activate again" homectl activate ada
is "what was written" "$(sum_of /home/ada/noise)" "$sum"
check "deactivate again" homectl deactivate ada
gone $image
check "remove" homectl remove ada
later_commands=("${later_commands[0]}")
[ ! -e $image ] || fail "$image is still there"
