# SPDX-License-Identifier: GPL-2.0-only
"""Those who make an image a block device, and the floor beneath them; each with
its options.
"""

import fcntl
import glob
import os
import re
import struct
import subprocess
import tempfile
import time
from contextlib import contextmanager

from .places import make_linear, sectors_of
from .shell import Failed, missing, read, run, settle, write

# include/uapi/linux/loop.h
LOOP_CLR_FD = 0x4C01
LOOP_SET_DIRECT_IO = 0x4C08
LOOP_CONFIGURE = 0x4C0A
LOOP_CTL_GET_FREE = 0x4C82
LO_FLAGS_DIRECT_IO = 16
LOOP_CONFIG = struct.Struct(
    "=II 52x I 176x 64x"
)  # fd, block size, lo_flags, the rest 0


HOLES = ("holes", "holes-ext4")
THIN_META = 65536  # sectors


class Peer:
    """One of them: attach() gives a device's path, detach() takes it back."""

    has_image = True
    light = False  # little more than the disk's own cost
    only = ()  # the sections that it takes part in; all

    def __init__(self, name, title, how):
        self.name, self.title, self.how = name, title, how

    def unusable(self):
        """Why it can't run in this machine; nothing if it can."""
        return ""

    def attach(self, image, spare):
        raise NotImplementedError

    def detach(self, device):
        raise NotImplementedError

    def wait_until_ready(self, device, image):
        """Until it is as fast as it gets."""

    @contextmanager
    def attached(self, image, spare, can_be_ready=True):
        device = self.attach(image, spare)
        settle()
        try:
            if can_be_ready:
                self.wait_until_ready(device, image)
            yield device
        finally:
            settle()
            self.detach(device)
            settle()


class Raw(Peer):
    has_image = False
    light = True

    def attach(self, image, spare):
        return spare

    def detach(self, device):
        pass


class File(Peer):
    """No block device at all."""

    light = True

    def attach(self, image, spare):
        return image

    def detach(self, device):
        pass


class Linear(Peer):
    has_image = False
    light = True

    def unusable(self):
        return missing("dmsetup")

    def attach(self, image, spare):
        make_linear("bench", spare, 0, sectors_of(spare))
        return "/dev/mapper/bench"

    def detach(self, device):
        run("dmsetup", "remove", "--retry", os.path.basename(device))


class Thin(Peer):
    """A new thin device in a new pool, over the spare disk."""

    has_image = False
    only = (*HOLES, "sparse", "large")

    def __init__(self, name, title, how, block):
        super().__init__(name, title, how)
        self.block = block

    def unusable(self):
        return missing("dmsetup")

    def attach(self, image, spare):
        sectors = sectors_of(spare)
        parts = {
            "bench-meta": (0, THIN_META),
            "bench-data": (THIN_META, sectors - THIN_META),
        }
        for name, (start, size) in parts.items():
            make_linear(name, spare, start, size)
        # A pool whose metadata begins with zeroes is a new one.
        with open("/dev/mapper/bench-meta", "r+b", buffering=0) as meta:
            meta.write(bytes(4096))
            os.fsync(meta.fileno())
        pool = (
            f"0 {sectors - THIN_META} thin-pool /dev/mapper/bench-meta"
            f" /dev/mapper/bench-data {self.block >> 9} 0"
        )
        run("dmsetup", "create", "bench-pool", "--table", pool)
        run("dmsetup", "message", "bench-pool", "0", "create_thin 0")
        size = os.stat(image).st_size >> 9
        thin = f"0 {size} thin /dev/mapper/bench-pool 0"
        run("dmsetup", "create", "bench", "--table", thin)
        return "/dev/mapper/bench"

    def detach(self, device):
        for name in ("bench", "bench-pool", "bench-data", "bench-meta"):
            run("dmsetup", "remove", "--retry", name)


