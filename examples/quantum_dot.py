"""The electron of a quantum dot in a magnetic field: eigenvalues and eigenvectors, a known answer.

A dense complex Hamiltonian goes to the command line tool as a file, `shardsolve eigh` finds its
lowest states over four CPU devices, and they are checked against the formula of Fock and Darwin
and against NumPy. Run by `make demo`. Exit status: 0, or 1 if a check misses its bound, 3 if
something is missing on this machine.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from quantum_dot_picture import draw
from report import Report
from shardsolve_tool import DemoError, EigenCertificate, Tool

OUT = Path(__file__).resolve().parent.parent / "out"
DEVICES = 4

POINTS = 40  # a side of the grid: 1600 rows
FIELD = 1.0  # omega_c, of the states that are drawn
STATES = 24
COARSE_POINTS = 32  # for energies alone: 1024 rows
FIELDS = np.linspace(0, 3, 13)
HIGHEST = 6.0  # energy
# Distance of grid points in oscillator lengths. Larger: fast electrons do not fit between them;
# smaller: the grid ends too close to the dot. With 32 points a side, errors of the energies below
# HIGHEST are smallest here, 1e-8 or less at all of FIELDS.
SPACING = 0.43


@dataclass(frozen=True)
class Dot:
    """A dot on a grid of sinc functions; lengths and energies in units of the dot without field.

    H = p^2 / 2 + Omega^2 r^2 / 2 - omega_c / 2 L_z with Omega^2 = 1 + omega_c^2 / 4.
    """

    field: float  # omega_c
    points: int  # a side

    @property
    def omega(self) -> float:
        """Frequency of the dot with the field, which is 1 without."""
        return float(np.sqrt(1 + self.field**2 / 4))

    @property
    def spacing(self) -> float:
        """Distance of two grid points."""
        return SPACING / np.sqrt(self.omega)

    @property
    def x(self) -> np.ndarray:
        """The places of the grid points on either axis."""
        return (np.arange(self.points) - (self.points - 1) / 2) * self.spacing

    def momentum(self) -> np.ndarray:
        """Momentum along one axis, imaginary and antisymmetric."""
        d, sign = self._distances()
        return np.where(d == 0, 0, -1j * sign / np.where(d == 0, 1, d)) / self.spacing

    def kinetic(self) -> np.ndarray:
        """Kinetic energy along one axis, exact for what the grid can hold."""
        d, sign = self._distances()
        return np.where(d == 0, np.pi**2 / 6, sign / np.where(d == 0, 1, d) ** 2) / self.spacing**2

    def rotation(self) -> np.ndarray:
        """L_z = x p_y - y p_x."""
        x, p = np.diag(self.x), self.momentum()
        return np.kron(x, p) - np.kron(p, x)

    def hamiltonian(self) -> np.ndarray:
        """Dense, complex and Hermitian to the last bit; rows are grid points, x before y."""
        one, t = np.eye(self.points), self.kinetic()
        r2 = self.x[:, None] ** 2 + self.x**2
        h = np.kron(t, one) + np.kron(one, t) - self.field / 2 * self.rotation()
        h[np.diag_indices_from(h)] += self.omega**2 / 2 * r2.ravel()
        return h

    def norm(self) -> float:
        """||H||_1."""
        return float(np.abs(self.hamiltonian()).sum(axis=0).max())

    def formula(self, highest: float = HIGHEST) -> list[tuple[float, int, int]]:
        """Energy, n and l of all states up to an energy, by Fock (1928) and Darwin (1930)."""
        states = [
            ((2 * n + abs(k) + 1) * self.omega - k * self.field / 2, n, k)
            for n in range(20)
            for k in range(-20, 100)
        ]
        return sorted(state for state in states if state[0] <= highest)

    def lowest(self, count: int) -> list[tuple[float, int, int]]:
        """The same of so many states, at most 40."""
        return self.formula(highest=12 * self.omega)[:count]

    def _distances(self) -> tuple[np.ndarray, np.ndarray]:
        i = np.arange(self.points)
        d = i[:, None] - i
        return d, 1.0 - 2.0 * (d % 2)


def explain(report: Report, dot: Dot) -> None:
    n = dot.points**2
    report.heading(f"4. An electron in a quantum dot: eigenvectors of a {n} x {n} matrix")
    report.say(
        "A dot holds an electron in the plane, as a spring would, and a magnetic field turns it. "
        f"On a grid of {dot.points} x {dot.points} sinc functions its Hamiltonian is a dense, "
        "complex, Hermitian matrix H. Its eigenvalues are the energies that the electron can have, "
        "its eigenvectors the waves:"
    )
    report.formula(
        "H z = E z,  H = p^2 / 2 + Omega^2 r^2 / 2 - (omega_c / 2) L_z,  "
        "Omega^2 = 1 + omega_c^2 / 4"
    )
    report.say(
        "The answer has been known since Fock (1928) and Darwin (1930). n counts rings, and l how "
        "often the phase turns around the middle:"
    )
    report.formula("E(n, l) = (2 n + |l| + 1) Omega - l omega_c / 2")


def find_states(
    report: Report, tool: Tool, dot: Dot
) -> tuple[np.ndarray, np.ndarray, EigenCertificate]:
    """Returns energies and waves (columns) of the lowest states, checked."""
    h = dot.hamiltonian()
    file, prefix = OUT / "dot.npy", OUT / "dot"
    np.save(file, h)
    try:
        certificate = tool.eigh(file, prefix, "quantum dot", "--indices", f"0:{STATES - 1}")
    finally:
        file.unlink(missing_ok=True)
    energies = np.load(f"{prefix}.values.npy")
    waves = np.load(f"{prefix}.vectors.npy")
    report.say(
        "The certificate of eigenpairs: the residual says how far H z is from E z, relative to "
        "||H||, in units of u = 1.1e-16, the rounding of one number; it bounds the error of every "
        "energy. The orthogonality says how far the waves are from norm 1 and right angles."
    )
    check_states(report, dot, h, energies, waves, certificate)
    return energies, waves, certificate


def check_states(
    report: Report,
    dot: Dot,
    h: np.ndarray,
    energies: np.ndarray,
    waves: np.ndarray,
    certificate: EigenCertificate,
) -> None:
    report.say("Not taken on trust:")
    u = certificate.unit_roundoff
    norm = np.abs(h).sum(axis=0).max()
    residual = np.linalg.norm(h @ waves - waves * energies, axis=0).max() / (norm * u)
    overlap = np.linalg.norm(waves.conj().T @ waves - np.eye(STATES), axis=0).max() / u
    report.check(
        f"its certificate: residual {certificate.residual_in_u:.2g} u (< 100 u), orthogonality "
        f"{certificate.orthogonality_in_u:.2g} u (< 1000 u)",
        certificate.holds,
    )
    report.check(
        f"recomputed by NumPy from the files: residual {residual:.2g} u (< 100 u), orthogonality "
        f"{overlap:.2g} u (< 1000 u)",
        bool(residual < 100 and overlap < 1000),
    )
    theirs = np.linalg.eigvalsh(h)[:STATES]
    difference = np.abs(energies - theirs).max() / (norm * u)
    report.check(
        f"numpy.linalg.eigvalsh differs by {difference:.2g} u ||H|| (< 100 u ||H||)",
        bool(difference < 100),
    )
    truth = dot.lowest(STATES)
    error = np.abs(energies - [state[0] for state in truth]).max()
    report.check(
        f"the formula of Fock and Darwin differs by {error:.1e} in {STATES} energies (< 1e-8)",
        bool(error < 1e-8),
    )
    turns = np.einsum("ij,ij->j", waves.conj(), dot.rotation() @ waves).real
    off = np.abs(turns - [state[2] for state in truth]).max()
    report.check(
        f"<L_z> of each wave is the l of the formula, to {off:.1e} (< 1e-6)", bool(off < 1e-6)
    )


def follow_field(report: Report, tool: Tool) -> list[np.ndarray]:
    """Returns the energies up to HIGHEST at each of FIELDS, checked."""
    report.say(
        f"How do the energies move with the field? {len(FIELDS)} fields, {COARSE_POINTS**2} rows "
        f"each, energies up to {HIGHEST:g} alone:"
    )
    file, prefix = OUT / "dot_field.npy", OUT / "dot_field"
    found, error, same = [], 0.0, True
    try:
        for field in FIELDS:
            dot = Dot(float(field), COARSE_POINTS)
            np.save(file, dot.hamiltonian())
            options = ["--values-only", "--range", f"-inf,{HIGHEST:g}"]
            tool.eigh(file, prefix, f"field {field:g}", *options, shown=field == FIELDS[0])
            found.append(np.load(f"{prefix}.values.npy"))
            truth = np.array([state[0] for state in dot.formula()])
            # A level on the very limit may be on either side of it.
            inside = [np.sort(e[e < HIGHEST - 1e-6]) for e in (found[-1], truth)]
            same &= len(inside[0]) == len(inside[1])
            if same:
                error = max(error, float(np.abs(inside[0] - inside[1]).max()))
    finally:
        file.unlink(missing_ok=True)
    total = sum(map(len, found))
    report.check(f"each field has as many levels as the formula, {total} in all", same)
    report.check(f"all of them are the formula's, to {error:.1e} (< 1e-6)", error < 1e-6)
    return found


def main() -> int:
    report = Report()
    try:
        OUT.mkdir(exist_ok=True)
        tool = Tool(report, DEVICES)
        dot = Dot(FIELD, POINTS)
        explain(report, dot)
        energies, waves, certificate = find_states(report, tool, dot)
        levels = follow_field(report, tool)
        picture = OUT / "quantum_dot.png"
        fan = [Dot(float(field), 0).formula(HIGHEST + 1) for field in np.linspace(0, 3, 121)]
        draw(picture, dot, energies, waves, FIELDS, levels, fan, certificate)
        report.say(f"Picture of the waves and the energies: {picture.relative_to(OUT.parent)}")
        return report.finish()
    except DemoError as error:
        print(f"demo: {error}", file=sys.stderr)
        return error.status
    except KeyboardInterrupt:
        print("demo: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
