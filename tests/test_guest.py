# SPDX-License-Identifier: GPL-2.0-only
"""The harness itself: what a case's end looks like here, whatever happens in
the machine.

The machine is played by a program that writes the results a plan asks for, or
dies.
"""

import json
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

from machine.report import find_reports

PROJECT = pathlib.Path(__file__).resolve().parent.parent

# Plays ./vm: runs the plan's cases on this host, dies at a case called *dies*.
PRETENDER = """\
#!{python}
import json, os, pathlib, subprocess, sys
with open(sys.argv[-1]) as f:
    plan = json.load(f)
print("booted with", " ".join(sys.argv[1:-1]), flush=True)
results = pathlib.Path(plan["results"])
for case in plan["cases"]:
    (results / (case["slug"] + ".started")).touch()
    if "dies" in case["path"]:
        print("Kernel panic - not syncing: played", flush=True)
        sys.exit(125)
    run = subprocess.run(["bash", os.path.join(plan["project"], case["path"])],
                         capture_output=True, text=True)
    (results / (case["slug"] + ".log")).write_text(run.stdout + run.stderr)
    problems = ["exit status %d" % run.returncode] if run.returncode else []
    new = results / (case["slug"] + ".new")
    new.write_text(json.dumps({{"problems": problems, "seconds": 0.1}}))
    new.rename(results / (case["slug"] + ".json"))
    if "spoils" in case["path"]:
        sys.exit(3)
sys.exit({status})
"""


@pytest.fixture
def project(tmp_path):
    """A project with the real harness and cases of one's own; run(...) runs
    pytest there.
    """
    (tmp_path / "tests/cases/group").mkdir(parents=True)
    for name in ("pytest.ini", "tests/conftest.py", "tests/guest/run.py"):
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text((PROJECT / name).read_text())
    (tmp_path / "vm").write_text(
        PRETENDER.format(python=sys.executable, status=0)
    )
    (tmp_path / "vm").chmod(0o755)

    class Project:
        path = tmp_path

        def case(
            self,
            name,
            text,
            headers="# shows: something\n# machines: lts-drop-in\n",
        ):
            (tmp_path / "tests/cases/group" / name).write_text(
                headers + textwrap.dedent(text)
            )

        def power_off_status(self, status):
            (tmp_path / "vm").write_text(
                PRETENDER.format(python=sys.executable, status=status)
            )

        def run(self, *args, tests="tests"):
            return subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "pytest",
                    "-v",
                    "--color=no",
                    tests,
                    *args,
                ],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                env={
                    k: v
                    for k, v in os.environ.items()
                    if not k.startswith("PYTEST_")
                },
                check=False,
            )

    return Project()


def outcomes(result):
    """{name: outcome} of pytest -v"""
    found = {}
    for line in result.stdout.splitlines():
        words = line.split()
        if (
            len(words) >= 2
            and "::" in words[0]
            and words[1] in ("PASSED", "FAILED", "ERROR")
        ):
            found[words[0].split("::")[-1]] = words[1]
    return found


DOWN = "machine-goes-down-clean[lts-drop-in]"


# pytest looks for a conftest.py in what it takes for a path, and in its test*
# folders: not /tmp
@pytest.mark.parametrize(
    ("folder", "message"),
    [("/usr", "not in"), (".", "not empty")],
    ids=["outside", "in-use"],
)
def test_results_go_to_a_new_folder_of_the_project(project, folder, message):
    project.case("good.sh", "true")
    result = project.run("--results", folder)
    assert message in result.stdout + result.stderr
    assert result.returncode == 4


def test_results_are_reported_one_by_one(project):
    project.case("good.sh", "echo fine")
    project.case("bad.sh", "echo what it said; exit 7")
    result = project.run()
    assert outcomes(result) == {
        "bad[lts-drop-in]": "FAILED",
        "good[lts-drop-in]": "PASSED",
        DOWN: "PASSED",
    }
    assert result.returncode == 1
    assert "exit status 7" in result.stdout
    assert "what it said" in result.stdout
    assert result.stdout.count("booting") == 1


@pytest.mark.parametrize("suffix", [".sh", ".py"])
def test_one_case_by_its_path(project, suffix):
    project.case(f"one{suffix}", "true")
    project.case("two.sh", "true")
    result = project.run(tests=f"tests/cases/group/one{suffix}")
    assert outcomes(result) == {"one[lts-drop-in]": "PASSED", DOWN: "PASSED"}


