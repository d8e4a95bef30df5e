"""Which CUDA the package takes JAX to use."""

from types import SimpleNamespace

import jax.extend.backend
import pytest

from shardsolve import _library


@pytest.mark.parametrize(
    ("says", "major"),
    [("PJRT C API\ncuda 12090", 12), ("PJRT C API\ncuda 13000", 13), ("of another kind", 0)],
)
def test_its_version_is_read(monkeypatch, says, major):
    backend = SimpleNamespace(platform_version=says)
    monkeypatch.setattr(jax.extend.backend, "get_backend", lambda platform: backend)
    assert _library.cuda_of_jax() == major


def test_without_a_gpu_there_is_none(monkeypatch):
    def get_backend(platform):
        raise RuntimeError(f"Unknown backend {platform}")

    monkeypatch.setattr(jax.extend.backend, "get_backend", get_backend)
    assert _library.cuda_of_jax() == 0
