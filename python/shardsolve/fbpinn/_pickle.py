"""What is pickled: settings, arrays, and functions by their names."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from typing import Any

from shardsolve.fbpinn._given import described


def require_names(functions: dict[str, Any]) -> None:
    """Throws where pickle will not find a function by its name, unless others pickle."""
    if {"cloudpickle", "dill"} & sys.modules.keys():  # they keep functions themselves
        return
    for name, function in functions.items():
        try:
            pickle.dumps(function)
        except Exception as error:
            raise pickle.PicklingError(
                f"{name} is {described(function)}, which pickle cannot find by its name: define it "
                "with def at the top level of a module, or use cloudpickle"
            ) from error


def made_again(make: Callable[..., Any], given: dict[str, Any]) -> Any:
    """What was pickled."""
    return make(**given)
