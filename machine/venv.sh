#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Make build/venv, with the Python programs of requirements.txt; bring it up to
# date when that file changes.

. "$(dirname "$0")/../scripts/common.sh"
locked venv

venv=$BUILD/venv
stamp=$(sha256sum < "$PROJECT/requirements.txt")
[ "$(cat "$venv/stamp" 2> /dev/null)" = "$stamp" ] &&
	[ -x "$venv/bin/python" ] && exit 0

make_venv()
{
	[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
	"$venv/bin/pip" install --progress-bar off \
		-r "$PROJECT/requirements.txt"
}

step "Python programs (virtme-ng, pytest, ruff)" make_venv
printf '%s\n' "$stamp" > "$venv/stamp"
