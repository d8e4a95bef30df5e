"""The loss of networks in boxes and its gradient, on any number of devices."""

from __future__ import annotations

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shardsolve.fbpinn as fb

pytestmark = [
    pytest.mark.devices,
    pytest.mark.filterwarnings("ignore::shardsolve.fbpinn.TrainingWarning"),
]
COUNTS = [
    pytest.param(
        n,
        marks=[
            pytest.mark.skipif(len(jax.devices()) < n, reason=f"{n} devices"),
            *([] if n in (3, 6) else [pytest.mark.more]),
        ],
    )
    for n in (1, 2, 3, 4, 6)
]


def mesh_of(count: int) -> jax.sharding.Mesh:
    return jax.sharding.Mesh(np.array(jax.devices()[:count]), "x")


def source(x):
    return jnp.sin(3 * x.x) * jnp.exp(x.y)


def edge(x, u):
    return jnp.sin(2 * x.x) * x.y * u + x.x


# With a derivative by a constant, which is summed over the devices if an axis varies.
def nonlinear(x, u, c):
    shift = jax.grad(lambda d: jnp.sin(2 * x.x + d[0]) * u.v * jnp.exp(d[1]))(jnp.zeros(2))
    return u.xx + c.a * u.yy + u.v * u.x - c.k(x.y) * source(x) + shift[0] + shift[1]


MEASURED = np.random.default_rng(1).uniform(0, 1, (23, 2))
VALUES = np.random.default_rng(2).normal(size=23)


def problem(**options) -> fb.Problem:
    return fb.Problem(
        fb.Boxes([(0, 1), (0, 1)], (5, 3)),
        axes="x y",
        net=fb.Mlp([5]),
        constrain=edge,
        terms=[
            fb.Interior(nonlinear, points=(18, 11)),
            fb.Data(MEASURED, VALUES, lambda x, u: u.v, weight=3),
        ],
        coefficients={"a": fb.Scalar(0.8), "k": fb.Grid1D(4, init=[1.0, 2.0, 0.5, 1.0])},
        **options,
    )


@functools.cache
def oracle():
    """Loss and gradient by derivatives of the global sum, which share nothing with the library."""
    boxes = problem().boxes
    centers, half = jnp.asarray(boxes.centers), jnp.asarray(boxes.half_widths)

    def bump(c, h, x):
        inside = jnp.abs(x - c) < h
        return jnp.prod(jnp.where(inside, ((1 + jnp.cos(jnp.pi * (x - c) / h)) / 2) ** 2, 0.0))

    def network(params, c, h, x):
        (((w, b),), last) = params
        return last[0, :-1] @ jnp.tanh(w @ ((x - c) / h) + b) + last[0, -1]

    def u(params, x):
        weights = jax.vmap(bump, (0, 0, None))(centers, half, x)
        values = jax.vmap(network, (0, 0, 0, None))(params, centers, half, x)
        return jnp.sin(2 * x[0]) * x[1] * (weights @ values) / weights.sum() + x[0]

    def residual(parameters, x):
        params = (parameters.hidden, parameters.last)
        v, g, h = (f(u, 1)(params, x) for f in (lambda f, _: f, jax.grad, jax.hessian))
        k = jnp.interp(x[1], jnp.linspace(0, 1, 4), parameters.coefficients["k"])
        further = jnp.cos(2 * x[0]) * v + jnp.sin(2 * x[0]) * v
        f = jnp.sin(3 * x[0]) * jnp.exp(x[1])
        return h[0, 0] + parameters.coefficients["a"] * h[1, 1] + v * g[0] - k * f + further

    def loss(parameters):
        each = functools.partial(residual, parameters)
        interior = jax.lax.map(each, jnp.asarray(boxes.grid((18, 11))), batch_size=32)
        data = jax.vmap(functools.partial(u, (parameters.hidden, parameters.last)))(MEASURED)
        return jnp.mean(interior**2) + 9 * jnp.mean((data - VALUES) ** 2)

    of_one = problem().loss()
    parameters = jax.tree.map(jnp.asarray, of_one.gather(of_one.parameters()))
    return jax.jit(jax.value_and_grad(loss))(parameters)


