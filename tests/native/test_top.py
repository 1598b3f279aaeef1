# SPDX-License-Identifier: GPL-2.0-only
"""floop top: its figures, its screen, and the terminal it leaves."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time

import pytest
from native import FLOOP, USAGE, run, wait_until

LEAVE = b"\x1b[?1049l"


class Screen:
    """floop top in a terminal of its own."""

    def __init__(self, *args, rows=300, columns=200):
        self.fd, other = pty.openpty()
        self.rows, self.columns = rows, columns
        size = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, size)
        self.before = termios.tcgetattr(self.fd)
        self.process = subprocess.Popen(
            [FLOOP, "top", "--interval", "0.2", *args],
            stdin=other,
            stdout=other,
            stderr=other,
            start_new_session=True,
        )
        os.close(other)
        self.all = b""

    def read(self):
        """All that it has written so far."""
        while select.select([self.fd], [], [], 0)[0]:
            try:
                self.all += os.read(self.fd, 65536)
            except OSError:
                break
        return self.all

    def text(self):
        """What the terminal shows.

        Of what a terminal knows, only moving and clearing count here.
        """
        cells, row, column = {}, 1, 1
        for escape, char in re.findall(
            r"\x1b\[([?\d;]*[A-Za-z])|(.)",
            self.read().decode(errors="replace"),
            re.DOTALL,
        ):
            if escape.endswith("H"):
                row, column = map(int, (escape[:-1] or "1;1").split(";"))
            elif escape == "2J":
                cells = {}
            elif not escape:
                cells[row, column] = char
                column += 1
        lines = [
            "".join(
                cells.get((row, column), " ")
                for column in range(1, self.columns + 1)
            )
            for row in range(1, self.rows + 1)
        ]
        return "\n".join(line.rstrip() for line in lines)

    def shows(self, text):
        wait_until(lambda: text in self.text())

    def press(self, keys):
        os.write(self.fd, keys.encode())

    def ends(self):
        """It ends without an error, and the terminal is as it was."""
        wait_until(lambda: self.process.poll() is not None)
        assert self.process.returncode == 0
        self.read()
        assert LEAVE in self.all
        assert termios.tcgetattr(self.fd) == self.before

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.fd)


@pytest.fixture
def screen():
    """screen(ARG...) starts it."""
    started = []

    def start(*args, **size):
        started.append(Screen(*args, **size))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.fixture
def busy():
    """busy(DEVICE) has it read all the time, 64 KiB at once."""
    stop = threading.Event()
    threads = []

    def start(device):
        def work():
            with open(device, "rb", buffering=0) as f:
                while not stop.is_set():
                    os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                    os.pread(f.fileno(), 65536, 0)
                    time.sleep(0.01)

        threads.append(threading.Thread(target=work))
        threads[-1].start()

    yield start
    stop.set()
    for thread in threads:
        thread.join()


def once(*args):
    out = run(FLOOP, "top", "--once", "--json", "--interval", "0.5", *args)
    return json.loads(out.stdout)


def device_in(report, device):
    return next(d for d in report["devices"] if d["device"] == device)


def test_once(floop, image, busy):
    """One table, with what each device has done meanwhile."""
    path = image(1 << 20)
    device, idle = floop.attach(path), floop.attach(image(name="idle"))
    busy(device)
    report = once()
    assert report["interval"] == 0.5
    found = device_in(report, device)
    assert found["reads"] > 1 and found["writes"] == 0
    # It reads 64 KiB at once, or ahead of that.
    assert found["read_bytes"] >= 4096 * found["reads"]
    assert found["read_ms"] >= 0 and found["write_ms"] is None
    assert found["backing_file"] == str(path)
    assert any(
        "open in python" in user or "pytest" in user for user in found["users"]
    )
    for name in ("mapped_percent", "mapped_ios", "file_ios", "epochs_broken"):
        assert found[name] is None, "the in-tree driver maps nothing"
    assert device_in(report, idle)["reads"] == 0
    text = floop("top", "--once", "--interval", "0.1", "--filter", str(path))
    header, row = text.splitlines()
    assert header.split()[0] == "NAME" and header.split()[-1] == "IMAGE"
    assert row.split()[0] == device and row.endswith(str(path))


def test_sort_and_filter(floop, image, busy):
    """The busiest is first, and only what matches is shown."""
    first = floop.attach(image(1 << 20, "one"))
    second = floop.attach(image(1 << 20, "two"))
    busy(second)
    where = os.path.dirname(floop.status(first)["backing_file"])

    def names(*args):
        return [d["device"] for d in once("--filter", where, *args)["devices"]]

    assert names() == [first, second]
    assert names("--sort", "ios") == [second, first]
    assert names("--sort", "bytes") == [second, first]
    only = once("--filter", f"{where}/two")["devices"]
    assert [d["device"] for d in only] == [second]


def test_keys(floop, image, screen):
    """It shows devices as they come, filters them, and quits."""
    path = image(1 << 20, "seen.img")
    top = screen()
    top.shows("floop top: ")
    top.shows("q quit")
    device = floop.attach(path)
    top.shows(device)
    top.press("/")
    top.shows("filter: ")
    top.press("no such device\r")
    top.shows('floop top: 0 devices, with "no such device"')
    assert device not in top.text()
    top.press("\x1b")
    top.shows(device)
    top.press(" ")
    top.shows("paused")
    top.press("q")
    top.ends()


def test_sorting_keys(floop, image, busy, screen, folder):
    """< and > sort by the column before and the next one, r the other way."""
    idle = floop.attach(image(name="idle.img"))
    device = floop.attach(image(name="busy.img"))
    busy(device)
    top = screen("--filter", str(folder))

    def shows(*devices):
        def shown():
            lines = top.text().splitlines()[2:]
            rows = [line.split()[0] for line in lines if line]
            return rows[:2] == list(devices)

        wait_until(shown)

    shows(idle, device)
    top.press(">")
    shows(device, idle)
    top.press("r")
    shows(idle, device)
    # By name again, the last one first
    top.press("<")
    shows(device, idle)
    top.press("r")
    shows(idle, device)
    top.press("q")
    top.ends()


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_signals(screen, name):
    """A signal ends it, and the terminal is as it was."""
    top = screen()
    top.shows("q quit")
    top.process.send_signal(getattr(signal, name))
    top.ends()


def test_control_c(screen):
    """So does Ctrl-C."""
    top = screen()
    top.shows("q quit")
    top.press("\x03")
    top.ends()


# What a whole cell of each column looks like.
CELLS = {
    "NAME": r"/dev/loop\d+",
    **dict.fromkeys(["READ/s", "WRITE/s", "IO/s"], r"\d+|\d\.\d"),
    **dict.fromkeys(["READB/s", "B/s"], r"0|\d+(\.\d)?[BKMG]?"),
    "ms": r"-|\d+\.\d\d",
    "BUSY": r"\d+%",
    **dict.fromkeys(["MAPPED", "FILE/s", "WHY", "BROKEN", "BY"], "-"),
    "USER": r"-|\S.*",
    "IMAGE": r"\S+",
}


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (60, 20)])
def test_narrow_terminal(floop, image, busy, screen, folder, columns, rows):
    """Where there is no room for a column, it isn't there.

    Those that are have their headings and figures in full.
    """
    device = floop.attach(image(1 << 20, "an image with a long name.img"))
    busy(device)
    top = screen("--filter", str(folder), rows=rows, columns=columns)
    # Only a second look has figures.
    row = rf"^{device} +[^-]*[1-9].*%"
    wait_until(lambda: re.search(row, top.text(), re.M))
    lines = top.text().splitlines()
    header = lines[1].split()
    assert set(header) <= set(CELLS), header
    assert {"NAME", "IO/s", "B/s", "ms", "BUSY", "IMAGE"} <= set(header)
    # It maps nothing: these have no value.
    assert not {"MAPPED", "FILE/s", "WHY", "BROKEN", "BY"} & set(header)
    (line,) = [line for line in lines if line.startswith(device)]
    pattern = " +".join(f"({CELLS[name]})" for name in header[:-1])
    # Of the image's name, the end.
    assert re.fullmatch(rf"{pattern} +(…|/).*g", line), line
    top.press("q")
    top.ends()


def test_small_terminal(screen):
    """A terminal of one line is no error."""
    top = screen()
    top.shows("q quit")
    for size in ((1, 3), (300, 200)):
        top.read()
        top.all = b""
        packed = struct.pack("HHHH", *size, 0, 0)
        fcntl.ioctl(top.fd, termios.TIOCSWINSZ, packed)
        top.process.send_signal(signal.SIGWINCH)
        wait_until(top.read)
    top.shows("q quit")
    top.press("q")
    top.ends()


def test_without_a_terminal(floop):
    """Without a terminal it says what works without one."""
    complaint = floop.refused(USAGE, "top", stdin=subprocess.DEVNULL)
    assert "are not a terminal; --once prints one table" in complaint


@pytest.mark.parametrize(
    "line",
    [["--json"], ["--interval", "0"], ["--sort", "colour"], ["loop0"]],
    ids=" ".join,
)
def test_wrong_usage(line):
    """--json is for --once; intervals and keys are checked."""
    result = run(FLOOP, "top", *line, check=False)
    assert result.returncode == USAGE and result.stdout == ""
    assert re.match("error: ", result.stderr)
