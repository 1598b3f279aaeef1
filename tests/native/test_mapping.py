# SPDX-License-Identifier: GPL-2.0-only
"""Mapping where the in-tree driver serves.

Also what the module's reasons are called. What floop itself maps is
tests/cases/cli/mapping.sh.
"""

import json
import os
import re

import pytest
from native import (
    FLOOP,
    NO_DRIVER,
    NOT_FOUND,
    PROJECT,
    UNSUITABLE,
    attached_below,
    attribute,
    is_attached,
    private,
    run,
)

FIELDS = [
    "mapped",
    "mapped_bytes",
    "mapping",
    "mapped_reason",
    "mapped_shared_bytes",
    "mapped_extents",
    "mapped_memory",
    "epochs_begun",
    "epochs_broken",
    "readers",
    "ios_mapped",
    "ios_holes",
    "ios_file",
    "ios_file_causes",
    "ios_failed",
    "last_break",
]


def nothing_said(status):
    """In JSON, whatever there is to say of a mapping is there, and null."""
    return {name: status[name] for name in FIELDS} == dict.fromkeys(FIELDS)


def test_status(floop, image):
    """The in-tree driver maps nothing.

    status says so in words, and in JSON nothing at all.
    """
    device = floop.attach(image())
    assert "\nmapping:        not with the in-tree driver\n" in floop(
        "status", device
    )
    assert nothing_said(floop.status(device))


def test_list(floop, image):
    """In list there is a dash."""
    device = floop.attach(image())
    assert column(floop("list"), device) == "-"
    found = next(
        d for d in floop.json("list")["devices"] if d["device"] == device
    )
    assert (found["mapped"], found["mapped_bytes"]) == (None, None)


@pytest.mark.parametrize("how", ["auto", "off"])
def test_attach_without(floop, image, how):
    """--mapping auto and off are fine with the in-tree driver."""
    status = floop.json("attach", "--mapping", how, image())
    assert nothing_said(status)


def test_attach_with(floop, image, folder):
    """--mapping on is an error that names the driver; nothing is attached."""
    path = image()
    complaint = floop.refused(
        NO_DRIVER, "attach", "--driver", "loop", "--mapping", "on", path
    )
    assert complaint == (
        f"floop: {path}: can't be mapped: "
        "the in-tree loop driver would serve it, and only floop maps; "
        "load floop as root (modprobe floop), "
        "and don't ask for --driver loop\n"
    )
    assert attached_below(folder) == []


def test_set_off(floop, image):
    """set --mapping off asks for nothing that is not so already."""
    device = floop.attach(image())
    assert floop.quiet("set", device, "--mapping", "off") == ""
    assert floop.json("set", device, "--mapping", "off")["device"] == device


def test_set_on(floop, image):
    """set --mapping on is an error that names the driver.

    The device stays as it is.
    """
    device = floop.attach(image())
    complaint = floop.refused(
        UNSUITABLE, "set", device.removeprefix("/dev/"), "--mapping", "on"
    )
    assert (
        "can't be mapped: "
        "the in-tree loop driver serves it, and only floop maps; "
    ) in complaint
    assert is_attached(device)


def test_set_of_nothing(floop, image):
    """There is nothing to set where nothing is attached.

    An image stands for its device only if it has one.
    """
    path = image()
    complaint = floop.refused(NOT_FOUND, "set", path, "--mapping", "off")
    assert f"{path}: is not attached to any device" in complaint
    device = floop.attach(path)
    floop.quiet("set", path, "--mapping", "off")
    complaint = floop.refused(
        NOT_FOUND, "set", "/dev/loop999999", "--mapping", "on"
    )
    assert "/dev/loop999999: no such device" in complaint
    name = os.path.basename(device)
    hidden = private(f"mount -t tmpfs none /sys/block\nmkdir /sys/block/{name}")
    complaint = floop.refused(
        NOT_FOUND, "set", device, "--mapping", "off", via=hidden
    )
    assert f"{device}: nothing is attached to it; " in complaint


