# SPDX-License-Identifier: GPL-2.0-only
"""What moves while people wait: for step() of scripts/common.sh, `make check`,
`make test` and `make bench`.
"""

import os
import pathlib
import pty
import re
import subprocess
import tempfile

import pytest

PROJECT = pathlib.Path(__file__).resolve().parent.parent
# Some seconds, and on a busy machine until the line has moved (on_terminal()).
WORK = 'echo "compile a.c"; sleep 3; until [ -e "$MOVED" ]; do sleep 0.2; done'
STEP = f". scripts/common.sh; work() {{ {WORK}; }}; "
STEP += 'step "a test of progress" work'
FAILS = '. scripts/common.sh; step "a test of progress" sh -c "echo why; false"'
# The clippy and ruff of a check are played: it is the waiting that is tested.
CHECK = "PATH=$1:$PATH; exec scripts/check.sh clippy"


TEST = "build/venv/bin/pytest -q tests/test_progress.py::test_a_step_moves"
FIGURES = """PYTHONPATH=bench python3 -c '
import time, run
progress = run.Progress("cost", 2)
with progress.moving:
    time.sleep(3)
    progress.step("a table, a cell, a peer")
    time.sleep(3)
    progress.end()
'"""


@pytest.fixture
def tools(tmp_path):
    """A folder with a cargo that takes its time."""
    cargo = tmp_path / "cargo"
    cargo.write_text(f"#!/bin/sh\n{WORK}\n")
    cargo.chmod(0o755)
    return tmp_path


def without_terminal(script, *args):
    return subprocess.run(
        ["bash", "-c", script, "test", *map(str, args)],
        cwd=PROJECT,
        env={**os.environ, "MOVED": "/"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def on_terminal(script, *args):
    """What a script writes to a terminal. When a line has been written over
    three times, there is a file $MOVED.
    """
    terminal, end = pty.openpty()
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(
            ["bash", "-c", script, "test", *map(str, args)],
            cwd=PROJECT,
            env={**os.environ, "MOVED": f"{folder}/moved"},
            stdin=end,
            stdout=end,
            stderr=end,
        ) as process,
    ):
        os.close(end)
        said = b""
        while True:
            try:
                data = os.read(terminal, 65536)
            except OSError:  # the last writer is gone
                break
            said += data
            if said.count(b"\x1b[K") >= 3:
                pathlib.Path(folder, "moved").touch()
    os.close(terminal)
    assert process.returncode == 0, said
    return said.decode()


def moving(said):
    """The lines that are written over, by the sequence that does it."""
    return [text for text in said.split("\r\x1b[K")[1:] if " s  " in text]


def test_a_step_moves():
    said = on_terminal(STEP)
    lines = moving(said)
    assert len(set(lines)) >= 2, said
    assert all("compile a.c" in line and "\n" not in line for line in lines)
    assert said.split("\r\x1b[K")[-1].startswith("   done in "), said


def test_a_check_moves(tools):
    said = on_terminal(CHECK, tools)
    lines = moving(said)
    assert len(set(lines)) >= 2, said
    assert all(line.startswith("check: clippy") for line in lines)
    last = said.split("\r\x1b[K")[-1]
    assert last.startswith("check: clippy      ok ("), said


def test_a_test_moves():
    said = on_terminal(TEST)
    lines = re.findall(r"\x1b7\x1b\[K(  \d+ s  [^\x1b]+)\x1b8", said)
    assert len(set(lines)) >= 2, said
    assert all("::test_a_step_moves" in line for line in lines)
    assert "\x1b7\x1b[K\x1b8" in said, "it stays"


def test_figures_move():
    said = on_terminal(FIGURES)
    lines = [line.split("  ", 1)[1].strip() for line in moving(said)]
    assert any(
        line.endswith("bench: cost: 0/2 figures: the machine boots")
        for line in lines
    ), said
    assert any(
        "bench: cost: 1/2 figures, about " in line
        and line.endswith(" s left: a table, a cell, a peer")
        for line in lines
    ), said
    assert re.search(r"bench: cost: 1 figures in \d+ s\r\n", said), said


def test_no_moving_line_without_a_terminal(tools):
    said = without_terminal(CHECK, tools).stdout
    assert said.startswith("check: clippy      ok ("), said
    assert said.count("\n") == 1
    assert "\x1b" not in said


def test_a_step_that_fails_says_why():
    done = without_terminal(FAILS)
    assert done.returncode == 1
    assert "why\n" in done.stdout
    assert "failed: a test of progress" in done.stdout
