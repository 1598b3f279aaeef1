# SPDX-License-Identifier: GPL-2.0-only
"""A run of one section: who takes part, and what is told to the host, a line of
JSON each.
"""

import json
from contextlib import contextmanager

from . import peers
from .shell import Failed


class Run:
    def __init__(self, section, rounds, quick, names):
        self.section, self.rounds, self.quick = section, rounds, quick
        self.out = {}  # peers that have no figures here, and why
        self.peers = [
            peer for peer in peers.ALL if not names or peer.name in names
        ]
        for peer in self.peers:
            reason = section.absent.get(peer.name)
            if peer.only and section.name not in peer.only:
                reason = ""
            if reason is None:
                reason = peer.unusable() or None
            if reason is not None:
                self.leave_out(peer, reason)

    def tell(self, **answer):
        print(json.dumps(answer), flush=True)

    def leave_out(self, peer, reason):
        self.out[peer.name] = reason
        if reason:
            self.tell(absent=peer.name, reason=reason)

    def taking_part(self):
        return [peer for peer in self.peers if peer.name not in self.out]

    def result(self, table, cell, peer, number, values):
        name = f"{self.section.name}/{table}"
        self.tell(
            table=name, cell=cell, peer=peer.name, round=number, values=values
        )

    @contextmanager
    def trying(self, peer):
        """What fails in here takes the peer out of the section: its row says
        why.
        """
        try:
            yield
        except (Failed, OSError) as error:
            # What came first: clearing up may have failed on account of it.
            while isinstance(error.__context__, Failed | OSError):
                error = error.__context__
            self.leave_out(peer, str(error))
            self.tell(failed=peer.name)
