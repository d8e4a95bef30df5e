"""The user's functions as training on GPUs calls them: here on CPU devices, where addresses can be
read."""

from __future__ import annotations

import ctypes

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shardsolve.fbpinn as fb
from shardsolve.fbpinn import _on_devices
from shardsolve.fbpinn._on_devices import DECLINED, FAILED, MADE, OnDevices

CPU = jax.devices("cpu")[0]


def problem(coefficients: bool) -> fb.Problem:
    def plain(x, u, strength=2.0):
        return u.p.xx + strength * u.q.v**2, u.p.v * u.q.y - jnp.sin(x.x)

    def unknown(x, u, c):
        return plain(x, u, c.a * c.b)

    return fb.Problem(
        fb.Boxes([(0, 1), (0, 1)], (2, 2), 2.5),
        axes="x y",
        fields="p q",
        coefficients={"a": fb.Scalar(1.5), "b": fb.Scalar(-2.0)} if coefficients else None,
        constrain=lambda x, u: (x.x * u.p, u.q + 1),
        terms=[fb.Interior(unknown if coefficients else plain, points=(20, 15))],
    )


class Called:
    """A function of a term, as the library calls it."""

    def __init__(self, given: fb.Problem, devices: list[jax.Device] | None = None):
        self.term = given.prepared[0]
        self.raised: list[BaseException] = []
        self.on_devices = OnDevices([CPU] if devices is None else devices, self.raised)
        self.jets = (len(given.fields), len(given.orders))
        self.numbers = len(given.unknown.start)
        self.function = self.on_devices.function(self.term, 2, self.jets, self.numbers)

    def __call__(self, points, jets, c, derivatives: bool, rank: int = 0):
        """What the function returned, and the arrays at the addresses that it gave."""
        to = (ctypes.c_void_p * 3)()
        doubles = [a.ctypes.data_as(ctypes.POINTER(ctypes.c_double)) for a in (points, jets, c)]
        made = self.function(rank, len(points), *doubles, int(derivatives), to)
        shapes = [(self.term.equations,), (self.term.equations, *self.jets)]
        shapes.append((self.term.equations, self.numbers))
        found = []
        for address, shape in zip(to, shapes, strict=True):
            array = np.empty((len(points), *shape))
            if address:
                ctypes.memmove(array.ctypes.data, address, array.nbytes)
            found.append(array if address else None)
        return made, found


def numbers(called: Called, count: int):
    random = np.random.default_rng(count)
    return (
        random.uniform(0, 1, (count, 2)),
        random.uniform(-1, 1, (count, *called.jets)),
        random.uniform(1, 2, called.numbers),
    )


@pytest.mark.parametrize("coefficients", [False, True])
@pytest.mark.parametrize("count", [1, 64, 300])
def test_results_are_where_the_library_is_told(count: int, coefficients: bool) -> None:
    called = Called(problem(coefficients))
    given = numbers(called, count)
    expected = called.term.linearised(*given)
    made, (r, a, b) = called(*given, derivatives=True)
    assert made == MADE and not called.raised
    assert np.allclose(r, expected[0], rtol=1e-13) and np.allclose(a, expected[1], rtol=1e-13)
    assert (b is None) == (not coefficients)
    assert b is None or np.allclose(b, expected[2], rtol=1e-13)
    made, (r, a, b) = called(*given, derivatives=False)
    assert made == MADE and a is None and b is None
    assert np.allclose(r, called.term.residuals(*given), rtol=1e-13)


def test_results_of_each_rank_live_until_its_next_call() -> None:
    called = Called(problem(coefficients=True), jax.devices("cpu")[:2] * 2)
    first, second = numbers(called, 100), numbers(called, 90)
    to = [(ctypes.c_void_p * 3)() for _ in range(2)]
    for rank, given in enumerate([first, second]):
        doubles = [a.ctypes.data_as(ctypes.POINTER(ctypes.c_double)) for a in given]
        assert called.function(rank, len(given[0]), *doubles, 1, to[rank]) == MADE
    for addresses, given in zip(to, [first, second], strict=True):
        r = np.empty((len(given[0]), 2))
        ctypes.memmove(r.ctypes.data, addresses[0], r.nbytes)
        assert np.allclose(r, called.term.residuals(*given), rtol=1e-13)


def test_single_precision_of_the_function_becomes_double() -> None:
    given = fb.Problem(
        fb.Boxes([(0, 1), (0, 1)], (2, 2), 2.5),
        axes="x y",
        terms=[fb.Interior(lambda x, u: jnp.float32(u.v) + jnp.float32(0.5), points=(20, 15))],
    )
    called = Called(given)
    points, jets, c = numbers(called, 70)
    made, (r, _, _) = called(points, jets, c, derivatives=False)
    assert made == MADE
    assert np.array_equal(r[:, 0], np.float32(jets[:, 0, 0]) + np.float32(0.5))


def test_what_jax_cannot_do_there_declines_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    called = Called(problem(coefficients=False))
    given = numbers(called, 70)

    def fails(*_: object) -> None:
        raise NotImplementedError("no such operation\nand more")

    with monkeypatch.context() as patched:
        patched.setattr(_on_devices, "_called", fails)
        assert called(*given, derivatives=True)[0] == DECLINED
    assert called.on_devices.declined is not None and not called.raised
    for part in ("terms[0]", str(CPU), "NotImplementedError", "no such operation"):
        assert part in called.on_devices.declined
    assert "and more" not in called.on_devices.declined
    assert called(*given, derivatives=True)[0] == DECLINED


def test_ctrl_c_ends_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    called = Called(problem(coefficients=False))

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(_on_devices, "_called", interrupted)
    assert called(*numbers(called, 70), derivatives=True)[0] == FAILED
    assert isinstance(called.raised[0], KeyboardInterrupt)
