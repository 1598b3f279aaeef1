#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Check docs/safety.md against the kernel's sources.

Derive from the sources of both kernels, by text, every function of ext4 and
xfs that leads to a change of a file's blocks, of its size, or of the right to
write it, and every way of the VFS to get there.  Each of them must be named in
a table of docs/safety.md or, with a reason, in block-changers.toml beside this
script.  A name there that neither kernel has is noted, but is no failure.

The script relies on the kernel's style: a definition begins and ends in column
0.  A function leads to every function and table of operations that it names.
A change is a pattern in a body (CHANGES).  From there the script goes up,
caller by caller, except where the data says "cut", and ends at *entries*:
members of the tables by which the kernel calls a file system (TABLES), ioctls
by their label, system calls, work, threads, timers, shrinkers.
"""

import argparse
import collections
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

PROJECT = pathlib.Path(__file__).resolve().parent.parent
KERNELS = ("lts", "stable")

# The parts of the sources: a part's functions know no other part's.
PARTS = {
    "ext4": ["fs/ext4"],
    "xfs": ["fs/xfs", "fs/xfs/libxfs", "fs/xfs/scrub"],
    "vfs": [
        "fs",
        "fs/cachefiles",
        "fs/crypto",
        "fs/ecryptfs",
        "fs/fuse",
        "fs/iomap",
        "fs/nfs/localio.c",
        "fs/nfsd",
        "fs/notify",
        "fs/notify/fanotify",
        "fs/overlayfs",
        "fs/quota",
        "fs/smb/server",
        "fs/verity",
        "io_uring",
        "mm",
    ],
}

# The patterns of a change.
CHANGES = {
    "ext4": {
        "blocks": r"\bext4_(ext_store_pblock|free_blocks)\(|"
        r"\bee_(block|len)\s*=[^=]|\ble32_add_cpu\(&\w+->ee_block|"
        r"\bmem\w+\([^;]*->i_data\b|\bi_data\[[^]]*\]\s*=[^=]|"
        r"\*\w+->p\s*=[^=]",
        "size": r"\b(i_size_write|truncate_setsize|ext4_update_i_disksize)\(|"
        r"\bi_disksize\s*[-+]?=[^=]",
        "flags": r"\b(ext4_(set|clear)_inode_flag|inode_set_flags)\(|"
        r"\bi_flags\s*[|&]?=[^=]|\ba_ops\s*=[^=]",
    },
    "xfs": {
        "blocks": r"\bxfs_iext_(insert|remove|update_extent)(_raw)?\(|"
        r"\bxfs_idestroy_fork\(|\bif_(format|data)\s*=[^=]|"
        r"\b(__)?xfs_free_extent(_later)?\(|"
        r"\bxfs_rtfree_(extent|blocks)\(|\bxfs_zone_free_blocks\(",
        "sharing": r"\bxfs_refcount_increase_extent\(",
        "size": r"\b(i_size_write|truncate_setsize)\(|"
        r"\bi_disk_size\s*[-+]?=[^=]",
        "flags": r"\bi_diflags2?\s*[|&]?=[^=]|\binode_set_flags\(|"
        r"(\binode|VFS_I\(\w+\))->i_flags\s*[|&]?=[^=]",
    },
    # Besides calls of the operations that lead to any of the above.
    "vfs": {"flags": r"->i_flags\s*\|=\s*S_(APPEND|IMMUTABLE|SWAPFILE|VERITY)"},
}

# The tables through which the rest of the kernel calls a file system.
TABLES = {
    "address_space_operations",
    "block_device_operations",
    "dax_holder_operations",
    "dentry_operations",
    "dquot_operations",
    "exportfs_block_ops",
    "export_operations",
    "file_operations",
    "file_system_type",
    "fs_context_operations",
    "fscrypt_operations",
    "fsverity_operations",
    "inode_operations",
    "kernel_param_ops",
    "quotactl_ops",
    "seq_operations",
    "super_operations",
    "sysfs_ops",
    "vm_operations_struct",
    "xattr_handler",
    # xfs's own, of online checks and repairs: an entry for each.
    "xchk_meta_ops",
}

# A function that is registered to be called later is an entry.
LATER = [
    re.compile(pattern)
    for pattern in (
        r"INIT_(?:DELAYED_)?WORK(?:_ONSTACK)?\([^;]*?,\s*(\w+)\)",
        r"DECLARE_(?:DELAYED_)?WORK\([^;]*?,\s*(\w+)\)",
        r"init_task_work\([^;]*?,\s*(\w+)\)",
        r"call_rcu\([^;]*?,\s*(\w+)\)",
        r"timer_setup\([^;,]*,\s*(\w+)",
        r"kthread_(?:run|create)\(\s*(\w+)",
        r"\b(?:bi_end_io|scan_objects|count_objects|j_\w+)\s*=\s*(\w+)\s*;",
    )
]

# Attributes before a function's name, which look like calls.
ATTRIBUTE = re.compile(
    r"__(attribute__|printf|scanf|acquires|releases|must_hold|aligned|section)$"
)
JUNK = re.compile(
    r"//[^\n]*|/\*.*?\*/"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'(?:\\.|[^'\\\n])+'",
    re.DOTALL,
)
WORD = re.compile(r"(?:(->|\.|\bstruct\b)\s*)?\b([A-Za-z_]\w*)\b")
SYSCALL = re.compile(r"\b(?:COMPAT_)?SYSCALL_DEFINE\d\(\s*(\w+)")
TABLE = re.compile(r"\b(\w+)\s*(?:\[[^\]]*\]\s*)*=$")

DECLARED = re.compile(
    r"^\s+(?!return|else|goto)\w[\w\s]*[\s*]\w+\s*[;=,[].*$", re.MULTILINE
)
LOCAL = re.compile(r"[\w*]\s+\**(\w+)\s*(?:\[[^\]]*\]\s*)*(?=[,;)=]|$)")

Unit = collections.namedtuple("Unit", "kind name type body file private head")


def without_junk(text):
    """*text* without comments, and with empty literals."""
    text = JUNK.sub(lambda m: '""' if m[0][0] == '"' else " ", text)
    return text.replace("\\\n", " ")


def units(path, name):
    """The definitions in the file at *path*, called *name*."""
    head = []
    lines = iter(without_junk(path.read_text(errors="replace")).split("\n"))
    for line in lines:
        bare = line.strip()
        if bare.startswith("#"):
            m = re.match(r"#\s*define\s+(\w+)\([^)]*\)\s*(.+)", bare)
            if m:
                yield Unit("macro", m[1], "", m[2], name, False, "")
            continue
        if not bare:
            continue
        head.append(line)
        if "{" in line:
            body = []
            if line.count("{") != line.count("}"):
                for line in lines:
                    if not line.lstrip().startswith("#"):
                        body.append(line)
                    if line.startswith("}") and not line.endswith("{"):
                        break
            before, _, after = "\n".join(head).partition("{")
            unit = unit_of(before.strip(), "\n".join([after, *body]), name)
            if unit:
                yield unit
            head = []
        elif bare.endswith(";") or re.fullmatch(r"[A-Z_]+\(.*\)", line):
            text = "\n".join(head)
            # The first argument of such a macro is the function's name.
            m = re.match(r"(?:static\s+)?(?!EXPORT)[A-Z_]+\((\w+),", text)
            yield Unit("macro", m and m[1], "", text, name, name[-1] == "c", "")
            head = []


def unit_of(head, body, file):
    """The definition that begins with *head*; None if it is a type."""
    in_c = file.endswith(".c")
    if head.endswith("="):
        m = TABLE.search(head)
        struct = re.search(r"\bstruct\s+(\w+)", head)
        kind = struct[1] if struct else ""
        return m and Unit("table", m[1], kind, body, file, in_c, "")
    m = SYSCALL.search(head)
    if m:
        return Unit("syscall", m[1], "", body, file, in_c, head)
    for m in re.finditer(r"\b([A-Za-z_]\w*)\s*\(", head):
        if not ATTRIBUTE.match(m[1]):
            private = in_c and re.search(r"\b(static|STATIC)\b", head)
            return Unit("function", m[1], "", body, file, bool(private), head)
    m = re.search(r"^}\s*(\w+)\s*(\[[^\]]*\]\s*)?=", body, re.MULTILINE)
    if m and "struct" in head:
        return Unit("table", m[1], "", body, file, in_c, head)
    return None


def sources(root, what):
    """The files of an entry of PARTS."""
    return root.glob(what if what.endswith(".c") else f"{what}/*.[ch]")


class Part:
    """The functions of one part of a kernel, and which of them names which."""

    def __init__(self, root, folders, tables):
        self.tables = tables
        self.file = {}
        self.kind = {}
        self.bodies = collections.defaultdict(str)
        self.names = collections.defaultdict(set)
        self.entries = collections.defaultdict(set)
        self.homes = collections.defaultdict(set)
        found = [
            unit
            for folder in folders
            for path in sorted(sources(root, folder))
            if not re.search(r"(trace|test)\.[ch]$", path.name)
            for unit in units(path, str(path.relative_to(root)))
        ]
        for unit in found:
            self.homes[unit.name].add(unit.file if unit.private else None)
        for unit in found:
            self.enter(unit)

    def node(self, name, file):
        """The node that *name* means in *file*; None if there is none."""
        homes = self.homes.get(name, ())
        if file in homes:
            return name if len(homes) == 1 else f"{name} in {file}"
        return name if None in homes else None

    def enter(self, unit):
        """Add *unit* to the graph."""
        me = unit.name and self.node(unit.name, unit.file)
        body = unit.body
        for pattern in LATER:
            for m in pattern.finditer(body):
                later = self.node(m[1], unit.file)
                if later:
                    self.entries[later].add("later")
                    body = body.replace(m[0], ";")
        if not me:
            return
        self.kind[me] = unit.kind
        self.file[me] = unit.file
        if unit.kind == "syscall":
            self.entries[me].add("syscall")
        if unit.kind == "table" and unit.type in (self.tables or [unit.type]):
            for m in re.finditer(r"(?:\.(\w+)\s*=\s*)?\b([a-z_]\w+)", body):
                member = self.node(m[2], unit.file)
                if member:
                    self.entries[member].add(f"{unit.type}.{m[1]}")
            return
        if unit.kind == "function" and "ioctl" in unit.name:
            body = self.enter_labels(unit, body)
        self.add(me, unit, body)

    def enter_labels(self, unit, body):
        """Add each ioctl in *body* as an entry; returns the rest of *body*."""
        parts = re.split(r"\b(case\s+\w+\s*:|default\s*:)", body)
        rest = parts[0]
        labels = []
        for case, code in zip(parts[1::2], parts[2::2], strict=True):
            m = re.match(r"case\s+([A-Z0-9]+_IOC\w*)", case)
            if not m:
                rest += case + code
                labels = []
                continue
            labels.append(m[1])
            if not code.strip():
                continue
            for label in labels:
                self.kind[label] = "ioctl"
                self.file[label] = unit.file
                self.entries[label].add("ioctl")
                self.add(label, unit, code)
            labels = []
        return rest

    def add(self, me, unit, body):
        """Add the edges from *me* to all that *body* names."""
        self.bodies[me] += body
        own = {unit.name, *LOCAL.findall(unit.head)}
        if unit.kind == "function":
            own.update(LOCAL.findall("\n".join(DECLARED.findall(body))))
        for m in WORD.finditer(body):
            if not m[1] and m[2] in self.homes and m[2] not in own:
                other = self.node(m[2], unit.file)
                if other and other != me:
                    self.names[me].add(other)

    def ways(self, changes, cut):
        """The nodes that lead to a change, each with the node that it names on
        the way there, and the kinds of change that a node makes itself."""
        makes = collections.defaultdict(set)
        for me, body in self.bodies.items():
            for kind, pattern in changes.items():
                if re.search(pattern, body):
                    makes[me].add(kind)
        by = collections.defaultdict(set)
        for me, others in self.names.items():
            for other in others:
                by[other].add(me)
        lead = dict.fromkeys(sorted(makes))
        todo = collections.deque(lead)
        while todo:
            me = todo.popleft()
            if plain(me) in cut:
                continue
            for caller in sorted(by[me] - lead.keys()):
                lead[caller] = me
                todo.append(caller)
        return lead, makes


def plain(node):
    """A node's name, without the file that tells it from its namesakes."""
    return node.partition(" ")[0]


