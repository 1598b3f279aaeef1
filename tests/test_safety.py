# SPDX-License-Identifier: GPL-2.0-only
"""scripts/block-changers.py: what it says of a kernel of a few lines.

The fake file system frees blocks in xfs_bmap_del_extent_real(), for fallocate,
an ioctl, and a worker; the VFS gets to fallocate by a system call.
"""

import pathlib
import subprocess
import sys

import pytest

PROJECT = pathlib.Path(__file__).resolve().parent.parent
SCRIPT = PROJECT / "scripts/block-changers.py"

XFS = """\
/* A comment that calls xfs_iext_remove(ip). */
int
xfs_bmap_del_extent_real(
	struct xfs_inode	*ip)
{
	xfs_iext_remove(ip, 0);
	return 0;
}

static long
xfs_file_fallocate(struct file *file, int mode, loff_t from, loff_t len)
{
	return xfs_bmap_del_extent_real(XFS_I(file_inode(file)));
}

long
xfs_file_ioctl(struct file *filp, unsigned int cmd, unsigned long p)
{
	switch (cmd) {
	case XFS_IOC_GETBMAP:
		return xfs_looks();
	case XFS_IOC_PUNCH:
		return xfs_bmap_del_extent_real(XFS_I(file_inode(filp)));
	}
}

static void xfs_looks(void) { return; }

static void
xfs_punch_worker(struct work_struct *work)
{
	xfs_bmap_del_extent_real(XFS_I(work));
}

void
xfs_begin(struct xfs_mount *mp)
{
	INIT_WORK(&mp->m_work, xfs_punch_worker);
}

const struct file_operations xfs_file_operations = {
	.unlocked_ioctl	= xfs_file_ioctl,
	.fallocate	= xfs_file_fallocate,
};
"""

OPEN = """\
int vfs_fallocate(struct file *file, int mode, loff_t from, loff_t len)
{
	return file->f_op->fallocate(file, mode, from, len);
}

SYSCALL_DEFINE4(fallocate, int, fd, int, mode, loff_t, from, loff_t, len)
{
	return vfs_fallocate(fdget(fd), mode, from, len);
}
"""

PAGE = """\
Prose that names `prose_only()`.

| what | shown by |
|---|---|
| `xfs_file_fallocate()`, `XFS_IOC_PUNCH`, `xfs_punch_worker()` | `guard/hang` |
| `vfs_fallocate()`, `fallocate()` | `guard/hang` |
"""

DATA = """\
[[inner]]
part = "xfs"
reason = "Its callers have rows."
names = "xfs_bmap_del_extent_real"
"""


class Tree:
    """A kernel's sources, the page and the data, to be changed and checked."""

    def __init__(self, folder):
        self.folder = folder
        self.write("tree/fs/xfs/xfs.c", XFS)
        self.write("tree/fs/open.c", OPEN)
        self.write("page.md", PAGE)
        self.write("data.toml", DATA)

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def check(self):
        """What the script says: "" if it is content."""
        run = subprocess.run(
            [
                sys.executable,
                SCRIPT,
                f"--tree=fake={self.folder / 'tree'}",
                f"--page={self.folder / 'page.md'}",
                f"--data={self.folder / 'data.toml'}",
            ],
            check=False,
            capture_output=True,
            text=True,
        )
        assert (run.returncode == 0) == (run.stderr == ""), run.stderr
        return run.stdout + run.stderr


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


def test_all_is_named(tree):
    assert tree.check() == ""


def test_new_function(tree):
    tree.write(
        "tree/fs/xfs/new.c",
        "int xfs_steals(struct xfs_inode *ip)\n{\n"
        "\treturn xfs_bmap_del_extent_real(ip);\n}\n",
    )
    said = tree.check()
    assert (
        "fake: xfs_steals in fs/xfs/new.c has neither a row nor a reason"
        in said
    )
    assert "xfs_steals > xfs_bmap_del_extent_real" in said
    assert "give it a row in" in said


def test_new_leaf(tree):
    tree.write(
        "tree/fs/xfs/new.c",
        "int\nxfs_grows(void)\n{\n\ti_size_write(inode, 1);\n}\n",
    )
    assert "xfs_grows in fs/xfs/new.c" in tree.check()


@pytest.mark.parametrize(
    "entry, kind",
    [
        ("xfs_file_fallocate", "file_operations.fallocate"),
        ("XFS_IOC_PUNCH", "ioctl"),
        ("xfs_punch_worker", "later"),
        ("fallocate", "syscall"),
    ],
)
def test_entry_without_row(tree, entry, kind):
    tree.write("page.md", PAGE.replace(f"`{entry}", "`"))
    assert f"fake: {entry} ({kind}) in " in tree.check()


def test_prose_is_no_row(tree):
    tree.write(
        "page.md",
        PAGE.replace("| `vfs_fallocate()`, ", "| ") + "\n`vfs_fallocate()`\n",
    )
    assert "fake: vfs_fallocate in fs/open.c" in tree.check()


def test_callers_of_a_cut(tree):
    tree.write("data.toml", DATA.replace("inner", "cut"))
    tree.write("tree/fs/open.c", "")
    tree.write("page.md", "")
    assert tree.check() == ""


def test_operation_with_a_reason(tree):
    tree.write(
        "data.toml",
        DATA + '[[operation]]\nreason = "No."\nnames = "fallocate"\n',
    )
    tree.write("page.md", "\n".join(PAGE.splitlines()[:-1]) + "\n")
    assert tree.check() == ""


@pytest.mark.parametrize("kind", ["cut", "inner", "entry"])
def test_stale_reason(tree, kind):
    tree.write(
        "data.toml",
        DATA
        + f'[[{kind}]]\npart = "xfs"\nreason = "Was."\nnames = "xfs_was"\n',
    )
    assert (
        f"note: data.toml: xfs_was (xfs, {kind}) leads to no change"
        in tree.check()
    )


def test_stale_operation(tree):
    tree.write(
        "data.toml", DATA + '[[operation]]\nreason = "No."\nnames = "setattr"\n'
    )
    assert (
        "note: data.toml: no operation setattr leads to a change"
        in tree.check()
    )


def test_reason_is_empty(tree):
    tree.write("data.toml", DATA.replace("Its callers have rows.", ""))
    assert "no reason" in tree.check()


def test_stale_row(tree):
    tree.write("page.md", PAGE + "| `xfs_was()` | `guard/hang` |\n")
    assert "note: page.md:7: xfs_was is in neither kernel" in tree.check()


def test_our_own_function_in_a_row(tree):
    tree.write("page.md", PAGE + "| `floop_guard_break()` | `guard/hang` |\n")
    assert tree.check() == ""


def test_row_without_its_test(tree):
    tree.write("page.md", PAGE + "| nothing | `guard/never-was` |\n")
    assert (
        "page.md:7: there is no tests/cases/guard/never-was.sh" in tree.check()
    )
