# SPDX-License-Identifier: GPL-2.0-only
"""floop doctor: what it finds, how it says so, and that it changes nothing."""

import json
import os
import shlex
import subprocess

import pytest
from native import (
    DONE,
    FLOOP,
    NOT_FOUND,
    attribute,
    private,
    run,
    wait_until,
)

WARNINGS, ERRORS = 10, 11
# What the commands that mend begin with.
PROGRAMS = ["apt", "dd", "dkms", "dracut", "echo", "floop", "fstrim"]
PROGRAMS += ["mknod", "modprobe", "mokutil", "nsenter", "partx", "rm"]
PROGRAMS += ["sysctl", "update-initramfs"]
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def examine(*devices, via=(), code=None):
    """What doctor finds, by check and subject, of one machine or device."""
    result = run(*via, FLOOP, "doctor", "--json", *devices, check=False)
    assert result.stderr == ""
    report = json.loads(result.stdout)
    worst = {f["severity"] for f in report["findings"]}
    by_worst = (
        ERRORS if "error" in worst else WARNINGS if "warning" in worst else DONE
    )
    assert result.returncode == by_worst
    assert code is None or result.returncode == code
    for found in report["findings"]:
        assert found["mend"] or found["advice"], found
        # A command is one: a shell can read it.
        if found["mend"]:
            run("bash", "-n", "-c", found["mend"])
            program = shlex.split(found["mend"])[0]
            assert program in PROGRAMS, found
    return report


def finding(report, check):
    """The only finding of that check; None if there is none."""
    found = [f for f in report["findings"] if f["check"] == check]
    assert len(found) <= 1, found
    return found[0] if found else None


@pytest.fixture
def used(floop, image, folder):
    """used(PATH) attaches an image, and has it open until the test is over."""
    held = []

    def attach(*args):
        device = floop.attach(*args)
        with open(device, "rb") as f:
            held.append(subprocess.Popen(["sleep", "600"], stdin=f))
        return device

    yield attach
    for process in held:
        process.kill()
        process.wait()


def full(path, size):
    path.write_bytes(b"x" * size)
    with open(path) as f:
        os.fsync(f.fileno())
    return path


def test_nothing_wrong(used, fine):
    """A device that is used, direct and whole gives no finding."""
    device = used("--direct", "on", full(fine / "whole", 1 << 20))
    report = examine(device, code=DONE)
    assert (report["findings"], report["not_checked"]) == ([], [])
    text = run(FLOOP, "doctor", device).stdout
    assert text.startswith("driver: ")
    assert text.endswith("loop (in-tree)\nnothing found\n")


def test_unused(floop, image):
    """Nobody uses it: that may be meant so, and is a note."""
    device = floop.attach(image())
    wait_until(lambda: finding(examine(device, code=DONE), "unused"))
    found = finding(examine(device), "unused")
    assert found["severity"] == "note"
    assert found["subject"] == device
    assert found["mend"] == f"floop detach {device}"
    text = run(FLOOP, "doctor", device).stdout
    assert f"note: {device}: is attached to " in text
    assert f"\n    floop detach {device}\n" in text


def test_deleted(floop, used, image):
    """A deleted image that nobody uses is a leak; a used one may be meant."""
    path = image(3 << 20, "leak")
    device = floop.attach(path)
    in_use = used(image(name="used"))
    path.unlink()
    (path.parent / "used").unlink()
    wait_until(
        lambda: finding(examine(device), "deleted")["severity"] == "warning"
    )
    found = finding(examine(device, code=WARNINGS), "deleted")
    assert f"{path} was deleted" in found["what"] and "3M" in found["what"]
    assert found["mend"] == f"floop detach {device}"
    found = finding(examine(in_use, code=DONE), "deleted")
    assert found["severity"] == "note" and "open in sleep" in found["what"]
    assert found["mend"] == f"floop detach {in_use}"


def test_shared(used, image):
    """One image on two writable devices is an error, unless they are apart."""
    path = image(4 << 20)
    one, two = used(path), used("--if-attached", "allow", path)
    found = finding(examine(one, code=ERRORS), "shared")
    assert (found["severity"], found["subject"]) == ("error", str(path))
    assert one in found["what"] and two in found["what"]
    assert finding(examine(two, code=ERRORS), "shared")
    other = image(4 << 20, "other")
    first = used("--size-limit", "1M", other)
    used("--offset", "1M", other)
    used("--read-only", other)
    assert finding(examine(first, code=DONE), "shared") is None


