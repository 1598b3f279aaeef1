# SPDX-License-Identifier: GPL-2.0-only
"""What runs inside the test machine: the peers, the places of images, and one
file a section.

The host reads the sections too, for what they are called and which machine they
need.
"""

from . import (
    apps,
    clones,
    cost,
    fill,
    holes,
    large,
    levels,
    many,
    pressure,
    sparse,
    stacks,
    throughput,
)

MODULES = (
    levels,
    throughput,
    sparse,
    large,
    stacks,
    pressure,
    fill,
    many,
    apps,
)
SECTIONS = {
    section.name: section
    for section in (
        *cost.SECTIONS,
        *holes.SECTIONS,
        clones.SECTION,
        *(module.SECTION for module in MODULES),
    )
}
