"""Times scipy.linalg.solve; started by run.py with the folder of the problem."""

from __future__ import annotations

import scipy
import scipy.linalg
from python_peer import load_problem, serve_solver


def main() -> None:
    a, b = load_problem()
    serve_solver(
        f"scipy {scipy.__version__}", lambda: scipy.linalg.solve(a, b, assume_a="pos"), a, b
    )


if __name__ == "__main__":
    main()
