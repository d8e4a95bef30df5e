"""Begins a new family of dense routines from one that exists.

Copies the files of the model under the new name, with its names in them, and adds the new name to
the lists of the tree that have the model's: the result compiles, and computes what the model
computes. What is still to be thought about is written to todo_<name>.md; begin with src/reference.

Usage: new_routine.py NAME --like MODEL [--root FOLDER]
"""

from __future__ import annotations

import argparse
import keyword
import re
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from routine_places import PLACES, ROUTINES, Routine, lacking

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Model:
    """A family that others can be made from."""

    word: str  # in its names: lu, as in lu_factor, LuFactor and LU_FACTOR
    # Names with that word of what it shares with others, and is not copied: regular expressions.
    keeps: tuple[str, ...]
    # Names without the word that others would meet, by the beginning of the paths where they are:
    # the new name is put in front of them. Those that tests/distributed defines are found.
    others: dict[str, tuple[str, ...]]


MODELS = {
    "lu": Model(
        "lu",
        keeps=(
            r"Routine::lu\b",
            r"\b_words\.\w+",
            r"\bpanel_lu\b",
            r"\b(Sketched)?LuRecord\b",
            r"\bEMPTY_(SKETCHED_)?LU\b",
            r"\bgpu_lu_tile\b",
            r"\b\w*[Ll]apack_?[Ll]u\w*",
            r"\bpeer\.lu\b",
        ),
        others={
            "": ("Transpose", "det", "SignAndLog"),
            "src/reference/": ("largest_from", "make_column", "substitute", "swap_rows"),
            "src/dense/lu/plan.cpp": ("residual_bytes",),
            "tests/support/": (
                "OfAllDtypes",
                "columns_in_order",
                "factors_general",
                "in_pivot_order",
                "panel_ratio",
            ),
            "tests/unit/": ("OfAllDtypes", "OnHost"),
            "tests/distributed/": ("columns_in_order", "factors_general", "in_pivot_order"),
        },
    ),
}

# Of the model, below the root. A kernel of its own on GPUs is written when there is one on CPUs.
FILES = (
    "include/shardsolve/{word}.hpp",
    "src/reference/{word}.*",
    "src/dense/{word}/*",
    "src/runtime/{word}_kernels.hpp",
    "src/runtime/host/{word}_kernels.*",
    "jax/{word}_calls.*",
    "python/shardsolve/_{word}.py",
    "tests/support/{word}_zoo.*",
    "tests/support/{word}_kernels_tests.hpp",
    "tests/unit/{word}_kernels_test.cpp",
    "tests/distributed/{word}_test.cpp",
    "tests/jax/test_jax_{word}.py",
)


# What begins a line of C++ and defines a type, a function or a constant.
DEFINITION = re.compile(
    r"^(?:class|struct|enum class) (\w+)|^using (\w+) ="
    r"|^(?!using)[a-z][^;={(]*?\b([a-z]\w*)\("
    r"|^(?:inline )?const(?:expr)?\b[^;={(]*?\b(\w+)(?:\{| = )",
    re.MULTILINE,
)


def unnamed(text: str) -> set[str]:
    """What a file of C++ defines in unnamed namespaces, where files compiled as one meet."""
    found: set[str] = set()
    for part in text.split("\nnamespace {\n")[1:]:
        for names in DEFINITION.findall(part.partition("\n}  // namespace\n")[0]):
            found |= {name for name in names if name}
    return found


