"""Natural gradients: shardsolve.natural."""

import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P
from systems import DEVICES, compiled_text, largest_collective, more, normal, put, row_mesh

import shardsolve
from shardsolve import _library, _square, natural
from shardsolve._cut import Cut
from shardsolve._gram import gram
from shardsolve.natural import _memory

pytestmark = pytest.mark.devices

MODES = {"real": "float64", "complex": "complex128", "holomorphic": "complex128"}
SHIFT = 1e-2


def samples(n, parameters, dtype="float64", seed=0):
    """O and f. The mean over samples is no small part of either."""
    rng = np.random.default_rng(seed)
    o = normal(rng, (n, parameters), dtype) + np.linspace(-2, 2, parameters).astype(dtype)
    return o, normal(rng, (n,), dtype) + np.asarray(3, dtype)


def system(o, f, mode="real", center=True, scale=None):
    """S and F, from their definitions."""
    if center:
        o, f = o - o.mean(0), f - f.mean()
    s, right = o.conj().T @ o, o.conj().T @ f
    if mode == "complex":
        s, right = s.real, right.real
    scale = 1 / len(o) if scale is None else scale
    return scale * s, scale * right


def expected(o, f, shift=SHIFT, mode="real", momentum=None, **options):
    s, right = system(o, f, mode, **options)
    start = 0 if momentum is None else shift * momentum
    return np.linalg.solve(s + shift * np.eye(len(s)), right + start)


def away(x, wanted) -> float:
    x = np.asarray(x)
    assert (x.shape, x.dtype) == (wanted.shape, wanted.dtype)
    return float(np.abs(x - wanted).max() / np.abs(wanted).max())


def cut_samples(o, f, explicit=False):
    mesh = row_mesh(explicit=explicit)
    spec = ("x",) if len(o) % DEVICES == 0 else ()
    return put(o, mesh, *spec), put(f, mesh)


# The answer