def route(lead, node):
    """The way from *node* to a change."""
    names = [plain(node)]
    while lead[node]:
        node = lead[node]
        names.append(plain(node))
    return " > ".join(names)


class Data:
    """The contents of block-changers.toml and docs/safety.md."""

    def __init__(self, toml, page):
        self.toml = toml.name
        self.reasons = collections.defaultdict(dict)
        self.cut = collections.defaultdict(set)
        self.ignored = {}
        self.problems = []
        with open(toml, "rb") as f:
            data = tomllib.load(f)
        for op in data.get("operation", []):
            for name in op["names"].split():
                self.ignored[name] = op["reason"]
        for kind in ("cut", "inner", "entry"):
            for group in data.get(kind, []):
                self.take(kind, group)
        self.rows = {}
        self.tests = {}
        for number, line in enumerate(page.read_text().splitlines(), 1):
            if line.startswith("|"):
                where = f"{page.name}:{number}"
                for m in re.finditer(r"`(\w+)\(\)`|`([A-Z0-9]+_IOC\w+)`", line):
                    self.rows.setdefault(m[1] or m[2], where)
                for m in re.finditer(r"`([a-z]+/[a-z-]+)`", line):
                    self.tests.setdefault(m[1], where)

    def take(self, kind, group):
        part = group["part"]
        if not group.get("reason"):
            self.problems.append(f"{self.toml}: no reason: {group}")
        for name in group["names"].split():
            if name in self.reasons[part]:
                self.problems.append(f"{self.toml}: twice: {name}")
            self.reasons[part][name] = kind
            if kind == "cut":
                self.cut[part].add(name)


