#!/bin/bash
# Usage: debug-kernel.sh lts|stable. Build that kernel's debug form from Debian's linux-source (see
# debug-kernel.config) inside the guest root, into build/debug-kernel/KERNEL; once. Takes long, and
# gives way to everything else on the machine.

. "$(dirname "$0")/lib.sh"

kernel=${1:?lts or stable}
config=$PROJECT/scripts/debug-kernel.config
out=$BUILD/debug-kernel/$kernel
tree=$out/linux
locked "debug-kernel-$kernel"

stamp=$(sha256sum < "$config")
[ "$(cat "$out/stamp" 2> /dev/null)" = "$stamp" ] && exit 0

"$PROJECT/scripts/linux-source.sh" "$kernel"

in_tree()
{
	in_root nice -n 19 make -C "$tree" -s -j"$(nproc)" "$@"
}

configure()
{
	local line
	in_tree defconfig kvm_guest.config
	in_root sh -c "cd '$tree' && scripts/kconfig/merge_config.sh -m .config '$config'"
	in_tree olddefconfig
	# An option that the kernel refused would be missed much later.
	grep -E '^CONFIG.*=[ym]$' "$config" | while IFS= read -r line; do
		grep -qx "$line" "$tree/.config" || printf 'not taken: %s\n' "$line"
	done
}

# Without -s, so that the progress shows.
compile()
{
	in_root nice -n 19 make -C "$tree" -j"$(nproc)" bzImage modules
}

collect()
{
	in_tree INSTALL_MOD_PATH="$out/modules" modules_install
	cp "$tree/.config" "$out/modules/lib/modules/$(cat "$tree/include/config/kernel.release")/config"
	cp "$tree/arch/x86/boot/bzImage" "$out/"
	cp "$tree/include/config/kernel.release" "$out/release"
}

[ -e "$tree/Makefile" ] || step "debug kernel, $kernel: unpack" unpack_source "$kernel" "$tree"
step "debug kernel, $kernel: configure" configure
grep 'not taken' "$BUILD"/logs/setup-debug-kernel-"$kernel"-configure.log >&2 || true
step "debug kernel, $kernel: compile (takes long)" compile
step "debug kernel, $kernel: collect" collect
printf '%s\n' "$stamp" > "$out/stamp"
