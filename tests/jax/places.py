"""Where a matrix may lie, for the tests of shardings."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P
from systems import DEVICES, grid_mesh, hermitian, put, row_mesh, sides

N = 24  # divisible by every number of devices that is tested

# A matrix of a mesh with one axis, of one with two, and without any.
PLACES = {
    "rows": lambda a: put(a, row_mesh(), "x", None),
    "columns": lambda a: put(a, row_mesh(), None, "x"),
    "replicated": lambda a: put(a, row_mesh()),
    "blocks": lambda a: put(a, grid_mesh(), "x", "y"),
    "blocks_the_other_way": lambda a: put(a, grid_mesh(), "y", "x"),
    "rows_along_both": lambda a: put(a, grid_mesh(), ("x", "y"), None),
    "rows_along_both_reversed": lambda a: put(a, grid_mesh(), ("y", "x"), None),
    "rows_along_x": lambda a: put(a, grid_mesh(), "x", None),
    "rows_along_y": lambda a: put(a, grid_mesh(), "y", None),
    "columns_along_y": lambda a: put(a, grid_mesh(), None, "y"),
    "columns_along_both": lambda a: put(a, grid_mesh(), None, ("x", "y")),
    "replicated_on_grid": lambda a: put(a, grid_mesh()),
    "subset": lambda a: put(a, row_mesh(jax.devices()[DEVICES // 2 :]), "x"),
    "permuted": lambda a: put(a, row_mesh(jax.devices()[::-1]), "x"),
    "last_device": lambda a: jax.device_put(a, jax.devices()[-1]),
    "uncommitted": jnp.asarray,
    "numpy": np.asarray,
}
every_place = pytest.mark.parametrize("place", PLACES)

SPECS = {
    "rows": P("x", None),
    "columns": P(None, "x"),
    "blocks": P("x", "y"),
    "rows_along_both": P(("x", "y"), None),
    "rows_along_y": P("y", None),
    "replicated": P(),
}
every_spec = pytest.mark.parametrize("spec", SPECS)


def system(dtype="complex128", k=None):
    return hermitian(N, dtype), sides(N, k, dtype)
