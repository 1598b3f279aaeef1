# SPDX-License-Identifier: GPL-2.0-only
"""The same scenario on two drivers, and what they answer compared.

A case is a file of scenarios, functions marked @scenario that get a Driver `d`
and do something with its devices. What they see goes into a transcript:
`d.see(label, value)`, and `d.call(label, function, ...)`, which sees "ok" or
the errno's name. run() lets every scenario do its work with the kernel's own
loop driver and with ours, in the same machine, and compares the transcripts
line by line. They must be equal but for DIFFERENCES below.
A case ends with run(); `same-X.py NAME...` as the case runs only those.

Side by side both drivers are there at once. In drop-in mode they take turns:
ours goes, the kernel's own comes, and back. With the kernel's own driver alone
(mode in-tree) it is compared with itself: what a scenario sees must not change
from one run to the next.
"""

import contextlib
import ctypes
import glob
import os
import pathlib
import re
import select
import signal
import socket
import subprocess
import sys
import time
import traceback

import loopctl
from loopctl import (
    FLAG_NAMES,
    LOOP_CHANGE_FD,
    LOOP_CLR_FD,
    LOOP_CONFIGURE,
    LOOP_GET_STATUS,
    LOOP_GET_STATUS64,
    LOOP_SET_BLOCK_SIZE,
    LOOP_SET_CAPACITY,
    LOOP_SET_DIRECT_IO,
    LOOP_SET_FD,
    LOOP_SET_STATUS,
    LOOP_SET_STATUS64,
    Control,
    Device,
    Info64,
    errno_name,
)

SCENARIOS = []


class Difference:
    """Something that is not as in the in-tree driver, on purpose."""

    def __init__(self, reason, label, allowed):
        self.reason = reason
        self.label = re.compile(label)
        self.allowed = allowed  # (theirs, ours) -> bool


def plus_direct(theirs, ours):
    """The flags are the same and direct-io, or the same without it."""
    t, o = set(theirs.split("|")), set(ours.split("|"))
    return t - {"none"} == o - {"direct-io", "none"}


# Files in /sys/block/NAME/loop/ that only floop has.
OUR_ATTRIBUTES = {
    "driver",
    "dio_reason",
    "allocate",
    "discard",
    "mapping",
    "mapped",
    "mapped_reason",
    "stat",
}

