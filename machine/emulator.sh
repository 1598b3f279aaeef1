#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Fetch the QEMU of the guest root's Debian into build/emulator; again only when
# the guest root is a new one. A host's own may be too old: before 8.1, QEMU
# runs code that a kernel has just changed as it was (an int3 of text_poke(),
# "Oops: int3" on two CPUs).

. "$(dirname "$0")/machine.sh"
locked emulator

out=$BUILD/emulator

fetch()
{
	as_root rm -rf "$out"
	fetch_packages "$out/fetch" qemu-system-x86
}

# It runs on the host with the libraries of its own Debian: those that it brings
# and the guest root's.
unpack()
{
	local root=$out/root
	mkdir "$root"
	unpack_packages "$out/fetch" "$root"
	cat > "$out/qemu-system-x86_64" <<- END
		#!/bin/sh
		exec "$ROOT/usr/lib64/ld-linux-x86-64.so.2" --library-path \\
			"$root/usr/lib/x86_64-linux-gnu:$ROOT/usr/lib/x86_64-linux-gnu" \\
			"$root/usr/bin/qemu-system-x86_64" \\
			-L "$root/usr/share/qemu" -L "$root/usr/share/seabios" "\$@"
	END
	chmod +x "$out/qemu-system-x86_64"
	"$out/qemu-system-x86_64" --version
}

stamp=$(stamp_of fetch fetch_packages unpack unpack_packages \
	< "$ROOT/floop/stamp")
[ "$(cat "$out/stamp" 2> /dev/null)" = "$stamp" ] && exit 0

step "QEMU: fetch" fetch
step "QEMU: unpack" unpack
printf '%s\n' "$stamp" > "$out/stamp"
