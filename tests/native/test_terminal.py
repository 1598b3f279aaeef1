# SPDX-License-Identifier: GPL-2.0-only
"""Commands on a terminal and without one.

On a terminal there is progress, and ^C; the rest is the same.
"""

import signal
import subprocess

import pytest
from native import (
    BUSY,
    DONE,
    FLOOP,
    NOT_FOUND,
    UNSUITABLE,
    Terminal,
    attribute,
    run,
    wait_until,
)

M = 1 << 20
ESCAPE = "\x1b"


@pytest.fixture
def terminal():
    """terminal(ARG...) starts the command on one."""
    started = []

    def start(*args):
        started.append(Terminal(*args))
        return started[-1]

    yield start
    for one in started:
        one.close()


def without(*args):
    """The exit code and the two outputs without any terminal."""
    result = run(
        FLOOP,
        *args,
        check=False,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    return result.returncode, result.stdout, result.stderr


@pytest.fixture
def held(floop, image):
    """A device that stays in use."""
    device = floop.attach(image(name="held.img"))
    with open(device, "rb") as f:
        process = subprocess.Popen(["sleep", "600"], stdin=f)
    yield device
    process.kill()
    process.wait()


@pytest.mark.parametrize("command", ["list", "doctor", "status"])
def test_same(held, folder, terminal, command):
    """What there is to read is the same."""
    # So that doctor finds something.
    (folder / "held.img").unlink()
    code, out, err = without(command, held)
    assert err == "" and held in out and ESCAPE not in out
    assert out.endswith("\n") and not out.endswith("\n\n")
    assert terminal(command, held).ends() == (code, out)


def test_attach_set_detach(image, terminal):
    """What there is to say is the same, and whole lines of text."""
    path = image(M + 100, "new.img")

    def life(does):
        """What each command of a device's life says, and its exit code."""
        code, out = does("attach", "--driver", "loop", path)
        device = out.splitlines()[-1]
        said = [(code, out)]
        for args in (
            ["attach", "--driver", "loop", path],
            ["set", device, "--direct", "off"],
            ["set", device, "--mapping", "on"],
            ["detach", device],
            ["detach", device],
        ):
            said.append(does(*args))
        assert all(out == "" or out.endswith("\n") for _, out in said)
        return [(code, out.replace(device, "DEVICE")) for code, out in said]

    def in_a_file(*args):
        code, out, err = without(*args)
        return code, err + out

    said = life(lambda *args: terminal(*args).ends())
    codes = [code for code, _ in said]
    assert codes == [DONE, BUSY, DONE, UNSUITABLE, DONE, NOT_FOUND]
    warning = f"floop: warning: {path}: the last 100 bytes can't be seen"
    assert said[0][1].startswith(warning)
    assert said[2][1] == ""
    assert said[4][1] == f"floop: DEVICE detached ({path})\n"
    assert said == life(in_a_file)
    assert not any(ESCAPE in out for _, out in said)


def test_create(folder, terminal):
    """A bar while it works, on a terminal only, and no word in the end."""
    code, out = terminal("create", folder / "a.img", "64M").ends()
    assert code == DONE
    assert "64.00 MiB" in out and out.rstrip().endswith(f"{ESCAPE}[2K")
    assert without("create", folder / "b.img", "64M") == (DONE, "", "")
    assert (folder / "b.img").stat().st_size == 64 * M


def test_resize(floop, folder, terminal):
    """The same, and then what has happened."""
    path = folder / "thick.img"
    floop("create", path, "1M")
    device = floop.attach(path)
    code, out = terminal("resize", device, "64M").ends()
    assert code == DONE and "63.00 MiB" in out
    # The bar is gone before that.
    says = f"floop: {path}: {64 * M} (64 MiB) now; the new part is written"
    assert says in out.rpartition(f"{ESCAPE}[2K")[2]
    code, out, err = without("resize", device, "128M")
    assert (code, out) == (DONE, "")
    assert err == (
        f"floop: {path}: {128 * M} (128 MiB) now; the new part is written, as "
        "the image is\n"
    )


def test_resize_is_interrupted(floop, folder, terminal):
    """^C ends it, and leaves image, device and terminal as they were."""
    path = folder / "thick.img"
    floop("create", path, "1M")
    device = floop.attach(path)
    resize = terminal("resize", device, "8G")
    wait_until(lambda: path.stat().st_size > M)
    resize.press("\x03")
    code, out = resize.ends()
    assert code == -signal.SIGINT
    says = f"floop: {path}: interrupted; everything is as it was"
    assert says in out.rpartition(f"{ESCAPE}[2K")[2]
    assert path.stat().st_size == M
    assert int(attribute(device, "size")) * 512 == M


def test_watch(floop, held, image, terminal):
    """Events come at once, and ^C ends it without an error."""
    watch = terminal("watch", "--interval", "0.2")
    watch.says(f" present {held} ")
    new = image(name="new.img")
    device = floop.attach(new)
    watch.says(f" {device} {new} size={M}\r\n")
    watch.press("\x03")
    code, out = watch.ends()
    assert code == DONE
    assert ESCAPE not in out and "floop: " not in out


def test_watch_without(held, folder):
    """In a file there are lines of text, too."""
    path = folder / "events"
    with open(path, "w") as out:
        process = subprocess.Popen(
            [FLOOP, "watch"],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    try:
        wait_until(lambda: f" present {held} " in path.read_text())
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=20)[1] == b""
        assert process.returncode == DONE
        assert ESCAPE not in path.read_text()
    finally:
        process.kill()
        process.wait()