# The differences of floop, and why. A scenario allows a difference by name:
# @scenario("cut-image"). Nothing else may differ.
DIFFERENCES = {
    "dio-default": [
        Difference(
            "direct I/O is on where the image allows it, without being asked"
            " for",
            r"\bflags$",
            plus_direct,
        ),
        Difference(
            "direct I/O is on where the image allows it, without being asked"
            " for",
            r"\bloop/dio$",
            lambda theirs, ours: (theirs, ours) == ("0", "1"),
        ),
        Difference(
            "direct I/O passes the user's memory on: the image's alignment"
            " holds for it",
            r"\bqueue/dma_alignment$",
            lambda theirs, ours: int(ours) >= 3,
        ),
    ],
    "sysfs-files": [
        Difference(
            "sysfs says which driver serves, why I/O is direct or not, and what"
            " is mapped",
            r"\bloop/$",
            lambda theirs, ours: (
                set(ours.split()) - OUR_ATTRIBUTES == set(theirs.split())
            ),
        ),
    ],
    "bio-based": [
        Difference(
            "the device has no request queue of its own, and nothing of one to"
            " set",
            r"\bqueue/(nr_requests|scheduler|rq_affinity|io_timeout"
            r"|wbt_lat_usec|nomerges|io_poll"
            r"|io_poll_delay|add_random|iostats|async_depth"
            r"|iostats_passthrough)$",
            lambda theirs, ours: True,
        ),
        Difference(
            "there are no hardware queues",
            r"\bhas mq/$",
            lambda theirs, ours: True,
        ),
        Difference(
            "FUA is passed on to the image instead of being made of a flush",
            r"\bqueue/fua$",
            lambda theirs, ours: (theirs, ours) == ("0", "1"),
        ),
    ],
    "any-size": [
        Difference(
            "an I/O smaller than the block size (the page cache makes them at"
            " the end of a device and after LOOP_SET_BLOCK_SIZE) is served: a"
            " bio-based device can",
            r"\b(write|the sector that is not a block)$",
            lambda theirs, ours: (theirs, ours) == ("EIO", "ok"),
        ),
    ],
    "late-io": [
        Difference(
            "a device that is being let go serves its last opener until it"
            " closes it, so that what the page cache still holds is not lost",
            r"\b(read|what was written last)$",
            lambda theirs, ours: (
                (theirs, ours) == ("EIO", "ok") or ours == "b'last'"
            ),
        ),
    ],
    "offset-checked": [
        Difference(
            "direct I/O needs an offset of whole sectors, as in-tree after"
            " 6.12; 6.12 does not look where there is no disk behind the file",
            r"\boffset 1000: flags$",
            lambda theirs, ours: (theirs, ours) == ("direct-io", "none"),
        ),
        Difference(
            "the same",
            r"\bon at 1000$",
            lambda theirs, ours: (theirs, ours) == ("ok", "EINVAL"),
        ),
    ],
    "partitions-go": [
        Difference(
            "partitions added by hand go with the image, as in-tree after 6.12",
            r"\bwithout scan: after (letting go|reread, unbound)$",
            lambda theirs, ours: ours == "[]",
        ),
    ],
    "cut-image": [
        Difference(
            "a write beyond the end of a cut image fails, it does not grow the"
            " image again",
            r"\bbeyond the cut$",
            lambda theirs, ours: (theirs, ours) == ("ok", "EIO"),
        ),
    ],
}


def scenario(*allowed, strict=False):
    """Mark a scenario; it allows these differences, and dio-default unless it
    is strict.
    """

    def mark(function):
        function.allowed = allowed if strict else (*allowed, "dio-default")
        SCENARIOS.append(function)
        return function

    return mark


class Uevents:
    """The kernel's uevents about block devices, as udev gets them."""

    def __init__(self, prefix):
        self.prefix = prefix
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 15)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self.socket.bind((0, 1))

    def read(self, quiet=0.1):
        """All that came, until nothing comes for a while."""
        events = []
        while select.select([self.socket], [], [], quiet)[0]:
            fields = self.socket.recv(1 << 16).split(b"\0")
            env = dict(
                f.decode().split("=", 1) for f in fields[1:] if b"=" in f
            )
            if env.get("SUBSYSTEM") == "block" and env.get(
                "DEVNAME", ""
            ).startswith(self.prefix):
                events.append(env)
        return events

    def close(self):
        self.socket.close()