def test_shared_under_other_names(used, image, folder):
    """It is the file that counts, not its name."""
    path = image()
    os.link(path, folder / "another")
    device = used(path)
    used("--if-attached", "allow", folder / "another")
    assert finding(examine(device), "shared")


def test_buffered(floop, used, fine, no_direct):
    """Why I/O is buffered; and what turns it on, where it can be direct."""
    device = used("--direct", "off", full(fine / "buffered", 1 << 20))
    found = finding(examine(device, code=DONE), "buffered")
    assert "it was not asked for" in found["what"]
    assert found["mend"] == f"floop set {device} --direct on"
    floop(*found["mend"].split()[1:])
    assert finding(examine(device), "buffered") is None
    device = used(full(no_direct / "never", 1 << 20))
    found = finding(examine(device), "buffered")
    assert "has no direct I/O for it" in found["what"]
    assert found["mend"] is None
    assert "no command changes that" in found["advice"]


def test_space(used, image, folder):
    """Sparse images that can grow by more than is left below them."""
    mount = folder / "small"
    mount.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=8M", "none", mount)
    device = used(image(6 << 20, where=mount, name="a"))
    assert finding(examine(device, code=DONE), "space") is None
    second = used(image(6 << 20, where=mount, name="b"))
    used("--read-only", image(99 << 20, where=mount, name="c"))
    found = finding(examine(device, code=WARNINGS), "space")
    assert found["subject"] == str(mount)
    assert "2 sparse images" in found["what"]
    assert "12M" in found["what"] and "8M left" in found["what"]
    full(mount / "fill", 8 << 20)
    assert finding(examine(second, code=ERRORS), "space")["severity"] == "error"


def test_trim(floop, image, folder):
    """What is mounted can give blocks back to the file system below."""
    below = folder / "below"
    below.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=24M", "none", below)
    device = floop.attach(image(32 << 20, where=below, name="a"))
    run("mkfs.ext4", "-q", "-F", "-O", "^has_journal", device)
    mount = folder / "it's"
    mount.mkdir()
    run("mount", device, mount)
    full(mount / "file", 8 << 20)
    os.sync()
    (mount / "file").unlink()
    os.sync()
    found = finding(examine(device, code=WARNINGS), "space")
    assert shlex.split(found["mend"]) == ["fstrim", str(mount)]
    allocated = os.stat(below / "a").st_blocks
    run("bash", "-c", found["mend"])
    assert os.stat(below / "a").st_blocks < allocated - (4 << 11)
    run("umount", mount)
    floop("detach", device)


def test_holes(floop, used, fine):
    """An image that was allocated as a whole and has holes now.

    What fills them leaves written blocks, and the content as it is.
    """
    path = full(fine / "a thick one's", 4 << 20)
    device = floop.attach(path)
    assert finding(examine(device), "holes") is None
    run("fallocate", "--punch-hole", "-o", "1M", "-l", "1M", path)
    os.sync()
    content = path.read_bytes()
    wait_until(lambda: finding(examine(device), "holes")["mend"])
    found = finding(examine(device, code=DONE), "holes")
    assert found["severity"] == "note" and "1M of 4M" in found["what"]
    run("sh", "-c", found["mend"])
    assert finding(examine(device), "holes") is None
    assert path.read_bytes() == content
    extents = run("filefrag", "-v", path).stdout
    assert "unwritten" not in extents and "4194304" in extents
    # Another device of the image that is in use, and writes to it.
    run("fallocate", "--punch-hole", "-o", "1M", "-l", "1M", path)
    os.sync()
    used("--if-attached", "allow", path)
    found = finding(examine(device), "holes")
    assert found["mend"] is None
    assert "no command fills the holes of a device in use" in found["advice"]


def table(*parts):
    """A DOS partition table, as image(at=) takes it: START, SIZE in sectors."""
    entries = b"".join(
        bytes([0, 0, 0, 0, 0x83, 0, 0, 0])
        + start.to_bytes(4, "little")
        + size.to_bytes(4, "little")
        for start, size in parts
    )
    return {446: entries, 510: b"\x55\xaa"}


def test_partitions(used, image, partition):
    """The kernel's partitions against those of the table."""
    path = image(8 << 20, at=table((2048, 2048), (4096, 4096)))
    device = used(path)
    for number in (1, 2):
        run("delpart", device, number, check=False)
    found = finding(examine(device, code=DONE), "partitions")
    assert found["severity"] == "note"
    assert found["mend"] == f"partx --add {device}"
    partition(device, 1, 2048, 2048)
    found = finding(examine(device, code=WARNINGS), "partitions")
    assert "fewer partitions" in found["what"]
    partition(device, 2, 4096, 4096)
    assert finding(examine(device, code=DONE), "partitions") is None
    partition(device, 2, 4096, 2048)
    found = finding(examine(device, code=WARNINGS), "partitions")
    assert found["what"].endswith("not those of its partition table: 2")
    assert found["mend"] == f"partx --update {device}"


