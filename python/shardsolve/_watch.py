"""Processes watch each other by TCP, so that one that is lost is named while XLA waits for it.

All connect to the first and send a sign of life twice a second. The first tells the others who is
lost; that the first is lost they see themselves.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import struct
import threading
from collections.abc import Sequence

import numpy as np

from shardsolve import _session

_BETWEEN = 0.5  # seconds from a sign of life to the next
_CONNECT = 3.0  # seconds for one of several addresses, of which some may lead nowhere
_ADDRESSES = 6
_ALIVE, _ENDS, _LEAVES = b".\n", b"ends\n", b"leaves\n"


class Watch:
    """Of one process.

    Attributes:
        lost: A sentence that names a process; empty while all are there.
        is_alone: This process cannot reach the first.
    """

    def __init__(self, numbers: Sequence[int], mine: int):
        self._numbers, self._mine = list(numbers), mine
        self._is_first = mine == self._numbers[0]
        self._limit = _session.time_limit()
        self.lost, self.is_alone = "", False
        self._over = threading.Event()
        self._lock = threading.Lock()  # guards the next
        self._sockets: dict[int, socket.socket] = {}
        self._names: dict[int, str] = {}
        self._listener: socket.socket | None = None
        self._token = secrets.randbits(63)
        self._hosts = _own_addresses()
        if self._is_first:
            self._listener = socket.create_server(("", 0), backlog=len(self._numbers))

    def address(self) -> list[int]:
        """What the others have to know, in 32-bit numbers."""
        port = 0 if self._listener is None else self._listener.getsockname()[1]
        token = [self._token >> 32, self._token & 0xFFFFFFFF]
        return [os.getpid(), port, *token, *self._hosts]

    def begin(self, everybody: np.ndarray) -> None:
        """Connects: with what `address` gave in each process, in the order of their numbers."""
        all_words = everybody.astype(np.int32).view(np.uint32).astype(np.int64)
        for number, words in zip(self._numbers, all_words, strict=True):
            host = _text(words[4])
            self._names[number] = f"process {number} (pid {words[0]} at {host})"
        first = all_words[0]
        self._token = int(first[2]) << 32 | int(first[3])
        if self._is_first:
            self._start(self._accept)
        else:
            found = self._connected([_text(one) for one in first[4:] if one], int(first[1]))
            self.is_alone = found is None
            if found is not None:
                self._add(self._numbers[0], found)
        self._start(self._signs)

    def end(self, in_order: bool) -> None:
        """No more is watched. The others hear whether the work has ended here, or an exception."""
        self._over.set()
        self._tell(_ENDS if in_order else _LEAVES)
        with self._lock:
            for one in self._sockets.values():
                one.close()
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)  # ends who waits in accept
            self._listener.close()

    def _connected(self, hosts: Sequence[str], port: int) -> socket.socket | None:
        greeting = struct.pack("!qi", self._token, self._mine)
        for host in hosts:
            with contextlib.suppress(OSError):
                one = socket.create_connection((host, port), timeout=_CONNECT)
                one.sendall(greeting)
                if _exactly(one, len(greeting)) == greeting:
                    return one
                one.close()
        return None

    def _accept(self) -> None:
        assert self._listener is not None
        while not self._over.is_set():
            try:
                one = self._listener.accept()[0]
                one.settimeout(_CONNECT)
                greeting = _exactly(one, struct.calcsize("!qi"))
                token, number = struct.unpack("!qi", greeting)
                if token != self._token or number not in self._numbers:
                    one.close()
                    continue
                one.sendall(greeting)
                self._add(number, one)
            except (OSError, struct.error):
                continue

    def _add(self, number: int, one: socket.socket) -> None:
        one.settimeout(self._limit)
        with self._lock:
            self._sockets[number] = one
        self._start(self._hear, number, one)

    def _hear(self, number: int, one: socket.socket) -> None:
        """Until the process ends, or is lost."""
        name = self._names[number]
        try:
            with one.makefile("rb") as lines:
                for line in lines:
                    if line == _ENDS:
                        return
                    if line == _LEAVES:
                        self._lose(f"{name} has left the others: its own output says why")
                        return
                    if line != _ALIVE:
                        self._lose(line.decode().strip())
                        return
            self._lose(f"{name} has ended: its own output says why")
        except TimeoutError:
            self._lose(
                f"{name} has been silent for more than {self._limit:g} s: it is stopped, or its "
                "host is gone; shardsolve.set_timeout sets the limit"
            )
        except (OSError, ValueError):
            self._lose(f"the connection to {name} was closed: its own output says why")

    def _lose(self, sentence: str) -> None:
        if self._over.is_set() or self.lost:
            return
        self.lost = sentence
        if self._is_first:
            self._tell(sentence.encode() + b"\n")

    def _signs(self) -> None:
        while not self._over.wait(min(_BETWEEN, self._limit / 4)):
            self._tell(_ALIVE)

    def _tell(self, line: bytes) -> None:
        with self._lock:
            for one in self._sockets.values():
                with contextlib.suppress(OSError):
                    one.sendall(line)

    def _start(self, function: object, *given: object) -> None:
        name = "shardsolve watch"
        threading.Thread(target=function, args=given, name=name, daemon=True).start()  # type: ignore[arg-type]


def _exactly(one: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size and (part := one.recv(size - len(found))):
        found += part
    return found


def _own_addresses() -> list[int]:
    """IPv4 addresses of this host, those that others reach first; 127.0.0.1 is the last."""
    found = []
    with contextlib.suppress(OSError), socket.socket(type=socket.SOCK_DGRAM) as one:
        one.connect(("192.0.2.1", 9))  # sends nothing: the system chooses the interface
        found.append(one.getsockname()[0])
    with contextlib.suppress(OSError):
        found += socket.gethostbyname_ex(socket.gethostname())[2]
    found = [*dict.fromkeys([*found[: _ADDRESSES - 1], "127.0.0.1"])]
    return [struct.unpack("!I", socket.inet_aton(one))[0] for one in found]


def _text(address: int) -> str:
    return socket.inet_ntoa(struct.pack("!I", int(address)))
