# SPDX-License-Identifier: GPL-2.0-only
"""floop's test machine: what ./vm is the front of."""
