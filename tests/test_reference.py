# SPDX-License-Identifier: GPL-2.0-only
"""docs/reference.md against kernel/: each has what the other has."""

import pathlib
import re

import pytest

PROJECT = pathlib.Path(__file__).resolve().parent.parent
PAGE = (PROJECT / "docs" / "reference.md").read_text()
FILES = sorted(PROJECT.glob("kernel/*.[ch]"))
SOURCES = "\n".join(path.read_text() for path in FILES)
SYSFS = "## sysfs: `/sys/block/NAME/loop/`"
ACCESS = {"0444": "r", "0644": "rw"}


def section(heading):
    """What stands below a heading, to the next one."""
    assert PAGE.count(f"\n{heading}\n") == 1, heading
    return re.split(r"^#+ ", PAGE.split(f"\n{heading}\n")[1], flags=re.M)[0]


def table(heading):
    """The tables' rows below a heading: {name: the cell beside it}."""
    rows = re.findall(r"^\| `(\w+)` \| ([^|]*) \|", section(heading), re.M)
    names = [name for name, _ in rows]
    assert len(set(names)) == len(names), "a row is there twice"
    return dict(rows)


def found(pattern):
    return set(re.findall(pattern, SOURCES, re.M | re.S))


def parameters():
    calls = found(r"^module_param(?:_named|_cb)?\((\w+),[^;]*?(\d+)\);")
    return {name: ACCESS[mode] for name, mode in calls}


def attributes():
    names = found(r"&dev_attr_(\w+)\.attr\b")
    writable = found(r"^static DEVICE_ATTR_RW\((\w+)\)")
    return {name: "rw" if name in writable else "r" for name in names}


def test_parameters():
    assert table("## Module parameters") == parameters()
    described = found(r"^MODULE_PARM_DESC\((\w+),")
    assert described == set(parameters()), "modinfo describes each"


def test_sysfs():
    assert table(SYSFS) == attributes()


@pytest.mark.parametrize(
    ("heading", "pattern"),
    [
        # A string that is one line, "key %llu\n", or the key of one
        (
            "### `loop/stat`",
            r'"(\w+(?= %(?:l*[ud]|zu|\.\*s)\\n")|ios_file_\w+(?="))',
        ),
        ("## Tracepoints", r"\b(?:TRACE_EVENT\(|DEFINE_EVENT\(\w+,)\s*(\w+)"),
        ("## ioctls", r"^\tcase (LOOP_\w+):"),
    ],
)
def test_names(heading, pattern):
    assert set(table(heading)) == found(pattern)


def test_debugfs():
    assert "There is nothing in debugfs." in section("## Tracepoints")
    assert not found(r"\bdebugfs_\w+\(")


def test_reasons():
    """What dio_reason may say."""
    said = found(r'scnprintf\(buf, size,\s*"([^"]*)"')
    page = re.findall(r"^- `([^`]*)`$", section(SYSFS), re.M)
    numberless = {re.sub(r"%\w+", "N", text) for text in said}
    assert {" ".join(text.split()) for text in page} == numberless
