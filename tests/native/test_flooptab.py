# SPDX-License-Identifier: GPL-2.0-only
"""/etc/flooptab: what the generator writes, and floop table."""

import os
import pathlib
import subprocess
import time

import pytest
from native import (
    BUSY,
    FAILED,
    FLOOP,
    NOT_FOUND,
    USAGE,
    attached_below,
    is_attached,
    private,
    run,
    wait_until,
)


@pytest.fixture
def generate(folder):
    """Run the generator on a table.

    Returns the files it wrote (the targets of links) and what it printed.
    """
    (folder / "floop-generator").symlink_to(FLOOP)
    units = folder / "units"
    units.mkdir()

    def call(text):
        table = folder / "flooptab"
        if text is not None:
            table.write_bytes(text.encode())
        env = {
            **os.environ,
            "FLOOPTAB": str(table),
            "SYSTEMD_FSTAB": str(folder / "fstab"),
            "SYSTEMD_SCOPE": "user",
        }
        before = set(folder.iterdir())
        result = run(
            folder / "floop-generator", units, "/early", "/late", env=env
        )
        assert set(folder.iterdir()) == before
        assert result.stdout == ""
        files = {
            str(path.relative_to(units)): (
                os.readlink(path) if path.is_symlink() else path.read_text()
            )
            for path in units.rglob("*")
            if path.is_symlink() or path.is_file()
        }
        return files, result.stderr

    return call


def settings(files, name):
    text = files[f"floop@{name}.service.d/50-flooptab.conf"]
    return [line for line in text.splitlines() if not line.startswith("#")]


def pulls(files):
    """What pulls in which service, the services of devices apart."""
    return sorted(
        name for name in files if "/floop@" in name and ".device." not in name
    )


def test_no_table(generate):
    assert generate(None) == ({}, "")


def test_a_device_of_the_boot(generate, folder):
    """It is after the image's file system and before local-fs.target."""
    files, said = generate("my-data /srv/100%\\040full.img\n")
    assert said == ""
    device = "dev-floop-my\\x2ddata"
    assert settings(files, "my-data") == [
        "[Unit]",
        f"SourcePath={folder}/flooptab",
        'RequiresMountsFor="/srv/100%% full.img"',
        "Before=local-fs.target",
        f"Before=blockdev@{device}.target",
        f"Wants=blockdev@{device}.target",
    ]
    assert pulls(files) == ["local-fs.target.requires/floop@my-data.service"]
    link = files[f"{device}.device.requires/floop@my-data.service"]
    assert link == "/usr/lib/systemd/system/floop@.service"


def test_when_it_is_attached(generate):
    """nofail, noauto and _netdev are fstab's."""
    files, said = generate(
        "a /a.img nofail\nb /b.img noauto\nc /c.img _netdev\n"
        "d /dev/vda2 partscan\n"
    )
    assert said == ""
    assert pulls(files) == [
        "local-fs.target.requires/floop@d.service",
        "local-fs.target.wants/floop@a.service",
        "remote-fs.target.requires/floop@c.service",
    ]
    for name in "ab":
        assert "Before=local-fs.target" not in settings(files, name)
        # What is mounted from the device pulls it in.
        assert f"dev-floop-{name}.device.requires/floop@{name}.service" in files
    assert "Before=remote-fs.target" in settings(files, "c")
    assert "After=network-online.target" in settings(files, "c")
    assert "After=dev-vda2.device" in settings(files, "d")


def test_what_is_mounted_from_it(generate, folder):
    """It waits for the service, and starts it."""
    (folder / "fstab").write_text(
        "# /dev/floop/d /no ext4\n/dev/floop/d /srv/a\\040b ext4\n"
        "/dev/floop/d-part2 none swap\n/dev/floop/d-part3 /home ext4\n"
        "/dev/floop/dd /other ext4\n/dev/vda1 / ext4\n"
    )
    files, said = generate("d /d.img partscan,noauto\n")
    assert said == ""
    before = [line for line in settings(files, "d") if "Before=" in line]
    assert before == [
        "Before=blockdev@dev-floop-d.target",
        "Before=srv-a\\x20b.mount",
        "Before=home.mount",
    ]
    assert sorted(name for name in files if ".device." in name) == [
        "dev-floop-d.device.requires/floop@d.service",
        "dev-floop-d\\x2dpart2.device.requires/floop@d.service",
        "dev-floop-d\\x2dpart3.device.requires/floop@d.service",
    ]


