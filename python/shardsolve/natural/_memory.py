"""What a natural gradient takes of a device's memory, and what to do where that is not there."""

from __future__ import annotations

from typing import NamedTuple

import jax
from jax.sharding import Mesh

from shardsolve import _library
from shardsolve._cut import Cut

# A device's rows of the Gram matrix, and what is made of them: its factor with the first shift and
# with the next one, or eigenvectors and what finding them takes.
_GRAMS = {"cholesky": 3, "smooth_pinv": 6}
_PARTS_OF_O = 4  # centred and scaled, its rows on their way, and what XLA keeps of both
_CHUNKS = 4  # of derivatives, where they are made some at a time


class Sizes(NamedTuple):
    """Of a system.

    Attributes:
        samples, parameters: N and P.
        by_samples: Whether the Gram matrix is that of the samples.
        rows: It has so many,
        item: numbers of so many bytes.
        solver: "cholesky" or "smooth_pinv".
        has_o: Whether the derivatives are there already.
    """

    samples: int
    parameters: int
    by_samples: bool
    rows: int
    item: int
    solver: str = "cholesky"
    has_o: bool = True

    def of_o(self, devices: int) -> int:
        """Bytes of derivatives on each device."""
        others = self.parameters if self.by_samples else self.samples
        copies = _PARTS_OF_O + (not self.has_o)
        return copies * -(-self.rows // devices) * others * self.item

    def of_gram(self, devices: int) -> int:
        """Likewise of the Gram matrix."""
        return _GRAMS[self.solver] * -(-self.rows // devices) * self.rows * self.item


def require_memory(sizes: Sizes, cut: Cut | None, others: Sizes | None = None) -> None:
    """Throws if the devices have less than it takes; where XLA is to say which, it is not known.

    Args:
        sizes: Of what is asked for.
        cut: The devices.
        others: Of the other side, which may be asked for instead.

    Raises:
        MemoryError: With the figures, and what would fit.
    """
    if cut is None or cut.inside:
        return
    devices, here = cut.parts, _devices_here(cut)
    available = _available(here)
    taken = sizes.of_o(devices) + sizes.of_gram(devices)
    if taken <= available:
        return
    advice = []
    if others is not None and others.of_o(devices) + others.of_gram(devices) <= available:
        side = "samples" if others.by_samples else "parameters"
        advice.append(f"side='{side}' would fit: pass that")
    chunk = _chunk_that_fits(sizes, _available(here[:1]))
    if chunk > 0:
        advice.append(
            "natural.natural_gradient(residuals, shift, chunk=...) makes derivatives some at a "
            f"time: chunk={chunk} would fit"
        )
    if not advice:
        advice.append("take more devices or fewer samples, or of a model with fewer parameters")
    side = "samples" if sizes.by_samples else "parameters"
    on = "the device" if devices == 1 else f"each of {devices} devices"
    raise MemoryError(
        f"a natural gradient of {sizes.samples} samples and {sizes.parameters} parameters, by the "
        f"side of the {side}, takes {_gigabytes(taken)} on {on}"
        f"{' beside O' if sizes.has_o else ''}, {_gigabytes(sizes.of_o(devices))} for derivatives "
        f"and {_gigabytes(sizes.of_gram(devices))} for the Gram matrix, and there are "
        f"{_gigabytes(available)}. {'; or '.join(advice)}"
    )


def _chunk_that_fits(sizes: Sizes, available: float) -> int:
    """Samples in a chunk on one device, with the whole Gram matrix of the samples; 0 if none."""
    if sizes.solver != "cholesky" or sizes.samples < 2:
        return 0
    gram = (_GRAMS["cholesky"] + 1) * sizes.samples**2 * sizes.item
    chunk = int((available - gram) // (_CHUNKS * sizes.parameters * sizes.item))
    return max(0, min(chunk, sizes.samples - 1))


def _devices_here(cut: Cut) -> list[jax.Device]:
    mesh = cut.known_mesh
    if not isinstance(mesh, Mesh):  # one that is set inside of jit
        return jax.local_devices()[: mesh.size]
    own = jax.process_index()
    return [device for device in mesh.devices.flat if device.process_index == own]


def _available(devices: list[jax.Device]) -> float:
    """Bytes on each of these devices of this process; those of a CPU share the host's."""
    least = float("inf")
    on_cpu = sum(device.platform == "cpu" for device in devices)
    if on_cpu:
        least = _library.library().shardsolve_available_host_memory() / on_cpu
    for device in devices:
        found = None if device.platform == "cpu" else device.memory_stats()
        if found and "bytes_limit" in found:
            least = min(least, found["bytes_limit"] - found.get("bytes_in_use", 0))
    return least


def _gigabytes(count: float) -> str:
    return f"{count / 1e9:.2f} GB"
