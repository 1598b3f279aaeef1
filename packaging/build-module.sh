#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Usage: build-module [KERNEL]...: have DKMS build and install floop for these
# kernels, or for all, where headers are installed. It never fails: a kernel's
# installation runs it, and would fail, too. Where there is no module now, it
# says why, and leaves that in /var/lib/floop-dkms for `floop doctor`.

version=@VERSION@
reasons=/var/lib/floop-dkms
tree=/var/lib/dkms/floop/$version
log=$tree/build/make.log

# why STATUS: one line about what DKMS's exit status means
why()
{
	if [ "$1" = 77 ]; then
		echo "this version of floop doesn't know it"
	elif grep -qs "kernel $kernel " "$log"; then
		# The compiler's first error, and what features.sh says
		{
			grep -m 1 'error: ' "$log"
			awk 'sub(/^floop: /, "") { more = 1; print; next }
				more && /^  / { print; next } { more = 0 }' \
				"$log"
			echo "(see $log)"
		} | tr -s ' \n' ' '
		echo
	else
		echo "dkms install floop/$version -k $kernel fails"
	fi
}

# What an interrupted installation has added in part is no use to DKMS.
if [ ! -e "$tree/source/dkms.conf" ]; then
	rm -rf "$tree"
	dkms add -m floop -v "$version"
fi
if [ -e /etc/dkms/no-autoinstall ]; then
	echo "floop-dkms: /etc/dkms/no-autoinstall is there: nothing is built"
	exit 0
fi
[ $# -gt 0 ] || for folder in /lib/modules/*; do
	set -- "$@" "${folder##*/}"
done
for kernel; do
	# What is built needs no headers.
	case $(dkms status -m floop -v "$version" -k "$kernel" 2> /dev/null) in
	*": installed"*) continue ;;
	*": built"*) ;;
	*) [ -e "/lib/modules/$kernel/build/include" ] || continue ;;
	esac
	echo "floop-dkms: building the module for Linux $kernel"
	status=0
	said=$(dkms install -m floop -v "$version" -k "$kernel" 2>&1) ||
		status=$?
	mkdir -p "$reasons"
	rm -f "$reasons/$kernel"
	if [ $status != 0 ]; then
		[ $status = 77 ] || printf '%s\n' "$said"
		why $status > "$reasons/$kernel"
		echo "floop-dkms: Linux $kernel has no floop:" \
			"$(cat "$reasons/$kernel")"
	fi
	rmdir "$reasons" 2> /dev/null
done
exit 0
