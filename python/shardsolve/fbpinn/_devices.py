"""Devices that are taken where none are given, and meshes that are no meshes."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from shardsolve import _library
from shardsolve._records import VERDICT_WORDS
from shardsolve.fbpinn._given import described


def default_device() -> jax.Device:
    """JAX's: of `jax.default_device`, or the first of this process."""
    config: Any = jax.config
    given = config.jax_default_device
    if given is None or isinstance(given, str):
        return jax.local_devices(backend=given)[0]
    return given


@functools.cache
def has_cuda() -> bool:
    """Whether the library for GPUs can be loaded."""
    verdict = np.zeros(VERDICT_WORDS, np.int32)
    _library.library().shardsolve_set_cuda_of_jax(_library.cuda_of_jax())
    _library.library().shardsolve_find_cuda(verdict.ctypes.data_as(ctypes.c_void_p))
    return verdict[0] == 0


def require_mesh(mesh: object) -> None:
    """Throws unless it is one."""
    if not isinstance(mesh, Mesh):
        raise TypeError(
            f"mesh={described(mesh)} given: a jax.sharding.Mesh is accepted, such as "
            "jax.make_mesh((2,), ('x',), devices=jax.devices()[:2])"
        )
