# SPDX-License-Identifier: GPL-2.0-only
"""Drivers that are not there, nodes that are late, people who may not."""

import os

import pytest
from native import (
    EMPTY_DEV,
    FAILED,
    FLOOP,
    NO_DRIVER,
    PERMISSION,
    attached_below,
    private,
    run,
)

NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]

# A /dev with the loop driver's control node, and no device.
ONLY_CONTROL = f"{EMPTY_DEV}\nmknod /dev/loop-control c 10 237"

# All the nodes that loop devices may have, the usual way.
NODES = 'for n in $(seq 0 300); do mknod "/dev/loop$n" b 7 "$n"; done'


def test_no_driver_at_all(floop, image):
    """With no driver loaded the message names both control nodes.

    It says how to load a driver, too.
    """
    complaint = floop.refused(
        NO_DRIVER, "attach", image(), via=private(EMPTY_DEV)
    )
    assert complaint == (
        "floop: no driver: "
        "neither /dev/floop-control nor /dev/loop-control is there; "
        "load one as root: modprobe floop, or modprobe loop\n"
    )


def test_modprobe_says_nothing(floop, image, folder):
    """What modprobe says is not shown: the message is the command's own."""
    modprobe = folder / "modprobe"
    modprobe.write_text("#!/bin/sh\necho heard; echo heard >&2; exit 1\n")
    modprobe.chmod(0o755)
    path = f"PATH={folder}:{os.environ['PATH']}"
    complaint = floop.refused(
        NO_DRIVER, "attach", image(), via=[*private(EMPTY_DEV), "env", path]
    )
    assert complaint.startswith("floop: no driver: ")
    assert "heard" not in complaint


def test_no_loop_driver(floop, image):
    """So if only the loop driver was asked for."""
    complaint = floop.refused(
        NO_DRIVER, "attach", "--driver", "loop", image(), via=private(EMPTY_DEV)
    )
    assert (
        "no loop driver: /dev/loop-control is not there; load it as root"
        in complaint
    )


def test_no_floop_driver(floop, image):
    """--driver floop without the module.

    The message says how to go on without it, too.
    """
    complaint = floop.refused(
        NO_DRIVER,
        "attach",
        "--driver",
        "floop",
        image(),
        via=private(ONLY_CONTROL),
    )
    assert "no floop driver: /dev/floop-control is not there" in complaint
    assert (
        "(modprobe floop), or use the loop driver (--driver loop)" in complaint
    )


def test_auto_without_floop_is_the_loop_driver(floop, image):
    """Where floop is not loaded, the loop driver attaches the image.

    Not a word is said about it.
    """
    device = run(*private(f"{ONLY_CONTROL}\n{NODES}"), FLOOP, "attach", image())
    assert device.stdout.startswith("/dev/loop")
    assert device.stderr == ""


def test_no_permission_to_attach(floop, image):
    """Who may not use the driver is told which node refused, and what to do."""
    path = image()
    os.chmod(path, 0o666)
    for parent in path.parents[:4]:
        os.chmod(parent, 0o755)
    complaint = floop.refused(PERMISSION, "attach", path, via=NOBODY)
    assert (
        "-control: cannot open: permission denied; run it as root (sudo)"
        in complaint
    )


def test_no_permission_for_the_image(floop, image):
    """Who may not read the image is told so."""
    path = image()
    os.chmod(path, 0o600)
    for parent in path.parents[:4]:
        os.chmod(parent, 0o755)
    complaint = floop.refused(PERMISSION, "attach", path, via=NOBODY)
    assert f"{path}: cannot open: permission denied; " in complaint


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("create {folder}/new 1M", "{folder}/new: cannot make it"),
        ("create --thin {folder}/new 1M", "{folder}/new: cannot make it"),
        ("resize {image} 2M", "{image}: cannot open"),
        ("resize {device} 2M", "{image}: cannot open"),
        ("set {device} --direct off", "{device}: cannot open"),
        ("set {device} --sector-size 4K", "{device}: cannot open"),
        ("detach {device}", "{device}: cannot open"),
    ],
)
def test_no_permission(floop, image, folder, line, complaint):
    """Who may only read changes nothing, and is told what refused it."""
    path = image()
    for parent in path.parents[:4]:
        os.chmod(parent, 0o755)
    device = floop.attach(path)
    before = floop("status", "--json", device)
    names = {"device": device, "image": path, "folder": folder}
    words = [word.format(**names) for word in line.split()]
    says = floop.refused(PERMISSION, *words, via=NOBODY)
    why = "permission denied; run it as root (sudo)"
    assert says == f"floop: {complaint.format(**names)}: {why}\n"
    assert floop("status", "--json", device) == before
    assert os.listdir(folder) == [path.name]


def test_node_that_comes_late(floop, image, folder):
    """udev may make the node after the kernel made the device.

    attach waits for it.
    """
    late = private(f"{ONLY_CONTROL}\n(sleep 0.5; {NODES}) &")
    device = run(*late, FLOOP, "attach", image()).stdout.strip()
    assert attached_below(folder) == [device]


def test_node_of_another_device(floop, image, folder):
    """A stale node is not taken for the device.

    attach waits for the right one.
    """
    stale = 'for n in $(seq 0 300); do mknod "/dev/loop$n" b 1 0; done'
    right = f"rm /dev/loop[0-9]*; {NODES}"
    late = private(f"{ONLY_CONTROL}\n{stale}\n(sleep 0.5; {right}) &")
    device = run(*late, FLOOP, "attach", image()).stdout.strip()
    assert attached_below(folder) == [device]


def test_node_that_never_comes(floop, image, folder):
    """Without the node at all attach gives up, and says how to make it."""
    complaint = floop.refused(
        FAILED, "attach", image(), via=private(ONLY_CONTROL)
    )
    assert "its node has not appeared" in complaint
    assert "; mknod /dev/loop" in complaint
    assert attached_below(folder) == []


def modprobe(folder):
    """A modprobe that writes down what it was asked for.

    Returns what to call with it.
    """
    program = folder / "modprobe"
    program.write_text(f'#!/bin/sh\necho "$*" >>{folder}/asked\n')
    program.chmod(0o755)
    (folder / "asked").touch()
    (folder / "asked").chmod(0o666)
    for parent in [folder, *folder.parents[:3]]:
        os.chmod(parent, 0o755)
    return ["env", f"PATH={folder}:{os.environ['PATH']}"]


def test_modprobe_is_asked(floop, image, folder):
    """With no driver there root's attach has modprobe load one.

    That is floop, or else the loop driver.
    """
    via = [*private(EMPTY_DEV), *modprobe(folder)]
    floop.refused(NO_DRIVER, "attach", "--driver", "auto", image(), via=via)
    asked = (folder / "asked").read_text().splitlines()
    assert asked == [
        "--quiet --use-blacklist floop",
        "--quiet --use-blacklist loop",
    ]


def test_modprobe_is_not_asked_in_vain(floop, image, folder):
    """It is not asked for the driver that is there, nor by who is not root."""
    via = modprobe(folder)
    run(*via, FLOOP, "attach", "--driver", "loop", image())
    path = image()
    os.chmod(path, 0o666)
    floop.refused(
        NO_DRIVER, "attach", path, via=[*private(EMPTY_DEV), *via, *NOBODY]
    )
    assert (folder / "asked").read_text() == ""