def require_close(found, wanted, limit=1e-13):
    leaves = zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True)
    for one, other in leaves:
        error = np.abs(np.asarray(one) - np.asarray(other)).max()
        assert not error > limit * np.abs(np.asarray(other)).max()


@pytest.mark.parametrize(
    ("count", "exchange"),
    [
        pytest.param(
            *one.values,
            exchange,
            marks=[*one.marks, pytest.mark.more] if exchange == "psum" else one.marks,
        )
        for one in COUNTS
        for exchange in ("halo", "psum")
    ],
)
def test_loss_and_gradient_are_those_of_the_global_sum(count: int, exchange: str):
    loss = problem().loss(mesh=mesh_of(count), exchange=exchange)
    value, gradient = jax.jit(jax.value_and_grad(loss))(loss.parameters())
    wanted, wanted_gradient = oracle()
    assert abs(value / wanted - 1) < 1e-13
    require_close(loss.gather(gradient), wanted_gradient)


# Small problems, whose programs compile in a second.


def line(net: fb.Mlp | fb.Net | None = None, boxes: int = 5, points=(50,)) -> fb.Problem:
    return fb.Problem(
        fb.Boxes([(0, 2)], (boxes,)),
        axes="t",
        net=fb.Mlp([4]) if net is None else net,
        terms=[fb.Interior(lambda x, u: u.t + u.v**2 - x.t, points=points)],
    )


def line_with_a_condition() -> fb.Problem:
    """What can be trained."""
    terms = [
        fb.Interior(lambda x, u: u.t + u.v**2 - x.t, points=(50,)),
        fb.Data([0.0], [0.5], lambda x, u: u.v),
    ]
    return fb.Problem(fb.Boxes((0, 2), 5), axes="t", net=fb.Mlp([4]), terms=terms)


def of_devices(problem: fb.Problem, count: int, start=None, **options):
    """The loss and its gradient in the order of the boxes."""
    loss = problem.loss(mesh=mesh_of(count), **options)
    value, gradient = jax.jit(jax.value_and_grad(loss))(loss.parameters(start))
    # Those of places without a box, too.
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))
    return float(value), loss.gather(gradient)


def most() -> int:
    return len(jax.devices())


def test_psum_says_the_same_as_messages():
    value, gradient = of_devices(line(), most())
    other, other_gradient = of_devices(line(), most(), exchange="psum")
    assert value == pytest.approx(other, rel=1e-14)
    require_close(gradient, other_gradient)


def shard_maps(jaxpr):
    for equation in jaxpr.eqns:
        if equation.primitive.name == "shard_map":
            yield equation
        for value in equation.params.values():
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield from shard_maps(inner)


@pytest.mark.parametrize("exchange", ["halo", "psum"])
def test_no_operand_of_a_shard_map_is_without_entries(exchange: str):
    """XLA for GPUs (of jax 0.11.2) crashes with one where there are two."""
    loss = line().loss(mesh=mesh_of(most()), exchange=exchange)
    found = [*shard_maps(jax.make_jaxpr(jax.value_and_grad(loss))(loss.parameters()).jaxpr)]
    assert len(found) > 1
    assert all(operand.aval.size > 0 for one in found for operand in one.invars)


def test_batches_take_less_memory_and_say_the_same():
    problem = line(boxes=9, points=np.linspace(0, 2, 900))
    found, memory = [], []
    for batch in (None, 2):
        loss = problem.loss(batch=batch)
        compiled = jax.jit(jax.value_and_grad(loss)).lower(loss.parameters()).compile()
        found.append(compiled(loss.parameters()))
        memory.append(compiled.memory_analysis().temp_size_in_bytes)
    assert float(found[1][0]) == pytest.approx(float(found[0][0]), rel=1e-14)
    require_close(found[1][1], found[0][1])
    assert memory[1] < 0.7 * memory[0]


