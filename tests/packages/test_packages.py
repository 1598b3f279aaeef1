# SPDX-License-Identifier: GPL-2.0-only
"""The packages in Debian 13's and Debian 12's userland, installed by apt.

`make test-packages` has made the packages and the roots. DKMS compiles the
module once for each kernel of a test, which takes most of the time.
"""

import contextlib
import io
import re
import shlex
import subprocess
import tarfile

import pytest
from system import DIST, PACKAGES, PROJECT, System

pytestmark = pytest.mark.long

EFIVARS = "/sys/firmware/efi/efivars"
SECURE_BOOT = f"{EFIVARS}/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
ENROLL = "mokutil --import /var/lib/dkms/mok.pub, then reboot"


@pytest.fixture(scope="session")
def layers(tmp_path_factory):
    # An overlay's upper folder can't be on another overlay: below build/.
    top = PACKAGES / "layers"
    subprocess.run(["rm", "-rf", top], check=True)
    top.mkdir(parents=True)
    yield top
    subprocess.run(["rm", "-rf", top], check=True)


@pytest.fixture(scope="session")
def trixie(layers):
    """Debian 13, with two kernels' headers; DKMS is in the repository."""
    system = System(
        PROJECT / "build/root",
        layers / "trixie",
        (PACKAGES / "trixie").glob("*.deb"),
    )
    system.apt("install", "--no-install-recommends", "dkms", "openssl")
    return system


@pytest.fixture(scope="session")
def bookworm(layers):
    return System(PACKAGES / "bookworm", layers / "bookworm")


def older(system, version):
    """Put a floop-dkms of that version into the repository, too."""
    folder = system.layer / "older"
    deb = next(DIST.glob("floop-dkms_*.deb"))
    now = deb.name.split("_")[1]
    subprocess.run(["dpkg-deb", "-R", deb, folder], check=True)
    (folder / f"usr/src/floop-{now}").rename(
        folder / f"usr/src/floop-{version}"
    )
    for path in (
        *(folder / "DEBIAN").iterdir(),
        folder / f"usr/src/floop-{version}/dkms.conf",
        folder / "usr/lib/floop-dkms/build-module",
    ):
        path.write_text(path.read_text().replace(now, version))
    new = system.layer / "repository" / f"floop-dkms_{version}_all.deb"
    subprocess.run(["dpkg-deb", "-b", folder, new], check=True)
    system.index()
    system.apt("update")


def manual_pages(system):
    """The command's pages: one for each subcommand in its help."""
    helps = system.run("floop --help | sed -n 's/^  \\([a-z]*\\)  .*/\\1/p'")
    names = helps.stdout.split()
    assert "attach" in names
    return [f"/usr/share/man/man8/floop-{name}.8.gz" for name in names]


def new_kernel(system, kernel):
    """Run the hooks that the packages of a kernel and its headers run."""
    said = ""
    for when in ("postinst", "header_postinst"):
        said += system.run(
            "DEB_MAINT_PARAMS=configure run-parts --exit-on-error"
            f" --arg={kernel} --regex dkms /etc/kernel/{when}.d"
        ).stdout
    return said


def left_alone(system, like, kernel, why):
    """That kernel's installation passes, and floop says why it isn't there."""
    system.run(f"cp -rs /lib/modules/{like} /lib/modules/{kernel}")
    said = new_kernel(system, kernel)
    assert f"floop-dkms: Linux {kernel} has no floop: " in said
    assert why in said
    assert kernel not in system.built()
    system.run(f"ln -s {kernel} /lib/modules/$(uname -r)")
    system.run(f"cd /var/lib/floop-dkms; mv {kernel} $(uname -r)")
    assert why in system.run("floop doctor", check=False).stdout
    system.run("rm /lib/modules/$(uname -r) /var/lib/floop-dkms/$(uname -r)")
    system.run(f"rm -r /lib/modules/{kernel}")


@contextlib.contextmanager
def without_breaker(system):
    """The headers of 6.12 lack what a lease needs; the build fails early."""
    file = "/usr/src/linux-headers-6.12*-common/include/linux/filelock.h"
    system.run(f"sed -i.bak s/lm_breaker_owns_lease/lm_x/ {file}")
    yield
    system.run(f"for f in {file}; do mv $f.bak $f; done")


