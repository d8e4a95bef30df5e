"""Installations that pip has left half done."""

from pathlib import Path

import pytest

from shardsolve import _library


def installed(folder: Path, version: str, recorded: list[str], there: list[str]) -> Path:
    info = folder / f"shardsolve-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "RECORD").write_text("".join(f"shardsolve/lib/{name},sha256=,1\n" for name in recorded))
    library = folder / "shardsolve" / "lib"
    library.mkdir(parents=True, exist_ok=True)
    for name in there:
        (library / name).touch()
    return library.parent


def test_a_whole_one_is_taken(tmp_path):
    names = ["libshardsolve_jax.so", "libshardsolve_cuda.so"]
    _library.check_installation(installed(tmp_path, "0.1.0", names, names))


def test_a_source_tree_is_taken(tmp_path):
    _library.check_installation(tmp_path / "shardsolve")


def test_one_of_which_a_part_is_gone_is_refused(tmp_path):
    names = ["libshardsolve_jax.so", "libshardsolve_cuda.so"]
    package = installed(tmp_path, "0.1.0", names, names[:1])
    with pytest.raises(ImportError, match=r"lacks shardsolve/lib/libshardsolve_cuda.so.*pip unin"):
        _library.check_installation(package)


def test_two_in_one_folder_are_refused(tmp_path):
    installed(tmp_path, "0.1.0", [], [])
    package = installed(tmp_path, "0.2.0", [], [])
    with pytest.raises(ImportError, match=r"holds 2 .*0\.1\.0.*0\.2\.0.*pip uninstall"):
        _library.check_installation(package)