def test_a_dead_machine_costs_one_case_only(project):
    for name in (
        "a-good.sh",
        "b-dies.sh",
        "c-good.sh",
        "d-dies.sh",
        "e-good.sh",
    ):
        project.case(name, "true")
    result = project.run()
    assert outcomes(result) == {
        "a-good[lts-drop-in]": "PASSED",
        "b-dies[lts-drop-in]": "FAILED",
        "c-good[lts-drop-in]": "PASSED",
        "d-dies[lts-drop-in]": "FAILED",
        "e-good[lts-drop-in]": "PASSED",
        DOWN: "PASSED",
    }
    assert "the machine died during this case" in result.stdout
    assert "Kernel panic - not syncing: played" in result.stdout
    assert result.stdout.count("booting") == 3


def test_a_case_may_spoil_the_machine_for_the_next(project):
    project.case("a-spoils.sh", "true")
    project.case("b-good.sh", "true")
    result = project.run()
    assert set(outcomes(result).values()) == {"PASSED"}
    assert result.stdout.count("booting") == 2


def test_a_machine_that_does_not_boot_fails_every_case(project):
    (project.path / "vm").write_text(
        "#!/bin/sh\necho no such kernel; exit 122\n"
    )
    project.case("a.sh", "true")
    project.case("b.sh", "true")
    result = project.run()
    assert outcomes(result)["a[lts-drop-in]"] == "FAILED"
    assert outcomes(result)["b[lts-drop-in]"] == "FAILED"
    assert "no such kernel" in result.stdout
    assert result.stdout.count("booting") == 2


def test_a_report_at_power_off_is_not_lost(project):
    project.case("good.sh", "true")
    project.power_off_status(123)
    result = project.run()
    assert outcomes(result) == {"good[lts-drop-in]": "PASSED", DOWN: "FAILED"}
    assert "status 123" in result.stdout


def test_what_kernels_say_without_us_hides_nothing():
    known = [
        "EXT4-fs (vda): uh-oh! used pa while discarding",
        "WARNING: fs/ext4/mballoc.c:5648 at"
        " ext4_discard_preallocations+0xc77/0x10b0, CPU#0: x/1",
        "Modules linked in: floop(O)",
    ]
    other = [
        "WARNING: floop/guard.c:1 at floop_guard+0x1/0x2, CPU#0: x/1",
        known[2],
    ]
    assert find_reports([*known, "ok"]) == []
    assert find_reports([*other, *known]) == [0, 1]
    assert find_reports([*known[:2], "BUG: KASAN: use-after-free", *other]) == [
        2,
        3,
        4,
    ]


def test_races_that_count_are_ours():
    others = [
        "BUG: KCSAN: data-race in __d_drop / dentry_cmp",
        " d_lookup+0x1/0x2 fs/dcache.c:1",
    ]
    ours = [
        "BUG: KCSAN: data-race in floop_submit [floop]"
        " / floop_guard_break [floop]",
        "BUG: KCSAN: data-race in percpu_ref_put / users_gone [loop]",
    ]
    assert find_reports(others) == []
    assert find_reports([*others, *ours]) == [2, 3]


def test_machines_and_options(project):
    project.case("all.sh", "true", "# shows: everywhere\n")
    project.case(
        "one.sh", "true", "# shows: here\n# kernels: lts\n# modes: drop-in\n"
    )
    project.case("debug.sh", "true", "# shows: there\n# debug: only\n")
    project.case("never.sh", "true", "# shows: not there\n# debug: no\n")
    project.case(
        "big.sh",
        "true",
        "# shows: big\n# machines: lts-drop-in\n# memory: 8G\n",
    )

    def names(*args):
        found = set(outcomes(project.run(*args)))
        return sorted(n for n in found if not n.startswith("machine-goes"))

    every = [
        f"{k}-{m}"
        for k in ("lts", "stable")
        for m in ("drop-in", "side-by-side")
    ]
    here = [f"{case}[{m}]" for case in ("all", "never") for m in every]
    assert names() == sorted([*here, "one[lts-drop-in]", "big[lts-drop-in]"])
    assert names("--kernel", "stable", "--mode", "drop-in", "-k", "all") == [
        "all[stable-drop-in]"
    ]
    assert names("--debug-kernel") == sorted(
        [
            *(f"{case}[debug-side-by-side]" for case in ("all", "debug")),
            "one[debug-drop-in]",
            "big[debug-drop-in]",
        ]
    )
    assert names("--debug-kernel", "--everywhere", "-k", "all") == [
        f"all[debug-{mode}]" for mode in ("drop-in", "side-by-side")
    ]
    assert names("--mode", "in-tree", "-k", "all") == [
        "all[lts-in-tree]",
        "all[stable-in-tree]",
    ]
    assert names("--kernel", "rt") == sorted(
        [
            *(f"{case}[rt-side-by-side]" for case in ("all", "never")),
            "one[rt-drop-in]",
            "big[rt-drop-in]",
        ]
    )
    result = project.run("-k", "big or one")
    assert "8G" in result.stdout
    assert result.stdout.count("booting") == 2
    plan = json.loads(
        next(
            (project.path / "build/test/latest").glob("*/plan-1.json")
        ).read_text()
    )
    assert plan["mode"] == "drop-in"


