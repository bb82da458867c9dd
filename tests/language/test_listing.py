"""docs/language.md lists the language as it is."""

import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("list_language", ROOT / "docs" / "list_language.py")
listing = importlib.util.module_from_spec(spec)
spec.loader.exec_module(listing)


def test_every_public_name_is_in_one_group():
    names = [name for group in listing.listed().values() for name in group]
    assert sorted(names) == listing.public_names()


def test_differences_are_of_names_that_exist():
    assert set(listing.DIFFERENCES) <= set(listing.public_names())


def test_the_file_is_up_to_date():
    assert listing.PATH.read_text() == listing.text(), "run: python docs/list_language.py"


def test_each_name_has_a_row():
    rows = re.findall(r"^\| `([A-Za-z_0-9]+)[`(]", listing.PATH.read_text(), re.M)
    assert sorted(rows) == listing.public_names()
