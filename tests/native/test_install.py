# SPDX-License-Identifier: GPL-2.0-only
"""What scripts/install.sh puts into a folder and takes out of it."""

import os
import pathlib
import shutil
import subprocess

import pytest
from native import Terminal

PROJECT = pathlib.Path(__file__).resolve().parent.parent.parent
DROP_IN = {
    "usr/lib/modprobe.d/floop-drop-in.conf",
    "usr/lib/modules-load.d/floop-drop-in.conf",
    "usr/share/initramfs-tools/hooks/floop",
}


@pytest.fixture
def module():
    """A built module, under the name of a kernel of its own."""
    release = "0-floop-test"
    folder = PROJECT / "build/native" / release
    built = sorted((PROJECT / "build/modules").glob("*-amd64/floop.ko"))
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(built[0], folder)
    if not (PROJECT / "build/pages").exists():
        subprocess.run(["make", "-C", PROJECT, "pages"], check=True)
    yield folder / "floop.ko"
    shutil.rmtree(folder)


@pytest.fixture
def install(module, tmp_path):
    """install(WORD...) runs install.sh; returns the files that are there."""

    def run(*words):
        env = {
            **os.environ,
            "KVER": module.parent.name,
            "DESTDIR": str(tmp_path),
        }
        script = PROJECT / "scripts/install.sh"
        subprocess.run([script, *words], env=env, check=True)
        return {
            str(path.relative_to(tmp_path))
            for path in tmp_path.rglob("*")
            if path.is_symlink() or path.is_file()
        }

    return run


def test_drop_in_and_back(install, module):
    floop = f"lib/modules/{module.parent.name}/updates/floop.ko"
    side_by_side = install("install")
    assert floop in side_by_side
    assert not DROP_IN & side_by_side
    assert install("install", "drop-in") == side_by_side | DROP_IN
    assert install("install") == side_by_side
    install("install", "drop-in")
    assert install("uninstall") == set()


def test_no_headers(install, module):
    """Without the module the command is installed; no drop-in, and nothing
    of it.
    """
    module.unlink()
    with pytest.raises(subprocess.CalledProcessError):
        install("install", "drop-in")
    installed = install("install")
    assert "usr/local/bin/floop" in installed
    assert not [path for path in installed if path.endswith(".ko")]
    assert not DROP_IN & installed
    assert install("uninstall") == set()


def test_former_drop_in_goes(install, module, tmp_path):
    """Until 0.1 it was a module of its own, which would hide the in-tree one,
    and be loaded instead of floop. A loop.ko of others stays.
    """
    updates = tmp_path / "lib/modules" / module.parent.name / "updates"
    updates.mkdir(parents=True)
    shutil.copy(module, updates / "loop.ko")
    install("install", "drop-in")
    assert [path.name for path in updates.iterdir()] == ["floop.ko"]
    (updates / "loop.ko").write_text("not ours")
    install("uninstall")
    assert [path.name for path in updates.iterdir()] == ["loop.ko"]


TYPED = pytest.mark.parametrize(
    ("typed", "completed"),
    [("at", ["attach"]), ("attach --par", ["--partscan"])],
)


@TYPED
def test_bash_completes(module, typed, completed):
    """What bash offers for the last word."""
    file = PROJECT / "build/pages/bash-completion/completions/floop"
    script = """
    . "$0"
    COMP_WORDS=(floop "$@") COMP_CWORD=$#
    how=$(complete -p floop)
    [[ $how =~ -F\\ ([a-z_]+) ]]
    "${BASH_REMATCH[1]}" floop "${@: -1}" "${COMP_WORDS[-2]}"
    printf '%s\\n' "${COMPREPLY[@]}"
    """
    line = ["bash", "-c", script, file, *typed.split()]
    done = subprocess.run(line, check=True, capture_output=True, text=True)
    assert (done.stdout.split(), done.stderr) == (completed, "")


@TYPED
def test_fish_completes(module, typed, completed):
    """What fish offers for the last word."""
    file = PROJECT / "build/pages/fish/vendor_completions.d/floop.fish"
    script = f'source {file}; complete --do-complete "floop {typed}"'
    line = ["fish", "--no-config", "-c", script]
    done = subprocess.run(line, check=True, capture_output=True, text=True)
    offered = [offer.split("\t")[0] for offer in done.stdout.splitlines()]
    assert (offered, done.stderr) == (completed, "")


@TYPED
def test_zsh_completes(module, typed, completed):
    """What zsh puts there for the last word, when Tab is pressed."""
    folder = PROJECT / "build/pages/zsh/site-functions"
    terminal = Terminal(program=["zsh", "-f", "-i"])
    terminal.press(
        f"fpath=({folder} $fpath); autoload -U compinit; compinit -u -D;"
        " floop() { print -r -- \"<$*>\"; }; echo re''ady\n"
    )
    terminal.says("ready")
    terminal.press(f"floop {typed}\t\n")
    terminal.says(f"<{' '.join([*typed.split()[:-1], *completed])}>")
    terminal.close()