def test_same_bits_again():
    loss = line().loss(mesh=mesh_of(most()))
    compiled = jax.jit(jax.value_and_grad(loss))
    parameters = loss.parameters()
    once, again = compiled(parameters), compiled(parameters)
    pairs = zip(jax.tree.leaves(once), jax.tree.leaves(again), strict=True)
    assert all(np.array_equal(one, other) for one, other in pairs)


@pytest.mark.parametrize("count", COUNTS)
def test_derivative_by_a_constant_is_not_summed_over_devices(count: int):
    """Inside of a shard_map with its check of varying values it is: 1.4 to 5 times the loss."""

    def by_constant(x, u):
        return u.v * x.t + jax.grad(lambda d: jnp.sin(3 * x.t + d[0]) * d[1])(jnp.ones(2))[1]

    def by_hand(x, u):
        return u.v * x.t + jnp.sin(3 * x.t + 1)

    (value, gradient), (wanted, wanted_gradient) = (
        of_devices(
            fb.Problem(
                fb.Boxes([(0, 2)], (5,)), axes="t", terms=[fb.Interior(residual, points=(40,))]
            ),
            count,
        )
        for residual in (by_constant, by_hand)
    )
    assert value == pytest.approx(wanted, rel=1e-14)
    require_close(gradient, wanted_gradient)


@pytest.mark.parametrize("given", ["three boxes", "two levels", "by hand", "one term on few"])
def test_any_boxes_on_any_devices_are_those_of_one(given: str):
    options, problem = {}, line()
    if given == "three boxes":
        problem = line(boxes=3)  # with four devices one has none
    elif given == "two levels":
        boxes = fb.Boxes([(0, 2)], (4,)).with_level(fb.Boxes([(0, 2)], (1,), 2.0))
        terms = [fb.Interior(lambda x, u: u.t + u.v**2 - x.t, points=(50,))]
        problem = fb.Problem(boxes, axes="t", terms=terms)
    elif given == "by hand":
        options["owner"] = np.array([3, 0, 3, 1, 0]) % most()
    else:  # whose function is not defined at jets that are 0
        terms = [
            fb.Interior(lambda x, u: u.t + u.v**2 - x.t, points=(50,)),
            fb.Boundary(lambda x, u: 1 / u.v - 1, points=(), where="t = 0"),
        ]
        problem = fb.Problem(fb.Boxes([(0, 2)], (5,)), axes="t", terms=terms)
    value, gradient = of_devices(problem, most(), **options)
    wanted, wanted_gradient = of_devices(problem, 1)
    assert value == pytest.approx(wanted, rel=1e-13)
    require_close(gradient, wanted_gradient)


def perceptron(params, x):
    # Has no derivative at the centre of a box, where no point is, or with weights that are 0.
    size = jnp.sqrt(jnp.sum(params["w"] ** 2) * jnp.sum(x**2))
    return jnp.tanh(params["w"] @ x + params["b"]) * size


def test_own_network_on_devices_without_boxes():
    def begin(key):
        return {"w": jax.random.normal(key, (4, 1)) + 2, "b": jnp.ones(4)}

    problem = line(fb.Net(perceptron, begin), boxes=2, points=np.linspace(0.01, 1.99, 50))
    value, gradient = of_devices(problem, most())
    wanted, wanted_gradient = of_devices(problem, 1)
    assert value == pytest.approx(wanted, rel=1e-13)
    require_close(gradient, wanted_gradient)


