"""``[tool.numba-sim]`` in pyproject.toml: what a project sets for ``numba-sim check`` and ``pytest --cuda-simulator``.

    [tool.numba-sim]
    fail-on = ["error", "bank-conflict"]    # severities (that and above) and kinds; by default "error"
    ignore = ["uncoalesced"]                # kinds that are tolerated everywhere
    orders = ["first", "last", 7]           # orders of execution, as for simulate
    seed = 0
    card = "h200"                           # which card the stand-in device is

Rules of this file: whatever is wrong in the table is a ``ConfigError`` that names file and key; nothing is passed over.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulator.cost.cards import card as card_of
from simulator.errors import integer
from simulator.findings import KINDS
from simulator.runs.orders import order_of

TABLE = "numba-sim"
LEVELS = ("note", "warning", "error")
"""Severities, the lightest first."""


class ConfigError(ValueError):
    """A setting that means nothing; the message names the file and the key."""


@dataclass(frozen=True, slots=True)
class Config:
    """The settings of a project; ``file`` is where they stand, None where there are none.

    ``orders`` and ``card`` are None where the project leaves the choice to the simulator.
    """

    fail_on: tuple[str, ...] = ("error",)
    ignore: tuple[str, ...] = ()
    orders: tuple[str | int, ...] | None = None
    seed: int = 0
    card: str | None = None
    file: Path | None = None

    @property
    def device_options(self) -> dict[str, Any]:
        """What the settings ask of ``simulator.device``.

        >>> Config(seed=3, card="t4").device_options
        {'seed': 3, 'card': 't4'}
        """
        chosen = {"orders": self.orders, "card": self.card}
        return {"seed": self.seed} | {name: value for name, value in chosen.items() if value is not None}


def find(start: Path) -> Config:
    """The settings for a folder: those of the nearest pyproject.toml, upwards, that has ``[tool.numba-sim]``.

    Raises
    ------
    ConfigError
        The file is no TOML, or a setting means nothing.
    """
    start = start.resolve()
    for folder in (start, *start.parents):
        file = folder / "pyproject.toml"
        if file.is_file() and (table := _table(file)) is not None:
            return read(table, file)
    return Config()


def _table(file: Path) -> Any:
    try:
        tool = tomllib.loads(file.read_text(encoding="utf-8")).get("tool", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: {error}") from error
    if not isinstance(tool, dict):
        raise ConfigError(f"{file}: [tool] is a table, not {tool!r}")
    return tool.get(TABLE)


def read(table: Any, file: Path) -> Config:
    """The settings that a table states.

    >>> read({"fail-on": "warning", "seed": 3}, Path("pyproject.toml")).fail_on
    ('warning',)
    >>> read({"seed": -1}, Path("pyproject.toml"))
    Traceback (most recent call last):
    ...
    simulator.config.ConfigError: pyproject.toml: [tool.numba-sim] seed: it is an int from 0 up, not -1

    Raises
    ------
    ConfigError
        A key is unknown, or a value is none that the key takes.
    """
    if not isinstance(table, dict):
        raise ConfigError(f"{file}: [tool.{TABLE}] is a table, not {table!r}")
    settings: dict[str, Any] = {}
    for key, value in table.items():
        try:
            if key not in KEYS:
                raise ValueError(f"there is no such setting; there are {', '.join(KEYS)}")
            settings[key.replace("-", "_")] = KEYS[key](value)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{file}: [tool.{TABLE}] {key}: {error}") from error
    return Config(**settings, file=file)


# -- values ----------------------------------------------------------------------------------------------------------


def words(value: Any, known: tuple[str, ...]) -> tuple[str, ...]:
    """A list of words, each of them known; a single one may stand without its list.

    Raises
    ------
    ValueError, TypeError
        It is no such list; the message suggests the word that may have been meant.
    """
    given = (value,) if isinstance(value, str) else value
    if not isinstance(given, list | tuple):
        raise TypeError(f"a list of words, not {value!r}")
    for word in given:
        if not isinstance(word, str) or word not in known:
            raise ValueError(f"there is no {word!r}; {_meant(word, known)}")
    return tuple(given)


def _meant(word: Any, known: tuple[str, ...]) -> str:
    import difflib

    close = difflib.get_close_matches(word, known, 1) if isinstance(word, str) else []
    return f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known)}"


def _fail_on(value: Any) -> tuple[str, ...]:
    return words(value, (*LEVELS, *KINDS))


def _ignore(value: Any) -> tuple[str, ...]:
    return words(value, KINDS)


def _orders(value: Any) -> tuple[str | int, ...]:
    given = value if isinstance(value, list) else [value]
    if not given:
        raise ValueError("a list of orders holds at least one")
    for order in given:
        order_of(order, 0)
    return tuple(given)


def _seed(value: Any) -> int:
    return integer("it", value, least=0)


def _card(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"the name of a card, not {value!r}")
    card_of(value)
    return value


KEYS: dict[str, Callable[[Any], Any]] = {
    "fail-on": _fail_on,
    "ignore": _ignore,
    "orders": _orders,
    "seed": _seed,
    "card": _card,
}
"""The settings and what reads them."""