class Driver:
    """One of the drivers, with everything a scenario makes through it."""

    def __init__(self, name, prefix):
        self.name = name
        self.prefix = prefix
        self.lines = []
        self.stack = contextlib.ExitStack()
        self.count = 0
        self.work = pathlib.Path(os.environ["WORK"])

    # What is seen

    def see(self, label, value):
        """A line of the transcript. Devices are named alike in all drivers."""
        self.lines.append((label, str(value).replace("floop", "loop")))

    def call(self, label, function, *args, **kwargs):
        """Call it, see what becomes of it; the result, or None if it failed."""
        try:
            result = function(*args, **kwargs)
        except OSError as e:
            self.see(label, errno_name(e))
            return None
        self.see(label, "ok")
        return result

    def status(self, label, device):
        """See everything that LOOP_GET_STATUS64 says."""
        try:
            info = device.get_status64()
        except OSError as e:
            self.see(f"{label}: status", errno_name(e))
            return
        self.see(f"{label}: offset", info.lo_offset)
        self.see(f"{label}: sizelimit", info.lo_sizelimit)
        self.see(f"{label}: flags", flag_names(info.lo_flags))
        self.see(f"{label}: name", info.lo_file_name.decode(errors="replace"))
        self.see(
            f"{label}: crypt", (info.lo_encrypt_type, info.lo_encrypt_key_size)
        )
        self.see(f"{label}: size", device.size())

    def attr(self, device, name):
        try:
            return (
                pathlib.Path(f"/sys/block/{device.name}/{name}")
                .read_text()
                .strip()
            )
        except OSError as e:
            return errno_name(e)

    def see_attrs(self, label, device, *names):
        for name in names:
            self.see(f"{label}: {name}", self.attr(device, name))

    def detached(self, device):
        """The same device unbound and open, if need be by clearing it."""
        if os.path.exists(f"/sys/block/{device.name}/loop"):
            device.clr_fd()
            device.close()
            device.fd = os.open(device.path, os.O_RDWR | os.O_CLOEXEC)
        return device

    # What is made; all of it goes when the scenario is over

    def image(self, size=1 << 20, path=None):
        """A file of zeros whose sectors begin with their number."""
        self.count += 1
        path = path or self.work / f"image-{self.count}"
        with open(path, "wb") as f:
            for at in range(0, min(size, 64 << 10) - 15, 512):
                f.seek(at)
                f.write(f"sector {at >> 9:8}".encode())
            f.truncate(size)
        self.stack.callback(lambda: path.unlink(missing_ok=True))
        return path

    def open(self, path, flags=os.O_RDWR):
        fd = os.open(path, flags | os.O_CLOEXEC)
        self.stack.callback(close_quietly, fd)
        return fd

    def number(self):
        """A number no device has."""
        self.count += 1
        return 40 + self.count

    def device(self, flags=os.O_RDWR):
        """A new unbound device, open."""
        with Control(self.prefix) as c:
            n = c.add(self.number())
        return self.reopen(
            loopctl.wait_for_node(f"/dev/{self.prefix}{n}"), flags
        )

    def reopen(self, device, flags=os.O_RDWR):
        """The same device, opened once more."""
        path = device if isinstance(device, str) else device.path
        return self.stack.enter_context(Device(path, flags))

    def bound(
        self, size=1 << 20, flags=0, image=None, open_flags=os.O_RDWR, **kwargs
    ):
        """A new device bound to a new image."""
        device = self.device(
            open_flags if open_flags == os.O_RDONLY else os.O_RDWR
        )
        device.image = image or self.image(size)
        device.configure(
            self.open(device.image, open_flags), flags=flags, **kwargs
        )
        return device

    def uevents(self):
        return self.stack.enter_context(
            contextlib.closing(Uevents(self.prefix))
        )

    def see_uevents(
        self, label, uevents, keys=("DISK_RO", "RESIZE", "DISK_MEDIA_CHANGE")
    ):
        for n, env in enumerate(uevents.read()):
            number = re.sub(r"^\D+\d+", "", env["DEVNAME"])
            text = f"{env['ACTION']} {env['DEVTYPE']}"
            if number:
                text += f" {number}"
            for key in keys:
                if key in env:
                    text += f" {key}={env[key]}"
            seq = int(env.get("DISKSEQ", 0))
            if seq:
                text += (
                    f" DISKSEQ+{seq - self.last_seq.get(env['DEVNAME'], seq)}"
                )
                self.last_seq[env["DEVNAME"]] = seq
            self.see(f"{label}: uevent {n + 1}", text)

    def take_away(self, *numbers):
        """Clear and remove devices, whatever state they are in and whatever is
        on them.
        """
        end = time.monotonic() + 30
        left = set(numbers)
        while left := {
            n for n in left if os.path.exists(f"/sys/block/{self.prefix}{n}")
        }:
            if time.monotonic() > end:
                raise TimeoutError(f"cannot be removed: {left}")
            for n in sorted(left, reverse=True):
                path = f"/dev/{self.prefix}{n}"
                with (
                    contextlib.suppress(OSError),
                    Device(path, os.O_RDONLY) as device,
                ):
                    device.clr_fd()
                with contextlib.suppress(OSError), Control(self.prefix) as c:
                    c.remove(n)

    def transcript(self, function):
        self.lines = []
        self.count = 0
        self.last_seq = {}
        before = self.numbers()
        try:
            with contextlib.ExitStack() as self.stack:
                function(self)
        finally:
            self.take_away(*(self.numbers() - before))
        return self.lines

    def numbers(self):
        return loopctl.numbers(self.prefix)


