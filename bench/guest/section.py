# SPDX-License-Identifier: GPL-2.0-only
"""What a section of the benchmark says of itself, to the host that starts it
and to the reader.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True)
class Measure:
    unit: str
    better: str | None  # "less", "more", or None: neither
    decimals: int = 0


INSTRUCTIONS = {
    "instructions": Measure("instructions per I/O", "less"),
    "switches": Measure("context switches per I/O", "less", 2),
}
EACH_WAY = {
    "read MiB/s": Measure("MiB/s", "more", 1),
    "write MiB/s": Measure("MiB/s", "more", 1),
}
LATENCY = {name: Measure("µs", None) for name in ("p50", "p99", "p99.9")}


@dataclass(frozen=True)
class Table:
    title: str
    cells: list[str]
    measures: dict[str, Measure]


@dataclass(frozen=True)
class Section:
    """A part that is measured in a machine of its own."""

    name: str
    title: str
    text: str
    emulation: str  # which of its figures depend on it, and how
    tables: dict[str, Table]
    measure: Callable  # of a Run
    # Peers that have no place in it, and why; with no reason they aren't spoken
    # of
    absent: dict[str, str] = field(default_factory=dict)
    icount: bool = False
    memory: str = "2G"
    disk: str = ""  # size of the NVMe disk

    def described(self):
        """For the results file."""
        return {
            "title": self.title,
            "text": self.text,
            "emulation": self.emulation,
            "machine": self.name,
        }

    def described_tables(self):
        return {
            f"{self.name}/{name}": {**asdict(table), "section": self.name}
            for name, table in self.tables.items()
        }
