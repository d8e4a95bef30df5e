"""JAXMg's names: what is refused, and what the error says."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from eigensystems import random_hermitian
from jax.sharding import PartitionSpec as P
from systems import DEVICES, hermitian, put, row_mesh, solves

from shardsolve.compat.jaxmg import (
    potri,
    potri_shardmap_ctx,
    potri_symmetrize,
    potrs,
    potrs_shardmap_ctx,
    syevd,
    syevd_shardmap_ctx,
)

T_A = 3
ROWS = 4 * DEVICES
# What is wrong in a call, and what the error says. By the name of the argument, for every function
# that has it.
WRONG = {
    "axis": ("in_specs", P("nosuch", None), ValueError, r"nosuch.*axes \('x',\)"),
    "axis_of_tuple": ("in_specs", (P(("x", "nosuch")),), ValueError, r"nosuch.*axes \('x',\)"),
    "axis_by_new_name": ("matrix_specs", P(None, "y"), ValueError, r"'y'.*axes \('x',\)"),
    "axis_twice": ("in_specs", P("x", "x"), ValueError, "names each axis once"),
    "three_entries": ("in_specs", P("x", None, None), ValueError, "at most two entries"),
    "name_as_specs": ("in_specs", "x", TypeError, "specs of the matrix are 'x'; pass a Partition"),
    "no_specs": ("in_specs", (), TypeError, r"specs of the matrix are \(\); pass"),
    "no_block": ("T_A", None, ValueError, "T_A is None; pass a positive whole number"),
    "block_of_part": ("T_A", 2.5, ValueError, "T_A is 2.5; pass"),
    "block_of_nothing": ("T_A", 0, ValueError, "T_A is 0; pass"),
    "mesh": ("mesh", "x", TypeError, "mesh is a str; pass"),
    "vectors": ("return_eigenvectors", "no", TypeError, "return_eigenvectors is 'no'; pass True"),
    "status": ("return_status", P("x"), TypeError, r"return_status is P.*; pass True or False"),
    "donate": ("donate", None, TypeError, "donate is None; pass True or False"),
    "list": ("a", "a", TypeError, "a is a str; pass an array"),
    "shape": ("a", np.ones((3, 4)), ValueError, r"a has shape \(3, 4\)"),
}


def call(function, **given):
    a, b = random_hermitian(ROWS), np.ones(ROWS)
    given = {"a": a, "T_A": T_A, "mesh": row_mesh(), **given}
    return function(**({"b": b} if function in (potrs, potrs_shardmap_ctx) else {}), **given)


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("function", (potrs, potrs_shardmap_ctx, potri, syevd, syevd_shardmap_ctx))
def test_wrong_argument_is_named(function, wrong):
    argument, value, kind, words = WRONG[wrong]
    if argument not in inspect.signature(function).parameters:
        pytest.skip("has no such argument")
    with pytest.raises(kind, match=words):
        call(function, **{argument: value})
    if argument not in ("a", "donate"):
        with pytest.raises(kind, match=words):
            jax.jit(lambda a: call(function, **{"a": a, argument: value}))(random_hermitian(ROWS))


def test_two_names_of_the_specs_are_refused():
    for function in (potrs, potrs_shardmap_ctx, syevd, syevd_shardmap_ctx):
        with pytest.raises(ValueError, match="two names of one argument"):
            call(function, in_specs=P("x"), matrix_specs=P("x"))


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (lambda a: potri_shardmap_ctx(a, T_A), "potri_shardmap_ctx was called outside of a"),
        (lambda a: potri_symmetrize(a[:, 1:]), r"a has shape \(\d+, \d+\); pass a square"),
        (lambda a: potri_symmetrize(a[None, :]), r"a has shape \(1, \d+, \d+\); pass a square"),
    ],
    ids=("potri", "oblong", "batch"),
)
def test_what_has_another_place_or_shape_is_refused(run, words):
    with pytest.raises(ValueError, match=words):
        run(hermitian(ROWS))


def test_shardmap_form_solves_systems_of_each_device():
    """They came once for each device, one below the other."""
    a = np.stack([hermitian(4, seed=seed) for seed in range(DEVICES)])
    run = jax.shard_map(
        lambda a, b: potrs_shardmap_ctx(a[0], b, T_A)[0][None],
        mesh=row_mesh(),
        in_specs=(P("x"), P()),
        out_specs=P("x"),
        check_vma=False,
    )
    x = jax.jit(run)(put(a, row_mesh(), "x"), jnp.ones((4, 2)))
    assert all(solves(one, of_one, np.ones((4, 2))) for one, of_one in zip(a, x, strict=True))