@dataclass(frozen=True)
class Names:
    """From the names of a model to those of a new family."""

    model: Model
    name: str

    def camel(self, word: str) -> str:
        """my_own -> MyOwn."""
        return "".join(part.capitalize() for part in word.split("_"))

    def others(self, text: str, path: str) -> set[str]:
        """The names of a file that get the new one in front."""
        by_path = self.model.others.items()
        listed = {other for begin, names in by_path if path.startswith(begin) for other in names}
        if not path.startswith("tests/distributed/"):
            return listed
        return listed | {name for name in unnamed(text) if self._one(name, set()) == name}

    def renamed(self, text: str, path: str = "") -> str:
        """The text of a file with the new names."""
        others = self.others(text, path)
        # What is kept, a comment of C++, an identifier.
        token = re.compile(rf"({'|'.join(self.model.keeps)})|(//[^\n]*)|[A-Za-z_]\w*")

        def new(found: re.Match[str]) -> str:
            if found[1]:
                return found[1]
            if found[2]:
                return re.sub(r"[A-Za-z_]\w*", lambda word: self._one(word[0], set()), found[2])
            return self._one(found[0], others)

        return token.sub(new, text)

    def _one(self, identifier: str, others: set[str]) -> str:
        if identifier in others:
            if identifier[0].isupper():
                return self.camel(self.name) + identifier
            return f"{self.name}_{identifier}"
        word = self.model.word
        for old, new in (
            (rf"(?<![A-Za-z0-9]){word}(?![A-Za-z0-9])", self.name),
            (rf"(?<![A-Za-z0-9]){word.upper()}(?![A-Za-z0-9])", self.name.upper()),
            (rf"(?<![A-Z]){self.camel(word)}(?![a-z0-9])", self.camel(self.name)),
        ):
            identifier = re.sub(old, new, identifier)
        return identifier


def copied_files(model: Model, root: Path) -> list[Path]:
    """The files of a model, below the root."""
    return sorted(
        path.relative_to(root)
        for pattern in FILES
        for path in root.glob(pattern.format(word=model.word))
    )


# An edit: the lines of a file -> the lines it is to have, or an error if it has no such place.
Edit = Callable[[list[str], Names], list[str]]


class NoPlaceError(Exception):
    """The model is not where an edit looks for it."""


def _places(lines: list[str], names: Names, pattern: str) -> list[int]:
    wanted = re.compile(
        pattern.format(
            word=names.model.word,
            upper=names.model.word.upper(),
            camel=names.camel(names.model.word),
        )
    )
    found = [i for i, line in enumerate(lines) if wanted.search(line)]
    if not found:
        raise NoPlaceError(wanted.pattern)
    return found


def copy_lines(pattern: str, more: int = 0) -> Edit:
    """Behind each line with the pattern, and `more` that follow it, the same with the new names."""

    def edit(lines: list[str], names: Names) -> list[str]:
        for i in reversed(_places(lines, names, pattern)):
            end = i + 1 + more
            lines[end:end] = [names.renamed(line) for line in lines[i:end]]
        return lines

    return edit


def copy_paragraphs(pattern: str) -> Edit:
    """Behind each paragraph (without an empty line) with the pattern, the same likewise."""

    def edit(lines: list[str], names: Names) -> list[str]:
        ends = {}
        for i in _places(lines, names, pattern):
            begin = end = i
            while begin > 0 and lines[begin - 1].strip():
                begin -= 1
            while end < len(lines) and lines[end].strip():
                end += 1
            blanks = end
            while blanks < len(lines) and not lines[blanks].strip():
                blanks += 1
            ends[blanks] = [names.renamed(line) for line in lines[begin:blanks]]
        for end in sorted(ends, reverse=True):
            lines[end:end] = ends[end]
        return lines

    return edit


def copy_functions(pattern: str) -> Edit:
    """Behind each function of Python with the pattern, decorators and all, the same likewise."""

    def edit(lines: list[str], names: Names) -> list[str]:
        copies = {}
        for i in _places(lines, names, pattern):
            begin, end = i, i + 1
            while begin > 0 and lines[begin - 1].strip():
                begin -= 1
            # To the next line that neither is indented nor closes the brackets of arguments.
            while end < len(lines) and lines[end][0] in " )\n":
                end += 1
            copies[end] = [names.renamed(line) for line in lines[begin:end]]
        for end in sorted(copies, reverse=True):
            lines[end:end] = copies[end]
        return lines

    return edit


def put_before(pattern: str, text: str) -> Edit:
    """In front of what the pattern is, in the same line or a line of its own, `text`."""

    def edit(lines: list[str], names: Names) -> list[str]:
        for i in reversed(_places(lines, names, pattern)):
            found = re.search(pattern.format(word=names.model.word), lines[i])
            at = found.start()
            lines[i] = lines[i][:at] + text.format(name=names.name) + lines[i][at:]
        return lines

    return edit


