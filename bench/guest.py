"""Runs inside the test machine, started by cost.py or profile.sh: the devices, and fio on them.

A fully written image on xfs on a RAM disk (brd) is attached to one driver at a time, by the same
ioctls for both. The RAM disk is larger than the file system on it: its end is free for the figures
of the RAM disk itself.

With --icount the guest's clock advances one nanosecond an instruction, and nothing here waits for
anything but the CPU: fio's runtime is the number of instructions.
"""

import argparse
import fcntl
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
FS_SIZE = 512 * MIB
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


TARGETS = [
    Target("ram"),
    Target("file"),
    Target("dm-linear", "dm-linear"),
    Target("floop-mapped", "floop", True, True),
    Target("loop-direct", "loop", True),
    Target("floop-direct", "floop", True),
    Target("loop-buffered", "loop", False),
    Target("floop-buffered", "floop", False),
]
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
    data = os.urandom(MIB) * (IMAGE_SIZE // MIB)
    places = [(IMAGE, os.O_CREAT, 0), (RAM_DISK, 0, FS_SIZE), (OTHER_RAM_DISK, 0, FS_SIZE)]
    for path, flags, start in places:
        fd = os.open(path, os.O_WRONLY | flags)
        written = 0
        while written < IMAGE_SIZE:
            written += os.pwrite(fd, data[written:], start + written)
        os.fsync(fd)
        os.close(fd)


def attach(target):
    """Attach the image; the device's path."""
    if target.driver == "dm-linear":
        sectors = IMAGE_SIZE // 512
        table = f"0 {sectors} linear {OTHER_RAM_DISK} {FS_SIZE // 512}"
        run("dmsetup", "create", "cost", "--table", table)
        run("udevadm", "settle")
        return "/dev/mapper/cost"
    control = os.open(f"/dev/{target.driver}-control", os.O_RDWR)
    number = fcntl.ioctl(control, LOOP_CTL_GET_FREE)
    os.close(control)
    device = f"/dev/{target.driver}{number}"
    run("udevadm", "settle")
    fd = os.open(device, os.O_RDWR)
    image = os.open(IMAGE, os.O_RDWR)
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
        wait_until_mapped(folder)
    return device


def wait_until_mapped(folder):
    """All of the image is in the map."""
    for _ in range(200):
        with open(f"{folder}/mapped_bytes") as file:
            if int(file.read()) == IMAGE_SIZE:
                return
        time.sleep(0.1)
    sys.exit(f"guest.py: {folder} does not get mapped")


def detach(device):
    if device.startswith("/dev/mapper/"):
        run("dmsetup", "remove", "--retry", os.path.basename(device))
        return
    fd = os.open(device, os.O_RDWR)
    fcntl.ioctl(fd, LOOP_CLR_FD)
    os.close(fd)


def fio_command(path, pattern, depth, ios):
    """The command, for a device, the image, or the end of the RAM disk."""
    offset = FS_SIZE if path == RAM_DISK else 0
    return [
        *("fio", "--name=cost", f"--filename={path}", f"--offset={offset}", *FIO),
        *(f"--rw={pattern}", f"--iodepth={depth}", f"--number_ios={ios}"),
        "--output-format=json",
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


def measure(path, pattern, depth, ios):
    """One run of fio, with the image not cached: what it took."""
    forget_pages()
    total, job = fio(path, pattern, depth, ios)
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
            self.path = attach(self.target)
        else:
            self.path = RAM_DISK if self.target.name == "ram" else IMAGE
        return self.path

    def __exit__(self, *_):
        if self.target.driver:
            detach(self.path)


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


if __name__ == "__main__":
    main()
