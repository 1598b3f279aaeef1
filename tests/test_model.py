# SPDX-License-Identifier: GPL-2.0-only
"""The guard's protocol, as a model: it holds, and a broken rule is found
(model/check.py).
"""

import os
import pathlib
import subprocess
import sys

import pytest

MODEL = pathlib.Path(__file__).resolve().parent.parent / "model"
sys.path.insert(0, str(MODEL))
import check  # noqa: E402


def outcome(name):
    """What check.py says of one search."""
    result = subprocess.run(
        [MODEL / "check.py", name], capture_output=True, text=True, check=False
    )
    return result.returncode, result.stdout + result.stderr


# The largest searches take a minute of CPU time: `make model` has them, too.
HOLDS = [
    name
    for name in check.HOLDS
    if name not in check.LONG or os.environ.get("LONG")
]


@pytest.mark.parametrize("name", HOLDS)
def test_holds(name):
    """Whoever else is there: no mapped I/O goes astray, and everything ends."""
    status, said = outcome(name)
    assert status == 0, said


@pytest.mark.parametrize("name", check.FAILS)
def test_broken_rule_is_found(name):
    """With a rule of the guard broken, or a flaw that it had put back, an
    assertion fails.
    """
    status, said = outcome(name)
    assert status == 0, said
