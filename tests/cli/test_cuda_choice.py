"""Which library for GPUs is taken, by planted drivers and libraries."""

import shutil
from pathlib import Path

import pytest
from command import Command

NAMES = {12: "libshardsolve_cuda12.so", 13: "libshardsolve_cuda.so"}


@pytest.fixture
def planted(command: Command, tmp_path: Path):
    """Runs doctor: a driver ("12040 70": CUDA 12.4, a V100), our libraries, and those damaged.

    Each library needs the cuBLAS of its CUDA; those of `cublas` are there (default: both).
    """
    from_build = command.binary.parent / "tests" / "driver"
    if not (from_build / "libcuda.so.1").is_file():
        pytest.skip("the tests of this build were not built")

    def doctor(
        driver: str,
        libraries: tuple[int, ...],
        damaged: tuple[int, ...] = (),
        cublas: tuple[int, ...] = (12, 13),
    ) -> dict:
        program = tmp_path / "planted" / "shardsolve"
        shutil.rmtree(program.parent, ignore_errors=True)
        program.parent.mkdir()
        shutil.copy(command.binary, program)
        for number in libraries:
            source = from_build / f"libshardsolve_test_cuda{number}.so"
            shutil.copy(source, program.parent / NAMES[number])
        for number in damaged:
            (program.parent / NAMES[number]).write_bytes(b"")
        folders = [from_build, *(from_build / f"cublas{number}" for number in cublas)]
        environment = {
            "SHARDSOLVE_TEST_DRIVER": driver,
            "LD_LIBRARY_PATH": ":".join(map(str, folders)),
        }
        planted = Command(program, tmp_path)
        return planted("doctor", "--json", env=environment).json()["cuda"]

    return doctor


@pytest.mark.parametrize(
    ("driver", "libraries", "taken", "why"),
    [
        ("13000 90", (12, 13), 13, "up to 13.0"),
        ("12040 80", (12, 13), 12, "up to 12.4, too old for the library for CUDA 13"),
        ("13000 70", (12, 13), 12, "compute capability 7.0, the library for CUDA 13 needs 8.0"),
        ("13000 90", (12,), 12, "only one in this build"),
    ],
)
def test_the_library_that_fits_is_taken(planted, driver, libraries, taken, why):
    cuda = planted(driver, libraries)
    assert cuda["failure"] is None
    assert Path(cuda["library"]).name == NAMES[taken]
    assert why in cuda["reason"]


@pytest.mark.parametrize(
    ("driver", "libraries", "words"),
    [
        ("11080 80", (12, 13), ("up to 11.8", "525.60", "580.65")),
        ("12080 61", (12, 13), ("compute capability 6.1", "7.0 (V100)", "8.0 (A100)")),
        ("12040 80", (13,), ("up to 12.4", "libshardsolve_cuda12.so")),
        ("13000 100", (12,), ("10.0 are too new", "libshardsolve_cuda.so")),
    ],
)
def test_none_fits_and_it_says_why(planted, driver, libraries, words):
    cuda = planted(driver, libraries)
    assert cuda["library"] is None
    for word in words:
        assert word in cuda["failure"]


def test_library_that_cannot_be_loaded_leaves_the_other_one(planted):
    cuda = planted("13000 90", (12,), damaged=(13,))
    assert cuda["failure"] is None
    assert Path(cuda["library"]).name == NAMES[12]
    assert "for CUDA 13 could not be loaded" in cuda["reason"]


def test_no_library_can_be_loaded(planted):
    cuda = planted("12040 80", (), damaged=(12, 13))
    assert "could not be loaded" in cuda["failure"]
    assert "nvidia-cublas-cu12" in cuda["failure"]


@pytest.mark.parametrize(
    ("library", "cublas", "package"),
    [
        (13, (), "nvidia-cublas"),
        (13, (12,), "nvidia-cublas"),
        (12, (), "nvidia-cublas-cu12"),
        (12, (13,), "nvidia-cublas-cu12"),
    ],
)
def test_without_the_cublas_of_its_cuda_it_says_what_to_install(planted, library, cublas, package):
    failure = planted("13000 90", (library,), cublas=cublas)["failure"]
    assert "could not be loaded" in failure
    assert f"needs cuBLAS of CUDA {library}: pip install {package}," in failure


def test_the_one_whose_cublas_is_there_is_taken(planted):
    cuda = planted("13000 90", (12, 13), cublas=(12,))
    assert cuda["failure"] is None
    assert Path(cuda["library"]).name == NAMES[12]
    assert "for CUDA 13 could not be loaded" in cuda["reason"]
