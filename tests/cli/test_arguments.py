"""Help, version and misuse of the arguments."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from command import Command, contents

SOLVE = ("solve", "A.npy", "b.npy", "-o", "x.npy")
EIGH = ("eigh", "A.npy", "-o", "H")
SVD = ("svd", "A.npy", "-o", "A")


@pytest.fixture(scope="session")
def verbs(binary: Path) -> list[str]:
    """All commands, as the help lists them."""
    text = subprocess.run([binary, "--help"], capture_output=True, text=True, check=True).stdout
    found = re.findall(
        r"^  ([\w-]+)  +\w", text.split("\nSubcommands:\n")[1].split("\n\n")[0], re.M
    )
    assert {"solve", "doctor", "bench"} <= set(found)
    return found


def examples_of(command: Command, verb: str) -> list[list[str]]:
    """The words of the examples in a command's help that begin with `shardsolve`."""
    lines = command(verb, "--help").out.split("\nExamples:\n")[1].splitlines()
    return [shlex.split(line)[1:] for line in lines if line.startswith("  shardsolve ")]


def test_version_names_version_and_blas(command):
    result = command("--version")
    assert result.code == 0
    assert re.match(r"shardsolve \d+\.\d+\.\d+\nBLAS: \S+ \((static|shared)\)\n$", result.out)


