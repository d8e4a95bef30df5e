"""save_factor and load_factor."""

import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from systems import DEVICES, DTYPES, general, hermitian, put, row_mesh, sides, solves, spread

import shardsolve

pytestmark = pytest.mark.devices


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 8 * DEVICES, 33])
def test_loaded_factor_gives_the_same_bits(tmp_path, n, dtype):
    a, b = hermitian(n, dtype), sides(n, 2, dtype)
    factor = shardsolve.cho_factor(spread(a))
    shardsolve.save_factor(factor, tmp_path / "factor")
    loaded = shardsolve.load_factor(tmp_path / "factor")
    x = shardsolve.cho_solve(loaded, b)
    assert solves(a, x, b)
    assert np.array_equal(x, shardsolve.cho_solve(factor, b))
    logs = [float(shardsolve.logdet(one)) for one in (loaded, factor)]
    # It is not in the file: the host adds up logarithms anew, as CPU devices have.
    is_the_same = logs[0] == logs[1] if jax.default_backend() == "cpu" else np.isclose(*logs)
    assert is_the_same


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 8 * DEVICES, 33])
def test_loaded_lu_factor_gives_the_same_bits(tmp_path, n, dtype):
    a, b = general(n, dtype), sides(n, 2, dtype)
    factor = shardsolve.lu_factor(spread(a))
    shardsolve.save_factor(factor, tmp_path / "factor")
    loaded = shardsolve.load_factor(tmp_path / "factor")
    assert solves(a, shardsolve.lu_solve(loaded, b), b)
    for trans in range(3):
        x = shardsolve.lu_solve(loaded, b, trans)
        assert np.array_equal(x, shardsolve.lu_solve(factor, b, trans))
    assert shardsolve.det(loaded) == shardsolve.det(factor)
    assert shardsolve.cond(loaded, 1) == shardsolve.cond(factor, 1)


def test_lu_factor_of_a_matrix_cut_by_columns_is_refused(tmp_path):
    """That is what C++ writes: its slabs are columns, and a factor of them is another one."""
    path = tmp_path / "factor"
    shardsolve.save_factor(shardsolve.lu_factor(general(6)), path)
    content = path.read_bytes()
    end = 20 + int.from_bytes(content[12:16], "little")
    text = content[20:end].replace(b'"of":"transpose"', b'"of":"matrix"   ')
    assert text != content[20:end]
    checksum = zlib.crc32(content[:16] + text).to_bytes(4, "little")
    path.write_bytes(content[:16] + checksum + text + content[end:])
    with pytest.raises(shardsolve.SolverError, match=r"cut by columns.*factor again"):
        shardsolve.load_factor(path)


def test_what_is_no_factor_is_named(tmp_path):
    with pytest.raises(TypeError, match="cho_factor or lu_factor"):
        shardsolve.save_factor(np.eye(3), tmp_path / "factor")


def test_factor_lies_where_asked(tmp_path):
    a = put(hermitian(4 * DEVICES), row_mesh(), "x")
    shardsolve.save_factor(shardsolve.cho_factor(a), tmp_path / "factor")
    loaded = shardsolve.load_factor(tmp_path / "factor", sharding=a.sharding)
    assert loaded._slab.sharding == a.sharding


def test_existing_file_is_left_alone(tmp_path):
    path = tmp_path / "factor"
    path.write_text("mine")
    factor = shardsolve.cho_factor(hermitian(4))
    with pytest.raises(shardsolve.SolverError, match="exists"):
        shardsolve.save_factor(factor, path)
    assert path.read_text() == "mine"
    shardsolve.save_factor(factor, path, overwrite=True)
    assert shardsolve.load_factor(path).shape == (4, 4)


def test_damaged_file_is_refused(tmp_path):
    path = tmp_path / "factor"
    shardsolve.save_factor(shardsolve.cho_factor(hermitian(20)), path)
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    path.write_bytes(content)
    with pytest.raises(shardsolve.SolverError):
        shardsolve.load_factor(path)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(shardsolve.SolverError, match="nothing"):
        shardsolve.load_factor(tmp_path / "nothing")


