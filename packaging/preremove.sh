#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# As debian/floop.prerm. $1 is 0 at the removal, and 1 at an upgrade.
if [ "$1" = 0 ]; then
	floop detach --all --driver floop || true
	[ ! -d /run/systemd/system ] ||
		systemctl stop floop-detach.service 'floop@*.service' || true
fi
