# SPDX-License-Identifier: GPL-2.0-only
"""Programs that commit small things: PostgreSQL and SQLite, on a file system on
X.
"""

import glob
import os
import re
import shutil
import sqlite3
import time
from contextlib import closing, contextmanager

from .places import MIB, make_fs, mounted, nvme_parts, write_all
from .section import LATENCY, Measure, Section, Table
from .shell import Failed, run

IMAGE_SIZE = 256 * MIB
SCALE, CLIENTS = 2, 2
WARM_UP, SECONDS, SQLITE_SECONDS = 1, 4, 2
TEMPLATE = "/tmp/template"  # in memory
SOCKETS = "/run/floop/postgres"
LOGS = f"{SOCKETS}/transactions"
SQLITE = {"SQLite, WAL": "wal", "SQLite, rollback journal": "delete"}
POSTGRES = "PostgreSQL"
PERCENTILES = {"p50": 0.5, "p99": 0.99}
WORK = [
    f"--client={CLIENTS}",
    f"--jobs={CLIENTS}",
    "--protocol=prepared",
    "--no-vacuum",
]


def summary(count, seconds, latencies):
    """Latencies in microseconds."""
    latencies.sort()
    at = {
        name: latencies[int(len(latencies) * part)]
        for name, part in PERCENTILES.items()
    }
    return {"transactions": count / seconds, **at}


def postgres(program, *arguments):
    """One of PostgreSQL's programs, as its user: the server doesn't run as
    root.
    """
    # Debian's programs of these names in /usr/bin are wrappers, which take
    # longer than the work.
    found = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{program}"))
    if not found:
        raise Failed(f"no {program} in the guest: start it by ./vm --bench")
    return run(
        "runuser",
        "-u",
        "postgres",
        "--",
        "env",
        "-C",
        SOCKETS,
        found[-1],
        *arguments,
    )


@contextmanager
def server(data):
    options = f"-c listen_addresses= -c unix_socket_directories={SOCKETS}"
    postgres(
        "pg_ctl",
        "-D",
        data,
        "-l",
        f"{SOCKETS}/log",
        "-o",
        options,
        "-w",
        "start",
    )
    try:
        yield
    finally:
        postgres("pg_ctl", "-D", data, "-m", "fast", "-w", "stop")


def pgbench(*arguments):
    return postgres("pgbench", "-h", SOCKETS, *arguments, "postgres")


def make_template(device):
    """An ext4 with a database that pgbench can work on: made once, for it takes
    long.
    """
    os.makedirs(SOCKETS, exist_ok=True)
    shutil.chown(SOCKETS, "postgres", "postgres")
    make_fs("ext4", device)
    with mounted(device, "/mnt/upper") as folder:
        data = f"{folder}/postgres"
        os.mkdir(data)
        shutil.chown(data, "postgres", "postgres")
        postgres(
            "initdb",
            "-D",
            data,
            "--no-sync",
            "--auth=trust",
            "--locale=C",
            "-E",
            "UTF8",
        )
        with server(data):
            pgbench("--initialize", "--quiet", f"--scale={SCALE}")
            # An emulator translates code when it first runs: that isn't the
            # first peer's time.
            pgbench(*WORK, "--time=3")
    copy(device, TEMPLATE)


def copy(source, target):
    run(
        "dd",
        f"if={source}",
        f"of={target}",
        "bs=4M",
        "conv=fsync",
        "status=none",
    )


def measure_postgres(folder, seconds):
    with server(f"{folder}/postgres"):
        pgbench(*WORK, f"--time={WARM_UP}")
        said = pgbench(
            *WORK, f"--time={seconds}", "--log", f"--log-prefix={LOGS}"
        )
    latencies = []
    for path in glob.glob(f"{LOGS}.*"):
        with open(path) as log:
            latencies += [float(line.split()[2]) for line in log]
        os.unlink(path)
    rate = re.search(r"^tps = ([\d.]+)", said, re.M)
    if not rate or not latencies:
        raise Failed(f"pgbench gave no rate: {said}")
    return summary(float(rate[1]), 1, latencies)


def measure_sqlite(folder, journal, seconds):
    """One row and one commit at a time."""
    latencies, row = [], "x" * 100
    with closing(
        sqlite3.connect(f"{folder}/{journal}.db", isolation_level=None)
    ) as db:
        (mode,) = db.execute(f"PRAGMA journal_mode = {journal}").fetchone()
        if mode != journal:
            raise Failed(f"SQLite's journal_mode is {mode}, not {journal}")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("CREATE TABLE bench (number INTEGER PRIMARY KEY, text TEXT)")
        started = now = time.monotonic()
        while now < started + seconds:
            before = now
            db.execute("INSERT INTO bench (text) VALUES (?)", (row,))
            now = time.monotonic()
            latencies.append((now - before) * 1e6)
    return summary(len(latencies), now - started, latencies)


def one_peer(bench, number, peer, image, spare):
    with peer.attached(image, spare) as device:
        copy(TEMPLATE, device)
        with mounted(device, "/mnt/upper") as folder:
            values = measure_postgres(folder, 1 if bench.quick else SECONDS)
            bench.result("commits", POSTGRES, peer, number, values)
            for cell, journal in SQLITE.items():
                try:
                    values = measure_sqlite(
                        folder, journal, 1 if bench.quick else SQLITE_SECONDS
                    )
                except sqlite3.Error as error:
                    raise Failed(f"SQLite: {error}") from error
                bench.result("commits", cell, peer, number, values)


def measure_all(bench):
    lower, spare = nvme_parts(IMAGE_SIZE + 200 * MIB, IMAGE_SIZE)
    make_fs("xfs", lower)
    make_template(spare)
    with mounted(lower, "/mnt/lower") as folder:
        write_all(f"{folder}/image", IMAGE_SIZE)
        for number in range(bench.rounds):
            for peer in bench.taking_part():
                with bench.trying(peer):
                    one_peer(bench, number, peer, f"{folder}/image", spare)


SECTION = Section(
    name="apps",
    title="Databases",
    text=(
        "ext4 on X, each time with the same content, a database that was made"
        f" before; the image, fully written, {IMAGE_SIZE // MIB} MiB, is on an"
        " xfs on an emulated NVMe disk. *PostgreSQL*: pgbench's TPC-B-like"
        f" transaction, scale {SCALE}, {CLIENTS} clients in as many threads,"
        " prepared statements, the server's own settings (`fsync` and"
        f" `synchronous_commit` on, 128 MiB of shared buffers), for {SECONDS} s"
        f" after {WARM_UP} s to warm up. *SQLite*: a row of 100 bytes a"
        f" transaction for {SQLITE_SECONDS} s, by Python's sqlite3,"
        " `synchronous=FULL`, with `journal_mode=WAL` and with the rollback"
        " journal (`DELETE`) that is its default. With QUICK=1 for 1 s each."
        " Percentiles are of a transaction. No cache is dropped in between:"
        " *loop, buffered* begins with the content in the page cache."
    ),
    emulation=(
        "All of it: the databases' own work is emulated as well and is most of"
        " PostgreSQL's time, and the disk, a file in memory, answers a flush"
        " at once. On a real disk flushes weigh more. Read the ratios."
    ),
    tables={
        "commits": Table(
            "Small transactions",
            [POSTGRES, *SQLITE],
            {
                "transactions": Measure("transactions per second", "more"),
                **{name: LATENCY[name] for name in PERCENTILES},
            },
        )
    },
    measure=measure_all,
    absent={
        "file": "",
        "floop-buffered": "the page cache absorbs nothing of a commit;"
        " as loop, buffered",
    },
    memory="2G",
    disk="1G",
)