@pytest.fixture
def served(folder):
    """served(DEVICE, STAT, NAME=VALUE...), for private().

    There floop serves the device, and says this; STAT in loop/stat.
    """

    def make(device, stat, **attributes):
        real = f"/sys/block/{os.path.basename(device)}/loop"
        fake = folder / "said"
        fake.mkdir(exist_ok=True)
        said = {"driver": "floop", **attributes}
        for name in os.listdir(real):
            said[name] = attribute(device, f"loop/{name}")
        lines = [f"{name} {value}\n" for name, value in stat.items()]
        (fake / "stat").write_text("".join(lines))
        for name, value in said.items():
            (fake / name).write_text(f"{value}\n")
        return private(f"mount --bind {fake} {real}")

    return make


MAPPED = {"mapping": 1, "mapped_reason": "mapped"}
STAT = {
    "mapped_bytes": 786432,
    "mapped_shared_bytes": 262144,
    "mapped_extents": 3,
    "mapped_memory": 4096,
    "epochs_begun": 2,
    "epochs_broken": 1,
    "readers": 2,
    "ios_mapped": 1200,
    "ios_holes": 5,
    "ios_file": 34,
}


def column(listing, device):
    header, *rows = listing.splitlines()
    row = next(row for row in rows if row.split()[0] == device)
    return row.split()[header.split().index("MAPPED")]


def test_words(image, floop, served):
    """What is said of an image that is mapped in part."""
    device = floop.attach(image())
    via = served(device, STAT, **MAPPED)
    assert (
        "\nmapping:        yes\n"
        "mapped:         786432 (768 KiB), 75% of the device, in 3 extents; "
        "262144 (256 KiB) of it for reads only\n"
        "map's memory:   4096 (4 KiB)\n"
        "epochs:         2 begun, 1 broken\n"
        "readers:        open 2 times by others to read\n"
        "I/Os:           1200 mapped, 5 of holes, 34 through the file\n"
    ) in run(*via, FLOOP, "status", device).stdout
    assert column(run(*via, FLOOP, "list").stdout, device) == "75%"
    status = json.loads(run(*via, FLOOP, "status", "--json", device).stdout)
    assert {name: status[name] for name in FIELDS} == {
        **STAT,
        "mapped": True,
        "mapping": True,
        "mapped_reason": None,
        # A module that doesn't tell
        "ios_file_causes": {},
        "ios_failed": None,
        "last_break": None,
    }


def test_causes(image, floop, served):
    """Why I/O went through the file system, and who broke the last epoch."""
    device = floop.attach(image())
    causes = {"blocks": 2, "discard": 0, "epoch": 3, "hole": 28, "moon": 1}
    stat = {f"ios_file_{name}": count for name, count in causes.items()}
    broken = {"broken_at": 1764038400, "broken_pid": 12, "broken_by": "a b"}
    stat["ios_failed"] = 1
    via = served(device, {**STAT, **stat, **broken}, **MAPPED)
    assert (
        "\nepochs:         2 begun, 1 broken\n"
        "last broken:    2025-11-25T02:40:00Z by a b (12)\n"
        "readers:        open 2 times by others to read\n"
        "I/Os:           1200 mapped, 5 of holes, 34 through the file\n"
        "by the file:    2 to other blocks that aren't mapped, 3 while not "
        "mapped, 28 to holes, 1 moon\n"
        "failed:         1 I/O\n"
    ) in run(*via, FLOOP, "status", device).stdout
    status = json.loads(run(*via, FLOOP, "status", "--json", device).stdout)
    assert status["ios_file_causes"] == causes
    assert status["ios_failed"] == 1
    by = {"time": 1764038400, "pid": 12, "command": "a b"}
    assert status["last_break"] == by


def test_nobody_known(image, floop, served):
    """The epoch was broken, and the module doesn't know by whom."""
    device = floop.attach(image())
    broken = {"broken_at": 1764038400, "broken_pid": 0, "broken_by": ""}
    via = served(device, {**STAT, **broken}, **MAPPED)
    assert (
        "\nlast broken:    2025-11-25T02:40:00Z\n"
        in run(*via, FLOOP, "status", device).stdout
    )
    status = json.loads(run(*via, FLOOP, "status", "--json", device).stdout)
    by = {"time": 1764038400, "pid": None, "command": None}
    assert status["last_break"] == by


@pytest.mark.parametrize(
    "size, says", [(0, "0%"), (1048575, "99%"), (1 << 20, "yes")]
)
def test_how_much(image, floop, served, size, says):
    """What is not all is not called all."""
    device = floop.attach(image())
    via = served(device, {**STAT, "mapped_bytes": size}, **MAPPED)
    assert column(run(*via, FLOOP, "list").stdout, device) == says


