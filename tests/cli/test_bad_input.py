"""Inputs that are refused: exit code, words of the message, and nothing written."""

import contextlib
import itertools
import os
import pickle
import struct
import threading

import numpy as np
import pytest
from command import contents
from problems import ORDERS, hermitian, save, save_sparse, sides

N = 30


def changed(array, place, value):
    array = array.copy(order="K")
    array[place] = value
    return array


def run_all_jobs(command, system, code, *words, but=()):
    """A bad matrix is refused alike by every job, and nothing is written."""
    before = contents(system)
    jobs = [
        ("solve", "A.npy", "b.npy", "-o", "x.npy"),
        ("inverse", "A.npy", "-o", "x.npy"),
        ("logdet", "A.npy"),
        ("eigh", "A.npy", "-o", "H"),
    ]
    for job in jobs:
        if job[0] in but:
            continue
        result = command(*job, "--trace", "t.json", "--devices", 3)
        assert (result.code, result.out) == (code, ""), result.err
        assert result.says("shardsolve: error: ", "'A.npy'", *words)
    assert contents(system) == before


def structured():
    return np.zeros(3, dtype=[("x", "f8"), ("y", "f8")])


REFUSED_ARRAYS = {
    "not_square": (np.ones((3, 4)), ["(3, 4)", "(n, n)", "square"]),
    "zero_dimensions": (np.array(3.0), ["shape ()", "(n, n)"]),
    "one_dimension": (np.ones(5), ["shape (5,)", "(n, n)", "right-hand side"]),
    "three_dimensions": (np.ones((2, 3, 3)), ["(2, 3, 3)", "(n, n)", "A[0]"]),
    "integers": (np.eye(3, dtype=np.int64), ["integers", "float64", 'astype("<f8")']),
    "booleans": (np.eye(3, dtype=bool), ["booleans", 'astype("<f8")']),
    "half": (np.eye(3, dtype=np.float16), ["half", "float32"]),
    "extended": (np.eye(3, dtype=np.longdouble), ["extended", 'astype("<f8")']),
    "big_endian": (np.eye(3, dtype=">f8"), ["big-endian", 'astype("<f8")']),
    "structured": (structured(), ["fields", "float64"]),
    "text": (np.array([["a"]]), ["text", "float64"]),
}


@pytest.mark.parametrize("case", REFUSED_ARRAYS)
def test_matrix_of_wrong_kind_exits_2(command, system, case):
    array, words = REFUSED_ARRAYS[case]
    np.save(system / "A.npy", array)
    run_all_jobs(command, system, 2, *words)


def test_matrix_of_objects_is_never_unpickled(command, system):
    class Trap:
        def __reduce__(self):
            return (open, (str(system / "unpickled"), "w"))

    np.save(system / "A.npy", np.array([[Trap()]], dtype=object), allow_pickle=True)
    run_all_jobs(command, system, 2, "Python objects", "never unpickled")


def truncated(path):
    os.truncate(path, path.stat().st_size - 8)


def longer(path):
    path.write_bytes(path.read_bytes() + b"more")


def cut_in_header(path):
    os.truncate(path, 20)


def lying_header(path):
    path.write_bytes(path.read_bytes().replace(b"(30, 30)", b"(31, 31)"))


def impossible_header(path):
    path.write_bytes(path.read_bytes().replace(b"(30, 30), ", b"(9999999999999, 9999999999999), "))


def version_9(path):
    data = bytearray(path.read_bytes())
    data[6] = 9
    path.write_bytes(data)


FOREIGN_FILES = {
    "truncated": (truncated, ["truncated", "copy or write it again"]),
    "longer": (longer, ["follows the array"]),
    "cut_in_header": (cut_in_header, ["header"]),
    "lying_header": (lying_header, ["(31, 31)", "truncated"]),
    "impossible_header": (impossible_header, []),
    "version_9": (version_9, ["version 9.0", "numpy.save"]),
    "empty": (lambda path: path.write_bytes(b""), ["empty file", "numpy.save"]),
    "text": (lambda path: path.write_text("1 2\n3 4\n"), ["text file", "numpy.loadtxt"]),
    "npz": (lambda path: np.savez(path.open("wb"), a=np.eye(3)), [".npz", "numpy.save"]),
    "pickle": (lambda path: path.write_bytes(pickle.dumps([1.0])), ["pickle", "never opened"]),
    "binary": (lambda path: path.write_bytes(struct.pack("<9d", *range(9))), ["not an .npy file"]),
}


