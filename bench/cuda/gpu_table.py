"""Shows the results of the GPU benchmark: other tables, the CPU benchmark's display."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpu_contest import OURS, GpuContestant, GpuMeasurement, Setting, best_peer
from rich.markup import escape
from table import Display

TITLES = {
    "factor": "A = L L^H",
    "solve": "A x = b with the factor, one right-hand side",
    "solve_many": "A X = B with the factor, {columns} right-hand sides",
    "one_call": "A x = b in one call (ours: certified)",
    "rcond": "rcond with the factor (as five solves)",
    "inverse": "A^-1 (ours and cuSOLVERMp: both triangles)",
    "eigh": "all eigenpairs of A (ours: certified)",
    "eigh_tenth": "those of the smallest tenth of the eigenvalues (ours: certified)",
    "eigh_values": "eigenvalues of A alone",
}


class GpuDisplay(Display):
    """Everything that the GPU benchmark says. A context, which leaves the terminal as it was."""

    def gpus(self, gpus: Sequence[dict[str, str]], devices: Sequence[int]) -> None:
        """The GPUs that are used."""
        for gpu in gpus:
            if int(gpu["index"]) in devices:
                self.say(
                    f"GPU {gpu['index']}: {gpu['name']}, {gpu['memory.total']}, power limit "
                    f"{gpu['power.limit']}, at most {gpu['clocks.max.sm']}, driver "
                    f"{gpu['driver_version']}, {gpu['temperature.gpu']} C"
                )

    def ceilings(self, ceilings: Sequence[dict[str, Any]]) -> None:
        """Sustained rates of rank-k updates."""
        if not ceilings:
            return
        self.say("\nCeiling: sustained rank-k updates on all GPUs at once, TFLOP/s of each")
        table = self._table("Dtype", "k")
        for title in ("Slowest", "Fastest", "Sum"):
            table.add_column(title, justify="right")
        for line in ceilings:
            rates = line["tflops"]
            figures = (min(rates), max(rates), sum(rates))
            table.add_row(line["dtype"], str(line["k"]), *(f"{rate:.2f}" for rate in figures))
        self._print(table)

    def contestants(self, everybody: Sequence[GpuContestant]) -> None:
        """Who takes part."""
        names = [
            f"{one.hello['program']} ({one.hello['setup_seconds']:.1f} s)" for one in everybody
        ]
        self.say("taking part (seconds of set-up): " + ", ".join(names))

    def job(  # type: ignore[override]
        self, setting: Setting, rows: Sequence[GpuMeasurement], ceiling: float | None
    ) -> None:
        """One job by all who can do it.

        Args:
            setting: What was solved.
            rows: Ours first.
            ceiling: TFLOP/s that all GPUs together sustain; None if not measured.
        """
        title = TITLES[rows[0].job].format(columns=setting.columns)
        self.say(
            f"\n{title}   n = {setting.n}, {setting.dtype}, {setting.matrix}, "
            f"{len(setting.devices)} GPU{'s' if len(setting.devices) > 1 else ''}"
        )
        table = self._table("Program", "Tile")
        columns = ("Residual/u", "First s", "Min s", "Median s", "Runs", "TFLOP/s", "Ceiling", "GB")
        for name in (*columns, "Ours/it"):
            table.add_column(name, justify="right")
        ours = next((row for row in rows if row.contestant.name == OURS and row.passed), None)
        for row in rows:
            table.add_row(*self._cells(row, ours, ceiling), style=None if row.passed else "red")
        self._print(table)
        for row in rows:
            if row.error is not None:
                self._print(f"[bold red]failed[/]: {escape(row.error)}")
            self._missed_gates(row)
        self._verdict(rows)

    def _cells(
        self, row: GpuMeasurement, ours: GpuMeasurement | None, ceiling: float | None
    ) -> list[str]:
        residuals = row.worst.values()
        worst = "-" if not residuals else "NaN" if None in residuals else f"{max(residuals):.2g}"
        tile = str(row.tile or row.contestant.hello["tile"] or "")
        if not row.passed:
            return [row.label, tile, worst, "no speed", *("-" for _ in range(7))]
        first = "-" if row.first is None else f"{row.first.seconds:.4f}"
        # What solves reads the factor: memory limits it.
        compares = ceiling is not None and row.job not in ("solve", "solve_many", "rcond")
        share = f"{row.tflops / ceiling:.0%}" if compares else "-"
        ratio = "" if ours is None or row is ours else f"{row.minimum / ours.minimum:.2f}"
        return [
            row.label,
            tile,
            worst,
            first,
            f"{row.minimum:.4f}",
            f"{row.median:.4f}",
            str(len(row.runs)),
            f"{row.tflops:.2f}",
            share,
            f"{row.bytes / 1e9:.1f}",
            ratio,
        ]

    def _verdict(self, rows: Sequence[GpuMeasurement]) -> None:
        ours = [row for row in rows if row.contestant.name == OURS and row.passed]
        peer = best_peer(rows)
        if not ours or peer is None:
            return
        fastest = min(ours, key=lambda row: row.minimum)
        ratio = peer.minimum / fastest.minimum
        colour = "green" if ratio >= 1 else "bold red"
        self._print(
            f"our speed is [{colour}]{ratio:.2f}[/] times that of {escape(peer.label)}, "
            "the fastest of the others (ratio of the minima)"
        )