def close_quietly(fd):
    with contextlib.suppress(OSError):
        os.close(fd)


def flag_names(flags):
    names = [name for bit, name in FLAG_NAMES.items() if flags & bit]
    other = flags & ~sum(FLAG_NAMES)
    return "|".join(names + ([hex(other)] if other else [])) or "none"


def all_as_nobody(calls):
    """Make calls, (function, argument...), in a child without privileges.

    Returns what came of each: "ok", or the errno's name.
    """
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        texts = []
        try:
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
            for function, *args in calls:
                try:
                    function(*args)
                    texts.append("ok")
                except OSError as e:
                    texts.append(errno_name(e))
        except Exception as e:
            texts.append(repr(e))
        finally:
            os.write(w, "\n".join(texts).encode())
            os._exit(0)
    os.close(w)
    with open(r) as f:
        texts = f.read().split("\n")
    os.waitpid(pid, 0)
    if len(texts) != len(calls):
        raise RuntimeError(f"the child did not get to its end: {texts[-1]}")
    return texts


def as_nobody(function, *args):
    """One call without privileges."""
    return all_as_nobody([(function, *args)])[0]


def every_ioctl(info):
    """What a device can be asked, right and wrong: (label, request, argument).

    First comes LOOP_CLR_FD, for most leave it out: the others need the file.
    `info` is struct loop_info as the program knows it, Info or Info32.
    """
    return (
        ("LOOP_CLR_FD", LOOP_CLR_FD, 0),
        ("LOOP_SET_STATUS", LOOP_SET_STATUS, info()),
        ("LOOP_SET_STATUS, null", LOOP_SET_STATUS, None),
        ("LOOP_SET_STATUS, bad pointer", LOOP_SET_STATUS, 8),
        ("LOOP_GET_STATUS", LOOP_GET_STATUS, info()),
        ("LOOP_GET_STATUS, null", LOOP_GET_STATUS, None),
        ("LOOP_GET_STATUS, bad pointer", LOOP_GET_STATUS, 8),
        ("LOOP_SET_STATUS64", LOOP_SET_STATUS64, Info64()),
        ("LOOP_SET_STATUS64, null", LOOP_SET_STATUS64, None),
        ("LOOP_SET_STATUS64, bad pointer", LOOP_SET_STATUS64, 8),
        ("LOOP_GET_STATUS64", LOOP_GET_STATUS64, Info64()),
        ("LOOP_GET_STATUS64, null", LOOP_GET_STATUS64, None),
        ("LOOP_GET_STATUS64, bad pointer", LOOP_GET_STATUS64, 8),
        ("LOOP_CHANGE_FD, -1", LOOP_CHANGE_FD, -1),
        ("LOOP_CHANGE_FD, 9999", LOOP_CHANGE_FD, 9999),
        ("LOOP_SET_CAPACITY", LOOP_SET_CAPACITY, 0),
        ("LOOP_SET_DIRECT_IO 0", LOOP_SET_DIRECT_IO, 0),
        ("LOOP_SET_DIRECT_IO 1", LOOP_SET_DIRECT_IO, 1),
        ("LOOP_SET_DIRECT_IO 2", LOOP_SET_DIRECT_IO, 2),
        ("LOOP_SET_BLOCK_SIZE 512", LOOP_SET_BLOCK_SIZE, 512),
        ("LOOP_SET_BLOCK_SIZE 513", LOOP_SET_BLOCK_SIZE, 513),
        ("LOOP_CONFIGURE, null", LOOP_CONFIGURE, None),
        ("LOOP_SET_FD -1", LOOP_SET_FD, -1),
        ("0x4C0B", 0x4C0B, 0),
        ("0x4CFF", 0x4CFF, 0),
        ("0x4C80", 0x4C80, 0),
        ("0x4C82", 0x4C82, 0),
        ("TCGETS", 0x5401, 0),
        ("0", 0, 0),
    )