@pytest.mark.parametrize("case", FOREIGN_FILES)
def test_matrix_file_damaged_or_foreign_exits_2(command, system, case):
    damage, words = FOREIGN_FILES[case]
    save(system / "A.npy", hermitian(N))
    damage(system / "A.npy")
    run_all_jobs(command, system, 2, *words)


BAD_SIDES = {
    "too_few_rows": (sides(29, 2), ["(29, 2)", "(30,) or (30, k)", "as many rows"]),
    "too_many_rows": (sides(31, None), ["(31,)", "(30,) or (30, k)"]),
    "transposed": (sides(2, 30), ["(2, 30)", "b.T"]),
    "zero_dimensions": (np.array(1.0), ["shape ()", "(30,) or (30, k)"]),
    "three_dimensions": (np.ones((30, 2, 2)), ["(30, 2, 2)"]),
    "float32": (sides(30, 2, "float32"), ["float32", "float64", "b.astype(numpy.float64)"]),
    "complex": (sides(30, 2, "complex128"), ["complex128", "A.astype(numpy.complex128)"]),
    "complex64": (sides(30, 2, "complex64"), ["A.astype(numpy.complex128) and b.astype"]),
    "integers": (np.ones(30, dtype=np.int32), ["integers", "float64"]),
}


@pytest.mark.parametrize("case", BAD_SIDES)
def test_right_hand_sides_that_do_not_fit_exit_2(command, system, case):
    array, words = BAD_SIDES[case]
    save(system / "A.npy", hermitian(N))
    np.save(system / "b.npy", array)
    before = contents(system)
    result = command("solve", "A.npy", "b.npy", "-o", "x.npy")
    assert (result.code, result.out) == (2, "")
    assert result.says("'b.npy'", *words)
    assert contents(system) == before


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [(0, 0), (3, 17), (29, 4)])
def test_matrix_not_finite_exits_1_and_names_entry(command, system, place, value, order):
    save(system / "b.npy", sides(N, 2))
    save(system / "A.npy", changed(hermitian(N, order=order), place, value))
    row, column = place
    run_all_jobs(command, system, 1, "NaN or an infinity", f"row {row}, column {column}")


@pytest.mark.parametrize("order", ORDERS)
def test_complex_matrix_with_infinite_imaginary_part_names_entry(command, system, order):
    save(system / "b.npy", sides(N, 2, "complex64"))
    bad = complex(1.0, np.inf)
    save(system / "A.npy", changed(hermitian(N, "complex64", order), (2, 9), bad))
    run_all_jobs(command, system, 1, "NaN or an infinity", "row 2, column 9")


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("place", [(0, 1), (29, 0)])
def test_right_hand_side_not_finite_exits_1_and_names_entry(command, system, place, order):
    save(system / "A.npy", hermitian(N))
    save(system / "b.npy", changed(sides(N, 2, order=order), place, np.nan))
    before = contents(system)
    result = command("solve", "A.npy", "b.npy", "-o", "x.npy", "--devices", 4)
    assert (result.code, result.out) == (1, "")
    assert result.says("'b.npy'", "right-hand side", f"row {place[0]}, column {place[1]}")
    assert contents(system) == before


@pytest.mark.parametrize("order", ORDERS)
def test_matrix_not_hermitian_in_one_entry_exits_1_and_names_it(command, system, order):
    save(system / "b.npy", sides(N, 2))
    a = hermitian(N, order=order)
    save(system / "A.npy", changed(a, (21, 4), a[21, 4] + 1e-6))
    run_all_jobs(command, system, 1, "not Hermitian", "T + T^H - diag(T)", "(A + A^H) / 2")
    assert {"(21, 4)", "(4, 21)"} & set(names_of_entries(command("logdet", "A.npy").err))


def names_of_entries(message):
    return ["(" + part.split(")")[0] + ")" for part in message.split("(")[1:]]


