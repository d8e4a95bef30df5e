"""The page of claims about training networks, from what fbpinn_claims.py has measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Report = dict[str, Any]
NEAR = 0.03  # a difference below this is none: the machine's own from round to round


@dataclass(frozen=True)
class Claim:
    """One line of the page.

    Attributes:
        folklore: What is said.
        row: What is measured of it, as --only takes it; empty if nothing is.
        measured: Words from a report.
        ours: Whether shardsolve does it.
    """

    folklore: str
    row: str
    measured: Callable[[Report], str]
    ours: str


def rows_of(report: Report) -> dict[str, dict[str, Any]]:
    return {one["row"]["name"]: one for one in report["rows"]}


def missing(report: Report, name: str) -> str:
    """Why a row has no figures; empty if it has."""
    row = rows_of(report).get(name)
    if row is None:
        return "not measured"
    if "skipped" in row:
        return f"not measured: {row['skipped']}"
    if "failed" in row:
        return f"fails: {last_words(row['failed'])}"
    return "" if {"found", "parts"} & row.keys() else "not measured"


def last_words(text: str) -> str:
    """Of what a process said before it ended."""
    line = next((one for one in reversed(text.splitlines()) if one.strip()), "without a word")
    return line.strip().replace("|", "/")[:160]


def found(report: Report, name: str) -> dict[str, Any]:
    return rows_of(report)[name]["found"]


def rate(report: Report, name: str) -> float:
    return found(report, name)["steps_a_second"]


def percent(ratio: float) -> str:
    """How much faster."""
    if abs(ratio - 1) < NEAR:
        return f"no difference ({100 * (ratio - 1):+.0f} %)"
    return f"{100 * (ratio - 1):+.0f} %"


def beside(with_it: str, without: str) -> Callable[[Report], str]:
    """How much faster the one training is than the other."""

    def words(report: Report) -> str:
        lacking = missing(report, with_it) or missing(report, without)
        if lacking:
            return lacking
        a, b = rate(report, with_it), rate(report, without)
        return f"{percent(a / b)}: {a:.0f} steps/s beside {b:.0f}"

    return words


def each(*names: str, without: str = "plain") -> Callable[[Report], str]:
    """Trainings beside another one, a few words each."""

    def words(report: Report) -> str:
        told = {}
        for name in names:
            lacking = missing(report, name) or missing(report, without)
            told[name] = lacking or percent(rate(report, name) / rate(report, without))
        if len(set(told.values())) == 1:
            return next(iter(told.values()))
        return "; ".join(f"{name}: {one}" for name, one in told.items())

    return words


def threads(report: Report) -> str:
    names = ("a call for each step", "one thread of OpenMP", "16 threads of OpenMP")
    parts = []
    for name in names:
        lacking = missing(report, name)
        if lacking:
            parts.append(f"{name}: {lacking}")
            continue
        p50, p95, p99 = (
            1e3 * found(report, name)["step_seconds"][p] for p in ("p50", "p95", "p99")
        )
        title = "as it is" if name == names[0] else name
        parts.append(f"{title}: {p50:.2f} ms a step (p95 {p95:.2f}, p99 {p99:.2f})")
    return "; ".join(parts)


def accumulated(report: Report) -> str:
    name = "10 gradients accumulated"
    lacking = missing(report, name)
    if lacking:
        return lacking
    one, ten = found(report, "plain"), found(report, name)
    return (
        f"no: after {ten['gradients']} gradients the loss is {ten['loss']:.1e}, and "
        f"{one['loss']:.1e} where each was a step; as many gradients a second times "
        f"{10 * ten['steps_a_second'] / one['steps_a_second']:.2f}"
    )


def grouped(report: Report) -> str:
    name = "every network at every point"
    lacking = missing(report, name)
    if lacking:
        return lacking
    text = f"{rate(report, 'plain') / rate(report, name):.1f} times as fast with lists"
    peaks = [found(report, one).get("peak_bytes") for one in (name, "plain")]
    if all(peaks):
        text += f"; peak {peaks[0] / 1e6:.0f} MB without, {peaks[1] / 1e6:.0f} MB with"
    return text + ". 75 x 262,144 x 3 numbers of 4 bytes are 0.24 GB"


def parts(name: str, key: str, title: str, room: str) -> Callable[[Report], str]:
    """Seconds by how many at a time."""

    def words(report: Report) -> str:
        lacking = missing(report, name)
        if lacking:
            return lacking
        told = []
        for part in rows_of(report)[name]["parts"]:
            size = "by itself" if part[key] is None else f"{part[key]:,} {title}"
            space = "" if part[room] is None else f", {part[room] / 1e6:.0f} MB"
            told.append(f"{size}: {part['seconds']:.3g} s{space}")
        return "; ".join(told)

    return words


def drawn(report: Report) -> str:
    name = "random numbers of a step"
    lacking = missing(report, name)
    if lacking:
        return lacking
    seconds, step = found(report, name), 1 / rate(report, "plain")
    return "; ".join(
        f"{generator}: {1e6 * one:.1f} us, {100 * one / step:.1f} % of a step"
        for generator, one in seconds.items()
    )


def cached(report: Report) -> str:
    name = "JAX's cache on disk"
    lacking = missing(report, name)
    if lacking:
        return lacking
    seconds = found(report, name)
    return (
        f"{seconds['first']:.1f} s for the first block, {seconds['second']:.1f} s in the next "
        "process: it is traced again"
    )


def nothing(words: str) -> Callable[[Report], str]:
    return lambda report: words


FLAGS = (
    "latency hiding scheduler",
    "no Triton products",
    "fast min and max",
    "copies in streams of high priority",
    "no autotuning",
)
CLAIMS = [
    Claim(
        "CUDA graphs: +30 to 50 %",
        "no CUDA graphs",
        beside("plain", "no CUDA graphs"),
        "XLA's, on by default",
    ),
    Claim("flags of XLA: 20 %", "", each(*FLAGS), "no: none is set"),
    Claim(
        "`--xla_gpu_enablefast_min_max=true`",
        "as the report spells it",
        each("fast min and max, as the report spells it"),
        "`shardsolve doctor`: `xla-unknown-flag`",
    ),
    Claim(
        'float32 is "32 times" as fast (125 / 4 TF)',
        "float64",
        beside("plain", "float64"),
        "`dtype=`. A V100 has 15.7 and 7.8 TF; 125 is float16 on tensor cores",
    ),
    Claim(
        "lists of who is where instead of all networks at all points: 300 GB to 3 MB, 3 to 5 times",
        "every network",
        grouped,
        "yes, always",
    ),
    Claim(
        "100 steps in a call: 10 %",
        "a call",
        beside("plain", "a call for each step"),
        "yes: `block=100`",
    ),
    Claim(
        '10 accumulated gradients are "equivalent" to 10 steps',
        "accumulated",
        accumulated,
        "`accumulate=`, one step of their mean",
    ),
    Claim(
        "two GPUs: 1.8 to 2 times",
        "two devices",
        beside("two devices, halo", "plain"),
        "yes: `mesh=`",
    ),
    Claim(
        "sums of u and of windows over all devices (`psum`) are the way to exchange",
        "two devices",
        beside("two devices, halo", "two devices, sums of all"),
        "messages of shared points by default; `exchange='psum'`",
    ),
    Claim(
        "tuning of NCCL: 20 to 30 %",
        "NCCL",
        each(
            "16 channels of NCCL",
            "NCCL's low latency protocol",
            "NCCL's tree",
            without="two devices, halo",
        ),
        "no; `doctor` names what turns NVLink or InfiniBand off",
    ),
    Claim("threefry: 5 to 10 %", "random numbers", drawn, "it is JAX's default"),
    Claim(
        "new points at each step cost little",
        "the same points",
        beside("plain", "the same points at each step"),
        'yes: `points="random"`',
    ),
    Claim(
        "chunks of 2048 points stay in the L2 cache: 20 to 30 %; validation in chunks: 5 to 10 %",
        "points at a time",
        parts("points at a time", "chunk", "points", "peak_bytes"),
        "yes, on the host: `evaluate(chunk=25_000)`. Bytes are what the process grew by until then",
    ),
    Claim(
        "20 subdomains at a time: 15 to 25 %",
        "subdomains at a time",
        parts("subdomains at a time", "batch", "subdomains", "temporary_bytes"),
        "yes: `batch=`, by itself from their size. A loss and its gradient at 262,144 points",
    ),
    Claim(
        "one thread: 1 to 2 ms a step become 0.2 to 0.5",
        "of OpenMP",
        threads,
        "no; `doctor` names more threads than cores",
    ),
    Claim(
        "XLA compiled for one thread of the CPU is faster",
        "compiled for one thread",
        each("compiled for one thread"),
        "no",
    ),
    Claim(
        "no preallocation, asynchronous allocator: 20 to 30 %",
        "memory",
        each("memory not taken before", "CUDA's asynchronous allocator"),
        "no; `doctor` names pools that leave too little",
    ),
    Claim("cache on disk: 30 s become 0", "cache", cached, "JAX's, if you name a folder"),
    Claim(
        '`os.environ["XLA_FLAGS"] = ...` with five flags',
        "",
        nothing("it replaces what the job has set; after a flag, a word without `--` is ignored"),
        "`doctor`: `xla-flags-replaced`, `xla-missing-dashes`",
    ),
    Claim("`jax_debug_nans` off", "", nothing("not measured: it is off by default"), "`doctor`"),
]

HEAD = """# Claims about training networks faster, measured