def licences(file):
    """Of each crate in the command: its name, and the text of its licence."""
    listed, *texts = file.read_text().split("-" * 80)
    names = re.findall(r"^(\S+ v\S+): ", listed, re.MULTILINE)
    assert len(names) > 30
    assert any(name.startswith("ratatui ") for name in names)
    heads = ", ".join(text.split(":", 1)[0].strip() for text in texts)
    assert set(heads.split(", ")) == set(names)
    assert any("BSD" in text or "Redistribution" in text for text in texts)


def kept_out(system, package, file):
    """By that file, which no package has."""
    folder = file.rpartition("/")[0]
    made = system.run(f"test -d {folder} || echo {folder}").stdout
    system.run(f"mkdir -p {folder}")
    system.run(f"printf 'license=GPL\\0version=floop 0.0\\0' > {file}")
    said = system.run(f"dpkg -i /repository/{package}_*.deb", check=False)
    assert said.returncode != 0
    assert f"'make install' ({file})" in said.stdout
    assert "run 'make uninstall' first" in said.stdout
    said = system.run(f"dpkg -s {package}", check=False).stdout
    assert "not-installed" in said
    system.run(f"rm {file}; rmdir {made}" if made else f"rm {file}")


def keeps_out(system, package):
    """`make install` and `make uninstall` leave the package's files alone."""
    for command in ("install", "uninstall"):
        said = system.run(
            f"bash {PROJECT}/scripts/install.sh {command}", check=False
        )
        assert said.returncode == 1
        assert f"package {package} is installed: remove it first" in said.stdout


def drop_in(system, kernel):
    """An initramfs gets the module and its configuration with the package, and
    loses them with it.
    """
    # It is made sooner with few modules.
    few = "/etc/initramfs-tools/conf.d/few"
    image = f"/boot/initrd.img-{kernel}"
    system.run(f"echo MODULES=list > {few}")
    system.run(f"update-initramfs -c -k {kernel}")
    for command, wanted in (
        ("install", {"floop.ko", "floop-drop-in.conf"}),
        ("remove", set()),
    ):
        system.apt(command, "floop-drop-in")
        paths = system.run(f"lsinitramfs {image}").stdout.split()
        assert "sbin/modprobe" in " ".join(paths)
        names = {path.rpartition("/")[2].removesuffix(".xz") for path in paths}
        assert {name for name in names if "floop" in name} == wanted
    system.run(f"update-initramfs -d -k {kernel}; rm {few}")