def test_bad_lines_stop_nothing(generate):
    """They are reported by number, and the others are attached."""
    files, said = generate("a\nb /b.img luks\n../c /c\nd /d.img\n")
    assert [line.split("/flooptab")[1] for line in said.splitlines()] == [
        ":1: a has no image",
        ":2: unknown option 'luks'",
        ":3: '../c' is not a name: give at most 64 letters, digits, '_', "
        "'-' and '.', a letter or a digit first",
    ]
    # The service of b says what is wrong, too.
    assert pulls(files) == [
        "local-fs.target.requires/floop@b.service",
        "local-fs.target.requires/floop@d.service",
    ]


def test_floop_table_says_what_is_wrong(folder):
    table = folder / "flooptab"
    table.write_text("a\nb /b.img luks\n")
    env = {**os.environ, "FLOOPTAB": str(table)}

    def attach(name):
        result = run(FLOOP, "table", "attach", name, check=False, env=env)
        assert result.stdout == ""
        return result.returncode, result.stderr

    assert attach("b") == (
        USAGE,
        f"floop: {table}: line 2, b: unknown option 'luks'\n",
    )
    assert attach("a") == (
        NOT_FOUND,
        f"floop: {table}: has no device with the name a; line 1 is wrong: "
        "a has no image\n",
    )


@pytest.fixture
def table(folder):
    """table(TEXT) is a function that runs floop table with that flooptab.

    It has a /run of its own, which all its calls share, and the links of
    /dev/floop are those in a folder.
    """
    (folder / "run").mkdir()

    def write(text):
        path = folder / "flooptab"
        path.write_text(text)
        own = private(f"mount --bind {folder}/run /run")
        environment = {**os.environ, "FLOOPTAB": str(path)}

        def call(action, name):
            return run(
                *own, FLOOP, "table", action, name, check=False, env=environment
            )

        return call

    return write


def test_names_that_begin_alike(table, image):
    """A device has its whole name."""
    one, two = image(name="one"), image(name="two")
    call = table(f"data {one}\ndata2 {two}\n")
    device = call("attach", "data2").stdout.strip()
    assert is_attached(device)
    assert call("detach", "data").returncode == 0
    assert is_attached(device)
    result = call("attach", "data")
    assert (result.returncode, result.stderr) == (0, "")
    assert call("detach", "data2").returncode == 0
    wait_until(lambda: not is_attached(device))
    assert is_attached(result.stdout.strip())


def test_a_device_in_use_keeps_its_name(table, image):
    """It is not attached a second time while its last user has it."""
    call = table(f"data {image()}\n")
    device = call("attach", "data").stdout.strip()
    with open(device, "rb"):
        assert call("detach", "data").returncode == 0
        result = call("attach", "data")
        assert result.returncode == BUSY
        assert f"data: is {device} already" in result.stderr
    wait_until(lambda: not is_attached(device))
    assert call("attach", "data").returncode == 0


def test_a_device_that_gets_no_name(table, image, folder):
    """It doesn't stay attached."""
    call = table(f"data {image()}\n")
    (folder / "run" / "flooptab").write_text("")
    result = call("attach", "data")
    assert result.returncode == FAILED and result.stdout == ""
    assert "data: cannot be named: " in result.stderr
    wait_until(lambda: not attached_below(folder))


@pytest.fixture
def links(folder):
    """A folder for the links of /dev/floop, and how to mount it there."""
    path = folder / "links"
    path.mkdir()
    place = pathlib.Path("/dev/floop")
    made = not place.exists()
    place.mkdir(exist_ok=True)
    yield path, f"mount --bind {path} {place}"
    if made:
        place.rmdir()


def test_a_link_to_another_device(table, image, folder, links):
    """It is attached once its name leads to it."""
    path, mount = links
    (path / "data").symlink_to("/dev/null")
    (folder / "run" / "udev").mkdir()
    (folder / "run" / "udev" / "control").write_text("")
    (folder / "flooptab").write_text(f"data {image()}\n")
    own = private(f"mount --bind {folder}/run /run\n{mount}")
    with subprocess.Popen(
        [*own, FLOOP, "table", "attach", "data"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "FLOOPTAB": str(folder / "flooptab")},
    ) as process:
        wait_until((folder / "run" / "flooptab").exists)
        time.sleep(1)
        assert process.poll() is None
        (device,) = attached_below(folder)
        (path / "new").symlink_to(device)
        (path / "new").rename(path / "data")
        assert process.stdout.read() == f"{device}\n"
    assert process.returncode == 0