def _add_rows(lines: list[str], names: Names) -> list[str]:
    """Rows of ROUTINES, without a place on GPUs."""
    end = _places(lines, names, r"^\)  # fmt: skip")[0]
    rows = []
    for routine in ROUTINES:
        if routine.family != names.model.word:
            continue
        new = {
            key: names.renamed(value)
            for key, value in asdict(routine).items()
            if value != getattr(Routine, key, None)
        }
        new |= {"name": f"{routine.name}, {names.name}", "gpus": ""}
        given = ",\n".join(f'        {key}="{value}"' for key, value in new.items())
        rows.append(f"    Routine(\n{given},\n    ),\n")
    return lines[:end] + "".join(rows).splitlines(keepends=True) + lines[end:]


EDITS: tuple[tuple[str, Edit], ...] = (
    ("include/shardsolve/plan.hpp", copy_paragraphs(r"\bplan_{word}\w*\(")),
    ("src/all_wait_sites.cpp", copy_lines(r'"dense/{word}/wait_sites\.hpp"')),
    (
        "src/all_wait_sites.cpp",
        put_before(r"dense::{word}::sites::all", "dense::{name}::sites::all, "),
    ),
    ("src/runtime/kernel_set.hpp", copy_lines(r"^  {word},")),
    ("src/runtime/kernel_set.cpp", copy_lines(r"case KernelSet::{word}:", more=1)),
    ("src/runtime/host/host_device.hpp", copy_lines(r"host/{word}_kernels\.hpp")),
    ("src/runtime/host/host_device.hpp", copy_lines(r"case KernelSet::{word}:", more=1)),
    ("src/runtime/host/host_device.hpp", copy_lines(r"^  Host{camel}Kernels<T> {word}\b")),
    (
        "src/runtime/cuda/cuda_device.hpp",
        put_before(
            r"^      case KernelSet::{word}:",
            "      case KernelSet::{name}:\n        break;  // for CPUs so far\n",
        ),
    ),
    ("jax/call_table.cpp", copy_lines(r'"jax/{word}_calls\.hpp"')),
    ("jax/call_table.cpp", put_before(r"\b{word}_calls\(\)", "{name}_calls(), ")),
    ("python/shardsolve/_calls.py", copy_lines(r"^_{upper}\w* = Call\(.*\)$")),
    ("python/shardsolve/_calls.py", copy_functions(r"^def {word}\w*\(")),
    ("python/shardsolve/__init__.py", copy_lines(r"^from shardsolve\._{word} import ")),
    ("tests/support/jobs.hpp", copy_lines(r"<shardsolve/{word}\.hpp>")),
    ("tests/support/jobs.hpp", copy_paragraphs(r"^Answer run_{word}\(")),
    ("tests/support/jobs.hpp", copy_lines(r'job\("{word}"')),
    ("scripts/layers.py", copy_lines(r'^    "dense/{word}":')),
    ("scripts/routine_places.py", _add_rows),
)

TO_THINK_ABOUT = """\
# {name}: what is still to be done

Made from {model}: it compiles and computes what {model} computes. Delete this file when done.

## To think about

- What is right: a plain version from the definition, with its source, in src/reference/{name}.cpp.
- Which names are right. `{prefixed}`
  have the new name in front only to be apart from the model's.
- The maths at the top of each algorithm; flops and bytes moved in its public comment and its plan.
- Outcomes: which reasons there are for having no answer (Status, src/core/outcome.cpp), which
  figures tell how good an answer is.
- Kernels: {camel}Kernels is a copy of {model}'s set. What stays as it is, ask that set for; if
  nothing is left, remove the new one. GPUs have none yet (cuda_device.hpp says so).
- Waits: their numbers are new; scripts/prove_waits.py shows that each is needed.
- What is shared with {model}, and not copied: records and words of Python, tiles (routine.hpp),
  saved factors.
- Gates of the tests: by residuals, against LAPACK or the definition, on every cut and dtype.
- A command (cli/) and its page, a chapter of docs/design, speed beside peers (bench/).
- Bits: the same on every run; what holds on other numbers of devices is said.

## Places that it lacks (scripts/routine_places.py)

{places}
"""


def new_wait_numbers(text: str, root: Path) -> str:
    """The text of a wait_sites.hpp, with numbers that no other has."""
    taken = [
        int(number)
        for path in root.glob("src/**/wait_sites.hpp")
        for number in re.findall(r"WaitSite \w+\{(\d+),", path.read_text(encoding="utf-8"))
    ]
    numbers = iter(range(max(taken) + 1, max(taken) + 1000))
    return re.sub(
        r"(WaitSite \w+\{)\d+,", lambda found: f"{found[1]}{next(numbers)},", text, flags=re.DOTALL
    )


