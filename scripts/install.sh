#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Usage: install.sh build | install [drop-in] | uninstall. Build and install for
# this machine, without the test machine. KVER is the kernel (default: the
# running one), PREFIX and DESTDIR are as usual. The module is installed by
# DKMS, or without DKMS or with DESTDIR in the kernel's updates/. drop-in adds
# the files that have modprobe load it in the loop driver's place.

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
hook=$DESTDIR/usr/share/initramfs-tools/hooks/floop
drop_in=("$DESTDIR"/usr/lib/mod{probe,ules-load}.d/floop-drop-in.conf "$hook")
units=("$systemd"/system/{floop-detach,floop@}.service)
# Links to the command: mount -t floop runs one, the module another, systemd at
# boot the third.
links=("$DESTDIR/usr/sbin/"{mount.floop,floop-extents}
	"$systemd/system-generators/floop-generator")

# The man pages and the shells' completions, as they lie in share/
pages=$BUILD/pages
installed_pages()
{
	local share=$DESTDIR$PREFIX/share
	printf '%s\n' "$share"/man/man8/{floop,mount.floop}.8 \
		"$share"/man/man8/floop-*.8 "$share/man/man5/flooptab.5" \
		"$share/bash-completion/completions/floop" \
		"$share/zsh/site-functions/_floop" \
		"$share/fish/vendor_completions.d/floop.fish"
}

# Check for root at the beginning, so that nothing fails half way.
need_root()
{
	[ -n "$DESTDIR" ] || [ "$(id -u)" = 0 ] ||
		die "run it as root: sudo make $1"
}

# The packages have the same files.
need_no_package()
{
	local package
	[ -z "$DESTDIR" ] || return 0
	for package in floop floop-dkms floop-drop-in dkms-floop; do
		if installed "$package" || rpm -q "$package" &> /dev/null; then
			die "the package $package is installed: remove it first"
		fi
	done
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
	step "floop.ko for $KVER" make -s -C "$work" KVER="$KVER"
	printf 'Built %s for %s\n' "$work/floop.ko" "$KVER"
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
	cp "$PROJECT"/kernel/*.[ch] \
		"$PROJECT"/kernel/{Kbuild,Makefile,features.sh} "$sources/"
	sed "s/#MODULE_VERSION#/$version/; \$aAUTOINSTALL=\"yes\"" \
		"$PROJECT/debian/floop-dkms.dkms" > "$sources/dkms.conf"
	dkms install "floop/$version" -k "$KVER"
}

install_updates()
{
	install -D -m 644 "$work/floop.ko" "$updates/floop.ko"
	[ -n "$DESTDIR" ] || depmod "$KVER"
}

install_drop_in()
{
	install -D -m 644 "$PROJECT/drop-in/modprobe.conf" "${drop_in[0]}"
	install -D -m 644 "$PROJECT/drop-in/modules-load.conf" "${drop_in[1]}"
	install -D -m 755 "$PROJECT/drop-in/initramfs-hook" "$hook"
	if grep -qs '/loop\.ko$' "/lib/modules/$KVER/modules.builtin"; then
		cat <<-END
			Installed in place of the loop driver, which $KVER has
			built in: it serves until initcall_blacklist=loop_init
			is on the kernel's command line. From then on each boot
			loads floop. To undo that: make uninstall, take that
			word away, and reboot.
		END
	else
		cat <<-END
			Installed in place of the in-tree loop driver: the next
			'modprobe -r loop; modprobe loop' (no loop device may be
			in use) or boot loads it. An initramfs that uses loop
			devices has to be made anew (update-initramfs -u). To
			undo that: make uninstall, then modprobe -r floop or a
			reboot.
		END
	fi
}

# How the module is installed, in $way: by dkms, into updates, or not at all,
# without headers. What can fail is done here, before anything is installed.
choose_way()
{
	way=updates
	if [ ! -e "$work/floop.ko" ] &&
		[ ! -e "/lib/modules/$KVER/build" ]; then
		way=none
		build
		[ "${1:-}" != drop-in ] || die "no drop-in without the module"
	elif [ -z "$DESTDIR" ] && command -v dkms > /dev/null; then
		way=dkms
	elif [ ! -e "$work/floop.ko" ]; then
		build
	fi
}

install_all()
{
	local file way
	need_root install
	need_no_package
	[ -x "$command" ] || die "no $command: run make first"
	[ -d "$pages" ] || die "no $pages: run make first"
	choose_way "$@"
	remove_modules
	rm -f "${drop_in[@]}"
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
	(cd "$pages" && find . -type f) | while IFS= read -r file; do
		install -D -m 644 "$pages/$file" "$DESTDIR$PREFIX/share/$file"
	done
	reload
	case $way in
	dkms) install_dkms ;;
	updates) install_updates ;;
	esac
	if [ "${1:-}" = drop-in ]; then
		install_drop_in
	elif [ "$way" = none ]; then
		echo "Installed the command, without the module. It drives" \
			"the in-tree loop driver."
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

# Remove the modules of an earlier install, with or without DKMS. Until 0.1 the
# drop-in was a module of its own, loop.ko.
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
	need_no_package
	remove_modules
	rm -f "$DESTDIR$PREFIX/bin/floop" "$rules" "${units[@]}" "${links[@]}" \
		"${drop_in[@]}"
	installed_pages | xargs -d '\n' rm -f
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
