# SPDX-License-Identifier: GPL-2.0-only
"""A Debian system in a folder, and apt with a repository of the packages.

It is a layer above a root that the project has made already, in mounts of its
own, without the network. DKMS compiles there at the host's speed, for the
kernels whose headers are in it. A case of users/ has the packages in a machine
that boots.
"""

import pathlib
import re
import shutil
import subprocess

PROJECT = pathlib.Path(__file__).resolve().parent.parent.parent
DIST = PROJECT / "dist"
PACKAGES = PROJECT / "build/packages"

# Mount the layer, enter it, run the command.
ENTER = r"""
lower=$1 layer=$2 project=$3
shift 3
mount --make-rprivate /
mount -t overlay overlay "$layer/root" \
    -o "lowerdir=$lower,upperdir=$layer/upper,workdir=$layer/work"
mount -t proc proc "$layer/root/proc"
mount -t tmpfs tmpfs "$layer/root/tmp"
mkdir -p "$layer/root$project" "$layer/root/repository"
mount --bind "$project" "$layer/root$project"
mount --bind "$layer/repository" "$layer/root/repository"
cd /
exec chroot "$layer/root" "$@"
"""
# Folders that come and go, and what apt and dpkg keep about themselves
NOT = re.compile(
    r"\./(dev|proc|sys|run|tmp|repository|work|var/(cache|log|tmp))(/.*)?"
    r"|\./var/lib/(apt|dpkg)(/.*)?"
    r"|\./var/lib/dkms(/mok\.(key|pub))?"
    # depmod's, of each kernel
    r"|\./usr/lib/modules/[^/]*/modules\..*"
    r"|\./(etc|usr/share)/?"
)


class System:
    def __init__(self, lower, layer, more=()):
        self.lower = lower.resolve()
        self.layer = layer
        for name in ("root", "upper", "work", "repository"):
            (layer / name).mkdir(parents=True)
        for deb in (*DIST.glob("*.deb"), *more):
            shutil.copy(deb, self.layer / "repository")
        self.index()
        # mmdebstrap's, to leave out man pages
        self.run("rm -f /etc/dpkg/dpkg.cfg.d/99mmdebstrap")
        self.run("mkdir -p /etc/apt/sources.list.d")
        self.run("rm -f /etc/apt/sources.list.d/*")
        self.run(
            "echo 'deb [trusted=yes] file:/repository ./'"
            " > /etc/apt/sources.list"
        )
        self.run("apt-get update")

    def index(self):
        with (self.layer / "repository/Packages").open("wb") as index:
            subprocess.run(
                ["dpkg-scanpackages", "-m", "."],
                cwd=self.layer / "repository",
                stdout=index,
                stderr=subprocess.DEVNULL,
                check=True,
            )

    def run(self, script, *, check=True):
        """Run a shell script there; returns what it printed and its status."""
        done = subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", "bash", "-euc", ENTER]
            + ["enter", self.lower, self.layer, PROJECT]
            + ["bash", "-euo", "pipefail", "-c", script],
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={
                "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"
                ":/sbin:/bin",
                "HOME": "/root",
                "LC_ALL": "C.UTF-8",
                "DEBIAN_FRONTEND": "noninteractive",
            },
        )
        print(f"+ {script}\n{done.stdout}")
        if check and done.returncode:
            raise AssertionError(f"{script}: {done.stdout}")
        return done

    def apt(self, *words, check=True):
        return self.run(f"apt-get -y {' '.join(words)}", check=check)

    def files(self):
        """The names of all files, but those that come and go."""
        names = self.run("cd / && find . -xdev").stdout.splitlines()
        return {name for name in names if not NOT.fullmatch(name)}

    def kernels(self):
        return self.run("ls /lib/modules").stdout.split()

    def built(self):
        """The kernels that DKMS has installed the module for, by version."""
        said = self.run("dkms status -m floop").stdout
        found = re.findall(r"floop/([\d.]+), ([^,]+), \S+: installed", said)
        return {kernel: version for version, kernel in found}
