#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Usage: guest-run.sh RUN. Runs inside the guest, started by virtme-ng's init or
# by systemd. RUN is the folder that ./vm made for this run: it holds `config`
# (what to set up) and `command` (what to run), and gets `up` (now) and `status`
# (the exit status of the command, or the word "failed" and why it could not be
# started).

run=$1
: > "$run/up"
# PROJECT RW DRIVERS MODULES MODULE NAMES SHELL_RUN SYSTEMD
# shellcheck source=/dev/null
. "$run/config"

# The exit status by which a command asks for a reboot: as REBOOT in
# tests/guest/run.py
REBOOT=4

fail()
{
	printf 'failed %s\n' "$*" > "$run/status"
	[ -z "$SYSTEMD" ] || systemctl --no-block poweroff
	exit 1
}

# Set up what systemd sets up where it is init.
prepare()
{
	# The root disk has the kernels' modules: remove virtme-ng's slower
	# mount over them.
	mountpoint -q /lib/modules && umount /lib/modules
	# A kernel that isn't in the guest root has its modules in the project's
	# folder.
	[ -z "$MODULES" ] || ln -s "$MODULES" "/lib/modules/$(uname -r)"

	# A fresh tmpfs on /tmp; shared folders below it stay mounted.
	mkdir -p /run/floop/tmp
	mount -t tmpfs -o mode=1777 tmpfs /run/floop/tmp
	while IFS= read -r dir; do
		case $dir in
		/tmp/*)
			mkdir -p "/run/floop$dir"
			mount --move "$dir" "/run/floop$dir"
			;;
		esac
	done <<< "$RW"
	mount --move /run/floop/tmp /tmp
	mount -t tmpfs -o mode=1777 tmpfs /var/tmp

	# udev, with floop's rules. Of the devices that are there already, only
	# block devices get an event.
	mkdir -p /run/udev/rules.d
	cp "$PROJECT/cli/60-floop.rules" /run/udev/rules.d/
	/usr/lib/floop/systemd-udevd --daemon
	# The module starts it.
	ln -sfn "$PROJECT/cli/target/release/floop" /usr/sbin/floop-extents
	for driver in $DRIVERS; do
		modprobe "$driver" || fail "modprobe $driver"
	done
	udevadm trigger --action=add --subsystem-match=block

	# Emulated, few accesses are made in the time in which KCSAN looks at
	# one: look at more of them, for longer. From the boot on it wouldn't
	# end.
	local kcsan=/sys/module/kcsan/parameters
	if [ -e $kcsan ]; then
		echo 2000 > $kcsan/skip_watch
		echo 300 > $kcsan/udelay_task
	fi
}

if [ -z "$SYSTEMD" ]; then
	prepare
elif [ -e "$run/booted" ] && ! rm "$run/reboot"; then
	fail "the machine rebooted, and was not asked to"
fi
touch "$run/booted"
# In the machine with systemd, modprobe finds the module.
if [ -n "$SYSTEMD" ] && [ -n "$MODULE" ]; then
	modprobe "$NAMES" || fail "modprobe $NAMES"
elif [ -n "$MODULE" ]; then
	message=$(insmod "$MODULE" names="$NAMES" 2>&1) ||
		fail "insmod $MODULE: $message"
fi
udevadm settle --timeout=60
ip link set lo up
dmesg -n 8

cd "$PROJECT" || fail "cd $PROJECT"
export HOME=/root TERM=${TERM:-linux} LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
# The command; in a system with systemd it is installed.
[ -n "$SYSTEMD" ] || PATH=$PATH:$PROJECT/cli/target/release

if [ -n "$SHELL_RUN" ]; then
	echo "floop's test machine, $(uname -r)." \
		"Leave it with exit or ctrl-d; ctrl-a x ends it at once."
	if [ -n "$SYSTEMD" ]; then
		setsid --ctty bash -i < /dev/console > /dev/console 2>&1
	else
		bash -i
	fi
	echo $? > "$run/status"
	[ -z "$SYSTEMD" ] || systemctl --no-block poweroff
	exit 0
fi

# The command writes to pipes, and two cats copy them to the ports: a port can
# be opened only once.
for port in /sys/class/virtio-ports/*; do
	case $(cat "$port/name") in
	floop.stdout) out=/dev/${port##*/} ;;
	floop.stderr) err=/dev/${port##*/} ;;
	esac
done
mkfifo /run/floop/stdout /run/floop/stderr
cat < /run/floop/stdout > "$out" &
cats=$!
cat < /run/floop/stderr > "$err" &
cats="$cats $!"
setsid bash "$run/command" < /dev/null > /run/floop/stdout 2> /run/floop/stderr
status=$?

# Don't wait for ever: a background process of the command may hold the pipes.
for _ in {1..20}; do
	# shellcheck disable=SC2086 # two words
	kill -0 $cats 2> /dev/null || break
	sleep 0.1
done

# A machine with systemd may be asked to reboot, to run the same command again.
if [ -n "$SYSTEMD" ] && [ "$status" = "$REBOOT" ]; then
	touch "$run/reboot"
	how=reboot
	[ "$(cat /sys/kernel/kexec_loaded)" = 0 ] || how=kexec
	exec systemctl --no-block $how
fi
echo "$status" > "$run/status"
[ -z "$SYSTEMD" ] || systemctl --no-block poweroff
