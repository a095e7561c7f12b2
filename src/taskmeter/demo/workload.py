"""Questions to the flights, as a Dask program answers them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
from distributed import Client

from taskmeter.demo.flights import data_file, unpack_flights

_COLUMNS = [
    "month",
    "day",
    "hour",
    "dep_delay",
    "arr_delay",
    "carrier",
    "tailnum",
    "origin",
    "dest",
    "distance",
    "time_hour",
]

#: Flights to a place that make its mean worth a word.
_ENOUGH = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much of everything there is to do.

    Parameters
    ----------
    few
        Take the flights of one month only.
    block
        Bytes of CSV in a partition.
    resamples
        How often the flights of an airline are drawn anew.
    failure_seconds
        How long a request lasts that fails in the end.
    """

    few: bool
    block: int
    resamples: int
    failure_seconds: float


WHOLE = Size(few=False, block=3_000_000, resamples=9_000, failure_seconds=0.5)
FAST = Size(few=True, block=600_000, resamples=300, failure_seconds=0.1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to one question.

    Parameters
    ----------
    question
        In words.
    table
        The answer.
    """

    question: str
    table: pd.DataFrame


def answer_all(
    client: Client, directory: Path, size: Size, say: Callable[[str], None]
) -> list[Answer]:
    """Ask all questions.

    Parameters
    ----------
    client
        The default client; its workers must see `directory`.
    directory
        For files of the demo's own.
    size
        How much there is to do.
    say
        Told what happens.
    """
    say("Reading the flights ...")
    flights = client.persist(read_flights(unpack_flights(directory, few=size.few), size.block))
    say("Joining every flight with its plane and with the weather at its departure ...")
    joined = join(flights)
    answers = [by_plane_age(joined), by_weather(joined), by_destination(flights)]
    say("Measuring every route on the globe, row by row (slow on purpose) ...")
    answers.append(by_route(flights))
    say("Asking an archive that fails at first for the name of every airline ...")
    names = airline_names(client, directory, size.failure_seconds)
    say("Drawing the flights of every airline anew, to see how sure its mean delay is ...")
    answers.append(by_airline(client, flights, names, size.resamples))
    return answers


# Tables


def read_flights(path: Path, block: int) -> Any:
    """Return the flights as a Dask data frame."""
    return dd.read_csv(
        path,
        blocksize=block,
        usecols=_COLUMNS,
        dtype={"dep_delay": float, "arr_delay": float, "distance": float, "hour": int},
    )


def join(flights: Any) -> Any:
    """Return every flight with its plane's year and the weather at its departure."""
    planes = pd.read_csv(data_file("planes.csv"), usecols=["tailnum", "year"])
    weather = pd.read_csv(
        data_file("weather.csv"),
        usecols=["origin", "month", "day", "hour", "wind_speed", "precip", "visib"],
    ).drop_duplicates(["origin", "month", "day", "hour"])
    # Both sides in several parts: the rows that belong together have to meet, in a shuffle.
    return flights.merge(
        dd.from_pandas(weather, npartitions=4), on=["origin", "month", "day", "hour"], how="left"
    ).merge(dd.from_pandas(planes, npartitions=3), on="tailnum", how="left")


# Questions


def by_plane_age(joined: Any) -> Answer:
    """Ask whether old planes are late."""
    age = 2013 - joined.year
    table = (
        joined.assign(age=(age // 5) * 5)
        .dropna(subset=["arr_delay", "age"])
        .groupby("age")
        .arr_delay.agg(["mean", "count"])
        .compute()
        .sort_index()
    )
    table = table[(table["count"] >= _ENOUGH / 10) & (table.index >= 0)]
    table.index = [f"{int(a)} to {int(a) + 4} years" for a in table.index]
    return Answer(question="Are old planes late?", table=_minutes(table, "age of the plane"))


def by_weather(joined: Any) -> Answer:
    """Ask what the weather does."""
    sky = joined.map_partitions(sky_at_departure, meta=("sky", "object"))
    table = (
        joined.assign(sky=sky)
        .dropna(subset=["dep_delay"])
        .groupby("sky")
        .dep_delay.agg(["mean", "count"])
        .compute()
        .sort_values("mean", ascending=False)
    )
    return Answer(question="What does the weather do?", table=_minutes(table, "weather"))


def sky_at_departure(flights: pd.DataFrame) -> pd.Series:
    """Return the weather in a word."""
    words = np.select(
        [flights.visib < 2, flights.precip > 0, flights.wind_speed > 20, flights.visib.notna()],
        ["fog", "rain or snow", "strong wind", "calm and dry"],
        "unknown",
    )
    return pd.Series(words, index=flights.index, dtype=object, name="sky")


def by_destination(flights: Any) -> Answer:
    """Ask where one arrives late."""
    table = (
        flights.dropna(subset=["arr_delay"])
        .groupby("dest")
        .arr_delay.agg(["mean", "count"])
        .compute()
    )
    enough = table["count"] >= min(_ENOUGH, table["count"].median())
    table = table[enough].sort_values("mean", ascending=False).head(5)
    airports = pd.read_csv(data_file("airports.csv"), index_col="faa")["name"]
    table.index = [airports.get(code, code) for code in table.index]
    return Answer(question="Where does one arrive late?", table=_minutes(table, "airport"))


def by_route(flights: Any) -> Answer:
    """Ask how far the published distances are from the globe's."""
    places = pd.read_csv(data_file("airports.csv"), index_col="faa")[["lat", "lon"]]
    where = {code: (float(p.lat), float(p.lon)) for code, p in places.iterrows()}
    detours = flights.map_partitions(
        measure_row_by_row, where, meta={"route": "object", "excess": float}
    )
    table = detours.groupby("route").excess.agg(["mean", "count"]).compute()
    table = table.assign(off=table["mean"].abs()).sort_values("off", ascending=False).head(3)
    table = table.rename(columns={"mean": "miles beyond the globe's", "count": "flights"})
    return Answer(
        question="Which published distances are not the globe's?",
        table=table.drop(columns="off").round(1).rename_axis("route"),
    )


def measure_row_by_row(
    flights: pd.DataFrame, where: dict[str, tuple[float, float]]
) -> pd.DataFrame:
    """Compare every flight's distance with the globe's, the slowest way pandas has."""
    found = []
    for _, flight in flights.iterrows():
        if flight.origin in where and flight.dest in where:
            miles = _great_circle(where[flight.origin], where[flight.dest])
            found.append((f"{flight.origin} to {flight.dest}", flight.distance - miles))
    frame = pd.DataFrame(found, columns=["route", "excess"])
    return frame.astype({"route": object, "excess": float})


def _great_circle(a: tuple[float, float], b: tuple[float, float]) -> float:
    (lat1, lon1), (lat2, lon2) = (tuple(map(math.radians, place)) for place in (a, b))
    half = (
        math.sin((lat2 - lat1) / 2) ** 2
        + math.cos(lat1) * math.cos(lat2) * math.sin((lon2 - lon1) / 2) ** 2
    )
    return 2 * 3958.8 * math.asin(math.sqrt(half))


def airline_names(client: Client, directory: Path, seconds: float) -> dict[str, str]:
    """Return the name of every airline, from an archive that fails at the first request."""
    names = pd.read_csv(data_file("airlines.csv"), index_col="carrier")["name"].to_dict()
    requests = client.map(
        ask_archive,
        list(names),
        list(names.values()),
        directory=str(directory),
        seconds=seconds,
        retries=2,
    )
    return dict(zip(names, client.gather(requests), strict=True))


def ask_archive(carrier: str, name: str, *, directory: str, seconds: float) -> str:
    """Return an airline's name at the second attempt; the first fails after a while."""
    asked = Path(directory, f"asked-{carrier}")
    if asked.exists():
        return name
    asked.touch()
    time.sleep(seconds)
    raise ConnectionError("the archive did not answer")


def by_airline(client: Client, flights: Any, names: dict[str, str], resamples: int) -> Answer:
    """Ask which airlines are late, and how sure that is."""
    delays = flights[["carrier", "arr_delay"]].dropna().compute()
    values = {carrier: group.to_numpy() for carrier, group in delays.groupby("carrier").arr_delay}
    spans = client.gather(
        client.map(bootstrap_mean, list(values.values()), resamples=resamples, pure=False)
    )
    table = pd.DataFrame(
        {
            "mean delay in minutes": [v.mean() for v in values.values()],
            "95 % sure between": [f"{low:.1f} and {high:.1f}" for low, high in spans],
            "flights": [len(v) for v in values.values()],
        },
        index=pd.Index([names.get(c, c) for c in values], name="airline"),
    )
    table = table[table["flights"] >= 50]
    table = table.sort_values("mean delay in minutes", ascending=False).head(5).round(1)
    return Answer(question="Which airlines are late?", table=table)


def bootstrap_mean(values: np.ndarray[Any, Any], *, resamples: int) -> tuple[float, float]:
    """Return the 95 % confidence interval of a mean, by drawing the values anew many times."""
    generator = np.random.default_rng(2013)
    means = [
        values[generator.integers(0, len(values), len(values))].mean() for _ in range(resamples)
    ]
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def _minutes(table: pd.DataFrame, name: str) -> pd.DataFrame:
    found = table.rename(columns={"mean": "mean delay in minutes", "count": "flights"})
    return found.round(1).rename_axis(name)
