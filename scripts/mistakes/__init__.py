"""Known mistakes, a module a family of solvers."""

from mistakes import eigh, lu, qr, svd

FAMILIES = {
    "eigh": eigh.MISTAKES,
    "lu": lu.MISTAKES,
    "qr": qr.MISTAKES,
    "svd": svd.MISTAKES,
}
