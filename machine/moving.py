# SPDX-License-Identifier: GPL-2.0-only
"""A line on the terminal that shows that something goes on."""

import shutil
import sys
import threading
import time

CLEAR = "\r\033[K"


class Moving:
    """Write a line over, each second, with what goes on and for how long.

    It begins with the `with` and is gone at its end. what is a text, or a
    function that returns one. Where the stream is no terminal, there is none.
    """

    def __init__(self, what, stream=None):
        self.what = what
        self.stream = stream or sys.stderr
        self.lock = threading.Lock()
        self.over = threading.Event()
        self.thread = None

    def __enter__(self):
        if self.stream.isatty():
            self.thread = threading.Thread(target=self._move, daemon=True)
            self.thread.start()
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        """Take the line away; again is nothing."""
        self.over.set()
        if self.thread:
            self.thread.join()
            self.thread = None
            self._write(CLEAR)

    def say(self, text):
        """Print a line above it."""
        with self.lock:
            clear = CLEAR if self.thread else ""
            print(f"{clear}{text}", file=self.stream, flush=True)

    def _move(self):
        begun = time.monotonic()
        while not self.over.wait(1):
            what = self.what() if callable(self.what) else self.what
            line = f"{time.monotonic() - begun:6.0f} s  {what}"
            with self.lock:
                width = shutil.get_terminal_size().columns - 1
                self._write(CLEAR + line[:width])

    def _write(self, text):
        self.stream.write(text)
        self.stream.flush()
