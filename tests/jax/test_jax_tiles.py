"""The user's table of tile sizes."""

import pytest

SOLVE = """
import jax.numpy as jnp
import shardsolve
a = 4 * jnp.eye(2100)  # so many rows that one device alone asks for a tile, too
b = jnp.ones(2100)
try:
    print(shardsolve.solve(a, b, assume_a="pos"{options})[0])
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize("options", ["", ", tile=10"])
def test_table_that_cannot_be_used_is_told_to_who_needs_it(python, tmp_path, options):
    table = tmp_path / "tiles.json"
    table.write_text("{}")
    out = python(SOLVE.format(options=options), SHARDSOLVE_TILE_TABLE=str(table))
    if options:
        assert out == "0.25\n"
    else:
        assert str(table) in out
        assert "no table of tile sizes" in out


def test_none_is_no_table(python):
    assert python(SOLVE.format(options=""), SHARDSOLVE_TILE_TABLE="none") == "0.25\n"