def test_on_debian_13(trixie):
    """Install, a kernel's upgrade, unknown kernels, downgrade, purge."""
    before = trixie.files()
    lts, stable = sorted(trixie.kernels())

    # Each of these files of `make install` keeps its package out. The former
    # drop-in was a loop.ko.
    updates = f"/lib/modules/{lts}/updates"
    for file, package in (
        ("/usr/sbin/mount.floop", "floop"),
        ("/usr/lib/udev/rules.d/60-floop.rules", "floop"),
        ("/usr/src/floop-0.0/dkms.conf", "floop-dkms"),
        (f"{updates}/floop.ko", "floop-dkms"),
        (f"{updates}/loop.ko", "floop-dkms"),
        ("/usr/lib/modprobe.d/floop-drop-in.conf", "floop-drop-in"),
    ):
        kept_out(trixie, package, file)
    assert trixie.files() == before

    # The newer kernel has no headers yet. Secure Boot is on.
    trixie.run(f"mv /lib/modules/{stable} /root/")
    trixie.run(f"mkdir -p {EFIVARS}; printf '\\6\\0\\0\\0\\1' > {SECURE_BOOT}")
    trixie.run(
        "printf '#!/bin/sh\\necho \"$2 is not enrolled\"\\n'"
        " > /usr/local/bin/mokutil; chmod +x /usr/local/bin/mokutil"
    )
    said = trixie.apt("install", "floop", "floop-dkms").stdout
    assert "DKMS's key is not enrolled" in said
    assert ENROLL in said
    assert list(trixie.built()) == [lts]
    module = trixie.run(f"modinfo -k {lts} floop").stdout
    assert "signer:" in module
    assert "vermagic:" in module
    trixie.run("ls " + " ".join(manual_pages(trixie)))

    # doctor says the same. The running kernel is the host's.
    trixie.run(f"ln -s {lts} /lib/modules/$(uname -r)")
    said = trixie.run("floop doctor", check=False).stdout
    assert "its key is not enrolled, and Secure Boot is on; reboot" in said
    assert f"\n    {ENROLL.partition(',')[0]}\n" in said
    trixie.run("rm /lib/modules/$(uname -r)")

    keeps_out(trixie, "floop")

    # What a kernel's own installation runs, which may precede its headers'
    trixie.run(f"mv /root/{stable}/build /root/")
    trixie.run(f"mv /root/{stable} /lib/modules/")
    assert "has no floop" not in new_kernel(trixie, stable)
    assert list(trixie.built()) == [lts]
    trixie.run(f"mv /root/build /lib/modules/{stable}/")
    new_kernel(trixie, stable)
    assert sorted(trixie.built()) == [lts, stable]

    # Kernels that floop doesn't know: no error, no module
    for unknown in ("6.1.0-9-amd64", "7.4.0-amd64", "7.31.1-amd64"):
        left_alone(trixie, lts, unknown, "this version of floop doesn't know")
    # One that it knows, whose maker has taken away what floop needs
    with without_breaker(trixie):
        vendors = "6.12.999-vendor-amd64"
        left_alone(trixie, lts, vendors, "no member named 'lm_breaker_owns")
    assert sorted(trixie.built()) == [lts, stable]

    # One kernel is enough for a downgrade, which builds for all.
    trixie.run(f"mv /lib/modules/{stable}/build /root/")
    # Without openssl DKMS signs nothing, and doesn't mention it.
    trixie.run("mkdir /root/key; mv /var/lib/dkms/mok.* /root/key/")
    script = "/var/lib/dpkg/info/floop-dkms.postinst"
    said = trixie.run(f"{script} configure").stdout
    assert "the module is not signed" in said
    trixie.run("mv /root/key/* /var/lib/dkms/; rmdir /root/key")
    older(trixie, "0.0.9")
    trixie.apt("install", "--allow-downgrades", "floop-dkms=0.0.9")
    assert trixie.built() == {lts: "0.0.9"}
    assert trixie.run("ls -d /usr/src/floop-*").stdout.split() == [
        "/usr/src/floop-0.0.9"
    ]

    trixie.apt("purge", "floop")
    keeps_out(trixie, "floop-dkms")
    trixie.apt("purge", "floop-dkms")
    trixie.run(f"mv /root/build /lib/modules/{stable}/")
    trixie.run("rm -r /sys/firmware /usr/local/bin/mokutil")
    assert trixie.files() == before


@contextlib.contextmanager
def in_place_of(system, path, script):
    """Another program in place of that one."""
    text = shlex.quote(f"#!/bin/sh\n{script}\n")
    system.run(f"mv {path} {path}.real; printf %s {text} > {path}")
    system.run(f"chmod +x {path}")
    yield
    system.run(f"mv {path}.real {path}")


@contextlib.contextmanager
def without_headers(system):
    """Nothing is compiled, which takes long."""
    system.run(
        "for k in /lib/modules/*; do mv $k/build /root/build-${k##*/}; done"
    )
    yield
    system.run(
        "for k in /lib/modules/*; do mv /root/build-${k##*/} $k/build; done"
    )


def state(system):
    """dpkg's, of floop-dkms."""
    return system.run(
        "dpkg-query -W -f '${db:Status-Status}' floop-dkms"
    ).stdout


