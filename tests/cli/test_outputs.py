"""Output files: whose names are refused, and that they are there complete or not at all."""

import contextlib
import os
import resource
import shutil
import stat
import subprocess

import numpy as np
import pytest
from command import contents
from problems import hermitian, save, sides, solves

SOLVE = ("solve", "A.npy", "b.npy", "-o", "x.npy")


@pytest.mark.parametrize("option", ["-o", "--trace"])
def test_existing_output_is_kept_without_force(command, system, option):
    (system / "taken").write_text("precious")
    before = contents(system)
    arguments = {"-o": ["-o", "taken"], "--trace": ["-o", "x.npy", "--trace", "taken"]}[option]
    result = command("solve", "A.npy", "b.npy", *arguments)
    assert (result.code, result.out) == (2, "")
    assert result.says("'taken' exists already", "allow it to be replaced with --force")
    assert "overwrite" not in result.err
    assert contents(system) == before


def test_existing_output_is_replaced_with_force(command, system):
    (system / "x.npy").write_text("old")
    (system / "t.json").write_text("old")
    result = command(*SOLVE, "--trace", "t.json", "--force")
    assert result.code == 0, result.err
    a, x, b = (np.load(system / name) for name in ("A.npy", "x.npy", "b.npy"))
    assert solves(a, x, b)
    assert (system / "t.json").read_text().startswith("{")
    assert sorted(contents(system)) == ["A.npy", "b.npy", "t.json", "x.npy"]


def test_existing_output_is_kept_with_force_if_there_is_no_answer(command, system):
    save(system / "A.npy", -np.eye(50))
    (system / "x.npy").write_text("old")
    before = contents(system)
    assert command(*SOLVE, "--force").code == 1
    assert contents(system) == before


def nothing(directory):
    pass


def link(directory):
    (directory / "link").symlink_to("A.npy")


def hard_link(directory):
    (directory / "link").hardlink_to(directory / "A.npy")


def link_to_directory(directory):
    (directory / "sub" / "up").symlink_to(directory)


SAME_FILES = {
    "same_name": (nothing, ["-o", "A.npy"], "the matrix"),
    "same_name_of_b": (nothing, ["-o", "b.npy"], "the right-hand sides"),
    "other_spelling": (nothing, ["-o", "./sub/../A.npy"], "the matrix"),
    "link_to_directory": (link_to_directory, ["-o", "sub/up/b.npy"], "the right-hand sides"),
    "symbolic_link": (link, ["-o", "link"], "the matrix"),
    "hard_link": (hard_link, ["-o", "link"], "the matrix"),
    "trace_over_input": (nothing, ["-o", "x.npy", "--trace", "A.npy"], "the trace"),
    "trace_over_output": (nothing, ["-o", "x.npy", "--trace", "./x.npy"], "the trace"),
}


@pytest.mark.parametrize("force", [(), ("--force",)], ids=["", "force"])
@pytest.mark.parametrize("case", SAME_FILES)
def test_output_equal_to_another_file_is_refused_even_with_force(command, system, case, force):
    prepare, arguments, role = SAME_FILES[case]
    (system / "sub").mkdir()
    prepare(system)
    before = contents(system)
    result = command("solve", "A.npy", "b.npy", *arguments, *force)
    assert (result.code, result.out) == (2, "")
    assert result.says("same file", role, "not even with --force", "choose another name")
    assert contents(system) == before


BAD_PLACES = {
    "missing_directory": ("missing/x.npy", ["'missing' does not exist", "create it first"]),
    "file_as_directory": ("A.npy/x.npy", ["Not a directory"]),
    "a_directory": ("folder", ["Is a directory"]),
    "a_device": ("/dev/full", ["not a regular file"]),
    "dangling_link": ("dangling", ["points to nothing"]),
    "file_system_without_files": ("/proc/x.npy", ["no file can be created", "system's own"]),
    "directory_without_files": ("/sys/x.npy", ["no file can be created", "another directory"]),
}


@pytest.mark.parametrize("option", ["-o", "--trace"])
@pytest.mark.parametrize("case", BAD_PLACES)
def test_output_that_cannot_be_written_exits_3_before_the_work(command, system, case, option):
    place, words = BAD_PLACES[case]
    (system / "folder").mkdir()
    (system / "dangling").symlink_to("nowhere")
    before = contents(system)
    arguments = ["-o", place] if option == "-o" else ["-o", "x.npy", "--trace", place]
    result = command("solve", "A.npy", "b.npy", *arguments, "--force")
    assert (result.code, result.out) == (3, "")
    assert result.says("cannot write", *words)
    assert contents(system) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_output_in_read_only_directory_exits_3(command, system):
    (system / "locked").mkdir(mode=0o555)
    result = command("solve", "A.npy", "b.npy", "-o", "locked/x.npy")
    assert result.code == 3
    assert result.says("no file can be created in the directory 'locked'", "Permission denied")


def on_mounted(command, system, options, script):
    """Runs a script with a file system of its own mounted on `disk`; skips where none can be."""
    (system / "disk").mkdir()
    unshare = ["unshare", "--user", "--map-root-user", "--mount"]
    mount = f"mount -t tmpfs -o {options} none disk"
    if subprocess.run([*unshare, "sh", "-c", mount], cwd=system, check=False).returncode != 0:
        pytest.skip("no file system can be mounted here")
    return command(prefix=[*unshare, "sh", "-c", f"{mount} && {script}"])


