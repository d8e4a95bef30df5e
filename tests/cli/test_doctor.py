"""`shardsolve doctor`: the real machine, in faked environments."""

import json
import os
import re
import resource
import sys
from pathlib import Path

import pytest
from command import Command, Result
from mpi import OPEN_MPI, Processes, missing

SOURCE = Path(__file__).parents[2]
# What the machine that runs the tests has set must not change what is found.
JUDGED = (
    "XLA_FLAGS",
    "XLA_PYTHON_CLIENT_MEM_FRACTION",
    "XLA_PYTHON_CLIENT_PREALLOCATE",
    "XLA_PYTHON_CLIENT_ALLOCATOR",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_CORETYPE",
    "NPROC",
    "JAX_NUM_CPU_DEVICES",
    "JAX_PLATFORMS",
    "JAX_PLATFORM_NAME",
    "JAX_DEBUG_NANS",
    "PYTHONPATH",
)
FLAGS_OF_THE_FAKE = ("xla_dump_to", "xla_force_host_platform_device_count", "xla_only_here")


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    for variable in JUDGED:
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def python(tmp_path) -> dict[str, str]:
    """An environment whose python3 has the packages of `fake_jax` and no others."""
    programs = tmp_path / "programs"
    programs.mkdir()
    script = programs / "python3"
    # -S: without the site-packages of the Python that runs this
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    script.chmod(0o755)
    return {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(tmp_path / "packages"),
    }


def fake_jax(directory: Path, **versions: str) -> None:
    """Packages that are nothing but metadata, and a jaxlib with names of flags in its library."""
    packages = directory / "packages"
    for name, version in versions.items():
        info = packages / f"{name}-{version}.dist-info"
        info.mkdir(parents=True)
        info.joinpath("METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
    jaxlib = packages / "jaxlib"
    jaxlib.mkdir(parents=True)
    names = b"".join(flag.encode() + b"\0" for flag in FLAGS_OF_THE_FAKE)
    jaxlib.joinpath("libjax_common.so").write_bytes(b"\x7fELF\0" + names + b"xla_no_flag:\0")
    jaxlib.joinpath("small.so").write_bytes(b"\0xla_small\0")


def codes(result: Result) -> list[str]:
    return [finding["code"] for finding in result.json()["findings"]]


def errors(result: Result) -> list[str]:
    return [one["code"] for one in result.json()["findings"] if one["severity"] == "error"]


# ---- what it shows


def test_text_shows_what_there_is(command):
    result = command("doctor")
    assert result.code in (0, 3)
    assert result.err == ""
    for label in ("CPU", "memory", "BLAS", "CUDA", "MPI", "NCCL", "JAX", "command", "from JAX"):
        assert re.search(rf"^  {label}\s", result.out, re.MULTILINE), label
    assert "What computes" in result.out
    assert max(map(len, result.out.splitlines())) <= 100 or "/" in result.out  # long paths


def test_json_is_one_document_with_the_facts_of_this_machine(command):
    facts = command("doctor", "--json", "--devices", 1).json()
    assert facts["command"] == "doctor"
    assert facts["host"]["affinity_cores"] == len(os.sched_getaffinity(0))
    assert 1 <= facts["host"]["usable_cores"] <= facts["host"]["cores"]
    assert 0 < facts["host"]["available_memory_bytes"] <= facts["host"]["memory_bytes"]
    version = command("--version").out
    assert facts["version"] in version
    assert facts["blas"]["file"] in version
    assert facts["measured"] is None
    assert facts["backend"]["command"] == "cpu"
    assert facts["backend"]["devices"] == "1 CPU device"


def test_exit_code_tells_whether_there_are_errors(command, python, tmp_path):
    fake_jax(tmp_path, jax="0.10.2", jaxlib="0.10.2")
    well = command("doctor", "--json", "--devices", 1, env=python)
    assert (well.code, errors(well), well.json()["status"]) == (0, [], "ok")
    wrong = command(
        "doctor", "--json", "--devices", 1, env={**python, "XLA_FLAGS": "--xla_dmp_to=x"}
    )
    assert (wrong.code, errors(wrong)) == (3, ["xla-unknown-flag"])
    assert wrong.json()["status"] == "errors"
    assert (
        command("doctor", "--devices", 1, env={**python, "XLA_FLAGS": "--xla_dmp_to=x"}).code == 3
    )


def test_report_that_cannot_be_written_exits_3(command):
    result = command("doctor", prefix=["sh", "-c", '"$@" > /dev/full', "sh"])
    assert result.code == 3
    assert result.says("could not be written")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["doctor", "A.npy"], ["not expected", "A.npy"]),
        (["doctor", "--devices", "0"], ["'0'", "1 to 64"]),
        (["doctor", "--tile", "3"], ["not expected", "--tile"]),
        (
            ["doctor", "--backend", "cuda", "--devices", "1,0,1"],
            ["'1,0,1'", "GPU 1 is there twice"],
        ),
    ],
    ids=lambda value: " ".join(value),
)
def test_misuse_exits_2(command, arguments, words):
    result = command(*arguments)
    assert (result.code, result.out) == (2, "")
    assert result.says("Usage: shardsolve doctor", *words)