def derive(root, data):
    """For each part: the part, the nodes that lead to a change, and those that
    make one; and the operations of file systems that lead to one.
    """
    result = {}
    operations = set()
    for name in ("ext4", "xfs"):
        part = Part(root, PARTS[name], TABLES)
        lead, makes = part.ways(CHANGES[name], data.cut[name])
        result[name] = part, lead, makes
        for node in lead:
            for entry in part.entries.get(node, ()):
                table, _, member = entry.partition(".")
                if table in TABLES and table != "xchk_meta_ops":
                    operations.add(member)
    followed = sorted(operations - data.ignored.keys())
    changes = {op: rf"(->|\.){op}\(" for op in followed}
    part = Part(root, PARTS["vfs"], None)
    lead, makes = part.ways(changes | CHANGES["vfs"], data.cut["vfs"])
    result["vfs"] = part, lead, makes
    return result, operations


def wanted(part, lead):
    """The functions, ioctls and system calls that need a row or a reason."""
    kinds = ("function", "ioctl", "syscall")
    return {plain(node): node for node in lead if part.kind[node] in kinds}


def compare(trees, data):
    """Two lists of messages: problems, and notes on what is out of date.

    A function that is gone is no danger, and this machine's point release may
    differ from the one that the page was written for.  *trees*: {kernel: its
    folder}.
    """
    problems = list(data.problems)
    stale = []
    derived = collections.defaultdict(set)
    existing = set()
    operations = set()
    said = set()
    for kernel, root in trees.items():
        parts, found = derive(root, data)
        operations |= found
        existing |= defined(root.glob("include/linux/f*.h"))
        for name, (part, lead, _) in parts.items():
            existing |= {plain(node) for node in [*part.kind, *part.entries]}
            need = wanted(part, lead)
            derived[name] |= need.keys()
            known = data.reasons[name].keys() | data.rows.keys() | said
            for function in sorted(need.keys() - known):
                said.add(function)
                node = need[function]
                entry = ", ".join(sorted(part.entries.get(node, ())))
                problems.append(
                    f"{kernel}: {function}"
                    + (f" ({entry})" if entry else "")
                    + f" in {part.file[node]} has neither a row nor a reason: "
                    + route(lead, node)
                )
    for name, reasons in data.reasons.items():
        stale.extend(
            f"{data.toml}: {function} ({name}, {kind}) leads to no change"
            " in either kernel"
            for function, kind in sorted(reasons.items())
            if function not in derived[name]
        )
    stale.extend(
        f"{data.toml}: no operation {op} leads to a change"
        for op in sorted(data.ignored.keys() - operations)
    )
    stale.extend(
        f"{where}: {function} is in neither kernel"
        for function, where in sorted(data.rows.items())
        if function not in existing | defined(PROJECT.glob("kernel/*.[ch]"))
    )
    return problems, stale