def test_many_cases_take_two_machines(project):
    for number in range(37):
        project.case(f"c{number}.sh", "true")
    result = project.run()
    assert "39 passed" in result.stdout
    assert result.stdout.count("booting lts-drop-in") == 2


def test_what_takes_long(project, monkeypatch):
    """Only with LONG, on all machines, or by its name."""
    project.case("short.sh", "true")
    project.case(
        "slow.sh",
        "true",
        "# shows: slow\n# machines: lts-drop-in\n# long: yes\n",
    )
    project.case("lts.sh", "true", "# shows: slow on one\n# long: lts\n")
    (project.path / "tests/test_slow.py").write_text(
        "import pytest\n\n\n@pytest.mark.long\ndef test_it():\n    pass\n"
    )

    def names(*args, **where):
        found = outcomes(project.run(*args, **where))
        return {n.partition("[")[0] for n in found if "machine" not in n}

    every = {"short", "slow", "lts", "test_it"}
    assert names() == {"short", "lts"}
    assert names("--kernel", "lts") == {"short"}
    assert names("--kernel", "lts", tests="tests/cases/group/lts.sh") == {"lts"}
    assert names("--everywhere") == every
    assert names(tests="tests/cases/group/slow.sh") == {"slow"}
    assert names(tests="tests/test_slow.py") == {"test_it"}
    monkeypatch.setenv("LONG", "1")
    assert names() == every


def test_a_system_with_systemd_is_a_machine_of_its_own(project):
    project.case("a.sh", "true")
    project.case(
        "b.sh",
        "true",
        "# shows: it\n# machines: lts-drop-in\n# init: systemd\n",
    )
    result = project.run()
    assert result.stdout.count("booting") == 2
    machines = sorted(
        (project.path / "build/test/latest").glob("*-lts-drop-in")
    )
    booted = [(machine / "console-1.log").read_text() for machine in machines]
    assert ["--systemd" in text for text in booted] == [True, False]
    assert [
        name
        for name in outcomes(project.run("--debug-kernel"))
        if name[0] == "b"
    ] == []


@pytest.mark.parametrize(
    ("headers", "complaint"),
    [
        ("# kernels: lts\n", "what does it prove"),
        ("# shows: x\n# kernel: lts\n", "no header is called 'kernel'"),
        ("# shows: x\n# kernels: old\n", "'old' is none of"),
        ("# shows: x\n# disks: floppy:1M\n", "is not nvme:SIZE"),
        ("# shows: x\n# debug: yes\n", "none of also, only, no"),
        ("# shows: x\n# init: sysv\n", "'sysv' is not systemd"),
    ],
)
def test_bad_headers_are_errors(project, headers, complaint):
    project.case("case.sh", "true", headers)
    result = project.run()
    assert result.returncode != 0
    assert complaint in result.stdout


def test_a_header_goes_on(project):
    """In lines of three spaces: what a case shows takes more than one."""
    project.case(
        "case.sh",
        "false",
        "# shows: One thing.\n#   And another.\n# modes: drop-in\n",
    )
    result = project.run()
    assert "shows: One thing. And another.\n" in result.stdout


def test_every_case_is_found(request):
    """No file of tests/cases is forgotten because of its name or its place."""
    cases = PROJECT / "tests" / "cases"
    files = {
        p
        for p in cases.rglob("*")
        if p.is_file() and "__pycache__" not in p.parts
    }
    found = {
        p
        for p in files
        if p.suffix in (".sh", ".py") and p.parent.parent == cases
    }
    assert files == found
    read_headers = request.config.pluginmanager.getplugin(
        str(PROJECT / "tests" / "conftest.py")
    ).read_headers
    for path in found:
        assert read_headers(path)["shows"]


def test_the_command_is_in_the_path():
    """Of ./vm, as `floop`."""
    done = subprocess.run(
        [PROJECT / "vm", "--", "floop", "--version"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith("floop "), done.stdout + done.stderr
