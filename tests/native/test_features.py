# SPDX-License-Identifier: GPL-2.0-only
"""What kernel/features.sh finds in headers, here made up for it.

Where nothing can be said about the kernel, the build has to fail: a kernel that
has lm_open_conflict() calls a NULL pointer if floop takes it for one without.
"""

import pathlib
import subprocess

import pytest

PROJECT = pathlib.Path(__file__).resolve().parent.parent.parent
SCRIPT = PROJECT / "kernel/features.sh"

# What 6.12 has, as far as features.sh asks
OLDEST = {
    "blkdev.h": """
        #define NUMA_NO_NODE (-1)
        #define BLK_FEAT_NOWAIT 1u
        struct queue_limits { unsigned int features; };
        void *blk_alloc_disk(struct queue_limits *lim, int node);
        """,
    "blk-mq.h": """
        struct request_queue;
        void blk_mq_freeze_queue(struct request_queue *q);
        void blk_mq_unfreeze_queue(struct request_queue *q);
        """,
    "filelock.h": """
        struct file_lease;
        struct lease_manager_operations {
            int (*lm_breaker_owns_lease)(struct file_lease *);
        };
        struct file_lease {
            const struct lease_manager_operations *fl_lmops;
        };
        struct file_lease *locks_alloc_lease(void);
        """,
    "fileattr.h": "struct fileattr { unsigned int fsx_xflags; };",
    "fs.h": """
        #define FOP_BUFFER_WASYNC 1u
        struct file_operations { unsigned int fop_flags; };
        """,
}
NEWER = {
    "blkdev.h": "int bdev_rot(void *bdev);",
    "blk-mq.h": """
        struct request_queue;
        unsigned int blk_mq_freeze_queue(struct request_queue *q);
        void blk_mq_unfreeze_queue(struct request_queue *q, unsigned int f);
        """,
    "fileattr.h": "struct file_kattr { unsigned int fsx_xflags; };",
    "filelock.h": OLDEST["filelock.h"].replace(
        "};", "int (*lm_open_conflict)(void *, int); };", 1
    ),
}


@pytest.fixture
def run(tmp_path):
    """run(HEADERS, COMMAND...) runs the script with these headers."""

    def run(headers, *command):
        folder = tmp_path / "linux"
        folder.mkdir(exist_ok=True)
        for name, text in headers.items():
            (folder / name).write_text(text)
        return subprocess.run(
            ["sh", SCRIPT, "6.99", *command, "gcc", f"-I{tmp_path}"],
            check=False,
            capture_output=True,
            text=True,
            env={"PATH": "/usr/bin:/bin"},
        )

    return run


def test_what_a_kernel_has(run):
    """Each by itself, as where it was backported."""
    assert run(OLDEST).stdout == ""
    found = {
        name: run({**OLDEST, name: OLDEST[name] * (name == "blkdev.h") + text})
        for name, text in NEWER.items()
    }
    assert {name: done.stdout for name, done in found.items()} == {
        "blkdev.h": "#define FLOOP_BDEV_ROT\n",
        "blk-mq.h": "#define FLOOP_FREEZE_IS_NOIO\n",
        "fileattr.h": "#define FLOOP_FILE_KATTR\n",
        "filelock.h": "#define FLOOP_LEASE_OPEN_CONFLICT\n",
    }


def test_what_it_needs(run):
    older = {**OLDEST, "fs.h": "struct file_operations { int owner; };"}
    done = run(older)
    assert done.returncode == 1
    assert "6.99 lacks what floop needs" in done.stderr
    assert "the flags of file operations" in done.stderr
    assert "leases" not in done.stderr

    leases = OLDEST["filelock.h"].replace("locks_alloc_lease", "other")
    done = run({**OLDEST, "filelock.h": leases})
    assert done.returncode == 1
    assert "CONFIG_FILE_LOCKING" in done.stderr


def test_nothing_can_be_said(run, tmp_path):
    """A header needs another, or the compiler is killed, at any of its runs."""
    broken = '#include "generated.h"\n' + OLDEST["filelock.h"]
    done = run({**OLDEST, "filelock.h": broken})
    assert done.returncode == 1
    assert "generated.h: No such file" in done.stderr
    assert "lacks" not in done.stderr

    compiler = tmp_path / "compiler"
    compiler.write_text(
        f'#!/bin/sh\necho >> {tmp_path}/runs\n[ "$(wc -l < {tmp_path}/runs)"'
        ' != "$KILLED" ] || kill -KILL $$\nexec "$@"\n'
    )
    compiler.chmod(0o755)
    assert run(OLDEST, compiler).returncode == 0
    runs = (tmp_path / "runs").read_text().count("\n")
    for killed in range(1, runs + 1):
        (tmp_path / "runs").unlink()
        done = run(OLDEST, "env", f"KILLED={killed}", compiler)
        assert done.returncode == 1


def test_split_debug_information(run):
    """CONFIG_DEBUG_INFO_SPLIT: the compiler would write a second file."""
    done = run(OLDEST, "sh", "-c", 'exec "$@" -g -gsplit-dwarf', "sh")
    assert done.returncode == 0