@pytest.mark.parametrize("verb", ["solve", "inverse", "logdet"])
def test_help_says_what_is_assumed_of_the_matrix(command, verb):
    assert "Hermitian positive definite (--assume pos, the default)" in command(verb, "--help").out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--help"], ["solve", "inverse", "logdet", "eigh", "doctor", "Exit codes", "Examples"]),
        (["solve", "--help"], ["numpy.save", "--devices", "--tile", "--timeout", "--force"]),
        (["inverse", "-h"], ["--output", "Example"]),
        (["logdet", "-h"], ["--quiet", "--json", "--trace"]),
        (["eigh", "-h"], ["PREFIX.vectors.npy", "--values-only", "LO:HI", "--range", "Example"]),
        (["svd", "-h"], ["PREFIX.u.npy", "PREFIX.vh.npy", "--values-only", "Example"]),
        (["solve", "-h"], ["save_npz", "--method", "--log", "--capture", "Sparse A"]),
        (["diagnose", "-h"], ["--rtol", "preconditioner", "--quiet the answer", "Example"]),
        (["compare-logs", "-h"], ["--log", "10 %", "Exit codes", "Example"]),
        (["replay", "-h"], ["--capture", "--method", "--devices", "bit by bit", "Exit codes"]),
        (["doctor", "-h"], ["--measure", "--json", "--backend", "Exit codes"]),
        (["tune", "-h"], ["--n", "--dtype", "--budget", "XDG_CONFIG_HOME", "Examples"]),
        (["bench", "-h"], ["cholesky", "--n", "--runs", "bench/cuda/run.py", "Exit codes"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_help_explains_with_examples(command, arguments, words):
    result = command(*arguments)
    assert (result.code, result.err) == (0, "")
    assert not [word for word in words if word not in result.out]
    assert max(map(len, result.out.splitlines())) <= 110


def test_every_command_is_in_the_help_of_all_and_in_the_error(command, verbs):
    text = command("--help").out
    error = command("no-such-command").err
    for verb in verbs:
        assert f"\n  shardsolve {verb}" in text.split("\nExamples:")[1]
    assert ", ".join(verbs[:-1]) + f" and {verbs[-1]}" in error


def test_every_command_has_a_help_of_its_own(command, verbs):
    seen = set()
    for verb in verbs:
        result = command(verb, "--help")
        assert (result.code, result.err) == (0, "")
        assert result.out.startswith(
            command("--help").out.split(f"  {verb} ")[1].split("\n")[0].strip()
        )
        assert f"Usage: shardsolve {verb} " in result.out
        examples = examples_of(command, verb)
        assert examples and all(words[0] == verb for words in examples)
        assert max(map(len, result.out.splitlines())) <= 110
        seen.add(result.out)
    assert len(seen) == len(verbs)


def test_every_command_refuses_an_unknown_option_in_its_own_name(command, system, verbs):
    before = contents(system)
    for verb in verbs:
        result = command(*examples_of(command, verb)[0], "--no-such-option", "--json")
        assert result.code == 2
        assert result.says("not expected", "--no-such-option")
        assert result.says(f"\nUsage: shardsolve {verb} ", f"'shardsolve {verb} --help'")
        assert result.json()["command"] == verb
    assert contents(system) == before


def test_without_a_command_json_names_none(command):
    assert command("--json").json()["command"] is None


@pytest.mark.parametrize(
    "arguments", [SOLVE, ("inverse", "A.npy", "-o", "X.npy"), ("logdet", "A.npy"), EIGH, SVD]
)
def test_jobs_name_themselves_where_a_file_is_missing(command, arguments):
    result = command(*arguments, "--json")
    assert result.code == 3
    assert result.json()["command"] == arguments[0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["no command", "solve, lstsq, inverse, logdet, eigh, svd, diagnose, "]),
        (["slove", "A.npy"], ["'slove'", "solve, lstsq, ", "doctor, tune and bench"]),
        (["solve"], ["A is required", "Usage: shardsolve solve A.npy b.npy -o x.npy"]),
        (["solve", "A.npy", "-o", "x.npy"], ["b is required", "Usage: shardsolve solve"]),
        (["solve", "A.npy", "b.npy"], ["--output is required", "-o x.npy"]),
        (["inverse", "A.npy"], ["--output is required", "-o X.npy"]),
        (["logdet", "A.npy", "b.npy"], ["not expected", "b.npy"]),
        ([*SOLVE, "--verbose"], ["not expected", "--verbose"]),
        ([*SOLVE, "--assum", "gen"], ["'--assum' was not expected", "did you mean '--assume'?"]),
        ([*SOLVE, "--assume-=gen"], ["'--assume-' was not expected", "'--assume'"]),
        ([*SOLVE, "--devices", "10000"], ["'10000'", "1 to 64"]),
        ([*SOLVE, "--devices", "0"], ["'0'", "1 to 64"]),
        ([*SOLVE, "--devices", "-1"], ["'-1'", "1 to 64"]),
        ([*SOLVE, "--devices", "two"], ["'two'", "1 to 64"]),
        ([*SOLVE, "--devices", "2.5"], ["'2.5'", "1 to 64"]),
        ([*SOLVE, "--devices", "99999999999999999999"], ["1 to 64"]),
        ([*SOLVE, "--devices", "1e1"], ["'1e1'", "1 to 64", "in digits"]),
        ([*SOLVE, "--devices", ""], ["--devices", "''", "number of CPU devices"]),
        ([*SOLVE, "--backend", "gpu"], ["gpu", "cpu", "cuda"]),
        ([*SOLVE, "--backend", ""], ["--backend", "''", "cpu or cuda"]),
        ([*SOLVE, "--mpi", ""], ["--mpi", "''", "auto or on or off"]),
        ([*SOLVE, "--backend", "cuda", "--devices", "0,one"], ["'0,one'", "0,1,2,3"]),
        ([*SOLVE, "--backend", "cuda", "--devices", "0,"], ["'0,'", "0,1,2,3"]),
        ([*SOLVE, "--backend", "cuda", "--devices", "0,0"], ["'0,0'", "GPU 0 is there twice"]),
        ([*SOLVE[:-1], ""], ["--output: ''", "name of a file"]),
        ([*SOLVE[:-1], "missing/"], ["--output: 'missing/'", "of a directory", "name of a file"]),
        ([*SOLVE[:-1], "../"], ["--output: '../'", "of a directory", "name of a file"]),
        ([*SOLVE[:-1], "-x.npy"], ["--output: '-x.npy'", "name of a file", "'./-x.npy'"]),
        ([*SOLVE[:-2], "-o-x.npy"], ["--output: '-x.npy'", "name of a file", "'./-x.npy'"]),
        ([*SOLVE[:-2], "--output=-x.npy"], ["--output: '-x.npy'", "'./-x.npy'"]),
        ([*SOLVE, "--trace", "missing/"], ["--trace: 'missing/'", "of a directory"]),
        ([*SOLVE, "--trace", ""], ["--trace", "name of a file"]),
        (["inverse", "A.npy", "-o", "x.npy", "--trace", ""], ["--trace", "name of a file"]),
        (["logdet", "A.npy", "--trace", ""], ["--trace", "name of a file"]),
        ([*SOLVE, "--tile", "0"], ["'0'", "at least 1", "leave it out"]),
        ([*SOLVE, "--tile", "-5"], ["'-5'", "at least 1", "leave it out"]),
        ([*SOLVE, "--tile", "1e3"], ["'1e3'", "at least 1", "in digits"]),
        ([*SOLVE, "--tile", "1099511627777"], ["'1099511627777'", "at most 1099511627776"]),
        ([*SOLVE, "--tile"], ["--tile"]),
        ([*SOLVE, "--timeout", "0"], ["'0'", "above 0"]),
        ([*SOLVE, "--timeout", "-3"], ["'-3'", "above 0"]),
        ([*SOLVE, "--timeout", "nan"], ["'nan'", "above 0"]),
        ([*SOLVE, "--timeout", "inf"], ["'inf'", "above 0"]),
        (
            [*SOLVE, "--assume", "sym"],
            ["--assume: 'sym' given; pos and gen are accepted", "default"],
        ),
        (["inverse", "A.npy", "-o", "X.npy", "--assume", ""], ["--assume: '' given; pos"]),
        (["logdet", "A.npy", "--assume", "her"], ["'her' given; pos is accepted", "default"]),
        (["eigh", "A.npy"], ["--output is required", "-o PREFIX"]),
        ([*EIGH[:-1], "out/"], ["--output: 'out/'", "of a directory", "name of a file"]),
        ([*EIGH, "--tile", "64"], ["not expected", "--tile"]),
        ([*EIGH, "--assume", "pos"], ["not expected", "--assume"]),
        ([*EIGH, "--indices", ""], ["--indices: '' given; LO:HI is accepted"]),
        ([*EIGH, "--indices", "5"], ["'5'", "LO:HI", "0:9 for the ten smallest"]),
        ([*EIGH, "--indices", "5:"], ["'5:'", "counted from 0"]),
        ([*EIGH, "--indices", "5:4"], ["'5:4'", "LO <= HI"]),
        ([*EIGH, "--indices", "-3:-1"], ["'-3:-1'", "counted from 0"]),
        ([*EIGH, "--indices", "0:1e1"], ["'0:1e1'", "counted from 0"]),
        ([*EIGH, "--indices", "0,9"], ["'0,9'", "LO:HI"]),
        ([*EIGH, "--range", ""], ["--range: '' given; LO,HI is accepted"]),
        ([*EIGH, "--range", "1"], ["'1'", "numbers with LO < HI"]),
        ([*EIGH, "--range", "1,2,3"], ["'1,2,3'", "numbers with LO < HI"]),
        ([*EIGH, "--range", "2,-1"], ["'2,-1'", "LO < HI"]),
        ([*EIGH, "--range", "1,1"], ["'1,1'", "above LO and up to HI"]),
        ([*EIGH, "--range", "0,nan"], ["'0,nan'", "numbers"]),
        ([*EIGH, "--range", "0:1"], ["'0:1'", "LO,HI"]),
        ([*EIGH, "--indices", "0:1", "--range", "0,1"], ["'0,1'", "'0:1'", "one of them"]),
        (["svd", "A.npy"], ["--output is required", "-o PREFIX"]),
        ([*SVD, "--tile", "64"], ["not expected", "--tile"]),
        (["tune", "--n", "64,x"], ["'x'", "1024,2048", "Usage: shardsolve tune"]),
        (["tune", "--n", "0"], ["'0'", "1024,2048"]),
        (["tune", "--dtype", "float16"], ["'float16'", "complex128"]),
        (["tune", "--tile-table", "missing/"], ["'missing/'", "of a directory"]),
        (["tune", "--budget", "0"], ["'0'", "above 0"]),
        (["bench"], ["JOB is required", "Usage: shardsolve bench JOB"]),
        (["bench", "qr"], ["qr", "cholesky"]),
        (["tune", "qr"], ["qr", "cholesky", "lu"]),
        (["bench", ""], ["JOB: ''", "cholesky or lu or eigh is accepted"]),
        (["bench", "eigh", "--tile", "64"], ["--tile: eigh goes by no tile", "leave it out"]),
        (["bench", "eigh", "--tile-table", "t"], ["--tile-table: eigh goes by no tile"]),
        (["bench", "cholesky", "--n", "64,128"], ["'64,128'", "takes one"]),
        (["bench", "cholesky", "--dtype", "float32,float64"], ["takes one"]),
        (["bench", "cholesky", "--runs", "0"], ["'0'", "1 to 1000"]),
        (["bench", "cholesky", "--runs", "1e1"], ["'1e1'", "1 to 1000", "in digits"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_misuse_is_explained_and_exits_2(command, system, arguments, words):
    before = contents(system)
    result = command(*arguments)
    assert (result.code, result.out) == (2, "")
    assert result.says("shardsolve: error:", "--help", *words)
    told = command(*arguments, "--json")
    assert (told.code, told.json()["status"]) == (2, "invalid_argument")
    assert told.says(told.json()["message"])
    assert contents(system) == before


@pytest.mark.parametrize(
    "arguments",
    [
        SOLVE,
        ("inverse", "A.npy", "-o", "X.npy"),
        ("logdet", "A.npy"),
        EIGH,
        SVD,
        ("doctor",),
        ("tune",),
        ("bench", "cholesky"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_option_is_not_taken_for_the_value_of_another(command, system, arguments):
    before = contents(system)
    help_text = command(*arguments, "--help").out
    options = re.findall(r"^  (?:-\w,)?(--[\w-]+) [A-Z]", help_text, re.M)
    assert "--devices" in options
    for option in options:
        rest = arguments[:-2] if option == "--output" else arguments
        for given in ("--json", "-q"):
            result = command(*rest, option, given, "--json")
            assert result.code == 2, result.out
            assert result.says(f"{option}: '{given}' given", "accepted")
            assert result.json()["message"] in result.err
        assert contents(system) == before


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="there may be a GPU")
def test_cuda_without_a_gpu_is_explained_and_exits_3(command, system):
    before = contents(system)
    result = command(*SOLVE, "--backend", "cuda")
    assert (result.code, result.out) == (3, "")
    # a build without CUDA lacks the library, one with it finds no driver
    assert result.says("shardsolve: error:") and ("driver" in result.err or "CUDA" in result.err)
    assert contents(system) == before