def test_part_of_an_image(image, floop, served):
    """A device may show but a part of its image.

    Then it is not known how much of that is mapped.
    """
    device = floop.attach("--offset", "4096", image())
    via = served(device, STAT, **MAPPED)
    assert column(run(*via, FLOOP, "list").stdout, device) == "yes"
    text = run(*via, FLOOP, "status", device).stdout
    assert (
        "\nmapped:         786432 (768 KiB), of the whole image, in 3 extents; "
        in text
    )


def test_words_why_not(image, floop, served):
    """What is said of an image that is not mapped, in words and in JSON."""
    why = "someone else has the image open"
    device = floop.attach(image())
    said = {**MAPPED, "mapped_reason": why}
    via = served(device, {**STAT, "mapped_bytes": 0}, **said)
    assert (
        f"\nmapping:        no: {why}\n"
        in run(*via, FLOOP, "status", device).stdout
    )
    assert column(run(*via, FLOOP, "list").stdout, device) == "no"
    status = json.loads(run(*via, FLOOP, "status", "--json", device).stdout)
    assert (status["mapped"], status["mapped_reason"]) == (False, why)


def test_set(floop, image, folder, served):
    """set writes what was asked for."""
    device = floop.attach(image())
    via = served(device, STAT, **{**MAPPED, "mapping": 0})
    assert run(*via, FLOOP, "set", "--mapping", "on", device).stdout == ""
    assert (folder / "said/mapping").read_text() == "1\n"
    run(*via, FLOOP, "set", "--mapping", "off", device)
    assert (folder / "said/mapping").read_text() == "0\n"


@pytest.mark.parametrize("before", [0, 1])
def test_set_on_what_never_is(floop, image, folder, served, before):
    """Where a reason stays, set --mapping on fails with it and the way out.

    It changes nothing.
    """
    device = floop.attach(image())
    why = "the image is not on ext4 or xfs"
    said = {"mapping": before, "mapped_reason": why}
    via = served(device, STAT, **said)
    complaint = floop.refused(
        UNSUITABLE, "set", "--mapping", "on", device, via=via
    )
    assert (
        complaint
        == f"floop: {device}: can't be mapped: {why}; move it to one of them\n"
    )
    assert (folder / "said/mapping").read_text() == f"{before}\n"


def test_set_on_what_may_be(floop, image, served):
    """Where it passes, there is a warning.

    That is so for a reason that this command has never heard of, too.
    """
    device = floop.attach(image())
    via = served(device, STAT, mapping=1, mapped_reason="the moon is full")
    result = run(*via, FLOOP, "set", "--mapping", "on", device)
    assert result.stderr == (
        f"floop: warning: {device}: is not mapped yet: the moon is full; "
        "it will be when that has changed\n"
    )


def test_module_that_does_not_map(floop, image, served):
    """A floop from before there was mapping.

    That is said, off is fine, on is an error.
    """
    device = floop.attach(image())
    via = served(device, {})
    text = run(*via, FLOOP, "status", device).stdout
    assert "\nmapping:        not with this version of floop\n" in text
    assert run(*via, FLOOP, "set", "--mapping", "off", device).stderr == ""
    complaint = floop.refused(
        NO_DRIVER, "set", "--mapping", "on", device, via=via
    )
    assert "the loaded version of the floop module doesn't map; " in complaint


def words_of_the_module():
    text = (PROJECT / "kernel" / "sysfs.c").read_text()
    return re.findall(
        r'^\t\t\[FLOOP_UNMAPPED_\w+\]\s*= "([^"]+)",$', text, re.MULTILINE
    )


def test_reasons_are_documented():
    """Every reason that the module gives is in the table, and no other.

    It is there with what to do.
    """
    text = (PROJECT / "docs" / "command.md").read_text()
    table = text[text.index("| reason | lasts |") :].split("\n\n")[0]
    documented = re.findall(
        r"^\| `([^`]+)` \| (yes|no) \| \S", table, re.MULTILINE
    )
    assert sorted(words_of_the_module()) == sorted(
        ["mapped", *(words for words, _ in documented)]
    )
    # The command gives up for what lasts.
    command = (PROJECT / "cli" / "src" / "mapping.rs").read_text()
    for words, lasts in documented:
        assert (f'"{words}"' in command.split("#[cfg(test)]")[0]) == (
            lasts == "yes"
        )
