"""The bill of materials of a wheel names what is in it, and nothing is left out silently."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
import sbom

LICENSES = ["OpenBLAS", "libcxx", "zig", "fmt", "nlohmann_json", "xla"]


def wheel(folder: Path, licenses: list[str], *others: str) -> Path:
    path = folder / "shardsolve-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.mkdir("shardsolve-0.1.0.dist-info/licenses")
        for name in licenses:
            archive.writestr(f"shardsolve-0.1.0.dist-info/licenses/{name}.txt", "")
        archive.writestr("shardsolve-0.1.0.dist-info/licenses/LICENSE", "")
        for name in others:
            archive.writestr(name, "")
    return path


def test_parts_have_versions_and_licences(tmp_path):
    found = sbom.bill(wheel(tmp_path, LICENSES))
    parts = {part["name"]: part for part in found["components"]}
    assert parts.keys() == {
        "OpenBLAS",
        "libc++",
        "zig's runtime",
        "fmt",
        "JSON for Modern C++",
        "XLA's headers",
    }
    assert all(part["version"][0].isdigit() and part["licenses"] for part in parts.values())
    assert found["metadata"]["component"]["version"] == "0.1.0"


def test_runtime_of_cuda_is_named_where_a_library_is_for_gpus(tmp_path):
    found = sbom.bill(wheel(tmp_path, [*LICENSES, "CUDA"], sbom.LIBRARY[12]))
    cuda = [part for part in found["components"] if part["name"].startswith("CUDA")]
    assert [part["version"].split(".")[0] for part in cuda] == ["12"]
    assert cuda[0]["licenses"] == [{"license": {"name": "NVIDIA CUDA Toolkit EULA"}}]


@pytest.mark.parametrize("licenses", [[*LICENSES, "of_something_new"], LICENSES[1:]])
def test_licence_without_a_part_and_part_without_one_are_told(tmp_path, licenses):
    with pytest.raises(SystemExit, match=r"mend scripts/sbom\.py"):
        sbom.bill(wheel(tmp_path, licenses))
