"""What signals ask of a training that looks between two blocks: to stop, to write a checkpoint.

Only in the main thread, where Python hears them, and only while it trains: what was there before
is put back.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any


class Signals:
    """Context in which signals are remembered.

    Ctrl-C asks to stop, and once more ends at once, as without this. With a checkpoint SIGUSR1 asks
    for one, and SIGTERM for one and the end; SIGTERM then does what it would have done.

    Attributes:
        interrupted: Ctrl-C came.
        wants_checkpoint: SIGUSR1 or SIGTERM came since the last one.
        terminated: SIGTERM came.
    """

    def __init__(self, has_checkpoint: bool):
        self.interrupted = self.wants_checkpoint = self.terminated = False
        self._heard = {signal.SIGINT: self._interrupt}
        if has_checkpoint:
            self._heard[signal.SIGTERM] = self._terminate
            if hasattr(signal, "SIGUSR1"):
                self._heard[signal.SIGUSR1] = self._save
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            for number, handler in self._heard.items():
                before = signal.getsignal(number)
                if number == signal.SIGINT and before is not signal.default_int_handler:
                    continue  # somebody else's: it may not be to stop this
                self._before[number] = before
                signal.signal(number, handler)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, signal.SIG_DFL if before is None else before)
        if self.terminated and kind is None:
            signal.raise_signal(signal.SIGTERM)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.interrupted:
            raise KeyboardInterrupt
        self.interrupted = True

    def _terminate(self, number: int, frame: FrameType | None) -> None:
        self.terminated = self.wants_checkpoint = True

    def _save(self, number: int, frame: FrameType | None) -> None:
        self.wants_checkpoint = True


Callback = Callable[[Any], Any]
