#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
udevadm control --reload 2> /dev/null || true
systemctl daemon-reload 2> /dev/null || true
