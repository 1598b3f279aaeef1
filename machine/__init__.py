# SPDX-License-Identifier: GPL-2.0-only
"""floop's test machine; ./vm is its command."""