@pytest.mark.parametrize("side", ["samples", "parameters"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("n", "parameters", "explicit"),
    [(4 * DEVICES, 40, False), (4 * DEVICES + 1, 6, False), more(8 * DEVICES, 2 * DEVICES, True)],
)
def test_step_is_that_of_the_definition_from_both_sides(n, parameters, explicit, mode, side):
    o, f = samples(n, parameters, MODES[mode])
    momentum = 0.9 * np.arange(parameters).astype("complex128" if mode == "holomorphic" else float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a side that takes more time
        x, info = natural.solve(
            *cut_samples(o, f, explicit),
            SHIFT,
            side=side,
            mode=mode,
            momentum=momentum,
            full_output=True,
        )
    assert away(x, expected(o, f, mode=mode, momentum=momentum)) < 1e-12
    assert x.sharding.is_fully_replicated
    assert info.status == shardsolve.Status.OK
    assert info.message == ""
    assert info.shift == SHIFT
    assert 0 <= info.backward_error < 1e-14
    assert 0 < info.rcond < 1
    assert info.pivot == -1


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    "spec", [P("x", "y"), P("y", "x"), P(("y", "x"), None), P(None, ("y", "x"))], ids=str
)
@pytest.mark.skipif(DEVICES % 2 == 1, reason="two axes")
def test_step_is_the_same_however_two_axes_cut_the_samples(spec, compiled):
    """`ppermute` numbers the devices of two axes in the mesh's order, whatever theirs is."""
    o, f = samples(8 * DEVICES, 4 * DEVICES)
    mesh = jax.make_mesh((2, DEVICES // 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    for side in ("samples", "parameters"):

        def run(o, f, side=side):
            return natural.solve(o, f, SHIFT, side=side)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a side that takes more time
            x = (jax.jit(run) if compiled else run)(put(o, mesh, *spec), f)
        assert away(x, expected(o, f)) < 1e-12


@pytest.mark.parametrize("explicit", [False, True])
def test_step_inside_of_jit_takes_the_mesh_that_is_set(explicit):
    o, f = samples(8 * DEVICES, 4 * DEVICES)
    mesh = row_mesh(explicit=explicit)
    with jax.set_mesh(mesh):
        run = jax.jit(lambda o, f: natural.solve(o, f, SHIFT))
        x = run(*cut_samples(o, f, explicit))
    assert away(x, expected(o, f)) < 1e-12


@pytest.mark.parametrize(
    "options", [{"center": False}, {"scale": 3.0, "center": False}, {"scale": 0.5}], ids=str
)
def test_center_and_scale_are_those_of_the_definition(options):
    o, f = samples(12, 8)
    assert away(natural.solve(o, f, SHIFT, **options), expected(o, f, **options)) < 1e-12


@pytest.mark.parametrize("shift", [0.0, 1e-3])
def test_smooth_pinv_leaves_out_what_is_small(shift):
    """Of rank 3: Cholesky's method needs a shift, the pseudo-inverse has none of the rest."""
    rng = np.random.default_rng(3)
    o, f = rng.standard_normal((20, 3)) @ rng.standard_normal((3, 8)), rng.standard_normal(20)
    x, info = natural.solve(o, f, shift, solver="smooth_pinv", full_output=True)
    s, right = system(o, f)
    wanted = np.linalg.pinv(s, 1e-10) @ right if shift == 0 else expected(o, f, shift)
    assert away(x, wanted) < 1e-10
    assert max(info.residual, info.orthogonality) < 1e-13
    assert info.rcond == info.backward_error == -1
    assert natural.solve(o, f, 1e-9, full_output=True)[1].residual == -1


def test_smooth_pinv_weighs_by_the_sixth_power():
    w = np.array([1.0, 1e-3, 2e-14, 2e-15])
    o, f = np.diag(np.sqrt(w)), np.sqrt(w)
    x = natural.solve(o, f, 0.0, solver="smooth_pinv", center=False, scale=1.0)
    wanted = 1 / (1 + (64 * np.finfo(float).eps / w) ** 6)
    assert np.allclose(x, wanted, rtol=1e-9)
    assert 0.5 < wanted[2] < 0.9
    assert wanted[3] < 1e-4


def indefinite(size=1e3):
    """O and f of 24 samples and rank 3: rounding makes their Gram matrix indefinite."""
    rng = np.random.default_rng(5)
    o = rng.standard_normal((24, 3)) @ rng.standard_normal((3, 30))
    return size * o, rng.standard_normal(24)


@pytest.mark.parametrize("solver", ["cholesky", more("smooth_pinv")])
def test_vmap_gives_each_of_a_batch_its_own(solver):
    """One of them goes up the ladder, the others do not."""
    batch = [samples(24, 30, seed=seed) for seed in range(3)]
    o, f = (np.stack(values) for values in zip(*batch, strict=True))
    o[1] = indefinite()[0]
    shift = np.array([SHIFT, 1e-12, 2 * SHIFT])

    def run(o, f, shift):
        return natural.solve(o, f, shift, solver=solver, full_output=True)

    x, info = jax.vmap(run)(o, f, shift)
    for number in range(3):
        alone, info_alone = run(o[number], f[number], shift[number])
        assert number == 1 or away(x[number], np.asarray(alone)) < 1e-9
        assert info.shift[number] == info_alone.shift
    if solver == "cholesky":
        assert info.shift[1] > shift[1]
        assert info.shift[0] == shift[0]


def test_vmap_over_samples_that_are_cut_over_devices():
    batch = [samples(8 * DEVICES, 40, seed=seed) for seed in range(2)]
    o, f = (np.stack(values) for values in zip(*batch, strict=True))
    mesh = row_mesh()
    given = put(o, mesh, None, "x"), put(f, mesh)
    for run in (lambda f: f, jax.jit):
        x = run(jax.vmap(lambda o, f: natural.solve(o, f, SHIFT, mesh=mesh)))(*given)
        assert all(away(x[i], expected(o[i], f[i])) < 1e-12 for i in (0, 1))


# The Gram matrix


@pytest.mark.parametrize("devices", [1, 2, 3, 4])
@pytest.mark.parametrize("rows", [1, 4, more(5)])
def test_gram_matrix_is_the_product_and_hermitian_to_the_last_bit(rows, devices):
    if devices > DEVICES:
        pytest.skip("has fewer devices")
    mesh = row_mesh(jax.devices()[:devices])
    a = normal(np.random.default_rng(0), (rows * devices, 7), "complex128")
    found = np.asarray(jax.jit(lambda a: gram(a, Cut(mesh, ("x",))))(put(a, mesh, "x")))
    assert np.allclose(found, a @ a.conj().T, rtol=1e-13, atol=1e-13)
    assert np.array_equal(found, found.conj().T)


def test_gram_matrix_each_block_is_made_once():
    """Of the rows of a device with all: its own, each pair once, half of an opposite one."""
    mesh, width = row_mesh(), 6
    a = jnp.ones((width * DEVICES, 5), jnp.complex128)  # of real ones cuBLAS makes halves on GPUs
    text = jax.jit(lambda a: gram(a, Cut(mesh, ("x",)))).lower(a).as_text()
    made = sum(
        int(rows) * int(columns)
        for rows, columns in re.findall(r"dot_general.*-> tensor<(\d+)x(\d+)xcomplex<f64>>", text)
    )
    opposite = width * width if DEVICES % 2 == 0 else 0  # a half, in each branch of a cond
    assert made == width * width * (1 + (DEVICES - 1) // 2) + opposite


@pytest.mark.parametrize("n", [512, 521])
def test_square_on_one_device_is_made_in_strips_from_the_diagonal_on(n, monkeypatch):
    monkeypatch.setattr(_square, "_STRIP_ROWS", 64)
    a = normal(np.random.default_rng(0), (n, 7), "complex128")
    lowered = jax.jit(lambda a: gram(a, Cut(row_mesh(jax.devices()[:1]), ("x",)))).lower(a)
    made = sum(
        int(rows) * int(columns)
        for rows, columns in re.findall(
            r"dot_general.*-> tensor<(\d+)x(\d+)xcomplex<f64>>", lowered.as_text()
        )
    )
    assert made < 0.58 * n * n
    found = np.asarray(lowered.compile()(a))
    assert np.allclose(found, a @ a.conj().T, rtol=1e-13, atol=1e-13)
    assert np.array_equal(found, found.conj().T)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_square_by_cublas_is_the_product_and_symmetric_to_the_last_bit(dtype):
    """On GPUs half of it is made, elsewhere all of it, by the same call."""
    a = normal(np.random.default_rng(0), (65, 40), dtype)
    found = np.asarray(jax.jit(_square._by_syrk)(a))
    assert np.abs(found - a @ a.T).max() < 100 * np.finfo(dtype).eps * np.abs(found).max()
    assert np.array_equal(found, found.T) and found.dtype == dtype


@pytest.mark.parametrize("mode", ["real", "complex"])
@pytest.mark.parametrize("side", ["samples", "parameters"])
def test_no_device_ever_has_all_of_the_samples(side, mode):
    """No collective takes or gives more than a device's part of O, or of the Gram matrix."""
    n = 16 * DEVICES
    o, f = cut_samples(*samples(n, n, MODES[mode]))

    def run(o, f):
        return natural.solve(o, f, SHIFT, side=side, mode=mode, mesh=row_mesh())

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        text = compiled_text(run, o, f)
    parts = 2 if mode == "complex" else 1
    assert "collective-permute" in text or DEVICES == 1
    assert largest_collective(text) <= parts * n * n // DEVICES


@pytest.mark.cpu_only  # GPUs: bench/natural_on_gpus.py, as a program has work space of libraries
@pytest.mark.parametrize("side", ["samples", "parameters"])
def test_memory_is_what_the_docstring_says(side):
    n = 128 * DEVICES
    o, f = cut_samples(*samples(n, n))
    run = jax.jit(lambda o, f: natural.solve(o, f, SHIFT, side=side, mesh=row_mesh()))
    part = 8 * n * n // DEVICES  # of O and of the Gram matrix
    assert run.lower(o, f).compile().memory_analysis().temp_size_in_bytes < 7.1 * part


@pytest.fixture
def memory(monkeypatch):
    """Says how many bytes the host has."""

    def has(available: float) -> None:
        library = _library.library()
        monkeypatch.setattr(library, "shardsolve_available_host_memory", lambda: available)

    return has


@pytest.mark.cpu_only
def test_more_than_there_is_of_memory_is_refused_with_figures_and_a_chunk(memory):
    """O of 2000 x 20000 is 0.32 GB; four times that, and the Gram matrix of 0.032 GB thrice."""
    o, f = jnp.zeros((2000, 20_000)), jnp.ones(2000)
    mesh = row_mesh(jax.devices()[:1])
    memory(1e9)
    words = (
        r"2000 samples and 20000 parameters, by the side of the samples, takes 1\.38 GB on the "
        r"device beside O, 1\.28 GB for derivatives and 0\.10 GB for the Gram matrix, and there "
        r"are 1\.00 GB\. natural\.natural_gradient\(.*chunk=1362 would fit"
    )
    with pytest.raises(MemoryError, match=words):
        natural.solve(o, f, SHIFT, mesh=mesh)
    with pytest.raises(MemoryError, match=words):
        jax.jit(lambda o, f: natural.solve(o, f, SHIFT, mesh=mesh)).lower(o, f)
    with pytest.raises(MemoryError, match="side='samples' would fit: pass that"):
        memory(2e9)
        natural.solve(o, f, SHIFT, side="parameters", mesh=mesh)
    memory(1e6)
    with pytest.raises(MemoryError, match="take more devices or fewer samples"):
        natural.solve(o, f, SHIFT, mesh=mesh)


@pytest.mark.cpu_only
@pytest.mark.skipif(DEVICES == 1, reason="needs two devices")
def test_devices_of_a_host_share_its_memory(memory):
    o, f = cut_samples(*samples(32 * DEVICES, 64 * DEVICES))
    part = 8 * 32 * 64 * DEVICES
    needed = DEVICES * (4 * part + 3 * 8 * 32 * 32 * DEVICES)
    memory(needed)
    natural.solve(o, f, SHIFT)
    memory(needed - DEVICES)
    with pytest.raises(MemoryError, match=f"each of {DEVICES} devices"):
        natural.solve(o, f, SHIFT)


@pytest.mark.cpu_only
def test_chunk_that_was_proposed_fits(memory):
    def residuals(theta, batch):
        return batch @ theta[: batch.shape[1]] - 1

    batch, theta = np.ones((500, 3)), jnp.zeros(50_000)
    memory(2e8)
    optimiser = natural.natural_gradient(residuals, SHIFT)
    with pytest.raises(MemoryError, match="chunk=120 would fit") as caught:
        optimiser.update(batch, optimiser.init(theta), theta)
    assert "beside O" not in str(caught.value)
    optimiser = natural.natural_gradient(residuals, SHIFT, chunk=120)
    lowered = optimiser.update.lower(batch, optimiser.init(theta), theta)
    assert lowered.compile().memory_analysis().temp_size_in_bytes < 2e8


class Gpu:
    """What is asked of one about its memory."""

    platform = "gpu"

    def __init__(self, in_use: float | None):
        self.in_use = in_use

    def memory_stats(self) -> dict | None:
        return self.in_use and {"bytes_limit": 80e9, "bytes_in_use": self.in_use}


def test_memory_of_gpus_is_that_of_the_fullest_one():
    assert _memory._available([Gpu(10e9), Gpu(30e9), Gpu(20e9)]) == 50e9
    assert _memory._available([Gpu(None)]) == float("inf")  # it does not say: nothing is refused


def single_precision():
    """A Gram matrix that rounding makes indefinite: 512 rows, of rank 100."""
    o = np.random.default_rng(0).standard_normal((512, 100)).astype("float32")
    return o - o.mean(0), np.ones(512, "float32")


@pytest.mark.parametrize("devices", [1, 2, 4])
def test_ladder_ends_at_the_same_shift_on_any_number_of_devices(devices):
    if devices > DEVICES:
        pytest.skip("has fewer devices")
    o, f = single_precision()
    mesh = row_mesh(jax.devices()[:devices])
    given = put(o, mesh, "x"), put(f, mesh)
    options = {"side": "samples", "scale": 1 / 512, "full_output": True}
    with pytest.warns(UserWarning, match="'parameters' one of 100"):
        x, info = natural.solve(*given, 1e-8, ladder=False, **options)
        assert info.status == shardsolve.Status.NOT_POSITIVE_DEFINITE
        assert 0 <= info.pivot < 512
        assert info.message.startswith("the Gram matrix with the shift: the matrix is not positive")
        assert np.isnan(x).all()
        x, info = jax.jit(lambda o, f: natural.solve(o, f, 1e-8, **options))(*given)
    assert info.status == shardsolve.Status.OK
    assert np.isclose(info.shift, 1e-5)
    assert np.isfinite(x).all()
    assert info.backward_error < 1e-5


def test_gram_matrix_in_double_precision_needs_no_ladder():
    o, f = single_precision()
    wide = o.astype("float64"), f.astype("float64") + np.arange(512) / 512
    given = o, wide[1].astype("float32")
    options = {"side": "samples", "gram_dtype": "float64", "full_output": True}
    with pytest.warns(UserWarning, match="other side"):
        x, info = natural.solve(*given, 1e-8, **options)
    assert info.shift == 1e-8
    assert x.dtype == "float32"
    assert away(x, expected(wide[0], given[1].astype("float64"), 1e-8).astype("float32")) < 1e-6


# What has no answer


@pytest.mark.parametrize("solver", ["cholesky", more("smooth_pinv")])
@pytest.mark.parametrize(
    ("argument", "words"),
    [
        (0, r"O: the matrix holds a NaN.*row 3, column 2 "),
        (1, r"f: the right-hand side holds a NaN.*row 3, column 0 "),
        (2, r"momentum: the right-hand side holds a NaN.*row 3, column 0 "),
    ],
)
def test_nan_is_named_and_no_exception_inside_of_jit(argument, words, solver):
    given = [*samples(8, 5), np.zeros(5)]
    given[argument][(3, 2) if argument == 0 else 3] = np.nan

    def run(o, f, momentum, full_output=True):
        return natural.solve(o, f, SHIFT, momentum=momentum, solver=solver, full_output=full_output)

    x, info = jax.jit(run)(*given)
    assert np.isnan(x).all()
    assert info.status == shardsolve.Status.NONFINITE_INPUT
    assert re.search(words, info.message)
    with pytest.raises(shardsolve.LinAlgError, match=words):
        run(*given, full_output=False)


def test_samples_that_are_equal_are_an_answer_with_any_shift_above_rounding():
    o, f = np.eye(3, 5)[[0, 1, 1]], np.array([1.0, 2.0, 2.0])
    x, info = natural.solve(o, f, 2e-14, center=False, scale=1.0, full_output=True)
    assert info.status is shardsolve.Status.OK and 0 < info.rcond < 2e-14 and info.shift == 2e-14
    assert np.allclose(x, [1, 2, 0, 0, 0], rtol=1e-6)


def of_low_rank(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """O of rank 2, f, and x without a shift: the one of the least norm."""
    rng = np.random.default_rng(seed)
    a = rng.integers(-9, 10, (8, 2)).astype(float)
    o, f = np.column_stack([a, a.sum(axis=1)]), rng.integers(-9, 10, 8).astype(float)
    return o, f, np.linalg.pinv(o, rcond=1e-10) @ f


def how_wrong(x: jax.Array, wanted: np.ndarray) -> float:
    return float(np.abs(x - wanted).max() / np.abs(wanted).max())


def test_shift_that_is_rounding_goes_up_until_x_has_digits():
    grew = 0
    for seed in range(40):
        o, f, wanted = of_low_rank(seed)
        x, info = natural.solve(o, f, 1e-15, center=False, full_output=True)
        assert info.status is shardsolve.Status.OK
        assert how_wrong(x, wanted) < 0.1
        grew += float(info.shift) > 1e-15
    assert grew > 30


def test_shift_that_is_rounding_without_a_ladder_is_named():
    o, f, wanted = of_low_rank(0)
    x, info = natural.solve(o, f, 1e-13, center=False, full_output=True, ladder=False)
    assert info.status is shardsolve.Status.NEARLY_SINGULAR
    with pytest.raises(shardsolve.LinAlgError, match="none of its digits"):
        natural.solve(o, f, 1e-13, center=False, ladder=False)
    x, info = natural.solve(o, f, 1e-9, center=False, full_output=True, ladder=False)
    assert info.status is shardsolve.Status.OK and how_wrong(x, wanted) < 1e-5


@pytest.mark.parametrize("units", [1, 10])
@pytest.mark.parametrize("side", ["samples", "parameters"])
def test_shift_that_is_rounding_of_the_largest_eigenvalue_goes_up(side, units):
    """Far above rounding of the diagonal: of rank 4 with 1000 parameters."""
    rng = np.random.default_rng(0)
    o = (rng.normal(size=(12, 4)) @ rng.normal(size=(4, 1000))).astype("float32")
    f = rng.normal(size=12).astype("float32")
    s = (o - o.mean(0)).astype(float)
    shift = units * np.finfo("float32").eps * np.linalg.norm(s, 2) ** 2 / 12
    x, info = natural.solve(o, f, shift, side=side, full_output=True)
    assert info.status is shardsolve.Status.OK and info.shift > 2 * shift
    assert how_wrong(x, np.linalg.pinv(s, rcond=1e-4) @ (f - f.mean())) < 0.1


def test_samples_of_very_different_sizes_are_no_rounding():
    o, f = np.diag([1.0, 1e-9, 1e9, 1e-5]), np.array([1.0, 2e-9, 3e9, 4e-5])
    x, info = natural.solve(o, f, 1e-40, center=False, scale=1.0, full_output=True)
    assert info.status is shardsolve.Status.OK and float(info.shift) == 1e-40
    assert np.allclose(x, [1, 2, 3, 4], rtol=1e-12)


def test_shift_that_was_not_enough_is_warned_of():
    o, f = single_precision()
    with (
        pytest.warns(UserWarning, match="shift 1e-08 the Gram matrix is not .*the shift 1e-05"),
        pytest.warns(UserWarning, match="the other side takes less"),
    ):
        natural.solve(o, f, 1e-8, side="samples", scale=1 / 512)


def test_shift_that_is_zero_in_the_type_of_the_gram_matrix_is_refused():
    o, f = single_precision()
    with pytest.raises(ValueError, match="shift is 1e-60, which is 0 or subnormal in float32"):
        natural.solve(o, f, 1e-60)
    with pytest.raises(ValueError, match="shift is 1e\\+39, which is above the range of float32"):
        natural.solve(o, f, 1e39)


def test_samples_that_are_zero_have_no_direction():
    x, info = natural.solve(np.zeros((6, 4)), np.ones(6), 0, solver="smooth_pinv", full_output=True)
    assert info.status == shardsolve.Status.OK
    assert np.array_equal(x, np.zeros(4))


@pytest.mark.parametrize("side", ["samples", "parameters"])
@pytest.mark.parametrize(("of_o", "of_f"), [(-60, -60), more(-60, 60), more(60, -40), (60, 60)])
def test_numbers_near_the_ends_of_the_range_give_the_same_bits(of_o, of_f, side):
    """S and F were below the range, or above."""
    o, f = samples(24, 8, "float32")

    def solve(of_o, of_f):
        given = np.ldexp(o, of_o), np.ldexp(f, of_f), np.float32(4.0**of_o)
        return natural.solve(*given, side=side)

    assert np.array_equal(solve(of_o, of_f), np.ldexp(solve(0, 0), of_f - of_o))


@pytest.mark.parametrize("momentum", [None, 0.5])
def test_shift_that_is_all_of_the_matrix_divides_f(momentum):
    """O was nothing beside its root."""
    o, f = (
        np.ldexp(part, at) for part, at in zip(samples(24, 8, "float32"), (-60, 100), strict=True)
    )
    start = None if momentum is None else np.full(8, momentum, "float32")
    x = natural.solve(o, f, 2.0**60, momentum=start)
    _, right = system(o.astype("float64"), f.astype("float64"))
    assert away(x, (right / 2.0**60 + (momentum or 0)).astype("float32")) < 1e-5


def test_x_below_the_range_is_an_outcome():
    o, f = (np.ldexp(part, -60) for part in samples(24, 8, "float32"))
    x, info = natural.solve(o, f, 1.0, full_output=True)
    assert np.isnan(x).all()
    assert info.status is shardsolve.Status.UNDERFLOW
    with pytest.raises(shardsolve.LinAlgError, match="below the range"):
        natural.solve(o, f, 1.0)


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_derivatives_are_right_or_refused(number):
    o, f = samples(12, 4)
    given = o, f, 0.5, np.full(4, 0.25)

    def weighted(solve):
        return jax.grad(lambda *all: jnp.sum(solve(*all) * jnp.arange(4.0)), number)

    def plain(o, f, shift, momentum):
        s, right = system(o, f)
        return jnp.linalg.solve(s + shift * jnp.eye(4), right + shift * momentum)

    run = weighted(lambda o, f, shift, m: natural.solve(o, f, shift, momentum=m))
    if number in (0, 2):
        with pytest.raises(NotImplementedError, match=r"no derivatives by (O|shift),"):
            run(*given)
    else:
        assert np.allclose(run(*given), weighted(plain)(*given), rtol=1e-12)


def test_ladder_that_ends_without_an_answer_says_where():
    given = *indefinite(1e12), 1e-12
    with pytest.raises(shardsolve.LinAlgError, match=r"Gram matrix with the shift: .*pivot"):
        natural.solve(*given)
    _, info = natural.solve(*given, full_output=True)
    assert np.isclose(info.shift, 1e-2)


@pytest.mark.parametrize("side", ["samples", "parameters"])
@pytest.mark.parametrize(
    ("solver", "shift", "scale", "named"),
    [
        ("cholesky", -1e-2, 1.0, "shift"),
        ("cholesky", 0.0, 1.0, "shift"),
        ("smooth_pinv", -1e-2, 1.0, "shift"),
        ("smooth_pinv", np.inf, 1.0, "shift"),
        ("cholesky", 1e-2, -1.0, "scale"),
        ("cholesky", 1e-2, np.nan, "scale"),
    ],
)
def test_numbers_that_are_none_inside_of_jit_are_an_outcome(solver, shift, scale, named, side):
    o, f = samples(20, 7)

    @jax.jit
    def solve(shift, scale):
        return natural.solve(o, f, shift, scale=scale, side=side, solver=solver, full_output=True)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the larger side
        x, info = solve(shift, scale)
    assert info.status == shardsolve.Status.INVALID_ARGUMENT
    assert info.message.startswith(named) and np.isnan(x).all()


@pytest.mark.parametrize("side", ["samples", "parameters"])
@pytest.mark.parametrize(("n", "parameters"), [(1, 6), (6, 1), (1, 1)])
def test_one_sample_and_one_parameter_are_systems_too(n, parameters, side):
    o, f = samples(n, parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a side that takes more time
        x = natural.solve(o, f, SHIFT, side=side, center=False)
    assert away(x, expected(o, f, center=False)) < 1e-12


@pytest.mark.parametrize("side", ["samples", "parameters"])
@pytest.mark.parametrize("mode", MODES)
def test_mean_over_samples_is_nothing_that_x_depends_on(mode, side):
    """With center, the default, the same O and f with other means have the same x."""
    o, f = samples(10, 14, MODES[mode])
    far = o + np.linspace(-5, 5, 14), f - 7
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x, other = (natural.solve(*given, SHIFT, side=side, mode=mode) for given in ((o, f), far))
    assert away(other, np.asarray(x)) < 1e-11


def test_negative_infinity_is_named_too():
    o, f = samples(8, 5)
    f[6] = -np.inf
    with pytest.raises(shardsolve.LinAlgError, match=r"f: the right-hand side holds .*row 6"):
        natural.solve(o, f, SHIFT)


SAMPLES, F = samples(8, 5)
WRONG = {
    "zero_samples": ((SAMPLES[:0], F[:0], SHIFT), {}, ValueError, r"O has shape \(0, 5\)"),
    "no_parameters": ((SAMPLES[:, :0], F, SHIFT), {}, ValueError, r"O has shape \(8, 0\)"),
    "one_sample": ((SAMPLES[:1], F[:1], SHIFT), {}, ValueError, "O has one sample.*center=False"),
    "vector": ((SAMPLES[0], F, SHIFT), {}, ValueError, r"O has shape \(5,\)"),
    "length_of_f": ((SAMPLES, F[1:], SHIFT), {}, ValueError, r"f has shape \(7,\).*\(8,\)"),
    "columns_of_f": ((SAMPLES, F[:, None], SHIFT), {}, ValueError, r"f has shape \(8, 1\)"),
    "dtype_of_f": ((SAMPLES, F.astype("float32"), SHIFT), {}, TypeError, "f has dtype float32"),
    "complex_f": ((SAMPLES, F + 0j, SHIFT), {}, TypeError, r"f has dtype complex128.*f\.real"),
    "whole_numbers": ((SAMPLES.astype(int), F, SHIFT), {}, TypeError, "O has dtype int64"),
    "complex_o": ((SAMPLES + 0j, F + 0j, SHIFT), {}, TypeError, "mode='complex'.*'holomorphic'"),
    "no_shift": ((SAMPLES, F, 0.0), {}, ValueError, "shift is 0.0; pass a positive number"),
    "negative_shift": ((SAMPLES, F, -1.0), {"solver": "smooth_pinv"}, ValueError, "not negative"),
    "nan_shift": ((SAMPLES, F, np.nan), {}, ValueError, "shift is nan; pass"),
    "shifts": ((SAMPLES, F, np.ones(2)), {}, ValueError, r"shift is array\(\[1., 1.\]\)"),
    "scale": ((SAMPLES, F, SHIFT), {"scale": 0}, ValueError, "scale is 0; pass a positive"),
    "side": (
        (SAMPLES, F, SHIFT),
        {"side": "both"},
        ValueError,
        "side is 'both'; pass one of 'auto'",
    ),
    "solver": ((SAMPLES, F, SHIFT), {"solver": "cg"}, ValueError, "solver is 'cg'; pass one of"),
    "mode": (
        (SAMPLES, F, SHIFT),
        {"mode": "auto"},
        ValueError,
        "mode is 'auto'; pass one of 'real'",
    ),
    "momentum": (
        (SAMPLES, F, SHIFT),
        {"momentum": F},
        ValueError,
        r"momentum has shape \(8,\).*\(5,\)",
    ),
    "gram_dtype": ((SAMPLES, F, SHIFT), {"gram_dtype": "float32"}, ValueError, "pass 'float64'"),
    "mesh": ((SAMPLES, F, SHIFT), {"mesh": "x"}, TypeError, "mesh is a str"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_argument_that_does_not_fit_is_named(wrong):
    arguments, options, kind, words = WRONG[wrong]
    with pytest.raises(kind, match=words):
        natural.solve(*arguments, **options)


def test_samples_on_other_devices_than_f_are_refused():
    if DEVICES == 1:
        pytest.skip("has one device")
    o = put(SAMPLES, row_mesh(jax.devices()[:1]))
    with pytest.raises(ValueError, match="was put on the devices"):
        natural.solve(o, put(F, row_mesh(jax.devices()[1:2])), SHIFT)


def test_step_inside_of_a_shard_map_is_refused():
    run = jax.shard_map(
        lambda o, f: natural.solve(o, f, SHIFT),
        mesh=row_mesh(),
        in_specs=P(),
        out_specs=P(),
        check_vma=False,
    )
    with pytest.raises(ValueError, match="called inside of a shard_map"):
        run(SAMPLES, F)


def test_parameter_alone_and_one_sample_uncentred_are_solved():
    assert away(natural.solve(SAMPLES[:, :1], F, SHIFT), expected(SAMPLES[:, :1], F)) < 1e-13
    wanted = expected(SAMPLES[:1], F[:1], center=False)
    assert away(natural.solve(SAMPLES[:1], F[:1], SHIFT, center=False), wanted) < 1e-12
