"""The settings: Dask's configuration, defaults, schema, and what is said of a wrong one."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import fields
from pathlib import Path

import dask.config
import pytest
import yaml

from command_line import BIN
from taskmeter.config import DEFAULTS, Settings, schema, unknown_settings
from taskmeter.exporters.reference import settings_page


def dask_config(*args: str, **env: str) -> str:
    """Return what ``dask config`` prints."""
    done = subprocess.run(
        [BIN / "dask", "config", *args],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, **env},
    )
    return done.stdout


def test_dask_lists_every_setting_with_its_default() -> None:
    assert yaml.safe_load(dask_config("list"))["taskmeter"] == DEFAULTS
    assert dask_config("get", "taskmeter.max-prefixes").strip() == "200"


def test_dask_tells_what_the_environment_says() -> None:
    # with the underscores of the variable, as Dask tells its own
    told = dask_config("get", "taskmeter.max_prefixes", DASK_TASKMETER__MAX_PREFIXES="7")
    assert told.strip() == "7"


def test_a_file_of_the_users_overrides_a_default(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("taskmeter: {max_prefixes: 9, durations: on}\n")
    config: dict = {}
    dask.config.refresh(config=config, paths=[str(tmp_path)], env={})
    with dask.config.set(config):
        settings = Settings.from_dask()
    assert (settings.max_prefixes, settings.durations, settings.occupancy) == (9, "on", True)


def test_each_setting_has_a_default_a_type_and_a_meaning() -> None:
    assert set(schema()) == set(DEFAULTS)
    assert [f.name.replace("_", "-") for f in fields(Settings)[1:]] == list(DEFAULTS)
    assert all(rule["type"] and rule["description"].strip() for rule in schema().values())


def test_the_defaults_are_in_force_where_nothing_is_set() -> None:
    config: dict = {}
    dask.config.refresh(config=config, paths=[], env={})
    with dask.config.set(config):
        assert Settings.from_dask() == Settings()


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("max-prefixes", "500", 500),
        ("max-prefixes", 1e3, 1000),
        ("durations", True, "on"),
        ("durations", False, "off"),
        ("bandwidth", "on", True),
        ("occupancy", "off", False),
        ("otlp-endpoint", None, ""),
        ("stalled-seconds", "0.5", 0.5),
    ],
)
def test_a_value_is_read_as_yaml_and_the_environment_write_it(name, value, read) -> None:
    with dask.config.set({f"taskmeter.{name}": value}):
        assert getattr(Settings.from_dask(), name.replace("-", "_")) == read


@pytest.mark.parametrize(
    ("name", "value", "takes"),
    [
        ("max-prefixes", 0, "a whole number of at least 1 (default 200)"),
        ("tracked-groups", 1.5, "a whole number of at least 1 (default 1000)"),
        ("tracked-series", True, "a whole number of at least 1 (default 10000)"),
        ("tracked-pairs", None, "a whole number of at least 1 (default 1000)"),
        ("recent-seconds", "soon", "a number above 0 (default 600)"),
        ("otlp-interval", float("nan"), "a number above 0 (default 15)"),
        ("stalled-seconds", [1], "a number above 0 (default 30)"),
        ("occupancy", 1, "true or false (default true)"),
        ("timestamps", "maybe", "true or false (default false)"),
        ("durations", "shade", '"off" or "shadow" or "on" (default "shadow")'),
        ("durations", ["on"], '"off" or "shadow" or "on" (default "shadow")'),
        ("otlp-endpoint", "there:1", "the address of a receiver, such as http://localhost:4318"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused_in_one_sentence(name, value, takes) -> None:
    sentence = f"The setting taskmeter.{name} cannot be {value!r}; it takes {takes}."
    with (
        dask.config.set({f"taskmeter.{name}": value}),
        pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"),
    ):
        Settings.from_dask()


@pytest.mark.parametrize(
    ("variable", "sentence"),
    [
        ("NO_SUCH", "no-such; the nearest is taskmeter."),
        ("MAX_PREFIX", "max-prefix; the nearest is taskmeter.max-prefixes."),
        ("OTLP__ENDPOINT", "otlp; the nearest is taskmeter.otlp-"),
    ],
)
def test_an_unknown_setting_is_named_with_the_nearest_one(variable: str, sentence: str) -> None:
    with dask.config.set(dask.config.collect_env({f"DASK_TASKMETER__{variable}": "1"})):
        (said,) = unknown_settings()
    assert said.startswith(f"There is no setting taskmeter.{sentence}")
    assert unknown_settings() == ()


def test_a_section_that_is_no_mapping_is_named() -> None:
    with dask.config.set({"taskmeter": 5}):
        assert unknown_settings() == (
            "The setting taskmeter cannot be 5; it takes a mapping of settings.",
        )
        assert Settings.from_dask() == Settings()


def test_the_reference_of_the_settings_is_generated_from_the_schema(
    pytestconfig: pytest.Config,
) -> None:
    written = pytestconfig.rootpath / "docs" / "settings.md"
    assert written.read_text(encoding="utf-8") == settings_page(), (
        "python -m taskmeter.exporters.reference settings > docs/settings.md"
    )