# ioctls of a 32-bit program: int 0x80 from 64-bit code takes the kernel's
# 32-bit entry (compat_ioctl), as long as the pointer fits into 32 bits.

_CODE = bytes.fromhex(
    "53"  # push %rbx
    "b836000000"  # mov $54, %eax (ioctl)
    "89fb"  # mov %edi, %ebx
    "89f1"  # mov %esi, %ecx
    "cd80"  # int $0x80 (the third argument is in %edx already)
    "4863c0"  # movslq %eax, %rax
    "5b"  # pop %rbx
    "c3"  # ret
)
_compat = {}


def _compat_setup():
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (
        (ctypes.c_void_p, ctypes.c_size_t)
        + (ctypes.c_int,) * 3
        + (ctypes.c_long,)
    )
    rwx, private_anonymous_32bit = 7, 0x62
    page = libc.mmap(None, 8192, rwx, private_anonymous_32bit, -1, 0)
    if page in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "mmap")
    ctypes.memmove(page, _CODE, len(_CODE))
    function = ctypes.CFUNCTYPE(
        ctypes.c_long, ctypes.c_int, ctypes.c_uint, ctypes.c_uint
    )(page)
    _compat.update(function=function, data=page + 4096)


def ioctl32(fd, request, arg=0):
    """ioctl(2) as a 32-bit program does it; arg as for loopctl.ioctl."""
    if ctypes.sizeof(ctypes.c_void_p) == 4:
        return loopctl.ioctl(fd, request, arg)
    if not _compat:
        _compat_setup()
    if arg is None:
        arg = 0
    if isinstance(arg, int):
        r = _compat["function"](fd, request, arg & 0xFFFFFFFF)
    else:
        size = ctypes.sizeof(arg)
        ctypes.memmove(_compat["data"], ctypes.addressof(arg), size)
        r = _compat["function"](fd, request, _compat["data"])
        ctypes.memmove(ctypes.addressof(arg), _compat["data"], size)
    if r < 0:
        raise OSError(-r, os.strerror(-r))
    return r


# The two drivers


def in_tree_module():
    (path,) = glob.glob(
        f"/lib/modules/{os.uname().release}/kernel/drivers/block/loop.ko*"
    )
    return path


def command(*args):
    subprocess.run(args, check=True)


def load(prefix, *args):
    command("insmod", *args)
    end = time.monotonic() + 30
    while not os.path.exists(f"/dev/{prefix}-control"):
        if time.monotonic() > end:
            raise TimeoutError(f"/dev/{prefix}-control did not appear")
        time.sleep(0.05)


def unload(module):
    for _ in range(100):
        if (
            subprocess.run(
                ["rmmod", module], check=False, capture_output=True
            ).returncode
            == 0
        ):
            return
        time.sleep(0.1)  # something, udev say, still has a device open
    command("rmmod", module)


@contextlib.contextmanager
def without_udev():
    """No udev worker opens our devices while we look at who has them open."""
    command(
        "udevadm", "settle", "-t", str(120 * int(os.environ.get("SLOWER", "1")))
    )
    (daemon, *_) = udev_processes().values()
    # It has nothing to do; and asked to end (udevadm control --exit), it has at
    # times not ended.
    while left := udev_processes():
        for process in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.05)
    try:
        yield
    finally:
        command(daemon, "--daemon")


def udev_processes():
    """{process: program} of those that are alive; the dead may wait long for
    init here.
    """
    found = {}
    for link in glob.glob("/proc/[0-9]*/exe"):
        with contextlib.suppress(OSError):
            program = os.readlink(link)
            if os.path.basename(program) == "systemd-udevd":
                found[int(link.split("/")[2])] = program
    return found