def test_measure_gives_rates_of_every_device(command):
    result = command("doctor", "--measure", "--json", "--devices", 2)
    rates = result.json()["measured"]
    assert len(rates["devices"]) == 2
    for device in rates["devices"]:
        assert device["copy_gbytes_per_s"] > 0
        assert device["gemm_gflops"] > 0
    assert rates["broadcast_gbytes_per_s"] > 0
    alone = command("doctor", "--measure", "--devices", 1)
    assert "Measured now" in alone.out
    assert "broadcast" not in alone.out


# ---- Python and JAX


def test_table_that_is_missing_is_not_to_be_moved_away(command, tmp_path):
    job = ["doctor", "--tile-table", "missing.json", "--devices", 1]
    text = " ".join(command(*job).out.split())
    assert "'missing.json' cannot be read" in text
    assert "-> name one that exists, or say --tile-table none" in text
    assert "move it away" not in text
    (tmp_path / "missing.json").write_text("nonsense")
    assert "-> move it away, or say --tile-table none" in " ".join(command(*job).out.split())


def test_versions_come_from_metadata_and_nothing_is_imported(command, python, tmp_path):
    fake_jax(tmp_path, jax="0.11.0", jaxlib="0.11.0", jax_cuda13_plugin="0.11.0")
    for name in ("jax", "jaxlib"):
        package = tmp_path / "packages" / name
        package.mkdir(exist_ok=True)
        package.joinpath("__init__.py").write_text("raise SystemExit(1)")
    found = command("doctor", "--json", "--devices", 1, env=python).json()["jax"]
    assert (found["jax"], found["jaxlib"]) == ("0.11.0", "0.11.0")
    assert found["packages"]["jax-cuda13-plugin"] == "0.11.0"
    assert found["failure"] is None


def test_files_of_the_working_directory_are_not_run(command, python, tmp_path):
    fake_jax(tmp_path, jax="0.10.2", jaxlib="0.10.2")
    (tmp_path / "json.py").write_text("raise SystemExit(1)")
    assert command("doctor", "--json", env=python).json()["jax"]["jax"] == "0.10.2"


def test_supported_range_is_that_of_the_package(command):
    found = command("doctor", "--json").json()["jax"]
    requirement = f'"jax>={found["oldest_supported"]},<{found["before"]}"'
    assert requirement in (SOURCE / "pyproject.toml").read_text()


def test_jax_out_of_range_is_an_error(command, python, tmp_path):
    fake_jax(tmp_path, jax="0.4.30", jaxlib="0.4.30")
    assert errors(command("doctor", "--json", env=python)) == ["jax-version", "jax-version"]


def test_python_that_fails_is_told(command, tmp_path):
    (tmp_path / "python3").write_text("#!/bin/sh\nexit 7\n")
    (tmp_path / "python3").chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    found = command("doctor", "--json", env=environment).json()["jax"]
    assert found["failure"] == "it ended with 7"
    assert found["jax"] is None


def test_no_python_is_told(command, tmp_path):
    result = command("doctor", "--json", env={"PATH": str(tmp_path)})
    assert result.json()["jax"]["python"] is None
    assert "no python3 on PATH" in result.json()["backend"]["jax_why"]


def test_flags_are_looked_up_in_jaxlib_itself(command, python, tmp_path):
    fake_jax(tmp_path, jax="0.10.2", jaxlib="0.10.2")

    def found(flags: str) -> list[str]:
        return codes(
            command("doctor", "--json", "--devices", 1, env={**python, "XLA_FLAGS": flags})
        )

    unknown = "xla-unknown-flag"
    assert unknown not in found("--xla_only_here=1 --xla_dump_to=/tmp")
    assert unknown in found("--xla_cpu_use_thunk_runtime=true")  # of other versions
    assert unknown in found("--xla_only")  # the beginning of a name
    assert unknown in found("--xla_no_flag=1")  # not a whole string
    assert unknown in found("--xla_small=1")  # in another library