def defined(paths):
    """The names of all functions defined in the files *paths*."""
    return {unit.name for path in paths for unit in units(path, path.name)}


def show(trees, data):
    """Print a line for each node, with its way to a change."""
    for kernel, root in trees.items():
        for name, (part, lead, makes) in derive(root, data)[0].items():
            for function, node in sorted(wanted(part, lead).items()):
                kind = data.reasons[name].get(function)
                if function in data.rows:
                    kind = "row"
                entries = sorted(part.entries.get(node, ()))
                print(
                    kernel,
                    name,
                    kind or "MISSING",
                    ",".join(entries) or "-",
                    ",".join(sorted(makes.get(node, ()))) or "-",
                    part.file[node],
                    route(lead, node),
                    sep="\t",
                )


def unpack(kernel):
    """Unpack the files of PARTS from *kernel*'s sources; returns the folder."""
    subprocess.run(
        [PROJECT / "machine/linux-source.sh", kernel],
        check=True,
        stdin=subprocess.DEVNULL,
    )
    archive = PROJECT / "build/src" / f"{kernel}.tar.xz"
    root = PROJECT / "build/safety" / kernel
    stamp = root / "unpacked"
    folders = [folder for part in PARTS.values() for folder in part]
    stat = archive.stat()
    version = f"{stat.st_size} {stat.st_mtime_ns} {folders}"
    if stamp.exists() and stamp.read_text() == version:
        return root
    if root.exists():
        shutil.rmtree(root)
    root.mkdir(parents=True)
    subprocess.run(
        ["tar", "-x", "-C", root, "--strip-components=1", "-f", archive]
        + ["--wildcards", "--no-wildcards-match-slash"]
        + [
            f"*/{folder}" if folder.endswith(".c") else f"*/{folder}/*.[ch]"
            for folder in [*folders, "include/linux"]
        ],
        check=True,
    )
    stamp.write_text(version)
    return root