def test_logical_partitions(used, image, partition):
    """Those inside of an extended partition are not judged."""
    entries = table((2048, 2048), (4096, 8192))
    entries[446] = entries[446][:20] + b"\x05" + entries[446][21:]
    device = used(image(8 << 20, at=entries))
    for number in (1, 2, 5):
        run("delpart", device, number, check=False)
    partition(device, 1, 2048, 2048)
    partition(device, 2, 4096, 2)
    partition(device, 5, 6144, 2048)
    assert finding(examine(device, code=DONE), "partitions") is None


def test_partitions_without_a_table(used, image, partition):
    """Partitions that are left of a table that is gone."""
    device = used(image(8 << 20))
    partition(device, 3, 2048, 2048)
    found = finding(examine(device, code=WARNINGS), "partitions")
    assert found["mend"] == f"partx --delete {device}"


def test_autoclear(floop, image, folder):
    """The last user that doesn't go: a mount that nobody here sees."""
    device = floop.attach("--autoclear", image(8 << 20))
    run("mkfs.ext4", "-q", "-F", device)
    mount = folder / "mnt"
    mount.mkdir()
    ready = folder / "ready"
    script = f"mount {device} {mount}; : >{ready}; exec sleep 600"
    process = subprocess.Popen(["unshare", "--mount", "sh", "-ec", script])
    try:
        wait_until(ready.exists)
        wait_until(lambda: finding(examine(device), "autoclear"))
        found = finding(examine(device, code=WARNINGS), "autoclear")
        assert f"a mount on {mount}" in found["what"]
        assert f"sleep (process {process.pid}" in found["what"]
        mend = f"nsenter --target {process.pid} --mount umount {mount}"
        assert found["mend"] == mend
        run(*mend.split())
        wait_until(lambda: not os.path.exists(f"/sys/block/{device[5:]}/loop"))
    finally:
        process.kill()
        process.wait()


def test_nodes(used, image):
    """A node that is missing, or another device's, and how to make it."""
    device = used(image())
    number = attribute(device, "dev").replace(":", " ")
    hidden = private(f"mount --bind /dev/null {device}")
    name = os.path.basename(device)
    found = finding(examine(name, via=hidden), "node")
    assert (found["severity"], found["subject"]) == ("warning", device)
    makes = f"mknod -m 660 {device} b {number}"
    assert found["mend"] == f"rm -f {device} && {makes}"
    # Another device's node is a block device, too.
    wrong = private(f"mount --bind {used(image(name='other'))} {device}")
    found = finding(examine(name, via=wrong), "node")
    assert "is not the node of " in found["what"]
    assert finding(examine(device), "node") is None


CONTAINER = """
mount -t tmpfs none /dev
mknod /dev/null c 1 3
"""


def test_container_without_nodes():
    """Where /dev has no control node, what has to be bound is said."""
    report = examine(via=private(CONTAINER))
    control = [
        f
        for f in report["findings"]
        if f["subject"] == "/dev/loop-control" and f["check"] == "node"
    ]
    assert len(control) == 1
    assert "--device /dev/loop-control " in control[0]["advice"]
    again = private(f"{CONTAINER}\n{control[0]['mend']}")
    report = examine(via=again)
    subjects = [f["subject"] for f in report["findings"]]
    assert "/dev/loop-control" not in subjects


def program(folder, name, script):
    """A program in a folder of PATH."""
    path = folder / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.fixture
def machine(folder):
    """machine(MODINFO, EXTRA) is a machine with these modules, for via=.

    MODINFO is a folder with what modinfo says: loop, floop. EXTRA is a script
    that runs there first.
    """

    def make(said, extra=""):
        for name, text in said.items():
            (folder / f"modinfo-{name}").write_text(text)
        program(
            folder, "modinfo", f'exec cat "{folder}/modinfo-$3" 2>/dev/null'
        )
        return [
            *private(extra),
            "env",
            f"PATH={folder}/bin:{os.environ['PATH']}",
        ]

    return make


INSTALLED = "filename:       {file}\nversion:        floop 0.1\n"
SHOWS_DROP_IN = "echo options floop names=loop"


