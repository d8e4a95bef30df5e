"""Calls of the library that Ctrl-C ends: Python hears signals in its main thread alone."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable

from shardsolve import _library


def stoppable(work: Callable[[ctypes.c_void_p], None]) -> None:
    """Calls `work` with a stop of the library, which is requested if an exception comes meanwhile.

    Such an exception, of Ctrl-C or another signal, is raised when `work` has come back.
    """
    library = _library.library()
    stop = ctypes.c_void_p(library.shardsolve_make_stop())
    try:
        if threading.current_thread() is not threading.main_thread():
            work(stop)
        else:
            _beside(work, stop, lambda: library.shardsolve_request_stop(stop))
    finally:
        library.shardsolve_free_stop(stop)


def _beside(
    work: Callable[[ctypes.c_void_p], None], stop: ctypes.c_void_p, request: Callable[[], None]
) -> None:
    """In a thread of its own, while this one waits."""
    failed: list[BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            work(stop)
        except BaseException as error:
            failed.append(error)
        finally:
            done.set()

    interrupt: BaseException | None = None
    thread = threading.Thread(target=run, name="shardsolve training")
    thread.start()
    while not done.is_set():  # to its end: it works with memory of ours
        try:
            if interrupt is not None:
                request()
            done.wait()
        except BaseException as error:
            interrupt = error
    thread.join()
    if interrupt is not None:
        raise interrupt
    if failed:
        raise failed[0]