HELP = """
An entry (it has its table, "ioctl", "syscall" or "later" in brackets) is a way
into the file system: read in the source what it waits for, and give it a row in
docs/safety.md or, if it can't touch a mapped file, a reason ([[entry]] in
scripts/block-changers.toml).  Any other function belongs to the entries that
use it: check that their rows cover it ([[inner]]).  [[cut]] is for a function
that changes something other than a regular file's data.
"""


def main():
    """Check, or list."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--list", action="store_true", help="print all nodes")
    parser.add_argument(
        "--tree",
        action="append",
        metavar="KERNEL=FOLDER",
        help="take these sources instead of both kernels' (may be repeated)",
    )
    parser.add_argument(
        "--data",
        type=pathlib.Path,
        default=PROJECT / "scripts/block-changers.toml",
    )
    parser.add_argument(
        "--page", type=pathlib.Path, default=PROJECT / "docs/safety.md"
    )
    args = parser.parse_args()
    data = Data(args.data, args.page)
    if args.tree:
        pairs = (tree.split("=", 1) for tree in args.tree)
        trees = {kernel: pathlib.Path(folder) for kernel, folder in pairs}
    else:
        trees = {kernel: unpack(kernel) for kernel in KERNELS}
    if args.list:
        show(trees, data)
        return
    problems, stale = compare(trees, data)
    problems += missing_tests(data)
    for message in stale:
        print(f"note: {message}")
    if problems:
        sys.exit("\n".join(problems) + "\n" + HELP.rstrip())


def missing_tests(data):
    """A message for each test that the page's tables name and that is gone."""
    return [
        f"{where}: there is no tests/cases/{test}.sh"
        for test, where in sorted(data.tests.items())
        if not (PROJECT / "tests/cases" / f"{test}.sh").exists()
    ]


if __name__ == "__main__":
    main()
