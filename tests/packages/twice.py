# SPDX-License-Identifier: GPL-2.0-only
"""`make test-packages`: the packages are the same if they are built again.

They are built in another folder, and everything is compiled anew.
"""

import hashlib
import subprocess

from system import DIST, PACKAGES, PROJECT


def sums(folder):
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.iterdir()
    }


def test_built_twice():
    again = PACKAGES / "again"
    subprocess.run(["rm", "-rf", again], check=True)
    subprocess.run([PROJECT / "scripts/packages.sh", again], check=True)
    first = sums(DIST)
    assert len(first) >= 3
    assert sums(again / "dist") == first
