"""Runs inside the test machine, started by cost.py or profile.sh: the devices, and fio on them.

A fully written image on xfs on a RAM disk (brd) is attached to one driver at a time, by the same
ioctls for both. The RAM disk is larger than the file system on it: its end is free for the figures
of the RAM disk itself.

With --icount the guest's clock advances one nanosecond an instruction, and nothing here waits for
anything but the CPU: fio's runtime is the number of instructions.
"""

import argparse
import fcntl
import glob
import json
import os
import platform
import statistics
import struct
import subprocess
import sys
import time
from dataclasses import dataclass

MIB = 1 << 20
IMAGE_SIZE = 64 * MIB
FS_SIZE = 768 * MIB
LEVEL_SIZES = [192 * MIB, 128 * MIB]  # of the images around the image, the outermost first
RAM_DISK = "/dev/ram0"
OTHER_RAM_DISK = "/dev/ram1"  # dm wants a disk to itself
IMAGE = "/mnt/bench/image"

# include/uapi/linux/loop.h
LOOP_CLR_FD = 0x4C01
LOOP_SET_DIRECT_IO = 0x4C08
LOOP_CONFIGURE = 0x4C0A
LOOP_CTL_GET_FREE = 0x4C82
LO_FLAGS_DIRECT_IO = 16
LOOP_CONFIG = struct.Struct("=II 52x I 176x 64x")  # fd, block size, lo_flags, the rest 0

# What fio is told, beside the device, the pattern and the depth.
FIO = ["--direct=1", "--bs=4k", "--ioengine=io_uring", f"--size={IMAGE_SIZE}"]
FIO += ["--allow_mounted_write=1"]  # of the RAM disk: at its end, where no file system is


@dataclass
class Target:
    """Something to do I/O to: a driver's device, or what is below it."""

    name: str
    driver: str = ""
    direct: bool = True
    mapped: bool = False
    levels: int = 1  # how many images lie in one another


TARGETS = [
    Target("ram"),
    Target("file"),
    Target("dm-linear", "dm-linear"),
    Target("floop-mapped", "floop", True, True),
    Target("loop-direct", "loop", True),
    Target("floop-direct", "floop", True),
    Target("loop-buffered", "loop", False),
    Target("floop-buffered", "floop", False),
    Target("floop-mapped-2", "floop", True, True, 2),
    Target("floop-mapped-3", "floop", True, True, 3),
    Target("loop-direct-2", "loop", True, False, 2),
    Target("loop-direct-3", "loop", True, False, 3),
]
# Random writes to an image that is sparse at first.
SPARSE_TARGETS = [
    Target("floop-mapped", "floop", True, True),
    Target("floop-direct", "floop", True),
    Target("loop-direct", "loop", True),
]
SPARSE_IMAGE = "/mnt/bench/sparse"
BLOCKS = IMAGE_SIZE // 4096
ANYWHERE = ["--norandommap=1", "--randseed=2"]  # fio, otherwise, writes no block twice
starting_switches = 0
PATTERNS = ["randread", "randwrite"]
DEPTHS = [1, 32]


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def set_up():
    size_kib = (FS_SIZE + IMAGE_SIZE) // 1024
    run("modprobe", "brd", "rd_nr=2", f"rd_size={size_kib}")
    run("modprobe", "loop")
    run("mkfs.xfs", "-q", "-d", f"size={FS_SIZE}", RAM_DISK)
    os.makedirs(os.path.dirname(IMAGE))
    run("mount", RAM_DISK, os.path.dirname(IMAGE))
    places = [(IMAGE, os.O_CREAT, 0), (RAM_DISK, 0, FS_SIZE), (OTHER_RAM_DISK, 0, FS_SIZE)]
    for path, flags, start in places:
        write_all(path, IMAGE_SIZE, flags, start)
    for levels in range(2, len(LEVEL_SIZES) + 2):
        make_levels(levels)