def test_complex_matrix_symmetric_but_not_hermitian_exits_1(command, system):
    a = hermitian(N, "complex128")
    save(system / "b.npy", sides(N, 2, "complex128"))
    save(system / "A.npy", np.triu(a) + np.triu(a, 1).T)
    run_all_jobs(command, system, 1, "not Hermitian")


def test_complex_diagonal_not_real_exits_1_and_names_entry(command, system):
    a = hermitian(N, "complex128")
    save(system / "b.npy", sides(N, 2, "complex128"))
    save(system / "A.npy", changed(a, (8, 8), a[8, 8] + 1e-3j))
    run_all_jobs(command, system, 1, "not Hermitian", "(8, 8) of the diagonal is not real")


@pytest.mark.parametrize("place", [0, 13, 29])
def test_matrix_not_positive_definite_exits_1_and_names_row(command, system, place):
    save(system / "b.npy", sides(N, 2))
    save(system / "A.npy", changed(np.eye(N), (place, place), -1.0))
    words = ("not positive definite to working precision", f"row {place} ", "regularise")
    run_all_jobs(command, system, 1, *words, but=["eigh"])


def test_result_out_of_range_exits_1(command, system):
    save(system / "A.npy", 1e-200 * np.eye(N))
    save(system / "b.npy", 1e200 * np.ones(N))
    before = contents(system)
    result = command("solve", "A.npy", "b.npy", "-o", "x.npy")
    assert result.code == 1
    assert result.says("does not fit the range", "scale the matrix")
    assert contents(system) == before


def test_inverse_out_of_range_exits_1(command, system):
    save(system / "A.npy", (1e-39 * np.eye(N)).astype("float32"))
    before = contents(system)
    result = command("inverse", "A.npy", "-o", "X.npy")
    assert result.code == 1
    assert result.says("does not fit the range")
    assert contents(system) == before


@pytest.mark.parametrize("name", ["missing.npy", ".", "missing/A.npy", ""])
def test_matrix_that_cannot_be_opened_exits_3(command, system, name):
    before = contents(system)
    result = command("inverse", name, "-o", "X.npy")
    assert result.code == 3
    assert result.says(f"cannot read '{name}'")
    assert contents(system) == before


def test_pipe_as_input_is_refused_without_waiting(command, system):
    os.mkfifo(system / "pipe.npy")
    result = command("logdet", "pipe.npy")
    assert result.code == 3
    assert result.says("not a regular file")


@contextlib.contextmanager
def written_again_and_again(path):
    """The file's time of the last write moves on all the time."""
    done = threading.Event()

    def write():
        for time in itertools.count(1):
            if done.is_set():
                return
            os.utime(path, ns=(time, time))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        done.set()
        writer.join()


@pytest.mark.parametrize("name", ["A.npy", "b.npy"])
def test_input_written_while_it_is_read_exits_3(command, system, name):
    save(system / "A.npy", np.eye(1000))
    save(system / "b.npy", np.ones((1000, 500)))
    for _ in range(20):  # on a busy machine the writer may miss its turn
        before = contents(system)
        with written_again_and_again(system / name):
            result = command("solve", "A.npy", "b.npy", "-o", "x.npy", "--no-rcond", "--force")
        if result.code != 0:
            break
    assert (result.code, result.out) == (3, "")
    assert result.says(f"'{name}' changed while it was read", "run again when nothing writes")
    assert contents(system) == before


@pytest.mark.parametrize("job", ["solve", "inverse", "logdet", "eigh"])
def test_job_too_large_for_memory_exits_3_with_figures(command, system, job):
    n = 1_000_000  # 8 TB
    save_sparse(system / "big.npy", n)
    np.save(system / "b.npy", np.zeros(n))
    output = ["-o", "x.npy"]
    arguments = {"solve": ["b.npy", *output], "inverse": output, "logdet": [], "eigh": output}[job]
    result = command(job, "big.npy", *arguments, "--devices", 4)
    assert result.code == 3
    assert result.says("'big.npy'", "GB on each of 4 devices", "GB are free")
    assert sorted(contents_without_big(system)) == ["A.npy", "b.npy"]


def contents_without_big(directory):
    (directory / "big.npy").unlink()
    return contents(directory)
