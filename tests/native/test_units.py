# SPDX-License-Identifier: GPL-2.0-only
"""The unit tests in the command's own sources."""

from native import PROJECT, run


def test_units():
    """`cargo test` passes.

    It is about sizes, exit codes, what images hold, when I/O can be direct.
    """
    manifest = PROJECT / "cli" / "Cargo.toml"
    # What it needs is built for the command itself already.
    out = run("cargo", "test", "--release", "--manifest-path", manifest).stdout
    assert "test result: ok." in out
