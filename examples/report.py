"""Prints what a demonstration does, and keeps count of what it promised."""

from __future__ import annotations

import textwrap

from rich.console import Console
from rich.text import Text


class Report:
    """Explains, shows and checks: in colour on a terminal, as plain text elsewhere."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, soft_wrap=True)
        self._width = min(self._console.width, 96)
        self._kept = 0
        self._broken: list[str] = []

    def heading(self, title: str) -> None:
        """Opens a part."""
        self._print(f"\n{title}\n{'=' * len(title)}", "bold")

    def say(self, text: str) -> None:
        """A paragraph, wrapped to the width."""
        self._print("\n" + self._wrap(text))

    def formula(self, *lines: str) -> None:
        """Lines that are shown as they are, indented."""
        self._print("\n" + textwrap.indent("\n".join(lines), "    "), "cyan")

    def command(self, files: str, options: str) -> None:
        """A command line that is about to run; flushed, so that its own output comes after it."""
        self._print(f"\n$ {files} \\\n    {options}", "bold")
        self._console.file.flush()

    def answer(self, line: str) -> None:
        """What came of a command."""
        self._print(self._wrap(f"  -> {line}", "     "), "cyan")

    def check(self, promise: str, kept: bool) -> None:
        """One promise of the demonstration, kept or not; `finish` counts them."""
        if kept:
            self._kept += 1
        else:
            self._broken.append(promise)
        mark = "ok    " if kept else "MISSED"
        line = Text(self._wrap(f"  {mark} {promise}", "         "))
        line.stylize("green" if kept else "bold red", 2, 2 + len(mark))
        self._console.print(line)

    def finish(self) -> int:
        """Says how many promises were kept. Returns the exit status: 0 if all, else 1."""
        if not self._broken:
            self._print(f"\nAll {self._kept} checks passed.", "bold green")
            return 0
        total = self._kept + len(self._broken)
        self._print(f"\n{len(self._broken)} of {total} checks missed:", "bold red")
        for promise in self._broken:
            self._print(self._wrap(f"  {promise}", "    "))
        return 1

    def _print(self, text: str, style: str = "") -> None:
        self._console.print(Text(text), style=style)

    def _wrap(self, text: str, indent: str = "") -> str:
        return textwrap.fill(
            text,
            self._width,
            subsequent_indent=indent,
            break_on_hyphens=False,
            break_long_words=False,
        )
