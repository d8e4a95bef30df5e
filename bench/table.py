"""Shows the results: with colours on a terminal, as plain text elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from contest import TARGET, TITLES, Comparison, Goal, Measurement, Setting, blas_version
from memory import MemoryUse
from protocol import Contestant
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

PLAIN_WIDTH = 120


class Display:
    """Everything that the benchmark says. A context, which leaves the terminal as it was."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        if not self._console.is_terminal:
            self._console.width = PLAIN_WIDTH
        self._status = self._console.status("")
        self._introduced = False

    def __enter__(self) -> Display:
        return self

    def __exit__(self, *_: object) -> None:
        self._status.stop()

    def say(self, text: str) -> None:
        """One line."""
        self._print(escape(text))

    def doing(self, text: str) -> None:
        """What is being done now; only on a terminal, where the next line takes its place."""
        if self._console.is_terminal:
            self._status.update(escape(text))
            self._status.start()

    def run_of(self, runs: int) -> Callable[[int, Measurement], None]:
        """Says which run is being made; for take_turns."""

        def announce(turn: int, row: Measurement) -> None:
            when = f"run {turn} of {runs}" if turn else "warm-up"
            self.doing(f"n = {row.n}, {when}: {row.label}")

        return announce

    def machine(self, machine: dict[str, Any]) -> None:
        """The machine, and a warning if it is busy with something else."""
        self.say(
            f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']} GB; "
            f"commit {machine['commit']}"
        )
        if machine["busy"]:
            self._print(
                f"[yellow]load {machine['load']:.1f}: other work is running here, so the timings "
                "mean little"
            )

    def programs(self, contestants: Sequence[Contestant]) -> None:
        """Who takes part, each with the BLAS that its process loaded; said once."""
        if self._introduced:
            return
        self._introduced = True
        table = self._table("Program", "BLAS", "Kernels", "Threads", "BLAS file")
        for contestant in contestants:
            hello, blas = contestant.hello, contestant.hello["blas"]
            version = blas_version(hello) or ("unknown", "unknown")
            threads = blas.get("threads", "?")
            ranks = f"{hello['ranks']} ranks x {threads}" if "ranks" in hello else str(threads)
            table.add_row(hello["program"], version[0], version[1], ranks, blas["file"])
        self._print(table)

    def job(
        self, setting: Setting, rows: Sequence[Measurement], comparison: Comparison | None
    ) -> None:
        """One job by all who can do it."""
        tile = rows[0].contestant.hello["tile"]
        self.say(
            f"\n{TITLES[rows[0].job]}   n = {setting.n}, {setting.dtype}, "
            f"{setting.ranks} ranks, tile {tile}"
        )
        table = self._timings("Program", "BLAS")
        for row in rows:
            version = blas_version(row.contestant.hello) or ("unknown", "")
            self._add(table, row, [row.label, version[0]])
        self._print(table)
        for row in rows:
            self._missed_gates(row)
        if comparison is not None:
            self._ratio(comparison, f"target {TARGET}", comparison.reached)

    def sweep(
        self, setting: Setting, rows: Sequence[Measurement], peer: Measurement | None
    ) -> None:
        """The factorisation with several tiles."""
        self.say(f"\nTiles of the factorisation: n = {setting.n}, {setting.dtype}")
        table = self._timings("Tile", "Speed of LAPACK")
        default = rows[0].contestant.hello["tile"]
        right = [row for row in rows if row.passed]
        best = min(right, key=lambda row: row.minimum, default=None)
        for row in rows:
            notes = (" (default)" if row.tile == default else "") + (" best" if row is best else "")
            ratio = Comparison(row, peer, setting).ratio if peer is not None else None
            self._add(table, row, [f"{row.tile}{notes}", f"{ratio:.3f}" if ratio else "-"])
        if peer is not None:
            self._add(table, peer, [peer.label, ""])
        self._print(table)
        for row in [*rows, *([] if peer is None else [peer])]:
            self._missed_gates(row)

    def engines(
        self,
        setting: Setting,
        rows: Sequence[Measurement],
        ratios: Sequence[Comparison],
        goals: Sequence[Goal],
    ) -> None:
        """One job by all engines, ours with MPI beside each, and the goals."""
        title = TITLES[rows[0].job]
        self.say(f"\n{title}   n = {setting.n}, {setting.dtype}, {setting.ranks} ranks")
        table = self._timings("Engine", "Block", "Ours with MPI is")
        for row, ratio in zip(rows, ratios, strict=True):
            block = row.tile or row.contestant.hello.get("tile", "")
            speed = ratio.refused or f"{ratio.ratio:.3f} x as fast"
            self._add(table, row, [row.label, str(block), speed])
        self._print(table)
        for row in rows:
            self._missed_gates(row)
        for goal in goals:
            self._ratio(goal.comparison, f"goal {goal.text}", goal.reached)

    def front(self, setting: Setting, rows: Sequence[Measurement]) -> None:
        """The solve in C++, then in JAX: seconds of each beside those of the first."""
        self.say(f"\n{TITLES['solve']}   n = {setting.n}, {setting.dtype}, {setting.ranks} devices")
        table = self._timings("Program", "Seconds, C++ = 1")
        for row in rows:
            both = row.passed and rows[0].passed
            ratio = f"{row.minimum / rows[0].minimum:.2f}" if both else "-"
            self._add(table, row, [row.label, ratio])
        self._print(table)
        for row in rows:
            self._missed_gates(row)

    def memory(self, use: MemoryUse) -> None:
        """Peak memory beside its bound."""
        mega = 1e6
        verdict = "[green]kept[/]" if use.kept else "[bold red]EXCEEDED[/]"
        self._print(
            f"\nMemory of 'shardsolve solve', n = {use.n}, tile {use.tile}: "
            f"anonymous {use.anonymous / mega:.0f} MB (with program files "
            f"{use.resident / mega:.0f} MB); bound {use.bound / mega:.0f} MB = "
            f"A {use.matrix / mega:.0f} + 3 panels a rank {use.panels / mega:.0f} + 100: {verdict}"
        )

    def _timings(self, *first: str) -> Table:
        table = self._table(*first)
        for title in ("Residual/u", "Min s", "Median s", "GFLOP/s"):
            table.add_column(title, justify="right")
        return table

    def _add(self, table: Table, row: Measurement, first: list[str]) -> None:
        residuals = row.worst.values()
        worst = "NaN" if None in residuals else f"{max(residuals):.2g}"
        if row.passed:
            speed = [f"{row.minimum:.4f}", f"{row.median:.4f}", f"{row.gflops:.1f}"]
        else:
            speed = ["wrong", "-", "-"]
        table.add_row(*first, worst, *speed, style=None if row.passed else "red")

    def _missed_gates(self, row: Measurement) -> None:
        for failure in row.failures:
            self._print(f"[bold red]wrong answer[/] of {row.label}: {failure}")

    def _ratio(self, comparison: Comparison, target: str, reached: bool | None) -> None:
        peer = comparison.peer.label
        if comparison.peer.tile is not None:
            peer += f", block {comparison.peer.tile}"
        verdict = {
            None: "",
            True: f"; {target} [green]reached[/]",
            False: f"; {target} [bold red]MISSED[/]",
        }[reached]
        if comparison.ratio is None:
            self._print(f"[yellow]no ratio to {peer}: {comparison.refused}[/]{verdict}")
            return
        self._print(
            f"{comparison.ours.label} is {comparison.ratio:.3f} x as fast as {peer} "
            f"(by the minima){verdict}"
        )

    def _table(self, *columns: str) -> Table:
        plain = box.ASCII2 if not self._console.is_terminal else box.SIMPLE_HEAD
        table = Table(box=plain, show_edge=False, pad_edge=False, collapse_padding=True)
        for title in columns:
            table.add_column(title, overflow="fold")
        return table

    def _print(self, what: str | Table) -> None:
        self._status.stop()
        self._console.print(what, soft_wrap=isinstance(what, str))