@contextlib.contextmanager
def in_tree():
    """The kernel's own driver."""
    mode = os.environ["DRIVER_MODE"]
    if mode == "in-tree":
        yield Driver("in-tree", "loop")
        return
    # As many devices from the start as we have, for what depends on it.
    same = []
    if mode == "side-by-side":
        count = (
            pathlib.Path("/sys/module/floop/parameters/max_loop")
            .read_text()
            .strip()
        )
        same = [f"max_loop={count}"]
    else:
        unload("floop")
    load("loop", in_tree_module(), *same)
    try:
        yield Driver("in-tree", "loop")
    finally:
        unload("loop")
        if mode == "drop-in":
            load("loop", os.environ["MODULE_FILE"], "names=loop")


def transcripts(driver):
    """Of all scenarios: {name: lines}, a failure of the scenario itself being a
    line.
    """
    result = {}
    times = []
    begun = time.monotonic()
    for function in SCENARIOS:
        start = time.monotonic()
        try:
            result[function.__name__] = driver.transcript(function)
        except Exception:
            text = traceback.format_exc().strip().split("\n")
            result[function.__name__] = [
                *driver.lines,
                ("the scenario ends here", text[-1]),
            ]
            print(f"--- {function.__name__} on {driver.name}")
            print("\n".join(text), flush=True)
        times.append(f"{function.__name__} {time.monotonic() - start:.1f}")
    print(
        f"{driver.name}: {time.monotonic() - begun:.1f} s: {', '.join(times)}"
    )
    return result


def explained(function, label, theirs, ours):
    for name in function.allowed:
        for difference in DIFFERENCES[name]:
            if difference.label.search(label) and difference.allowed(
                theirs, ours
            ):
                return difference
    return None


def compare(function, theirs, ours):
    """Prints what differs; the number of lines that must not."""
    bad = 0
    on_purpose = {}
    what = " ".join((function.__doc__ or "").split())
    print(f"--- {function.__name__.replace('_', ' ')}: {what}")
    if [label for label, _ in theirs] != [label for label, _ in ours]:
        t, o = [x[0] for x in theirs], [x[0] for x in ours]
        n = next(
            (i for i, (a, b) in enumerate(zip(t, o, strict=False)) if a != b),
            min(len(t), len(o)),
        )
        for who, lines in (("in-tree", theirs), ("floop", ours)):
            for label, value in lines[max(0, n - 1) : n + 3]:
                print(f"    {who}: {label}: {value}")
        print(f"BAD the transcripts part at line {n + 1}")
        bad += 1
    for (label, t), (label2, o) in zip(theirs, ours, strict=False):
        if label != label2:
            break
        if t == o:
            continue
        difference = explained(function, label, t, o)
        if difference:
            on_purpose.setdefault(difference.reason, []).append((label, t, o))
        else:
            print(f"BAD {label}: in-tree {t}, floop {o}")
            bad += 1
    if any(label == "the scenario ends here" for label, _ in [*theirs, *ours]):
        print("BAD the scenario did not get to its end")
        bad += 1
    for reason, lines in on_purpose.items():
        label, t, o = lines[0]
        more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
        print(
            f"    on purpose: {reason}: {label}: in-tree {t}, floop {o}{more}"
        )
    print(f"    {len(ours)} lines compared", flush=True)
    return bad


def run():
    """The end of every case: all its scenarios on both drivers."""
    if len(sys.argv) > 1:
        SCENARIOS[:] = [s for s in SCENARIOS if s.__name__ in sys.argv[1:]]
    with without_udev():
        with in_tree() as driver:
            theirs = transcripts(driver)
        mine = transcripts(Driver("floop", os.environ["PREFIX"]))
    if os.environ.get("TRANSCRIPT"):
        for name, lines in mine.items():
            print(f"=== {name}")
            for label, value in lines:
                print(f"    {label}: {value}")
    bad = sum(
        compare(f, theirs[f.__name__], mine[f.__name__]) for f in SCENARIOS
    )
    print(f"{len(SCENARIOS)} scenarios, {bad} unexplained differences")
    sys.exit(1 if bad else 0)
