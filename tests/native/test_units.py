# SPDX-License-Identifier: GPL-2.0-only
"""The unit tests in the command's own sources."""

from native import PROJECT, run


def test_units():
    """Sizes, exit codes, what images hold, when I/O can be direct: `cargo test` passes."""
    out = run("cargo", "test", "--manifest-path", PROJECT / "cli" / "Cargo.toml").stdout
    assert "test result: ok." in out
