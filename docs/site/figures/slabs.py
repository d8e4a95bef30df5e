"""Draws slabs.svg: what is left of a factorisation half-way, in two orders of elimination."""

from __future__ import annotations

import sys
from pathlib import Path

DEVICES, BLOCKS, CELL = 4, 2, 26
SIDE = DEVICES * BLOCKS
COLOURS = ("#4477aa", "#66a36c", "#ccaa44", "#bb5566")
GREY = "#8a8a8a"


def rect(x: float, y: float, width: float, height: float, style: str) -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" {style}/>'


def text(x: float, y: float, words: str, anchor: str = "middle", size: int = 13) -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}" fill="{GREY}">'
        f"{words}</text>"
    )


def matrix(left: float, top: float, title: str, step_of_row: list[int], done: int) -> list[str]:
    """Block rows with the step that eliminates them; those of later steps filled."""
    drawn = [text(left + SIDE * CELL / 2, top - 14, title)]
    for row in range(SIDE):
        y = top + row * CELL
        colour = COLOURS[row // BLOCKS]
        for column in range(SIDE):
            remains = step_of_row[row] >= done and step_of_row[column] >= done
            opacity = 0.9 if remains else 0.12
            drawn.append(
                rect(left + column * CELL, y, CELL - 1, CELL - 1,
                     f'fill="{colour}" fill-opacity="{opacity}"')
            )  # fmt: skip
        drawn.append(text(left - 8, y + CELL * 0.68, f"{step_of_row[row] + 1}", "end"))
    for device in range(DEVICES):
        y = top + device * BLOCKS * CELL
        own = rect(left, y, SIDE * CELL - 1, BLOCKS * CELL - 1, f'fill="none" stroke="{GREY}"')
        drawn.append(own)
    return drawn


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_suffix(".svg")
    natural = list(range(SIDE))
    interleaved = [(row % BLOCKS) * DEVICES + row // BLOCKS for row in range(SIDE)]
    top, first, second = 46, 120, 440
    body = [
        *matrix(first, top, "in natural order", natural, SIDE // 2),
        *matrix(second, top, "in interleaved order", interleaved, SIDE // 2),
    ]
    for device in range(DEVICES):
        y = top + (device + 0.5) * BLOCKS * CELL + 4
        body.append(text(16, y, f"device {device}", "start"))
    body.append(text(first - 8, top - 14, "step", "end"))
    body.append(text(second - 8, top - 14, "step", "end"))
    width, height = second + SIDE * CELL + 16, top + SIDE * CELL + 14
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" role="img">',
        "<title>What is left after 4 of 8 steps. In natural order only devices 2 and 3 have "
        "work left; in interleaved order all four have.</title>",
        *body,
        "</svg>",
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
