"""What is said in more than one place about the package is the same."""

from __future__ import annotations

import re
from importlib.metadata import metadata, requires
from pathlib import Path

import yaml
from packaging.requirements import Requirement

from taskmeter.version import __version__

ROOT = Path(__file__).parents[2]


def recipe() -> dict[str, object]:
    text = (ROOT / "conda/recipe.yaml").read_text(encoding="utf-8")
    return yaml.safe_load(text)


def test_the_conda_recipe_wants_what_the_wheel_wants() -> None:
    wanted = {
        # conda has the names with underscores
        f"{Requirement(text).name.replace('-', '_')} {Requirement(text).specifier}"
        for text in requires("taskmeter")
        if not Requirement(text).marker
    }
    python = metadata("taskmeter")["Requires-Python"]
    assert set(recipe()["requirements"]["run"]) == {*wanted, f"python {python}"}


def test_the_version_is_the_same_everywhere() -> None:
    assert recipe()["context"]["version"] == __version__
    assert metadata("taskmeter")["Version"] == __version__


def test_extras_that_errors_name_exist() -> None:
    extras = set(metadata("taskmeter").get_all("Provides-Extra"))
    for path in (ROOT / "src").rglob("*.py"):
        named = re.findall(r"taskmeter\[(\w+)\]", path.read_text(encoding="utf-8"))
        assert set(named) <= extras, path
