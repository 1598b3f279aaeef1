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


def must(name, command):
    """Run a command that must succeed; its progress goes to stderr."""
    if subprocess.run(command, stdout=sys.stderr, check=False).returncode:
        die(f"{name} failed")


def make(target):
    """Make a target of the project."""
    must(f"make {target}", ["make", "--directory", PROJECT, target])


def script(name, *args):
    """Run a script of machine/."""
    must(f"machine/{name}", [PROJECT / "machine" / name, *args])
