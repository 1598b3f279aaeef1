#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Make build/bench.img, the disk image that ./vm --bench boots: the guest root,
# the peers of the benchmarks (rublk, qemu-nbd), and the programs that they
# measure (PostgreSQL, SQLite). The tests don't need these, so they have an
# image without them. It is made again when the recipe below or the guest root
# changes.

. "$(dirname "$0")/machine.sh"
. "$PROJECT/machine/roots.sh"
"$PROJECT/machine/guest-root.sh"
locked bench-root

packages=(
	postgresql        # has pgbench
	qemu-utils        # qemu-nbd
	sqlite3
)

new=$BUILD/bench-root.new

# Install the newest version on crates.io; cargo builds nothing if it is there
# already. The default feature is for the memory of graphics cards. bindgen
# needs libclang to read headers. The build is the host's: copy() checks that
# the program runs in the guest root, too.
rublk()
{
	if ! installed libclang1; then
		command -v apt-get > /dev/null ||
			die "install libclang1 (this is not Debian)"
		as_root apt-get update
		as_root env DEBIAN_FRONTEND=noninteractive \
			apt-get install -y --no-install-recommends libclang1
	fi
	cargo install rublk --locked --no-default-features \
		--root "$BUILD/rublk"
}

copy()
{
	as_root rm -rf "$new"
	as_root mkdir "$new"
	as_root cp -a --reflink=auto "$ROOT/." "$new"
	as_root install "$BUILD/rublk/bin/rublk" "$new/usr/local/bin/"
	as_root chroot "$new" rublk --version
}

# Keep the package from making and starting a database: the benchmark makes its
# own.
install_packages()
{
	as_root unshare --mount --fork bash -euc '
		root=$1
		shift
		mount --make-rprivate /
		mount -t proc proc "$root/proc"
		mount -t tmpfs tmpfs "$root/tmp"
		postgresql=$root/etc/postgresql-common
		mkdir -p "$postgresql"
		echo "create_main_cluster = false" \
			> "$postgresql/createcluster.conf"
		printf "#!/bin/sh\nexit 101\n" > "$root/usr/sbin/policy-rc.d"
		chmod +x "$root/usr/sbin/policy-rc.d"
		export DEBIAN_FRONTEND=noninteractive UCF_FORCE_CONFFOLD=1
		export INITRD=No LC_ALL=C.UTF-8
		cp /etc/resolv.conf "$root/etc/resolv.conf"
		chroot "$root" apt-get update
		chroot "$root" apt-get install -y --no-install-recommends \
			"$@"
		chroot "$root" apt-get clean
		rm -rf "$root/var/lib/apt/lists" "$root/usr/sbin/policy-rc.d"
		' install_packages "$new" "${packages[@]}"
}

stamp=$(stamp_of packages rublk copy install_packages disk_image root_image \
	< "$ROOT/floop/stamp")
[ "$(cat "$BUILD/bench.stamp" 2> /dev/null)" = "$stamp" ] &&
	[ -s "$BUILD/bench.img" ] && exit 0

step "bench root: rublk, from crates.io (some minutes)" rublk
step "bench root: a copy of the guest root" copy
step "bench root: ${packages[*]}" install_packages
step "bench root: a disk image of it" root_image "$new" "$BUILD/bench.img.new"
as_root rm -rf "$new"
as_root mv "$BUILD/bench.img.new" "$BUILD/bench.img"
printf '%s\n' "$stamp" > "$BUILD/bench.stamp"