def list_public_names(names: Names, root: Path) -> None:
    """Adds the names that __init__.py takes from the new module to its __all__."""
    path = root / "python/shardsolve/__init__.py"
    text = path.read_text(encoding="utf-8")
    imported = re.search(rf"^from shardsolve\._{names.name} import (.+)$", text, re.MULTILINE)
    listed = "".join(f'    "{name.strip()}",\n' for name in imported[1].split(","))
    begin = text.index("__all__ = [\n") + len("__all__ = [\n")
    end = text.index("]", begin)
    rows = (text[begin:end] + listed).splitlines(keepends=True)
    # As ruff sorts them: constants, classes, the rest.
    rows.sort(key=lambda row: (not row.strip('", \n').isupper(), not row.strip()[1].isupper(), row))
    path.write_text(text[:begin] + "".join(rows) + text[end:], encoding="utf-8")


def refuse(names: Names, root: Path) -> None:
    """Exits with a sentence if the name is no good."""
    name, word = names.name, names.model.word
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name) or keyword.iskeyword(name):
        sys.exit(f"{name!r} is no name: give one in small letters, as in {word}_factor: ldl")
    there = [path for path in FILES if any(root.glob(path.format(word=name)))]
    if there:
        sys.exit(f"there is a {name} already: {there[0].format(word=name)}. Choose another name")
    for path in copied_files(names.model, root):
        if re.search(rf"\b{name}\b", (root / path).read_text(encoding="utf-8")):
            sys.exit(
                f"{path} has a {name} of its own, which the new {name} would be mixed up with: "
                "choose another name"
            )


def make(name: str, like: str, root: Path) -> list[Path]:
    """Makes the files, edits the lists, writes todo_<name>.md; returns what is new or changed."""
    names = Names(MODELS[like], name)
    refuse(names, root)
    # First everything that can fail, then what is written.
    edited: dict[str, list[str]] = {}
    for file, edit in EDITS:
        lines = edited.get(file)
        if lines is None:
            lines = (root / file).read_text(encoding="utf-8").splitlines(keepends=True)
        try:
            edited[file] = edit(lines, names)
        except NoPlaceError as error:
            sys.exit(f"{file} has no line with {error}: EDITS of new_routine.py has to follow it")
    made = []
    for path in copied_files(names.model, root):
        text = names.renamed((root / path).read_text(encoding="utf-8"), str(path))
        if path.name == "wait_sites.hpp":
            text = new_wait_numbers(text, root)
        new = root / names.renamed(str(path))
        new.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(text, encoding="utf-8")
        made.append(new)
    for file, lines in edited.items():
        (root / file).write_text("".join(lines), encoding="utf-8")
    list_public_names(names, root)
    todo = root / f"todo_{name}.md"
    todo.write_text(todo_text(names, root), encoding="utf-8")
    return [*made, *(root / file for file in edited), todo]


def todo_text(names: Names, root: Path) -> str:
    """What is left to do."""
    places = []
    for routine in ROUTINES:
        if routine.family != names.model.word:
            continue
        new = Routine(
            **{key: names.renamed(value) for key, value in asdict(routine).items()} | {"gpus": ""}
        )
        places += [
            f"- {new.python}: {place.what}: {place.where(new)}" for place in lacking(new, root)
        ]
    return TO_THINK_ABOUT.format(
        name=names.name,
        model=names.model.word,
        camel=names.camel(names.name),
        prefixed="`, `".join(names.renamed(other) for other in names.model.others[""]),
        places="\n".join(dict.fromkeys(places)) or f"None of {len(PLACES)}.",
    )


def main() -> int:
    """Makes a family and says what to look at."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", help="in small letters: of files, of a namespace, in identifiers")
    parser.add_argument("--like", required=True, choices=sorted(MODELS), metavar="MODEL",
                        help="which to copy: " + ", ".join(sorted(MODELS)))  # fmt: skip
    parser.add_argument("--root", type=Path, default=ROOT, help="of the tree; this one")
    options = parser.parse_args()
    changed = make(options.name, options.like, options.root)
    for path in changed:
        print(path.relative_to(options.root))
    print(f"\n{len(changed)} files. scripts/check.sh --fix formats them; what is left to do is in "
          f"todo_{options.name}.md")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
