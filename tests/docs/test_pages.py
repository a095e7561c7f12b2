"""The documentation: commands exist, settings and metrics too, code runs, files are valid."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import click
import dask
import pytest
import yaml

from taskmeter.catalogue.promql import SAMPLES
from taskmeter.cli.main import main
from taskmeter.config import DEFAULTS

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted(p for p in (ROOT / "docs").rglob("*.md") if "_build" not in p.parts),
]
#: What fragments take for granted. No module, or pytest would import it to look for doctests.
PRELUDE = Path(__file__).parent / "prelude.txt"
FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[tuple[str, str]]:
    """Return (page, text) of all code blocks in a language."""
    return [
        (page.relative_to(ROOT).as_posix(), text)
        for page in PAGES
        for kind, text in FENCED.findall(page.read_text(encoding="utf-8"))
        if kind == language
    ]


def commands() -> list[tuple[str, str]]:
    """Return (page, command line) of all lines with a prompt."""
    return [
        (page, line.removeprefix("$ "))
        for page, text in blocks("console")
        for line in text.splitlines()
        if line.startswith("$ ")
    ]


def number(items: list[tuple[str, str]]) -> list[str]:
    return [f"{page}-{n}" for n, (page, _) in enumerate(items)]


@pytest.mark.parametrize(("page", "line"), commands(), ids=number(commands()))
def test_commands_are_ones_that_taskmeter_has(
    page: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = shlex.split(line.split("|", maxsplit=1)[0], comments=True)
    if words[:3] == ["python", "-m", "taskmeter"] or words[:2] == ["dask", "taskmeter"]:
        words = ["taskmeter", *words[words.index("taskmeter") + 1 :]]
    if words[0] != "taskmeter":
        assert words[0] in {"dask", "pip", "make", "curl", "promtool"}, page
        return
    Path("runs").mkdir()
    for word in words:
        if Path(word).suffix in {".pem", ".json", ".sqlite", ".py"}:
            Path(word).touch()
    command: click.Command = main
    words = words[1:]
    while isinstance(command, click.Group) and words and words[0] in command.commands:
        command = command.commands[words.pop(0)]
    settings_before = deepcopy(dask.config.config)
    try:
        # raises where there is no such option
        command.make_context("taskmeter", [*words])
    finally:  # TLS options are settings
        dask.config.config.clear()
        dask.config.config.update(settings_before)


@pytest.mark.parametrize(("page", "text"), blocks("python"), ids=number(blocks("python")))
def test_snippets_run(page: str, text: str, tmp_path: Path) -> None:
    script = tmp_path / "snippet.py"
    if "import " not in text:  # a fragment
        text = PRELUDE.read_text(encoding="utf-8") + text
    script.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"{page}:\n{done.stderr}"


@pytest.mark.parametrize(("page", "text"), blocks("yaml"), ids=number(blocks("yaml")))
def test_yaml_is_valid(page: str, text: str) -> None:
    assert list(yaml.safe_load_all(text)) != [None], page


def settings(tree: dict[str, object], path: str = "taskmeter") -> set[str]:
    names = set()
    for name, value in tree.items():
        names.add(f"{path}.{name}")
        if isinstance(value, dict):
            names |= settings(value, f"{path}.{name}")
    return names


def test_settings_that_are_named_exist() -> None:
    known = {name.replace("_", "-") for name in settings(DEFAULTS)}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in re.finditer(r"DASK_TASKMETER__([A-Z_]+)", text):
            name = match[1].lower().replace("__", ".").replace("_", "-")
            assert f"taskmeter.{name}" in known, (page, match[0])


def test_metrics_that_are_named_exist() -> None:
    known = {family.full_name(scope, "dask") for (scope, _), family in SAMPLES.items()}
    suffix = re.compile(r"_(total|sum|count|bucket|created|info)$")
    known |= {suffix.sub("", name) for name in known}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in re.finditer(r"(?<![:\w])dask_taskmeter_[a-z_]+[a-z]\b(?!\*)", text):
            name = suffix.sub("", match[0])
            assert name in known or suffix.sub("", name) in known, (page, match[0])


@pytest.mark.parametrize("path", sorted((ROOT / "docs/deploy/files").glob("*.yaml")), ids=str)
def test_manifests_name_what_they_point_to(path: Path) -> None:
    manifests = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    text = path.read_text(encoding="utf-8")
    assert all(isinstance(manifest, dict) for manifest in manifests)
    if "kind" in manifests[0]:
        assert "taskmeter.preload" in text or "path: /taskmeter/metrics" in text


def test_every_page_is_in_the_table_of_contents() -> None:
    named = set()
    for page in PAGES:
        for listing in re.findall(r"```{toctree}(.*?)```", page.read_text("utf-8"), re.DOTALL):
            named |= {
                (page.parent / f"{line.strip()}.md").resolve()
                for line in listing.splitlines()
                if line.strip() and not line.startswith(":")
            }
    docs = set(PAGES[1:]) - {ROOT / "docs/index.md"}
    assert {page.resolve() for page in docs} - named == set()
