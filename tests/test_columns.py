# SPDX-License-Identifier: GPL-2.0-only
"""scripts/columns.py: what may be wider than 80 columns."""

import importlib.util
import pathlib

import pytest

PROJECT = pathlib.Path(__file__).resolve().parent.parent
SPEC = importlib.util.spec_from_file_location(
    "columns", PROJECT / "scripts/columns.py"
)
columns = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(columns)

WIDE = "x" * 81


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("a.md", f"| {WIDE} | table |"),
        ("a.md", f"- https://{WIDE}"),
        ("a.sh", f"# https://{WIDE}"),
        ("a.c", f'\tpr_warn("%s: {WIDE} so\\n", name);'),
    ],
)
def test_may_be_wider(name, line):
    assert columns.may_be_wider(pathlib.Path(name), line)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("a.md", f"see https://{WIDE} for it"),
        ("a.sh", f"echo {WIDE}"),
        ("a.py", f'print("{WIDE} so")'),
        ("a.c", f'\tpr_warn("%s\\n", {WIDE[:70]});'),
        ("a.c", f"\tif (a && {WIDE})"),
    ],
)
def test_is_wrapped(name, line):
    assert not columns.may_be_wider(pathlib.Path(name), line)