def test_misspelt_flag_is_put_right_in_text(command, python, tmp_path):
    fake_jax(tmp_path, jax="0.10.2", jaxlib="0.10.2")
    flags = "--xla_force_host_platfrom_device_count=2"
    result = command("doctor", env={**python, "XLA_FLAGS": flags})
    assert result.code == 3
    assert "--xla_force_host_platform_device_count is probably meant" in result.out


def test_file_of_flags_is_read(command, python, tmp_path):
    fake_jax(tmp_path, jax="0.10.2", jaxlib="0.10.2")
    (tmp_path / "flags").write_text("--xla_dump_too=/tmp\n")
    result = command("doctor", "--json", env={**python, "XLA_FLAGS": "flags"})
    assert errors(result) == ["xla-unknown-flag"]
    result = command("doctor", "--json", env={**python, "XLA_FLAGS": "missing"})
    assert errors(result) == ["xla-not-a-flag"]


def test_flags_that_a_program_has_replaced_are_found(command, python, tmp_path):
    fake_jax(tmp_path, jax="0.10.2", jaxlib="0.10.2")
    shell = {**python, "XLA_FLAGS": "--xla_only_here=1"}

    def found(setting: str) -> list[str]:
        program = f"import os, subprocess, sys; {setting}; sys.exit(subprocess.call(sys.argv[1:]))"
        result = command(
            "doctor", "--json", "--devices", 1, env=shell, prefix=(sys.executable, "-c", program)
        )
        return codes(result)

    replaced = "xla-flags-replaced"
    assert replaced in found("os.environ['XLA_FLAGS'] = '--xla_dump_to=/tmp'")
    assert replaced in found("del os.environ['XLA_FLAGS']")
    assert replaced not in found("os.environ['XLA_FLAGS'] += ' --xla_dump_to=/tmp'")
    assert replaced not in found("pass")


# ---- the machine


def test_affinity_is_respected(command):
    core = min(os.sched_getaffinity(0))
    result = command(
        "doctor", "--json", "--devices", 2, before=lambda: os.sched_setaffinity(0, {core})
    )
    assert result.json()["host"]["usable_cores"] == 1
    assert "devices-over-cores" in codes(result)


def test_threads_are_counted_against_cores(command):
    many = str(os.cpu_count() + 1)
    assert "threads-over-cores" in codes(command("doctor", "--json", env={"OMP_NUM_THREADS": many}))
    assert "threads-over-cores" not in codes(
        command("doctor", "--json", env={"OMP_NUM_THREADS": "1"})
    )


@pytest.mark.skipif(
    "SHARDSOLVE_SANITIZER" in os.environ, reason="a sanitizer takes terabytes of addresses"
)
def test_rates_that_cannot_be_measured_are_an_error(command, python):
    addresses = 3 << 29
    result = command(
        *("doctor", "--json", "--measure", "--devices", 16),
        env=python,
        before=lambda: resource.setrlimit(resource.RLIMIT_AS, (addresses, addresses)),
    )
    assert result.code == 3
    assert "measure-failed" in errors(result)
    assert result.json()["measured"] is None


def test_default_and_chosen_devices_are_told_apart(command):
    def why(*arguments: str | int) -> str:
        return command("doctor", "--json", *arguments).json()["backend"]["why"]

    assert why().startswith("the default")
    assert why("--devices", 64).startswith("as --devices asks")


def test_mpi_without_a_launcher_is_told(command):
    if reason := missing(command.binary):
        pytest.skip(reason)
    result = command("doctor", "--json", "--mpi", "on")
    assert result.json()["backend"]["devices"] == "1 process, a CPU device"
    assert "mpi-alone" in codes(result)


def test_example_of_the_readme_is_no_misconfiguration(command, python, tmp_path):
    fake_jax(tmp_path, jax="0.10.2", jaxlib="0.10.2")
    readme = (SOURCE / "README.md").read_text()
    flags = re.search(r'os\.environ\["XLA_FLAGS"\] = "(.*)"', readme)[1]
    result = command(
        "doctor",
        "--json",
        *("--devices", 1),
        env={**python, "XLA_FLAGS": flags},
        before=lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}),
    )
    about_jax = {
        one["code"]: one["severity"]
        for one in result.json()["findings"]
        if one["code"].startswith(("xla-", "jax", "nproc-"))
    }
    assert about_jax == {"nproc-below-devices": "note"}


