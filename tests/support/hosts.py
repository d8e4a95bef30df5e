"""Two hosts on one machine: network namespaces with host names of their own, joined by a cable."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

COUNT = 2


class Hosts:
    """Two hosts with an address and a name each, which reach nobody but each other. A context.

    Raises:
        RuntimeError: Such cannot be made here; says what is missing.
    """

    def __init__(self) -> None:
        if shutil.which("ip") is None:
            raise RuntimeError("there is no ip (Debian: iproute2)")
        self.names = [f"shardsolve-{os.getpid()}-{number}" for number in range(COUNT)]
        self.addresses = [f"10.213.7.{number + 1}" for number in range(COUNT)]
        self._folder = tempfile.TemporaryDirectory(prefix="hosts-")
        self._table = Path(self._folder.name) / "hosts"
        lines = map(" ".join, zip(self.addresses, self.names, strict=True))
        self._table.write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))
        try:
            for name in self.names:
                _ip("netns", "add", name)
            first, second = self.names
            _ip(*f"link add cable netns {first} type veth peer name cable netns {second}".split())
            for name, address in zip(self.names, self.addresses, strict=True):
                _ip("-n", name, "addr", "add", f"{address}/24", "dev", "cable")
                for device in ("lo", "cable"):
                    _ip("-n", name, "link", "set", device, "up")
            for number in range(COUNT):
                subprocess.run(self.on(number, ["true"]), check=True, capture_output=True)
        except (subprocess.CalledProcessError, OSError) as error:
            self.close()
            said = getattr(error, "stderr", b"") or b""
            raise RuntimeError(
                f"no network namespaces here (needs root): {said.decode().strip() or error}"
            ) from error

    def __enter__(self) -> Hosts:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def on(self, number: int, command: Sequence[str]) -> list[str]:
        """A command as it is run on one of the hosts."""
        name = self.names[number]
        script = 'hostname "$0" && mount --bind "$1" /etc/hosts && shift && exec "$@"'
        renamed = ["unshare", "--uts", "--mount", "sh", "-c", script, name, str(self._table)]
        return ["ip", "netns", "exec", name, *renamed, *command]

    def write_remote_shell(self, path: Path) -> None:
        """What mpirun takes for ssh: `PATH ADDRESS COMMAND...`."""
        lines = ["#!/bin/sh", "address=$1", "shift", "case $address in"]
        for number, address in enumerate(self.addresses):
            lines.append(f'{address}) exec {shlex.join(self.on(number, ["sh", "-c"]))} "$*" ;;')
        path.write_text("\n".join([*lines, "esac", ""]))
        path.chmod(0o755)

    def cut_cable(self) -> None:
        """Nothing that is sent arrives any more, and nobody is told."""
        _ip("-n", self.names[1], "link", "set", "cable", "down")

    def close(self) -> None:
        """Kills what still runs there, and takes the hosts away."""
        for name in self.names:
            command = ["ip", "netns", "pids", name]
            found = subprocess.run(command, check=False, capture_output=True, text=True)
            for pid in found.stdout.split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
        self._folder.cleanup()


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
