"""One page of the documentation: its Python blocks, and what they have to do.

Blocks of a page share one namespace and run in order:

    ```python                   runs
    ```python title="wrong"     raises; the ```text block after it is in "Type: message"
    ```python title="wrong from jax 0.10"      likewise; with an older jax whatever happens is right
    ```text title="prints"      what the python block before it printed

In expected text, white space counts once, and "..." stands for anything. Printed numbers may differ
in the fourth digit; below 1e-12 they are rounding, and any is as good.

Run as a program it checks the page it is given; with --show it prints what the blocks did.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

_FENCE = re.compile(r'^ *```\s*(?P<language>[\w+-]*)(?:\s+title="(?P<title>[^"]*)")?\s*$')
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d+\.?\d*(?:e[-+]?\d+)?(?![\w.])", re.IGNORECASE)
_WRONG = re.compile(r"wrong(?: from jax (?P<version>[\d.]+))?")
_OTHER_NAMES = ("py", "python3", "pycon", "Python")


@dataclass(frozen=True)
class Fence:
    """A fenced block; `line` is that of its first line of content, from 1."""

    language: str
    title: str | None
    text: str
    line: int


@dataclass(frozen=True)
class Block:
    """Python to run, and the text that it prints or that its exception holds."""

    code: str
    line: int
    raises: bool
    expected: str | None = None
    oldest: tuple[int, ...] = ()  # jax with which it raises


def fences(markdown: str) -> Iterator[Fence]:
    lines = markdown.splitlines()
    opened = None
    for number, line in enumerate(lines, 1):
        if opened is None:
            if found := _FENCE.match(line):
                opened = (found, number + 1)
            elif line.lstrip().startswith("```"):
                raise ValueError(f"line {number}: a fence of unknown form: {line}")
        elif line.strip() == "```":
            found, first = opened
            text = "\n".join(lines[first - 1 : number - 1])
            yield Fence(found["language"], found["title"], text, first)
            opened = None
    if opened is not None:
        raise ValueError(f"line {opened[1]}: this block has no end")


def blocks(markdown: str) -> list[Block]:
    """The Python of a page. Raises if a block would not be run or would not be compared."""
    found: list[Block] = []
    before: Fence | None = None
    for fence in fences(markdown):
        if fence.language in _OTHER_NAMES:
            raise ValueError(f"line {fence.line}: call the block python, so that it is run")
        waiting = bool(found) and found[-1].raises and found[-1].expected is None
        if waiting and fence.language != "text":
            break
        if fence.language == "python":
            wrong = _WRONG.fullmatch(fence.title or "")
            if fence.title and not wrong:
                raise ValueError(f"line {fence.line}: a python block with title {fence.title!r}")
            oldest = _version(wrong["version"]) if wrong and wrong["version"] else ()
            found.append(Block(fence.text, fence.line, bool(wrong), oldest=oldest))
        elif waiting or fence.title == "prints":
            if before is None or before.language != "python":
                raise ValueError(f"line {fence.line}: the output of no python block")
            found[-1] = replace(found[-1], expected=fence.text)
        before = fence
    if found and found[-1].raises and found[-1].expected is None:
        raise ValueError(f"line {found[-1].line}: the message of a wrong block has to follow it")
    return found


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def contains(text: str, expected: str) -> bool:
    """Whether the pieces of `expected` between "..." are in `text`, in order."""
    position, text = 0, " ".join(text.split())
    for piece in expected.split("..."):
        piece = " ".join(piece.split())
        found = text.find(piece, position)
        if found < 0:
            return False
        position = found + len(piece)
    return True


def same_output(printed: str, expected: str) -> bool:
    """Whether that was printed, but for the last digits of numbers."""
    printed, expected = (" ".join(text.split()) for text in (printed, expected))
    pieces = [re.escape(_NUMBER.sub("#", piece)) for piece in expected.split("...")]
    if not re.fullmatch(".*?".join(pieces), _NUMBER.sub("#", printed)):
        return False
    if "..." in expected:
        return True
    pairs = zip(_NUMBER.findall(printed), _NUMBER.findall(expected), strict=True)
    return all(_close(float(got), float(wanted)) for got, wanted in pairs)


def _close(got: float, wanted: float) -> bool:
    largest = max(abs(got), abs(wanted))
    return largest < 1e-12 or abs(got - wanted) <= 1e-3 * largest


def run(path: Path, show: bool = False) -> list[str]:
    """Runs the blocks of a page; returns what is wrong with it."""
    wrong: list[str] = []
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(path.read_text(encoding="utf-8")):
        place = f"{path}:{block.line}"
        printed, raised = io.StringIO(), None
        try:
            # Line numbers of a traceback are those of the page.
            compiled = compile("\n" * (block.line - 1) + block.code, str(path), "exec")
            with contextlib.redirect_stdout(printed):
                exec(compiled, namespace)
        except Exception as error:
            raised = error
        message = f"{type(raised).__name__}: {raised}"
        if show:
            print(f"--- {place}\n{message if raised else printed.getvalue()}", flush=True)
        if block.raises and block.oldest and _version(version("jax")) < block.oldest:
            continue
        if block.raises:
            if raised is None:
                wrong.append(f"{place}: was to raise, and did not")
            elif not contains(message, block.expected):
                wrong.append(f"{place}: raised\n{message}")
        elif raised is not None:
            wrong.append(f"{place}: raised\n{''.join(traceback.format_exception(raised))}")
        elif block.expected is not None and not same_output(printed.getvalue(), block.expected):
            wrong.append(f"{place}: printed\n{printed.getvalue()}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs the Python blocks of one page.")
    parser.add_argument("page", type=Path)
    parser.add_argument("--show", action="store_true", help="print what each block did")
    arguments = parser.parse_args()
    wrong = run(arguments.page, arguments.show)
    print("\n".join(wrong), file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
