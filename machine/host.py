# SPDX-License-Identifier: GPL-2.0-only
"""The project's folders on the host, and the scripts that fill them."""

import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
BUILD = PROJECT / "build"
ROOT = BUILD / "root"
COMMAND = PROJECT / "cli/target/release/floop"

# ./vm's own exit statuses; any other is the command's.
EXIT_SETUP = 122
EXIT_REPORT = 123
EXIT_TIMEOUT = 124
EXIT_DIED = 125


def die(message, status=EXIT_SETUP):
    print(f"vm: {message}", file=sys.stderr)
    sys.exit(status)


def make(target):
    """Make a target of the project; its progress goes to stderr."""
    done = subprocess.run(
        ["make", "--directory", PROJECT, target], stdout=sys.stderr, check=False
    )
    if done.returncode:
        die(f"make {target} failed")


def script(name, *args):
    """Run a script of machine/; its progress goes to stderr."""
    command = [PROJECT / "machine" / name, *args]
    done = subprocess.run(command, stdout=sys.stderr, check=False)
    if done.returncode:
        die(f"machine/{name} failed")
