#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Runs inside the guest, started by virtme-ng's init or by systemd. Usage:
# guest-run.sh RUN, RUN being the folder that ./vm made for this run: it holds
# `config` (what to set up) and `command` (what to run), and gets `status` (the
# exit status of the command, or the word "failed" and why it could not be
# started).

run=$1
# PROJECT RW DRIVERS MODULES MODULE SHELL_RUN SYSTEMD
# shellcheck source=/dev/null
. "$run/config"

# The exit status of a command that asks for a reboot: REBOOT of
# tests/guest/run.py
REBOOT=4

fail()
{
	printf 'failed %s\n' "$*" > "$run/status"
	[ -z "$SYSTEMD" ] || systemctl --no-block poweroff
	exit 1
}

# What systemd does where it is init
prepare()
{
	# The root disk has the kernels' modules; virtme-ng mounted something
	# slower over them.
	mountpoint -q /lib/modules && umount /lib/modules
	# Those of a kernel that isn't in the guest root are in the project's
	# folder.
	[ -z "$MODULES" ] || ln -s "$MODULES" "/lib/modules/$(uname -r)"

	# A fresh tmpfs on /tmp, with what was mounted below it still there.
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

	# udev, with floop's rules as where it is installed: events for block
	# devices only to begin with; the daemon sees everything that comes
	# later.
	mkdir -p /run/udev/rules.d
	cp "$PROJECT/cli/60-floop.rules" /run/udev/rules.d/
	/usr/lib/floop/systemd-udevd --daemon
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
# Drop-in, systemd's machine has it where modprobe finds it.
if [ -n "$SYSTEMD" ] && [ "${MODULE##*/}" = loop.ko ]; then
	modprobe loop || fail "modprobe loop"
elif [ -n "$MODULE" ]; then
	message=$(insmod "$MODULE" 2>&1) || fail "insmod $MODULE: $message"
fi
udevadm settle --timeout=60
ip link set lo up
dmesg -n 8

cd "$PROJECT" || fail "cd $PROJECT"
export HOME=/root TERM=${TERM:-linux} LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

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

# The command writes to pipes, as any program expects; two cats bring them to
# the ports, which take only one writer each.
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

# What the command left running in the background may hold the pipes: do not
# wait for that.
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
