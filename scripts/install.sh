#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Usage: install.sh build | install [drop-in] | uninstall. Build and install for
# this machine, without the test machine. KVER is the kernel (default: the
# running one), PREFIX and DESTDIR are as usual. The module is installed by
# DKMS, or without DKMS or with DESTDIR in the kernel's updates/.

. "$(dirname "$0")/common.sh"

KVER=${KVER:-$(uname -r)}
PREFIX=${PREFIX:-/usr/local}
DESTDIR=${DESTDIR:-}
version=$(version)
command=$PROJECT/cli/target/release/floop
work=$BUILD/native/$KVER
updates=$DESTDIR/lib/modules/$KVER/updates
sources=$DESTDIR/usr/src/floop-$version
rules=$DESTDIR/usr/lib/udev/rules.d/60-floop.rules
systemd=$DESTDIR/usr/lib/systemd
units=("$systemd"/system/{floop-detach,floop@}.service)
# Links to the command: mount -t floop runs one, systemd at boot the other.
links=("$DESTDIR/usr/sbin/mount.floop"
	"$systemd/system-generators/floop-generator")

# Check for root at the beginning, so that nothing fails half way.
need_root()
{
	[ -n "$DESTDIR" ] || [ "$(id -u)" = 0 ] ||
		die "run it as root: sudo make $1"
}

build()
{
	if [ ! -e "/lib/modules/$KVER/build" ]; then
		cat >&2 <<-END
			No headers for the kernel $KVER, so no module for it (on
			Debian: apt install linux-headers-$KVER). The command
			works without.
		END
		return 0
	fi
	mkdir -p "$work"
	cp -r "$PROJECT/kernel/." "$work/"
	make -s -C "$work" KVER="$KVER"
	printf 'Built %s and %s for %s\n' \
		"$work/floop.ko" "$work/loop.ko" "$KVER"
}

# Have udev and systemd, where they run, read our rules and our units again.
reload()
{
	[ -z "$DESTDIR" ] || return 0
	udevadm control --reload 2> /dev/null || true
	systemctl daemon-reload 2> /dev/null || true
}

install_dkms()
{
	mkdir -p "$sources"
	cp "$PROJECT"/kernel/*.[ch] "$PROJECT"/kernel/{Kbuild,Makefile} \
		"$sources/"
	cat > "$sources/dkms.conf" <<-END
		PACKAGE_NAME="floop"
		PACKAGE_VERSION="$version"
		BUILT_MODULE_NAME[0]="$1"
		DEST_MODULE_LOCATION[0]="/updates"
		MAKE[0]="make KVER=\$kernelver"
		CLEAN="make KVER=\$kernelver clean"
		AUTOINSTALL="yes"
	END
	dkms install "floop/$version" -k "$KVER"
}

install_updates()
{
	[ -e "$work/$1.ko" ] || build
	[ -e "$work/$1.ko" ] || die "the module could not be built"
	install -D -m 644 "$work/$1.ko" "$updates/$1.ko"
	[ -n "$DESTDIR" ] || depmod "$KVER"
}

install_all()
{
	local module=floop file
	[ "${1:-}" = drop-in ] && module=loop
	need_root install
	[ -x "$command" ] || die "no $command: run make first"
	if [ $module = loop ] &&
		grep -qs '/loop\.ko$' "/lib/modules/$KVER/modules.builtin"; then
		die "$KVER has its loop driver built in:" \
			"ours can only be installed side by side"
	fi
	remove_modules
	install -D -m 755 "$command" "$DESTDIR$PREFIX/bin/floop"
	install -D -m 644 "$PROJECT/cli/60-floop.rules" "$rules"
	for file in "${units[@]}"; do
		install -D -m 644 "$PROJECT/cli/${file##*/}" "$file"
		# systemd's own PATH may lack the folder.
		sed -i -E "s|^Exec(Start\|Stop)=|&$PREFIX/bin/|" "$file"
	done
	for file in "${links[@]}"; do
		mkdir -p "${file%/*}"
		ln -sfn "$PREFIX/bin/floop" "$file"
	done
	reload
	if [ -z "$DESTDIR" ] && command -v dkms > /dev/null; then
		install_dkms $module
	else
		install_updates $module
	fi
	if [ $module = loop ]; then
		cat <<-END
			Installed in place of the in-tree loop driver: the next
			'modprobe -r loop; modprobe loop' (no loop device may be
			in use) or boot loads it. To undo that: make uninstall,
			then the same again.
		END
	else
		echo "Installed side by side with the in-tree loop driver:" \
			"modprobe floop"
	fi
}

# ours FILE: is that module one of ours?
ours()
{
	[[ $(modinfo -F version "$1" 2> /dev/null) = floop* ]]
}

# Remove the modules of an earlier install, of either form, with or without
# DKMS.
remove_modules()
{
	local file folder
	if [ -z "$DESTDIR" ] && command -v dkms > /dev/null; then
		for folder in /usr/src/floop-*/; do
			[ -e "$folder/dkms.conf" ] || continue
			folder=${folder%/}
			dkms remove "floop/${folder##*/floop-}" --all || true
		done
	fi
	rm -rf "$DESTDIR"/usr/src/floop-*/
	for file in "$DESTDIR"/lib/modules/*/updates/{floop,loop}.ko; do
		if [ ! -e "$file" ] || ! ours "$file"; then
			continue
		fi
		rm "$file"
		folder=${file%/updates/*}
		rmdir --ignore-fail-on-non-empty "$folder/updates"
		[ -n "$DESTDIR" ] || depmod "${folder##*/}"
	done
}

uninstall_all()
{
	need_root uninstall
	remove_modules
	rm -f "$DESTDIR$PREFIX/bin/floop" "$rules" "${units[@]}" "${links[@]}"
	reload
	echo "Uninstalled. A module that is loaded stays until modprobe -r or" \
		"the next boot."
}

case ${1:-} in
build) build ;;
install) install_all "${2:-}" ;;
uninstall) uninstall_all ;;
*) die "usage: install.sh build | install [drop-in] | uninstall" ;;
esac