def test_output_on_read_only_file_system_exits_3(command, system):
    script = f"{command.binary} solve A.npy b.npy -o disk/x.npy"
    result = on_mounted(command, system, "ro", script)
    assert result.code == 3
    assert result.says("'disk'", "Read-only file system", "choose another directory")


def test_full_disk_exits_3_before_the_work(command, system):
    save(system / "A.npy", hermitian(300))
    script = f"{command.binary} inverse A.npy -o disk/X.npy; code=$?; ls -A disk; exit $code"
    result = on_mounted(command, system, "size=256k", script)
    assert (result.code, result.out) == (3, "")
    assert result.says("'disk/X.npy'", "720128 bytes are needed", "are free", "make room")


@pytest.mark.parametrize(
    "arguments", [SOLVE, ("inverse", "A.npy", "-o", "X.npy")], ids=lambda a: a[0]
)
def test_limit_on_file_size_exits_3_and_leaves_nothing(command, system, arguments):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    before = contents(system)
    result = command(*arguments, before=limit)
    assert (result.code, result.out) == (3, "")
    assert result.says("cannot write", "ulimit -f")
    assert contents(system) == before


def test_trace_that_does_not_fit_leaves_no_output(command, system):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    before = contents(system)
    result = command(*SOLVE, "--tile", 1, "--trace", "t.json", before=limit)
    assert (result.code, result.out) == (3, "")
    assert result.says("t.json", "ulimit -f")
    assert contents(system) == before


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o666])
def test_file_that_is_replaced_leaves_its_permissions(command, system, mode):
    target = system / "x.npy"
    target.write_text("old")
    target.chmod(mode)
    if os.geteuid() == 0:
        os.chown(target, 54321, 54322)
    before = target.stat()
    assert command(*SOLVE, "--force").code == 0
    after = target.stat()
    assert after.st_size != before.st_size
    assert (after.st_mode, after.st_uid, after.st_gid) == (
        before.st_mode,
        before.st_uid,
        before.st_gid,
    )


@pytest.mark.parametrize("closed", [(0, 2), (0, 1), (0, 1, 2)])
def test_closed_descriptors_are_not_taken_for_other_files(command, closed):
    def close() -> None:
        for descriptor in closed:
            os.close(descriptor)

    result = command("bench", "cholesky", "--n", 1500, "--runs", 3, "--devices", 1, before=close)
    assert result.code == (3 if 1 in closed else 0)


def test_output_permissions_follow_umask(command, system):
    assert command(*SOLVE, before=lambda: os.umask(0o027) and None).code == 0
    assert stat.S_IMODE((system / "x.npy").stat().st_mode) == 0o640


def test_output_through_link_keeps_the_link(command, system):
    (system / "real.npy").write_text("old")
    (system / "x.npy").symlink_to("real.npy")
    assert command(*SOLVE, "--force").code == 0
    assert (system / "x.npy").is_symlink()
    assert np.load(system / "real.npy").shape == (50, 3)


def test_names_with_spaces_dashes_and_bytes_are_taken_as_they_are(command, system):
    odd = os.fsdecode(b"./-x \xff.npy")
    shutil.copy(system / "A.npy", system / "-A.npy")
    result = command("solve", "-o", odd, "--json", "--", "-A.npy", "b.npy")
    assert result.code == 0, result.err
    assert result.json()["matrix"] == "-A.npy"
    assert np.load(system / odd).shape == (50, 3)


def test_closed_standard_output_exits_3_with_the_output_complete(command, system):
    read_end, write_end = os.pipe()
    os.close(read_end)
    process = command.start(*SOLVE, stdout=write_end)
    os.close(write_end)
    error = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 3
    assert "standard output" in error
    assert "'x.npy' is complete" in error
    a, x, b = (np.load(system / name) for name in ("A.npy", "x.npy", "b.npy"))
    assert solves(a, x, b)


def test_full_standard_output_exits_3(command, system):
    with open("/dev/full", "wb") as full, contextlib.suppress(BrokenPipeError):  # noqa: PTH123
        process = command.start("logdet", "A.npy", stdout=full)
        error = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 3
    assert "standard output" in error


def test_large_output_of_complex_inverse_in_c_order_is_written_by_all_devices(command, system):
    # Above the size of one piece, so that every device writes several.
    n = 1300
    a = hermitian(n, "complex128")
    save(system / "A.npy", a)
    save(system / "b.npy", sides(n, None, "complex128"))
    assert command("solve", "A.npy", "b.npy", "-o", "x.npy", "--devices", 1).code == 0
    assert command("inverse", "A.npy", "-o", "X.npy", "--devices", 1).code == 0
    b, x, inverse = (np.load(system / name) for name in ("b.npy", "x.npy", "X.npy"))
    assert solves(a, x, b)
    assert np.allclose(inverse @ b, x)


def test_tile_table_is_no_output_of_another_job(command, system):
    (system / "tiles.json").write_text("{}")
    result = command(
        "logdet", "A.npy", "--tile-table", "tiles.json", "--trace", "tiles.json", "--force"
    )
    assert result.code == 2
    assert (system / "tiles.json").read_text() == "{}"