def test_drop_in_waits(machine, folder):
    """The drop-in is installed, and the in-tree driver still loaded."""
    file = folder / "floop.ko"
    file.write_text("")
    via = machine({"floop": INSTALLED.format(file=file)})
    assert finding(examine(via=via), "reload") is None
    program(folder, "modprobe", SHOWS_DROP_IN)
    found = finding(examine(via=via), "reload")
    assert (found["severity"], found["subject"]) == ("warning", "loop")
    assert "the in-tree driver is still loaded" in found["what"]
    if os.path.exists("/sys/module/loop/initstate"):
        assert found["mend"] == "modprobe -r loop && modprobe loop"
    else:
        assert "initcall_blacklist=loop_init" in found["advice"]


# A loop driver that is no module has no state.
LOOP_BUILT_IN = """
mount -t tmpfs none /sys/module
mkdir /sys/module/loop
"""
LOOP_MODULE = LOOP_BUILT_IN + "echo live >/sys/module/loop/initstate\n"


def test_old_initramfs(machine, folder):
    """An initramfs from before the drop-in was installed. It has no in-tree
    driver to load where that is built in.
    """
    file = folder / "floop.ko"
    file.write_text("")
    kernel = os.uname().release
    boot = f"mount -t tmpfs none /boot\n: >/boot/initrd.img-{kernel}\n"
    program(folder, "modprobe", SHOWS_DROP_IN)
    old = boot + f"touch -d 2020-01-01 /boot/initrd.img-{kernel}"
    via = machine({"floop": INSTALLED.format(file=file)}, LOOP_MODULE + old)
    found = finding(examine(via=via), "initramfs")
    assert found["subject"] == f"/boot/initrd.img-{kernel}"
    assert kernel in found["mend"]
    for no_news in (LOOP_MODULE + boot, LOOP_BUILT_IN + old):
        via = machine({"floop": INSTALLED.format(file=file)}, no_news)
        assert finding(examine(via=via), "initramfs") is None


SECURE_BOOT = r"""
mount -t tmpfs none /sys/firmware
mkdir -p /sys/firmware/efi/efivars
printf '\6\0\0\0\1' >/sys/firmware/efi/efivars/SecureBoot-\
8be4df61-93ca-11d2-aa0d-00e098032b8c
"""
KEY = """
mount -t tmpfs none /var/lib
mkdir -p /var/lib/dkms
: >/var/lib/dkms/mok.pub
"""


def test_secure_boot(machine, folder):
    """A module that Secure Boot refuses: not signed, or its key not known."""
    file = folder / "floop.ko"
    file.write_text("")
    said = INSTALLED.format(file=file)
    assert finding(examine(via=machine({"floop": said})), "signature") is None
    via = machine({"floop": said}, SECURE_BOOT)
    report = examine(via=via, code=ERRORS)
    assert report["drivers"]["signed_only"] == "Secure Boot"
    found = finding(report, "signature")
    assert (found["severity"], found["subject"]) == ("error", str(file))
    assert "is not signed" in found["what"]
    said += "signer:         DKMS module signing key\n"
    for answer, expected in (
        ("is not enrolled", True),
        ("is already enrolled", False),
    ):
        program(folder, "mokutil", f'echo "$2 {answer}"; exit 1')
        via = machine({"floop": said}, SECURE_BOOT + KEY)
        found = finding(examine(via=via), "signature")
        assert bool(found) is expected
        if found:
            assert found["mend"] == "mokutil --import /var/lib/dkms/mok.pub"


LOCKDOWN = """
mount -t tmpfs none /sys/kernel
mkdir /sys/kernel/security
echo '{}' >/sys/kernel/security/lockdown
"""


@pytest.mark.parametrize(
    ("says", "why"),
    [
        ("[none] integrity confidentiality", None),
        ("none [integrity] confidentiality", "lockdown"),
        ("none integrity [confidentiality]", "lockdown"),
    ],
)
def test_lockdown(machine, says, why):
    """The kernel marks how far it is locked down among what it could be."""
    report = examine(via=machine({}, LOCKDOWN.format(says)))
    assert report["drivers"]["signed_only"] == why


def test_drop_in_refused(machine, folder):
    """A drop-in that the kernel refuses doesn't wait for a reload."""
    file = folder / "floop.ko"
    file.write_text("")
    program(folder, "modprobe", SHOWS_DROP_IN)
    said = {"floop": INSTALLED.format(file=file)}
    assert finding(examine(via=machine(said)), "reload") is not None
    locked_down = LOCKDOWN.format("none [integrity] confidentiality")
    report = examine(via=machine(said, locked_down), code=ERRORS)
    assert "lockdown refuses" in finding(report, "signature")["what"]
    assert finding(report, "reload") is None


