"""The wave that a thick slab lets through: singular vectors of a transmission matrix.

A wave between two mirrors meets layers that are rough at random; a tenth of it or so goes through,
and the rest comes back. The singular value decomposition of the slab's transmission matrix, whose
rows lie over CPU devices, finds the waves that go through whole. Energy, the wave equation and two
laws of physics check it. Run by `make demo`.

    python examples/open_channels.py
    python examples/open_channels.py --modes 600 --devices 6 --seed 8

Draws out/open_channels.png if matplotlib is there. Exit status: 0, or 1 if a check misses its
bound, 3 if something is missing on this machine.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from open_channels_model import Slab, dorokhov, random_waves, shot_noise
from report import Report
from shardsolve_tool import ENVIRONMENT_ERROR

import shardsolve

jax.config.update("jax_enable_x64", True)

OUT = Path(__file__).resolve().parent.parent / "out"
UNIT_ROUNDOFF = np.finfo(np.float64).eps / 2
# In units of it; rounding alone leaves some 30 and 80.
RESIDUAL_BOUND, ORTHOGONALITY_BOUND = 100, 1000
WAIST = 10.0  # of the beam, in wavelengths
RANDOM_WAVES = 64
PARTS = (0.05, 0.1, 0.2, 0.45)  # of the slab, whose noise is looked at, too


@dataclass(frozen=True)
class Channels:
    """The singular value decomposition of t, on the host, and what is said of it."""

    u: np.ndarray  # (modes, modes): the waves that come out
    s: np.ndarray  # (modes,): s^2 is the part of the energy that goes through
    vh: np.ndarray  # (modes, modes): the waves that go in
    residual: float
    orthogonality: float
    seconds: float

    @property
    def certificate(self) -> str:
        """In units of u."""
        return (
            f"residual {self.residual / UNIT_ROUNDOFF:.2g} u, "
            f"orthogonality {self.orthogonality / UNIT_ROUNDOFF:.2g} u"
        )


def explain(report: Report, slab: Slab) -> None:
    report.heading("6. A wave through a thick slab: singular vectors of a matrix over devices")
    report.say(
        f"A wave runs between two mirrors, {slab.width:.0f} wavelengths apart, into a slab of "
        f"{slab.layers} thin layers that are rough at random. It is scattered so often that little "
        f"of it comes out behind, as of light in white paint. {slab.modes} modes fit between the "
        "mirrors. t(m, n) is what of mode n comes out as mode m: a complex "
        f"{slab.modes} x {slab.modes} matrix. Its singular value decomposition"
    )
    report.formula("t = U diag(s) V^H")
    report.say(
        "says what the slab does: a wave v_j that goes in comes out as u_j, and s_j^2 of its "
        "energy goes through. From JAX, with the rows of t over the devices:"
    )
    report.formula("u, s, vh, info = shardsolve.svd(t, full_output=True)")


def decompose(report: Report, t: np.ndarray, cut: NamedSharding) -> Channels:
    """The decomposition by shardsolve, checked by its certificate and by NumPy."""
    over_devices = jax.device_put(t, cut)
    begin = time.perf_counter()
    u, s, vh, info = jax.block_until_ready(shardsolve.svd(over_devices, full_output=True))
    seconds = time.perf_counter() - begin
    rows = u.addressable_shards[0].data.shape[0]
    figures = float(info.residual), float(info.orthogonality)
    found = Channels(*map(np.asarray, (u, s, vh)), *figures, seconds)
    report.answer(
        f"{info.status.name}, {found.certificate}; {seconds:.1f} s with compiling; each of "
        f"{len(u.addressable_shards)} devices has {rows} rows of t and of u"
    )
    report.say(
        "The certificate: the residual says how far U diag(s) V^H is from t, relative to ||t||, in "
        "units of u = 1.1e-16, the rounding of one number; it bounds the error of every singular "
        "value. The orthogonality says how far the waves are from norm 1 and right angles. Not "
        "taken on trust:"
    )
    report.check(
        f"its certificate: {found.certificate} (< {RESIDUAL_BOUND} u, < {ORTHOGONALITY_BOUND} u)",
        found.residual < RESIDUAL_BOUND * UNIT_ROUNDOFF
        and found.orthogonality < ORTHOGONALITY_BOUND * UNIT_ROUNDOFF,
    )
    check_by_numpy(report, t, found)
    return found


def check_by_numpy(report: Report, t: np.ndarray, found: Channels) -> None:
    one = np.eye(len(t))
    residual = np.linalg.norm(found.u * found.s @ found.vh - t) / np.linalg.norm(t)
    off = [z.conj().T @ z - one for z in (found.u, found.vh.conj().T)]
    orthogonality = max(np.linalg.norm(z, axis=1).max() for z in off)
    residual, orthogonality = residual / UNIT_ROUNDOFF, orthogonality / UNIT_ROUNDOFF
    report.check(
        f"recomputed by NumPy: residual {residual:.2g} u (< {RESIDUAL_BOUND} u), orthogonality "
        f"{orthogonality:.2g} u (< {ORTHOGONALITY_BOUND} u)",
        bool(residual < RESIDUAL_BOUND and orthogonality < ORTHOGONALITY_BOUND),
    )
    theirs = np.linalg.svd(t, compute_uv=False)
    difference = np.abs(found.s - theirs).max() / (theirs[0] * UNIT_ROUNDOFF)
    report.check(
        f"numpy.linalg.svd differs by {difference:.2g} u of the largest (< 100 u)",
        bool(difference < 100),
    )


def check_energy(report: Report, s: np.ndarray, r: np.ndarray, cut: NamedSharding) -> None:
    """What does not go through comes back: singular values of t and r belong to each other."""
    back = np.asarray(shardsolve.svdvals(jax.device_put(r, cut)))
    lost = np.abs(s**2 + back[::-1] ** 2 - 1).max() / UNIT_ROUNDOFF
    report.check(
        "energy: what goes through and what comes back, from singular values of two matrices, are "
        f"1 together in each of {len(s)} channels, to {lost:.2g} u (< 1000 u)",
        bool(lost < 1000),
    )


def follow(
    report: Report, slab: Slab, t: np.ndarray, r: np.ndarray, found: Channels
) -> tuple[np.ndarray, np.ndarray]:
    """Amplitudes in the slab of a beam, v_1 and random waves, checked where they enter."""
    entering = np.column_stack(
        [slab.beam(WAIST), found.vh[0].conj(), *random_waves(slab.modes, RANDOM_WAVES, slab.seed)]
    )
    leaving = t @ entering
    leaving[:, 1] = found.s[0] * found.u[:, 0]
    a, b = slab.march_back(leaving)
    off = max(np.abs(a[0] - entering).max(), np.abs(b[0] - r @ entering).max())
    report.check(
        "the wave equation: s_1 u_1, followed backwards through the layers one by one, is v_1 in "
        f"front of the slab, and other waves likewise, to {off:.0e} (< 1e-5)",
        bool(off < 1e-5),
    )
    return a, b


def check_laws(report: Report, s: np.ndarray) -> None:
    """Two laws of waves that are scattered often; one slab keeps them but for some 1 / total."""
    through = s**2
    total = through.sum()
    report.say(
        f"On average {through.mean():.1%} of a wave goes through. Few singular vectors are like "
        f"the average: {(through > 0.5).sum()} of {len(s)} go through by more than half, and "
        f"{(through < 0.01).sum()} by less than a hundredth. Physics knows how many, from the sum "
        f"{total:.1f} of s^2 alone:"
    )
    off = np.abs(through - dorokhov(len(s), total)).max()
    report.check(
        f"Dorokhov (1984), s_j^2 = 1 / cosh^2((j - 1/2) / sum): at most {off:.3f} off "
        f"(< {2 / total:.3f}, two levels)",
        bool(off < 2 / total),
    )
    noise = shot_noise(through)
    report.check(
        f"Beenakker and Büttiker (1992), the noise sum s^2 (1 - s^2) / sum s^2 is 1/3: {noise:.4f} "
        f"(to {1 / total:.4f})",
        bool(abs(noise - 1 / 3) < 1 / total),
    )
    report.check(
        f"the first goes through, but for {1 - through[0]:.1e} of its energy (< 0.02)",
        bool(through[0] > 0.98),
    )


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--modes", type=int, default=360, help="rows of the matrix (360)")
    parser.add_argument("--layers", type=int, default=60, help="of the slab (60)")
    parser.add_argument("--devices", type=int, default=4, help="CPU devices (4)")
    parser.add_argument("--seed", type=int, default=3, help="of the layers (3)")
    given = parser.parse_args()
    if given.devices < 1 or given.modes < 40 or given.modes % given.devices:
        parser.error(
            f"--modes {given.modes} --devices {given.devices}: at least 40 modes, and each device "
            "as many rows as any other: pass a multiple of the devices"
        )
    if given.layers < 20:
        parser.error(f"--layers {given.layers}: at least 20; fewer let most of a wave through")
    return given


def main() -> int:
    """Runs the example. Returns the exit status."""
    given = arguments()
    jax.config.update("jax_num_cpu_devices", given.devices)  # the processor poses as several
    report = Report()
    OUT.mkdir(exist_ok=True)
    slab = Slab(given.modes, given.layers, given.seed)
    explain(report, slab)
    parts = sorted({max(1, round(part * slab.layers)) for part in PARTS})
    t, r, thinner = slab.scattering(parts)
    mesh = jax.make_mesh((given.devices,), ("x",), axis_types=(AxisType.Auto,))
    cut = NamedSharding(mesh, P("x", None))
    try:
        found = decompose(report, t, cut)
    except ImportError as error:  # its compiled library is missing, or JAX is of another version
        print(f"demo: {error}", file=sys.stderr)
        return ENVIRONMENT_ERROR
    check_energy(report, found.s, r, cut)
    a, b = follow(report, slab, t, r, found)
    check_laws(report, found.s)
    noise = {slab.layers: found.s**2}
    for layers, transmission in thinner.items():
        noise[layers] = np.asarray(shardsolve.svdvals(jax.device_put(transmission, cut))) ** 2
    try:
        from open_channels_picture import draw
    except ImportError:
        report.say("No picture: matplotlib is not there")
    else:
        picture = OUT / "open_channels.png"
        over = f"its rows over {given.devices} device{'s' * (given.devices > 1)}"
        draw(picture, slab, a, b, found.s, noise, (over, found.certificate))
        report.say(f"Picture of both waves: {picture.relative_to(OUT.parent)}")
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
