#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# As debian/floop.prerm, without ischroot. $1 is 0 at the removal, and 1 at an
# upgrade.
if [ "$1" = 0 ] &&
	[ "$(readlink /proc/self/ns/pid)" = "pid:[4026531836]" ] &&
	[ "$(stat -L -c %d:%i /proc/1/root)" = "$(stat -c %d:%i /)" ]; then
	floop detach --all --driver floop || true
	[ ! -d /run/systemd/system ] ||
		systemctl stop floop-detach.service 'floop@*.service' || true
fi