def test_broken_off(trixie):
    """Installations, upgrades and removals that don't reach their end."""
    before = trixie.files()
    version = next(DIST.glob("floop-dkms_*.deb")).name.split("_")[1]
    with without_headers(trixie):
        # Killed while DKMS added the module
        trixie.run(f"mkdir -p /var/lib/dkms/floop/{version}")
        trixie.apt("install", "--no-install-recommends", "floop-dkms")
        assert ": added" in trixie.run("dkms status -m floop").stdout

        # An upgrade that can't be unpacked: the old version goes on.
        trixie.run(
            f"""
            cd /repository
            mkdir -p other/DEBIAN other/usr/src
            touch other/usr/src/floop-taken
            printf '%s: %s\\n' Package other Version 1 Architecture all \\
                Maintainer floop Description taken > other/DEBIAN/control
            dpkg-deb -b other
            dpkg -i other.deb
            dpkg-deb -R /repository/floop-dkms_{version}_all.deb newer
            sed -i 's/^Version: .*/Version: 9/' newer/DEBIAN/control
            touch newer/usr/src/floop-taken
            dpkg-deb -b newer
            """
        )
        said = trixie.run("dpkg -i /repository/newer.deb", check=False).stdout
        assert "trying to overwrite '/usr/src/floop-taken'" in said
        assert state(trixie) == "installed"
        assert ": added" in trixie.run("dkms status -m floop").stdout
        trixie.run("dpkg -P other; cd /repository; rm -r other* newer*")

        # DKMS doesn't work, and has a module installed.
        [kernel, _] = sorted(trixie.kernels())
        module = f"/lib/modules/{kernel}/updates/dkms/floop.ko.xz"
        trixie.run(f"mkdir -p $(dirname {module}); touch {module}")
        with in_place_of(trixie, "/usr/sbin/dkms", "exit 1"):
            trixie.apt("remove", "floop-dkms")
            trixie.run(f"test ! -e {module}")
            trixie.apt("install", "--no-install-recommends", "floop-dkms")
            trixie.apt("purge", "floop-dkms")
    trixie.run(f"rm -r /lib/modules/{kernel}/updates")
    assert trixie.files() == before


def test_in_a_container(trixie):
    """The host's modules and devices, which /sys shows, are left alone. A
    container has a PID namespace of its own, and is no chroot to its first
    process.
    """
    before = trixie.files()
    told = "echo $0 $@ >> /root/told"
    with contextlib.ExitStack() as stack:
        stack.enter_context(without_headers(trixie))
        trixie.run(
            """
            mkdir -p /sys/module/loop /sys/module/floop/parameters
            touch /sys/module/loop/refcnt /root/told
            if ischroot; then exit 1; fi
            """
        )
        for name in ("rmmod", "modprobe"):
            program = in_place_of(trixie, f"/usr/sbin/{name}", told)
            stack.enter_context(program)
        packages = ("floop", "floop-dkms", "floop-drop-in")
        trixie.apt("install", "--no-install-recommends", *packages)
        assert "rmmod" not in trixie.run("cat /root/told").stdout
        trixie.run("echo loop > /sys/module/floop/parameters/names")
        with in_place_of(trixie, "/usr/bin/floop", told):
            trixie.apt("remove", *packages)
        said = trixie.run("cat /root/told").stdout
        assert "rmmod" not in said
        assert "detach" not in said
        trixie.apt("purge", *packages)
        trixie.run("rm /usr/bin/floop")
    trixie.run("rm -r /sys/module /root/told")
    assert trixie.files() == before


def test_on_debian_12(bookworm):
    """Install, an unknown kernel, the drop-in in an initramfs, purge. The root
    for Debian 13 lacks what makes an initramfs.
    """
    before = bookworm.files()
    [kernel] = bookworm.kernels()
    bookworm.apt("install", "floop", "floop-dkms")
    assert list(bookworm.built()) == [kernel]
    # Debian 12's own. Its DKMS's hook has failed for what isn't to be built.
    left_alone(bookworm, kernel, "6.1.0-9-amd64", "floop doesn't know it")
    module = bookworm.run(f"modinfo -k {kernel} floop").stdout
    assert "floop 0." in module
    assert "signer:" in module
    bookworm.run("ls " + " ".join(manual_pages(bookworm)))
    # The host's own loop driver may be used, or none be there.
    assert "device" in bookworm.run("floop list --json").stdout
    drop_in(bookworm, kernel)
    bookworm.apt("purge", "floop", "floop-dkms", "floop-drop-in")
    assert bookworm.files() == before