What is said in reports and scripts about faster training of networks on subdomains, and what is
measured of it: Burgers' equation in one dimension and time, 15 x 5 subdomains, one hidden layer
of 16, float32, Adam, new points at each step, with one thing changed at a time. A percentage is
how much faster training is with what is claimed. Differences below {near:.0f} % are none.

`python bench/fbpinn_claims.py --json FILE` measures all of it, and with `--only TEXT` the lines
that have the text in the last column; `--page FILE` prints this page.

{machines}

| folklore | {heads} | ours? | `--only` |
|---|{rules}---|---|
{lines}

Not measured anywhere here: a V100 (CUDA 13 has left it); the published code (benmoseley/FBPINNs)
beside ours on the same GPU; flags that this version of XLA does not know, where the line says so.
"""


def machine(report: Report) -> str:
    here, options = report["machine"], report["options"]
    plain = found(report, "plain")
    kind = "CPU" if here["platform"] == "cpu" else here["kind"]
    return (
        f"- **{title(report)}**: {here['there']} x {kind}, {here['cores']} CPU cores, jax "
        f"{here['jax']}; {options['points']:,} points, {options['steps']:,} gradients, the best of "
        f"up to {options['rounds']} rounds. The plain training: {plain['steps_a_second']:.0f} "
        f"steps/s, {plain['compile']:.1f} s to compile."
    )


def title(report: Report) -> str:
    here = report["machine"]
    return f"{here['cores']} CPU cores" if here["platform"] == "cpu" else here["kind"]


def page(reports: list[Report]) -> str:
    """In Markdown, with a column for each report."""
    lines = []
    for claim in CLAIMS:
        told = " | ".join(claim.measured(report) for report in reports)
        only = f"`{claim.row}`" if claim.row else ""
        lines.append(f"| {claim.folklore} | {told} | {claim.ours} | {only} |")
    return HEAD.format(
        near=100 * NEAR,
        machines="\n".join(map(machine, reports)),
        heads=" | ".join(title(report) for report in reports),
        rules="---|" * len(reports),
        lines="\n".join(lines),
    )