def test_batch_of_factors_is_refused(tmp_path):
    factors = jax.vmap(shardsolve.cho_factor)(np.stack([np.eye(4), 2 * np.eye(4)]))
    with pytest.raises(ValueError, match=r"batch of factors.*take one"):
        shardsolve.save_factor(factors, tmp_path / "factor")
    assert not (tmp_path / "factor").exists()
    one = jax.tree.map(lambda leaf: leaf[1], factors)
    shardsolve.save_factor(one, tmp_path / "factor")
    assert np.isclose(shardsolve.logdet(shardsolve.load_factor(tmp_path / "factor")), 4 * np.log(2))


@pytest.mark.parametrize("transform", [jax.jit, jax.vmap, jax.grad])
def test_saving_while_jax_traces_says_where_to_do_it(tmp_path, transform):
    def save(a):
        shardsolve.save_factor(shardsolve.cho_factor(a), tmp_path / "factor")
        return jnp.trace(a)

    a = np.stack([np.eye(4)] * 2) if transform is jax.vmap else np.eye(4)
    with pytest.raises(ValueError, match="outside"):
        transform(save)(a)
    assert not (tmp_path / "factor").exists()


@pytest.mark.parametrize("kind", ["cholesky", "lu"])
def test_loaded_inside_of_jit_and_grad_it_is_a_constant(tmp_path, kind):
    a, b = hermitian(8, "float64"), sides(8, 1, "float64")[:, 0]
    make, solve = {
        "cholesky": (shardsolve.cho_factor, shardsolve.cho_solve),
        "lu": (shardsolve.lu_factor, shardsolve.lu_solve),
    }[kind]
    shardsolve.save_factor(make(jnp.asarray(a)), tmp_path / "factor")

    def loaded(b):
        return solve(shardsolve.load_factor(tmp_path / "factor"), b)

    assert solves(a, np.asarray(jax.jit(loaded)(b))[:, None], b[:, None])
    slope = jax.jit(jax.grad(lambda b: loaded(b).sum()))(b)
    np.testing.assert_allclose(slope, np.linalg.solve(a.T, np.ones(8)), rtol=1e-10)


def test_path_with_a_null_byte_is_refused(tmp_path):
    factor = shardsolve.cho_factor(jnp.eye(3))
    for call in (
        lambda: shardsolve.save_factor(factor, f"{tmp_path}/a\0.factor", overwrite=True),
        lambda: shardsolve.load_factor(f"{tmp_path}/a\0.factor"),
    ):
        with pytest.raises(ValueError, match="null byte"):
            call()
    assert list(tmp_path.iterdir()) == []


def test_sharding_that_is_none_is_named(tmp_path):
    shardsolve.save_factor(shardsolve.cho_factor(jnp.eye(4)), tmp_path / "factor")
    with pytest.raises(TypeError, match=r"sharding is a str; pass a jax\.sharding\.Sharding"):
        shardsolve.load_factor(tmp_path / "factor", sharding="x")


def test_record_of_zeros_is_refused(tmp_path):
    """It ended the process: a division by its number of ranks."""
    zeros = jax.tree.map(jnp.zeros_like, shardsolve.cho_factor(hermitian(4)))
    with pytest.raises(shardsolve.SolverError, match=r"0 ranks.*cho_factor returned"):
        shardsolve.save_factor(zeros, tmp_path / "factor")


def test_other_number_of_devices_is_refused(tmp_path):
    if DEVICES == 1:
        pytest.skip("takes two devices")
    shardsolve.save_factor(shardsolve.cho_factor(spread(hermitian(6))), tmp_path / "factor")
    alone = put(np.eye(6), row_mesh(jax.devices()[:1]))
    with pytest.raises(ValueError, match="devices"):
        shardsolve.load_factor(tmp_path / "factor", sharding=alone.sharding)
