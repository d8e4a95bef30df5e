"""Renders recipe/recipe.yaml as conda-forge would, with CUDA and without; builds nothing."""

from pathlib import Path

from rattler_build import Stage0Recipe, VariantConfig

RECIPE = Path(__file__).resolve().parent.parent / "recipe" / "recipe.yaml"
# Of what conda-forge pins, what the recipe asks for.
PINS = {
    "cuda_compiler_version": ["None", "13.0"],
    "cuda_compiler": ["cuda-nvcc"],
    "cxx_compiler": ["gxx"],
    "cxx_compiler_version": ["14"],
    "c_stdlib": ["sysroot"],
    "c_stdlib_version": ["2.28"],
    "python": ["3.13.*"],
}

recipes = [
    output.recipe.to_dict()
    for output in Stage0Recipe.from_file(str(RECIPE)).render(VariantConfig(PINS))
]
for recipe in recipes:
    cuda = recipe["context"]["cuda"]
    needs = " ".join(recipe["requirements"]["build"] + recipe["requirements"]["host"])
    assert ("cuda-nvcc" in needs) == ("libcublas-dev" in needs) == (cuda == "ON"), needs
assert sorted(recipe["context"]["cuda"] for recipe in recipes) == ["OFF", "ON"], recipes
