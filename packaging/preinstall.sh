#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# What `make install` put there stays until `make uninstall` takes it away.
# $1 is 1 at the first installation. A former drop-in is a loop.ko of ours.
[ "$1" = 1 ] || exit 0
for file in /usr/lib/udev/rules.d/60-floop.rules /usr/src/floop-*/dkms.conf \
	/lib/modules/*/updates/floop.ko \
	$(grep -ls 'version=floop ' /lib/modules/*/updates/loop.ko); do
	if [ -e "$file" ] && ! rpm -qf "$file" > /dev/null 2>&1; then
		echo "floop was installed by 'make install' ($file):" \
			"run 'make uninstall' first" >&2
		exit 1
	fi
done