def write_all(path, size, flags=os.O_CREAT, start=0):
    """No holes and nothing that is not on the disk."""
    data = os.urandom(MIB) * (size // MIB)
    fd = os.open(path, os.O_WRONLY | flags)
    written = 0
    while written < size:
        written += os.pwrite(fd, data[written:], start + written)
    os.fsync(fd)
    os.close(fd)


def outer_image(levels):
    return f"{os.path.dirname(IMAGE)}/outer{levels}"


def level_mount(level):
    """Where the file system in the image of that level is mounted, counted from the outermost."""
    return f"/mnt/level{level}"


def make_levels(levels):
    """An image in an image, so many of them: the innermost is as large as IMAGE."""
    image, devices = outer_image(levels), []
    sizes = LEVEL_SIZES[-(levels - 1) :]
    for level, size in enumerate(sizes):
        write_all(image, size)
        devices.append(attach_file(Target("", "loop"), image))
        run("mkfs.ext4", "-q", "-E", "nodiscard", devices[-1])
        os.makedirs(level_mount(level), exist_ok=True)
        run("mount", devices[-1], level_mount(level))
        image = f"{level_mount(level)}/image"
    write_all(image, IMAGE_SIZE)
    run("umount", level_mount(len(sizes) - 1))
    detach(devices)


def attach(target):
    """Attach the image, in others if there are levels; the devices' paths, the outermost first."""
    if target.driver == "dm-linear":
        sectors = IMAGE_SIZE // 512
        table = f"0 {sectors} linear {OTHER_RAM_DISK} {FS_SIZE // 512}"
        run("dmsetup", "create", "cost", "--table", table)
        run("udevadm", "settle")
        return ["/dev/mapper/cost"]
    devices = [attach_file(target, outer_image(target.levels) if target.levels > 1 else IMAGE)]
    for level in range(target.levels - 1):
        run("mount", devices[-1], level_mount(level))
        devices.append(attach_file(target, f"{level_mount(level)}/image"))
    return devices


def attach_file(target, path):
    """Attach one file; the device's path."""
    control = os.open(f"/dev/{target.driver}-control", os.O_RDWR)
    number = fcntl.ioctl(control, LOOP_CTL_GET_FREE)
    os.close(control)
    device = f"/dev/{target.driver}{number}"
    run("udevadm", "settle")
    fd = os.open(device, os.O_RDWR)
    image = os.open(path, os.O_RDWR)
    flags = LO_FLAGS_DIRECT_IO if target.direct else 0
    fcntl.ioctl(fd, LOOP_CONFIGURE, LOOP_CONFIG.pack(image, 0, flags))
    if not target.direct:
        fcntl.ioctl(fd, LOOP_SET_DIRECT_IO, 0)
    os.close(image)
    os.close(fd)
    folder = f"/sys/block/{os.path.basename(device)}/loop"
    with open(f"{folder}/dio") as file:
        if int(file.read()) != target.direct:
            sys.exit(f"guest.py: {device} did not take {target.name}")
    if target.driver == "floop":
        with open(f"{folder}/mapping", "w") as file:
            file.write(str(int(target.mapped)))
    run("udevadm", "settle")
    if target.mapped:
        found = os.stat(path)
        wait_until_mapped(folder, min(found.st_size, found.st_blocks * 512))
    return device


def wait_until_mapped(folder, size):
    """All that can be: what mkfs has zeroed, its journal for one, is allocated and not written."""
    before = 0
    for _ in range(100):
        time.sleep(0.3)
        with open(f"{folder}/mapped_bytes") as file:
            now = int(file.read())
        if now == before >= size * 9 // 10:
            return
        before = now
    said = run("grep", "-H", "", f"{folder}/backing_file", *glob.glob(f"{folder}/mapped*"))
    sys.exit(f"guest.py: {size} bytes don't get mapped:\n{said}")


def detach(devices):
    for level in reversed(range(len(devices))):
        detach_device(devices[level])
        if level:
            # udev may be the last to close it, and with it the image.
            run("udevadm", "settle")
            run("umount", level_mount(level - 1))


def detach_device(device):
    if device.startswith("/dev/mapper/"):
        run("dmsetup", "remove", "--retry", os.path.basename(device))
        return
    fd = os.open(device, os.O_RDWR)
    fcntl.ioctl(fd, LOOP_CLR_FD)
    os.close(fd)


def fio_command(path, pattern, depth, ios, *more):
    """The command, for a device, the image, or the end of the RAM disk."""
    offset = FS_SIZE if path == RAM_DISK else 0
    return [
        *("fio", "--name=cost", f"--filename={path}", f"--offset={offset}", *FIO),
        *(f"--rw={pattern}", f"--iodepth={depth}", f"--number_ios={ios}"),
        *("--output-format=json", *more),
    ]


def forget_pages():
    """Take the image and the RAM disk out of the page cache, and nothing else: fio stays there."""
    os.sync()
    for path in (IMAGE, RAM_DISK):
        fd = os.open(path, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def switches():
    """Context switches of the whole machine since it started."""
    with open("/proc/stat") as stat:
        return next(int(line.split()[1]) for line in stat if line.startswith("ctxt "))


def fio(*args):
    """Run fio; how many context switches that took, and what fio has to say."""
    # fio closes what it wrote to, and udev looks at it afresh: not a part of the run.
    run("udevadm", "control", "--stop-exec-queue")
    before = switches()
    output = run(*fio_command(*args))
    total = switches() - before
    run("udevadm", "control", "--start-exec-queue")
    return total, json.loads(output)["jobs"][0]


def find_base():
    """What fio's start and end take, in context switches: a run of one I/O, the median of five."""
    global starting_switches
    starting_switches = statistics.median(fio(IMAGE, "randread", 1, 1)[0] for _ in range(5))


def measure(path, pattern, depth, ios, *more):
    """One run of fio, with the image not cached: what it took."""
    forget_pages()
    total, job = fio(path, pattern, depth, ios, *more)
    done = job["read" if pattern == "randread" else "write"]
    if job["error"] or done["total_ios"] != ios:
        sys.exit(f"guest.py: fio did {done['total_ios']} of {ios} I/Os on {path}")
    return {
        "instructions": done["runtime"] * 1e6 / ios,
        "switches": max(0, total - starting_switches) / ios,
        "fio_switches": job["ctx"] / ios,
        "fio_user_percent": job["usr_cpu"],
        "fio_system_percent": job["sys_cpu"],
    }


class Attached:
    """The path to do I/O to, for as long as it is needed."""

    def __init__(self, target):
        self.target = target

    def __enter__(self):
        if self.target.driver:
            self.devices = attach(self.target)
            return self.devices[-1]
        return RAM_DISK if self.target.name == "ram" else IMAGE

    def __exit__(self, *_):
        if self.target.driver:
            detach(self.devices)


class HalfWritten:
    """The same, with an image that is sparse, and of which half is written, in no order."""

    def __init__(self, target):
        self.target = target

    def __enter__(self):
        with open(SPARSE_IMAGE, "w") as file:
            file.truncate(IMAGE_SIZE)
        self.device = attach_file(self.target, SPARSE_IMAGE)
        fio(self.device, "randwrite", 32, BLOCKS // 2, "--randseed=1")
        os.sync()
        if self.target.mapped:
            folder = f"/sys/block/{os.path.basename(self.device)}/loop"
            wait_until_mapped(folder, IMAGE_SIZE // 2)
        return self.device

    def __exit__(self, *_):
        detach_device(self.device)
        os.unlink(SPARSE_IMAGE)


def measure_sparse(target, depth):
    """Writes to any block of an image that is half written."""
    with HalfWritten(target) as device:
        before = os.stat(SPARSE_IMAGE).st_blocks
        result = measure(device, "randwrite", depth, BLOCKS // 2, *ANYWHERE)
        allocated = (os.stat(SPARSE_IMAGE).st_blocks - before) * 512 // 4096
    return {**result, "allocated": allocated / (BLOCKS // 2)}


def describe():
    """Versions, and the options that each device ended up with."""
    devices = {}
    for target in TARGETS:
        with Attached(target) as path:
            queue = f"/sys/block/{os.path.basename(os.path.realpath(path))}/queue"
            if not os.path.exists(queue):
                continue
            limits = {}
            for name in ("logical_block_size", "physical_block_size", "scheduler", "nr_requests"):
                if os.path.exists(f"{queue}/{name}"):
                    with open(f"{queue}/{name}") as file:
                        limits[name] = file.read().strip()
            devices[target.name] = limits
    return {
        "kernel": platform.release(),
        "fio": run("fio", "--version").strip(),
        "fio_options": FIO,
        "image_bytes": IMAGE_SIZE,
        "devices": devices,
    }


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--rounds", type=int, required=True)
    p.add_argument("--ios", type=int, required=True)
    args = p.parse_args()
    set_up()
    print(json.dumps({"machine": describe()}), flush=True)
    find_base()
    for number in range(args.rounds):
        for pattern in PATTERNS:
            for depth in DEPTHS:
                for target in TARGETS:
                    started = time.monotonic()
                    with Attached(target) as path:
                        result = measure(path, pattern, depth, args.ios)
                    cell = {"target": target.name, "pattern": pattern, "depth": depth}
                    took = {"guest_seconds": time.monotonic() - started}
                    print(json.dumps({"round": number, **cell, **result, **took}), flush=True)
        for depth in DEPTHS:
            for target in SPARSE_TARGETS:
                result = measure_sparse(target, depth)
                cell = {"target": target.name, "pattern": "sparse", "depth": depth}
                print(json.dumps({"round": number, **cell, **result}), flush=True)


if __name__ == "__main__":
    main()