COMMANDS = [
    "attach",
    "create",
    "detach",
    "doctor",
    "list",
    "resize",
    "set",
    "status",
    "top",
    "watch",
]
DOCUMENTS = ("changelog.gz", "copyright")
FILES = {
    "floop": {
        "usr/bin/floop",
        "usr/sbin/floop-extents",
        "usr/sbin/mount.floop",
        "usr/lib/systemd/system/floop-detach.service",
        "usr/lib/systemd/system/floop@.service",
        "usr/lib/systemd/system-generators/floop-generator",
        "usr/lib/udev/rules.d/60-floop.rules",
        "usr/share/bash-completion/completions/floop",
        "usr/share/fish/vendor_completions.d/floop.fish",
        "usr/share/zsh/vendor-completions/_floop",
        "usr/share/man/man5/flooptab.5.gz",
        "usr/share/man/man8/floop.8.gz",
        "usr/share/man/man8/mount.floop.8.gz",
        *(f"usr/share/man/man8/floop-{name}.8.gz" for name in COMMANDS),
        *(
            f"usr/share/doc/floop/{name}"
            for name in (
                "README.md.gz",
                "command.md.gz",
                "crates.txt",
                "flooptab.md",
                "glossary.md",
                "hosts.md.gz",
                "reference.md.gz",
            )
        ),
    },
    "floop-dkms": {
        "etc/kernel/header_postinst.d/floop-dkms",
        "etc/kernel/postinst.d/floop-dkms",
        "usr/lib/floop-dkms/build-module",
        "usr/src/floop-VERSION/dkms.conf",
        *(
            f"usr/src/floop-VERSION/{path.name}"
            for path in (PROJECT / "kernel").iterdir()
            if path.suffix in (".c", ".h")
            or path.name in ("Kbuild", "Makefile", "features.sh")
        ),
    },
    "floop-drop-in": {
        "usr/lib/modprobe.d/floop-drop-in.conf",
        "usr/lib/modules-load.d/floop-drop-in.conf",
        "usr/share/initramfs-tools/hooks/floop",
    },
}


@pytest.mark.parametrize("name", FILES)
def test_files(name):
    """A package has these files, and no other."""
    [deb] = DIST.glob(f"{name}_*.deb")
    version = deb.name.split("_")[1]
    done = subprocess.run(
        ["dpkg-deb", "--fsys-tarfile", deb], check=True, capture_output=True
    )
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as tar:
        listed = {
            member.name.removeprefix("./").replace(version, "VERSION")
            for member in tar
            if not member.isdir()
        }
    documents = {f"usr/share/doc/{name}/{file}" for file in DOCUMENTS}
    assert listed == FILES[name] | documents


def test_rpms(tmp_path):
    """What they hold, and that rpm unpacks them."""
    rpms = sorted(DIST.glob("*.rpm"))
    assert [rpm.name.rsplit("-", 2)[0] for rpm in rpms] == [
        "dkms-floop",
        "floop",
    ]
    listed = {}
    for rpm in rpms:
        done = subprocess.run(
            ["rpm", "-qlp", rpm], check=True, capture_output=True, text=True
        )
        listed[rpm] = done.stdout.split()
        subprocess.run(
            ["rpm", "--root", tmp_path, "-i", "--nodeps", "--noscripts", rpm],
            check=True,
        )
    module, command = rpms
    [conf] = [name for name in listed[module] if name.endswith("/dkms.conf")]
    text = (tmp_path / conf[1:]).read_text()
    version = conf.split("/")[-2].removeprefix("floop-")
    assert f'PACKAGE_VERSION="{version}"' in text
    done = subprocess.run(
        [tmp_path / "usr/bin/floop", "--version"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == f"floop {version}"
    for name in ("usr/sbin/mount.floop", "usr/share/man/man8/floop.8.gz"):
        assert f"/{name}" in listed[command]
        assert (tmp_path / name).is_symlink() or (tmp_path / name).exists()
    licences(tmp_path / "usr/share/licenses/floop/crates.txt")
    run = tmp_path / "usr/lib/kernel/install.d/41-floop-dkms.install"
    assert run.stat().st_mode & 0o111