class Loop(Peer):
    """The in-tree driver or floop, by the same ioctls."""

    allocate = ""  # what floop allocates ahead, if it is told

    def __init__(self, name, title, how, driver, direct=True, mapped=False):
        super().__init__(name, title, how)
        self.driver, self.direct, self.mapped = driver, direct, mapped
        self.light = mapped

    def unusable(self):
        control = f"/dev/{self.driver}-control"
        return (
            ""
            if os.path.exists(control)
            else f"no {control}: the driver isn't loaded"
        )

    def attach(self, image, spare=None):
        control = os.open(f"/dev/{self.driver}-control", os.O_RDWR)
        try:
            number = fcntl.ioctl(control, LOOP_CTL_GET_FREE)
        finally:
            os.close(control)
        device = f"/dev/{self.driver}{number}"
        while not os.path.exists(device):
            settle()
        fd, file = os.open(device, os.O_RDWR), os.open(image, os.O_RDWR)
        try:
            flags = LO_FLAGS_DIRECT_IO if self.direct else 0
            fcntl.ioctl(fd, LOOP_CONFIGURE, LOOP_CONFIG.pack(file, 0, flags))
            if not self.direct:
                fcntl.ioctl(fd, LOOP_SET_DIRECT_IO, 0)
        finally:
            os.close(file)
            os.close(fd)
        if int(read(f"{folder(device)}/dio")) != self.direct:
            raise Failed(
                f"{device} did not take direct I/O"
                f" {'on' if self.direct else 'off'}"
            )
        if self.driver == "floop":
            write(f"{folder(device)}/mapping", int(self.mapped))
        if self.allocate:
            write(f"{folder(device)}/allocate", self.allocate)
        return device

    def wait_until_ready(self, device, image):
        if self.mapped and can_be_mapped(image):
            wait_until_mapped(device, image)

    def detach(self, device):
        fd = os.open(device, os.O_RDWR)
        fcntl.ioctl(fd, LOOP_CLR_FD)
        os.close(fd)


class Ahead(Loop):
    """floop, mapped, told what to allocate ahead."""

    only = HOLES

    def __init__(self, name, title, how, allocate):
        super().__init__(name, title, how, "floop", mapped=True)
        self.allocate = allocate


def folder(device):
    """Where a loop device's attributes are."""
    return f"/sys/block/{os.path.basename(device)}/loop"


def stat(device):
    """The numbers of floop's loop/stat."""
    lines = read(f"{folder(device)}/stat").splitlines()
    words = (line.split(maxsplit=1) for line in lines)
    return {word[0]: int(word[1]) for word in words if word[-1].isdigit()}


def can_be_mapped(image):
    return run("findmnt", "-nro", "FSTYPE", "-T", image).strip() in (
        "ext4",
        "xfs",
    )


def wait_until_mapped(device, image):
    """All that can be: what mkfs has zeroed, its journal for one, is allocated
    and not written.
    """
    found = os.stat(image)
    size, before = min(found.st_size, found.st_blocks * 512), -1
    for _ in range(200):
        now = stat(device)["mapped_bytes"]
        if now == before >= size * 3 // 4:
            return
        before = now
        time.sleep(0.3)
    said = [
        f"{os.path.basename(p)} {read(p)}"
        for p in glob.glob(f"{folder(device)}/mapped*")
    ]
    raise Failed(f"{size} bytes of {image} don't get mapped: {', '.join(said)}")


def no_scheduler(device):
    """As the loop drivers and the NVMe disk have it; one queue would get
    mq-deadline.
    """
    write(f"/sys/block/{os.path.basename(device)}/queue/scheduler", "none")


class Ublk(Peer):
    def unusable(self):
        if reason := missing("rublk"):
            return reason
        return (
            ""
            if os.path.exists("/dev/ublk-control")
            else "no /dev/ublk-control in this kernel"
        )

    def attach(self, image, spare):
        before = set(glob.glob("/dev/ublkb*"))
        options = [
            "-q",
            os.cpu_count(),
            "-d",
            "128",
            "-z",
            "--logical-block-size",
            "512",
        ]
        run("rublk", "add", "loop", *options, "-f", image)
        settle()
        new = set(glob.glob("/dev/ublkb*")) - before
        if len(new) != 1:
            raise Failed(f"rublk add made {len(new)} devices")
        (device,) = new
        no_scheduler(device)
        return device

    def detach(self, device):
        # Now and then it panics ("io_uring IO failure"), and the next one finds
        # its work to do.
        for tries_left in (2, 1, 0):
            try:
                run("rublk", "del", "-n", re.search(r"\d+$", device)[0])
            except Failed:
                if not os.path.exists(device):
                    break
                if not tries_left:
                    raise
                time.sleep(0.5)
            else:
                break


class Nbd(Peer):
    format = "raw"

    def unusable(self):
        if reason := missing("qemu-nbd"):
            return reason
        return (
            "" if os.path.exists("/dev/nbd0") else "no /dev/nbd0 in this kernel"
        )

    def attach(self, image, spare):
        free = (
            d
            for d in sorted(glob.glob("/sys/block/nbd*"))
            if not os.path.exists(f"{d}/pid")
        )
        device = f"/dev/{os.path.basename(next(free))}"
        options = [
            f"--format={self.format}",
            "--cache=none",
            "--aio=io_uring",
            "--discard=unmap",
        ]
        # Else it is in /var/lock, which may not be there.
        socket = f"--socket=/run/{os.path.basename(device)}"
        command = [
            "qemu-nbd",
            "--fork",
            socket,
            f"--connect={device}",
            *options,
            image,
        ]
        # Its daemon keeps what it was given to write to: a file, for nobody
        # would see a pipe end.
        with tempfile.TemporaryFile("w+") as said:
            if subprocess.call(
                command, stdin=subprocess.DEVNULL, stdout=said, stderr=said
            ):
                said.seek(0)
                raise Failed(f"{' '.join(command)}: {said.read().strip()}")
        for _ in range(300):
            if int(read(f"/sys/block/{os.path.basename(device)}/size")):
                no_scheduler(device)
                return device
            time.sleep(0.1)
        raise Failed(f"qemu-nbd gave {device} no size")

    def detach(self, device):
        run("qemu-nbd", "--disconnect", device)
        for _ in range(300):
            if not os.path.exists(f"/sys/block/{os.path.basename(device)}/pid"):
                return
            time.sleep(0.1)
        raise Failed(f"qemu-nbd doesn't let go of {device}")


