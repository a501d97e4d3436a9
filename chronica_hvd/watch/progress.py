"""Progress of a run: one line that is rewritten on a terminal, a plain line every few seconds elsewhere."""

from __future__ import annotations

import os
import sys
import time

PLAIN_EVERY_S = 5.0
REWRITE_EVERY_S = 0.2


class Progress:
    """Call from one rank only. ``CHRONICA_TTY`` says that a launcher's stderr is a terminal, though ours is a pipe."""

    def __init__(self, total: int, label: str, file=None, clock=time.monotonic):
        self.total, self.label, self.file, self.clock = total, label, file or sys.stderr, clock
        self.terminal = self.file.isatty() or os.environ.get("CHRONICA_TTY") == "1"
        self._begun = self._shown = clock()

    def update(self, done: int) -> None:
        """``done`` of the total are done."""
        now, last = self.clock(), done >= self.total
        if not last and now - self._shown < (REWRITE_EVERY_S if self.terminal else PLAIN_EVERY_S):
            return
        self._shown, spent_s = now, now - self._begun
        left_s = spent_s / max(done, 1) * (self.total - done)
        text = f"{self.label}: {done}/{self.total}, {spent_s:.0f} s, about {left_s:.0f} s left"
        start, end = ("\r\x1b[K", "\n" if last else "") if self.terminal else ("", "\n")
        print(f"{start}{text}", end=end, file=self.file, flush=True)
