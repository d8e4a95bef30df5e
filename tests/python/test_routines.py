"""Each routine has its place in every layer, and one that lacks a place is told so."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from routine_places import PLACES, ROOT, ROUTINES, lacking, without_a_row


@pytest.mark.parametrize("routine", ROUTINES, ids=lambda routine: routine.name)
def test_routine_has_all_its_places(routine) -> None:
    """What is missing is in the message."""
    assert lacking(routine) == []


def test_public_names_have_rows() -> None:
    """A routine without a row would have its places looked at by nobody."""
    assert list(without_a_row()) == []


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.what)
def test_lost_place_is_noticed(place, tmp_path: Path) -> None:
    """A tree that has all files of a place, without the one line that counts."""
    routine = next(routine for routine in ROUTINES if routine.name == "inverse")
    for path in ROOT.glob(place.where(routine)):
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text(encoding="utf-8")
        copy.write_text(re.sub(place.regex(routine), "", text), encoding="utf-8")
    assert place.is_there(routine, ROOT)
    assert not place.is_there(routine, tmp_path)


def test_new_routine_lacks_everything() -> None:
    """What a newcomer sees who adds a row and nothing else."""
    new = {field: f"no_such_{field}" for field in vars(ROUTINES[0])}
    lacks = lacking(replace(ROUTINES[0], **new))
    assert len(lacks) == len(PLACES)