class Qcow2(Nbd):
    """A new image beside the one that is asked for."""

    format = "qcow2"
    only = HOLES

    def attach(self, image, spare):
        size = os.stat(image).st_size
        self.image = f"{image}.qcow2"
        run("qemu-img", "create", "-q", "-f", "qcow2", self.image, size)
        return super().attach(self.image, spare)

    def detach(self, device):
        super().detach(device)
        os.unlink(self.image)


LOOP_HOW = (
    "LOOP_CONFIGURE, 512-byte sectors, everything else as the driver has it"
)
ALL = [
    Raw(
        "raw",
        "the disk itself",
        "no image: the same disk, beside the file system with the image",
    ),
    Linear(
        "dm-linear",
        "dm-linear",
        "one linear target over *the disk itself*: the floor",
    ),
    File(
        "file",
        "the file itself",
        "no block device: fio on the image, through the file system",
    ),
    Loop(
        "floop-mapped",
        "floop, mapped",
        f"{LOOP_HOW}; LO_FLAGS_DIRECT_IO; all that can be mapped is, before a"
        " run begins",
        "floop",
        mapped=True,
    ),
    Loop(
        "floop-file",
        "floop, mapping off",
        f"{LOOP_HOW}; LO_FLAGS_DIRECT_IO; `mapping` off",
        "floop",
    ),
    Loop(
        "floop-buffered",
        "floop, buffered",
        f"{LOOP_HOW}; LOOP_SET_DIRECT_IO 0; `mapping` off",
        "floop",
        direct=False,
    ),
    Ahead(
        "floop-nothing-ahead",
        "floop, nothing ahead",
        f"{LOOP_HOW}; LO_FLAGS_DIRECT_IO; `allocate` off",
        "off",
    ),
    *(
        Ahead(
            f"floop-ahead-{kib}k",
            f"floop, {kib} KiB ahead",
            f"{LOOP_HOW}; LO_FLAGS_DIRECT_IO; `allocate` {kib << 10}",
            str(kib << 10),
        )
        for kib in (64, 1024)
    ),
    Loop(
        "loop-direct", "loop, direct", f"{LOOP_HOW}; LO_FLAGS_DIRECT_IO", "loop"
    ),
    Loop(
        "loop-buffered",
        "loop, buffered",
        f"{LOOP_HOW}; direct I/O off",
        "loop",
        direct=False,
    ),
    Ublk(
        "ublk",
        "ublk (rublk)",
        "`rublk add loop -q CPUS -d 128 -z --logical-block-size 512`, no"
        " scheduler; direct I/O and io_uring are its own; zero copy (`-z`)"
        " from 6.15 on, before it rublk copies",
    ),
    Nbd(
        "nbd",
        "nbd (qemu-nbd)",
        "`qemu-nbd --connect --cache=none --aio=io_uring --discard=unmap`,"
        " no scheduler; a Unix socket to a server on the same machine",
    ),
    Qcow2(
        "qcow2",
        "qcow2 (qemu-nbd)",
        "the same with `--format=qcow2`, an image that is new each time",
    ),
    Thin(
        "dm-thin-64k",
        "dm-thin, 64 KiB",
        "a new thin device in a new pool of blocks of 64 KiB, zeroing on,"
        " over *the disk itself*",
        64 << 10,
    ),
    Thin(
        "dm-thin-1m",
        "dm-thin, 1 MiB",
        "the same with blocks of 1 MiB",
        1 << 20,
    ),
]


NAMED = {peer.name: peer for peer in ALL}


def load_drivers():
    """The peers' modules, where the kernel has them."""
    for module in (
        ["loop"],
        ["dm_thin_pool"],
        ["ublk_drv"],
        ["nbd", "nbds_max=16"],
    ):
        subprocess.run(
            ["modprobe", *module], check=False, stderr=subprocess.DEVNULL
        )
    settle()