def test_kernels_of_an_old_cpu_are_found(command):
    facts = command("doctor", "--json").json()
    if facts["blas"]["linkage"] != "static" or "avx2" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("the BLAS of this build, or this CPU, has no older kernels to choose")
    old = command("doctor", "--json", env={"OPENBLAS_CORETYPE": "NEHALEM"})
    assert old.json()["blas"]["kernels"].lower() == "nehalem"
    assert "blas-old-kernels" in codes(old)


def test_cuda_job_where_there_is_no_gpu_is_an_error(command):
    if Path("/proc/driver/nvidia/gpus").is_dir():
        pytest.skip("there may be a GPU")
    result = command("doctor", "--json", "--measure", "--backend", "cuda")
    assert result.code == 3
    assert errors(result) == ["cuda-not-usable"]
    assert result.json()["measured"] is None


# ---- several processes


@pytest.fixture
def mpirun(command: Command) -> Processes:
    if reason := missing(command.binary):
        pytest.skip(reason)
    return Processes(command)


def test_rank_0_speaks(mpirun):
    result = mpirun(3, "doctor", "--json")
    facts = json.loads(result.out)
    assert (facts["mpi"]["processes"], facts["mpi"]["rank"]) == (3, 0)
    assert facts["mpi"]["launcher"] == "Open MPI"
    assert "3 processes" in facts["backend"]["devices"]
    assert not {"mpi-mismatch", "mpi-not-launched"} & set(codes(result))


def test_rank_0_speaks_also_where_each_works_on_its_own(mpirun):
    result = mpirun(2, "doctor", "--mpi", "off", "--json")
    facts = json.loads(result.out)
    assert facts["mpi"]["processes"] == 1


def test_measure_under_mpirun_is_refused_once(mpirun):
    result = mpirun(2, "doctor", "--measure")
    assert (result.code, result.out) == (2, "")
    assert result.says("--measure", "leave out mpirun")
    assert result.err.count("shardsolve: error") == 1


def test_mpi_library_is_named_without_starting_mpi(command):
    if reason := missing(command.binary):
        pytest.skip(reason)
    facts = command("doctor", "--json").json()["mpi"]
    assert facts["library"].endswith("libshardsolve_mpi.so")
    assert "libmpi" in facts["mpi"]
    assert facts["version"]


def test_libraries_are_found_by_a_program_that_was_found_on_path(command):
    if reason := missing(command.binary):
        pytest.skip(reason)
    as_on_path = ("bash", "-c", 'exec -a shardsolve "$0" "$@"')
    found = command("doctor", "--json", prefix=as_on_path).json()["mpi"]["library"]
    assert found == command("doctor", "--json").json()["mpi"]["library"]


def test_launcher_of_another_mpi_is_an_error(command):
    if reason := missing(command.binary):
        pytest.skip(reason)
    if "Open MPI" not in command("doctor", "--json").json()["mpi"]["version"]:
        pytest.skip("the MPI of this build is not Open MPI")
    hydra = {**OPEN_MPI, "PMI_SIZE": "2", "PMI_RANK": "0"}
    assert "mpi-mismatch" in errors(command("doctor", "--json", env=hydra))
    assert command("doctor", env={**hydra, "PMI_RANK": "1"}).out == ""


def test_size_of_an_mpirun_that_was_not_there_is_an_error(command):
    if reason := missing(command.binary):
        pytest.skip(reason)
    if "Open MPI" not in command("doctor", "--json").json()["mpi"]["version"]:
        pytest.skip("the MPI of this build is not Open MPI")
    faked = {"OMPI_COMM_WORLD_SIZE": "4"}
    assert "mpi-not-launched" in errors(command("doctor", "--json", env=faked))
    alone = command("doctor", "--json", "--mpi", "off", env=faked)
    assert "mpi-not-launched" not in codes(alone)


def test_srun_without_pmi_is_an_error(command):
    if reason := missing(command.binary):
        pytest.skip(reason)
    srun = {"SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "0"}
    assert "srun-without-pmi" in errors(command("doctor", "--json", env=srun))