@pytest.mark.parametrize(
    ("activation", "widths"),
    [
        *(pytest.param(name, [4], marks=pytest.mark.more) for name in fb.ACTIVATIONS[2:]),
        ("tanh", [4]),
        ("sin", [4, 3]),
    ],
)
def test_jets_are_those_of_the_library(activation: str, widths: list[int]):
    """Up to order 4, of two fields: squares of derivatives as residuals."""
    names = ("xxxx", "xxyy", "xyyy", "yy", "x", "v")

    def derivatives(x, u):
        return tuple(getattr(u.p, name) + 2 * getattr(u.q, name) for name in names)

    problem = fb.Problem(
        fb.Boxes([(0, 1), (0, 1)], (2, 2)),
        axes="x y",
        fields="p q",
        net=fb.Mlp(widths, activation),
        terms=[fb.Interior(derivatives, points=(7, 6))],
    )
    loss = problem.loss(mesh=mesh_of(min(most(), 2)))
    parameters = loss.parameters()
    networks = loss.networks(parameters)
    points = problem.boxes.grid((7, 6))
    wanted = sum(
        np.mean((networks.evaluate(points, name) @ np.array([1, 2])) ** 2) for name in names
    )
    assert float(loss(parameters)) == pytest.approx(wanted, rel=1e-12)


def test_trained_networks_have_the_loss_that_least_squares_says():
    problem = line_with_a_condition()
    run = problem.train()
    loss = problem.loss(mesh=mesh_of(most()))
    parameters = loss.parameters(run)
    assert float(loss(parameters)) == pytest.approx(run.outcome.loss, rel=1e-6, abs=1e-18)
    points = np.linspace(0, 2, 31)
    again = loss.networks(parameters).evaluate(points)
    if jax.default_backend() == "cpu":  # a run that was trained on a GPU evaluates there
        assert np.array_equal(again, run.evaluate(points))
    assert np.allclose(again, run.evaluate(points), rtol=1e-6)


def test_single_precision_is_near_double():
    loss = line().loss(mesh=mesh_of(most()), dtype=np.float32)
    value, gradient = jax.value_and_grad(loss)(loss.parameters())
    assert {leaf.dtype for leaf in jax.tree.leaves((value, gradient))} == {np.dtype("float32")}
    assert float(value) == pytest.approx(of_devices(line(), 1)[0], rel=1e-5)


def test_messages_are_of_points_in_overlaps_only():
    """Of 75 boxes on some devices: what is sent, and that tables are in proportion to the pairs."""
    boxes = fb.Boxes([(0, 1), (0, 1)], (15, 5))
    terms = [fb.Interior(lambda x, u: u.xx + u.yy, points=(72, 36))]
    problem = fb.Problem(boxes, axes="x y", terms=terms)
    loss = problem.loss(mesh=mesh_of(most()))
    assert "<- chosen" in loss.placement and len(np.unique(loss.owner)) == most()
    pairs, setup = problem.plan().pairs, loss._setup
    sent = len(setup.geometry.sent)
    assert sent < 0.2 * most() * 72 * 36
    moved = sum(one.send.shape[1] * len(one.pairs) for one in setup.rounds)
    assert sent <= moved <= 2.5 * sent
    padded = sum(one.pair.size for one in setup.classes)
    assert pairs <= padded < 2 * pairs
    assert setup.owned.place.size + setup.sent.place.size < 3 * pairs
    if most() > 1:
        text = jax.jit(loss).lower(loss.parameters()).as_text()
        assert text.count("collective_permute") == len(setup.rounds)
        assert "all_gather" not in text


def test_loss_is_an_argument_of_what_is_compiled():
    loss = line().loss(mesh=mesh_of(most()))
    parameters = loss.parameters()

    @jax.jit
    def step(loss, parameters):
        return jax.value_and_grad(loss)(parameters)

    assert float(step(loss, parameters)[0]) == float(loss(parameters))
    lowered = step.lower(loss, parameters).as_text()
    assert len(lowered) < len(jax.jit(loss).lower(parameters).as_text()) + 200_000


def test_where_numbers_are_not_finite_is_said():
    problem = fb.Problem(
        fb.Boxes([(0, 1)], (3,)),
        axes="x",
        terms=[
            fb.Data(np.array([0.5]), np.array([1.0]), lambda x, u: u.v),
            fb.Interior(lambda x, u: u.v + 1 / (x.x - 0.75), points=(5,)),
            fb.Interior(lambda x, u: u.v + jnp.sqrt(x.x * u.v**2), points=(30,)),
        ],
    )
    loss = problem.loss(mesh=mesh_of(min(most(), 2)))
    parameters = loss.parameters()
    assert not np.isfinite(float(loss(parameters)))
    device = loss.owner[2]
    words = (
        "terms[1], Interior or a derivative of it is not finite at its point 3 at (0.75), in box "
    )
    with pytest.raises(ValueError, match=re.escape(words) + rf"\d on device {device}"):
        loss.require_finite(parameters)
    nan = parameters._replace(last=parameters.last.at[...].set(jnp.nan))
    with pytest.raises(ValueError, match=r"parameters.last is not finite in box 0 on device \d"):
        loss.require_finite(nan)
    line().loss().require_finite(line().loss().parameters())