def test_drop_in_blacklisted(machine, folder):
    """Nor does one that modprobe may not load."""
    file = folder / "floop.ko"
    file.write_text("")
    via = machine({"floop": INSTALLED.format(file=file)})
    program(folder, "modprobe", SHOWS_DROP_IN)
    assert finding(examine(via=via), "blacklist") is None
    blacklisted = f"echo blacklist floop\n{SHOWS_DROP_IN}"
    program(folder, "modprobe", blacklisted)
    report = examine(via=via)
    assert finding(report, "reload") is None
    found = finding(report, "blacklist")
    assert (found["severity"], found["subject"]) == ("warning", "floop")
    assert 'remove the line "blacklist floop"' in found["advice"]


# A machine on which no driver is loaded.
NO_DRIVERS = """
mount -t tmpfs none /sys/class/misc
mount -t tmpfs none /sys/block
"""


def test_no_driver(machine):
    """No driver is loaded: the one that is installed can be."""
    said = INSTALLED.format(file="/floop.ko")
    for installed, mend in (
        ({}, "modprobe loop"),
        ({"floop": said}, "modprobe floop"),
    ):
        report = examine(via=machine(installed, NO_DRIVERS))
        found = finding(report, "driver")
        assert (found["severity"], found["subject"]) == ("note", "floop")
        assert (found["what"], found["mend"]) == ("no driver is loaded", mend)
        assert report["drivers"]["loop_driver"] is None
    assert finding(examine(via=machine({})), "driver") is None


LVM = """
mount -t tmpfs none /sys/module
mkdir -p /sys/module/floop/parameters
echo floop >/sys/module/floop/parameters/names
echo floop 0.1 >/sys/module/floop/version
mount -t tmpfs none /etc
mkdir /etc/lvm
: >/etc/lvm/lvm.conf
"""


def test_lvm(machine):
    """LVM skips floop's devices, until its configuration has their kind."""
    found = finding(examine(via=machine({}, LVM)), "lvm")
    severity, subject = found["severity"], found["subject"]
    assert (severity, subject) == ("note", "/etc/lvm/lvm.conf")
    assert "LVM skips floop's devices" in found["what"]
    mended = f"{LVM}\n{found['mend']}"
    assert finding(examine(via=machine({}, mended)), "lvm") is None
    others = LVM + "echo 'types = [ \"fd\", 16 ]' >/etc/lvm/lvm.conf"
    found = finding(examine(via=machine({}, others)), "lvm")
    assert found["mend"] is None
    assert 'add "floop", 16 to the list "types"' in found["advice"]
    beside = f"{LVM}\necho loop >/sys/module/floop/parameters/names"
    assert finding(examine(via=machine({}, beside)), "lvm") is None


def test_dkms(machine):
    """DKMS has floop, and not for the running kernel."""
    kernel = os.uname().release
    has = KEY + "mkdir -p /var/lib/dkms/floop/0.1.0\n"
    found = finding(examine(via=machine({}, has)), "dkms")
    assert (found["severity"], found["subject"]) == ("warning", "floop/0.1.0")
    assert kernel in found["what"]
    reason = f"cd /var/lib\nmkdir floop-dkms\necho WHY >floop-dkms/{kernel}\n"
    found = finding(examine(via=machine({}, has + reason)), "dkms")
    assert found["what"].endswith(f"({kernel}): WHY")
    assert found["advice"].startswith("install a version of floop that knows")
    link = f"/var/lib/dkms/floop/kernel-{kernel}-x86_64"
    has += f"ln -s 0.1.0/{kernel}/x86_64 {link}"
    assert finding(examine(via=machine({}, has)), "dkms") is None


def test_without_privilege(floop, image):
    """Without root it checks what it can, and says what it couldn't."""
    path = image()
    device = floop.attach(path)
    path.unlink()
    report = examine(device, via=NOBODY)
    said = " ".join(report["not_checked"])
    assert "run it as root" in said and "the partition tables" in said
    # Whether it is used isn't known.
    assert finding(report, "deleted")["severity"] == "note"
    assert finding(report, "unused") is None


def test_bad_device(floop, image):
    """A device that there is not, or that nothing is attached to."""
    complaint = floop.refused(NOT_FOUND, "doctor", "/dev/loop999999")
    assert "/dev/loop999999: no such device" in complaint


def test_changes_nothing(floop, used, image):
    """The devices are as they were."""
    path = image(4 << 20)
    devices = [used(path), used("--if-attached", "allow", path)]
    before = floop("list", "--json", *devices)
    examine(code=ERRORS)
    assert floop("list", "--json", *devices) == before