BAD = [
    (lambda: line().loss(exchange="ring"), "halo and psum"),
    (lambda: line().loss(batch=0), "batch=0"),
    (lambda: line().loss(mesh=3), "jax.sharding.Mesh"),
    (lambda: line().loss(owner=[0, 1]), "for each of 5 boxes"),
    (lambda: line().loss(owner=[0, 0, 0, 0, 9]), "0 to 0"),
    (lambda: line().loss(dtype=np.float16), "float32 is accepted"),
    (lambda: line().loss()(3), "loss.parameters()"),
    (lambda: line().loss()(line(fb.Mlp([5])).loss().parameters()), "(5, 4, 1) is accepted"),
    (lambda: line().loss()(line(fb.Mlp([5, 5])).loss().parameters()), "structure"),
    (lambda: line().loss().parameters(line_with_a_condition().train()), "another problem"),
    (lambda: line().loss().parameters(3), "what training returned"),
    (lambda: fb.PlacementCosts(latency=-1), "latency=-1"),
    (
        lambda: fb.Problem(
            fb.Boxes([(0, 1)], (3,)),
            axes="x",
            terms=[fb.Data(np.array([7.0]), np.zeros(1), lambda x, u: u.v)],
        ).loss(),
        "terms[0], Data: point 0 at (7)",
    ),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_bad_input_is_named(number: int):
    make, named = BAD[number]
    with pytest.raises((ValueError, TypeError), match=re.escape(named)):
        make()


def compilations(function) -> int:
    """How often XLA compiles while a function runs."""
    found = []

    def hear(name: str, *_, **__) -> None:
        if name.endswith("backend_compile_duration"):
            found.append(name)

    jax.monitoring.register_event_duration_secs_listener(hear)
    function()
    count = len(found)
    found.append("no more is read")
    return count


@pytest.mark.parametrize("count", [1, most()])
def test_new_points_need_no_new_program(count: int):
    """They are drawn anew each time; a box or a message may grow, once or twice."""
    terms = [
        fb.Interior(lambda x, u: u.t + u.v**2 - x.t, points=(60,)),
        fb.Data([0.5], [0.3], lambda x, u: u.v),
    ]
    problem = fb.Problem(fb.Boxes((0, 2), 5), axes="t", net=fb.Mlp([4]), terms=terms)
    rng = np.random.default_rng(4)
    loss = problem.loss(mesh=mesh_of(count))
    parameters = loss.parameters()

    @jax.jit
    def step(loss, parameters):
        return jax.value_and_grad(loss)(parameters)

    step(loss, parameters)
    compiled = 0
    for number in range(6):
        points = rng.uniform(0, 2, 60)
        moved = loss.with_points({0: points, 1: ([0.5 + 0.1 * number], [0.2])})
        compiled += compilations(lambda: jax.block_until_ready(step(moved, parameters)))  # noqa: B023
        value, gradient = step(moved, parameters)
        fresh = moved.problem.loss()
        same = fresh.parameters(moved.networks(parameters))
        wanted, wanted_gradient = step(fresh, same) if number in (0, 5) else (None, None)
        if wanted is not None:
            assert float(value) == pytest.approx(float(wanted), rel=1e-13)
            require_close(moved.gather(gradient), fresh.gather(wanted_gradient))
        loss = moved
    assert compiled <= 3
    repeated = loss.with_points({0: points})
    assert compilations(lambda: jax.block_until_ready(step(repeated, parameters))) == 0
