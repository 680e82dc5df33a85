"""Sentences about what costs more than it has to, or does nothing: float64, memory traffic, overflow, idle lines.

Rules of this file: one function per kind of fault, facts -> (message, mend).  Ratios are told as what a request takes
against what would do, with the stride that explains them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from simulator.catalogue.words import Said, Tell, Words, at
from simulator.machine.faults import Fault
from simulator.program import INTEGERS, SIZES, Pos

TYPES = {
    "b1": "bool", "f2": "float16", "bf": "bfloat16", "f4": "float32", "f8": "float64",
    **{f"{sign}{size}": f"{name}{8 * size}" for sign, name in (("i", "int"), ("u", "uint")) for size in (1, 2, 4, 8)},
}  # fmt: skip
"""The names of dtypes in Numba."""

LARGEST = {"f2": "65504", "bf": "3.4e+38", "f4": "3.4e+38", "f8": "1.8e+308"}
"""The largest finite number of each float."""


# -- float64 --------------------------------------------------------------------------------------------------------


def _float64(fault: Fault, words: Words) -> Said:
    facts, place = fault.facts, fault.places[0]
    cause, mend = _CAUSES[facts["how"]](facts, place.pos)
    work = facts["work"]
    line = f"line {work.line}" if work is not None else "this line"
    where = f", so {line} computes in float64"
    doubt = "" if facts["confirmed"] else " (as typed: not confirmed in compiled code, for there is no compiler here)"
    return f"{at(place.pos)}: {cause}{where}{doubt}", mend


def _literal(facts: dict[str, Any], pos: Pos) -> Said:
    number = facts["what"]
    kind = "an integer, which beside a float becomes float64" if facts["code"] else "float64"
    if facts["name"]:
        name, _, part = facts["name"].partition(".")
        if part in ("real", "imag"):
            return f"{name} is complex128, as every complex number of Python is", f"write {name} = complex64(…)"
        return f"{name} starts as {number}, which is {kind}", f"write {name} = float32({number})"
    return f"the literal {number} is {kind}", f"write float32({number})"


def _integer(facts: dict[str, Any], pos: Pos) -> Said:
    name = re.sub(r"\.shape(\d)$", r".shape[\1]", facts["what"])
    what, kind, cast = name or "an integer", TYPES[facts["code"]], f"float32({name or '…'})"
    if facts["use"] in ("sqrt", "math", "rsqrt", "round"):
        return f"a function of floats is given an integer ({what} is {kind}), which becomes float64", f"pass {cast}"
    if facts["beside"]:
        return f"{what} is {kind}, which beside a {TYPES[facts['beside']]} becomes float64", f"write {cast}"
    if facts["use"] == "div":
        return f"/ divides integers ({what} is {kind}), which gives float64", f"divide as {cast} / float32(…)"
    return f"{what} is {kind} and meets another integer type as float64", "cast both to one integer type"


def _variable(facts: dict[str, Any], pos: Pos) -> Said:
    kinds = " on one path and ".join(dict.fromkeys(TYPES[code] for code in facts["code"].split(", ")))
    name = facts["what"] or "a variable"
    return (
        f"{name} is {kinds} on another, which Numba makes one float64: integers past 2**53 lose their last bits",
        f"give {name} one type on every path, as with a cast of what is assigned",
    )


def _argument(facts: dict[str, Any], pos: Pos) -> Said:
    return f"the argument {facts['what']} is float64, as every Python float is", f"pass np.float32({facts['what']})"


def _operation(facts: dict[str, Any], pos: Pos) -> Said:
    return "a function or float() gives float64", "cast its argument, or its result, to float32"


_CAUSES: dict[str, Callable[[dict[str, Any], Pos], Said]] = {
    "literal": _literal,
    "integer": _integer,
    "variable": _variable,
    "argument": _argument,
    "operation": _operation,
}


# -- memory ---------------------------------------------------------------------------------------------------------


def _each(total: int, requests: int) -> str:
    """An amount per request, without decimals where there are none.

    >>> _each(64, 2), _each(65, 2)
    ('32', '32.5')
    """
    return f"{total / requests:.1f}".removesuffix(".0")


def _uncoalesced(fault: Fault, words: Words) -> Said:
    facts, place = fault.facts, fault.places[0]
    array, axis = facts["array"], facts["walked"]
    along = f" along axis {axis} of {array}" if axis is not None and len(facts["shape"]) > 1 else ""
    taken, ideal = (_each(facts[key], facts["requests"]) for key in ("taken", "ideal"))
    message = (
        f"{at(place.pos)}: each {facts['operation']} of {array} by a warp moves {taken} sectors where {ideal} hold the "
        f"bytes ({facts['requests']} requests): neighbouring lanes are {abs(facts['apart'])} bytes apart{along}"
    )
    if along and axis != len(facts["shape"]) - 1:
        return message, f"let neighbouring threads (threadIdx.x) differ in the last index of {array}"
    return message, "let neighbouring threads access neighbouring elements, or turn the data in shared memory"


def _bank_conflict(fault: Fault, words: Words) -> Said:
    facts, place = fault.facts, fault.places[0]
    array, shape = facts["array"], facts["shape"]
    ways = _each(facts["taken"], facts["ideal"])
    taken, ideal = (_each(facts[key], facts["requests"]) for key in ("taken", "ideal"))
    message = (
        f"{at(place.pos)}: each {facts['operation']} of {array} by a warp takes {taken} wavefronts where {ideal} would "
        f"do ({facts['requests']} requests), a {ways}-way bank conflict: neighbouring lanes are "
        f"{abs(facts['apart'])} bytes apart, and banks repeat every 128"
    )
    if len(shape) > 1 and facts["walked"] is not None and facts["walked"] < len(shape) - 1:
        padded = (*shape[:-1], shape[-1] + 1)
        return message, f"pad the rows by one element: shape {padded} instead of {shape}"
    return message, "pad each row by one element, in the declaration and in the index, so that the stride is odd"


def _unwritten(fault: Fault, words: Words) -> Said:
    facts, place = fault.facts, fault.places[0]
    array, missing, size = facts["array"], facts["missing"], facts["size"]
    if missing == size:
        return (
            f"{at(place.pos)}: no element of {array} was written, and nothing reads it",
            "check the condition around the store and the launch's shape",
        )
    first, last = (f"{array}[{', '.join(map(str, facts[key]))}]" for key in ("at", "last"))
    which = (
        first if missing == 1 else f"{first} to {last}" if facts["together"] else f"{first} the first, {last} the last"
    )
    return (
        f"{at(place.pos)}: {missing} of {size} elements of {array} {'was' if missing == 1 else 'were'} never written: "
        f"{which}",
        "check the grid (does it cover the array?), the index and the guard, unless the rest is somebody else's",
    )


# -- numbers and barriers -------------------------------------------------------------------------------------------

_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}


def _overflow(fault: Fault, words: Words) -> Said:
    facts, place = fault.facts, fault.places[0]
    if facts["dtype"] in INTEGERS:
        return _narrowed(facts, words.place(place))
    numbers = [f"{number:.6g}" for number in facts["numbers"]]
    if facts["operation"] == "cvt":
        what = f"{TYPES[facts['source']]} {numbers[0]} becomes {TYPES[facts['dtype']]}"
    elif facts["operation"] == "fma":
        what = f"{numbers[0]} * {numbers[1]} + {numbers[2]}"
    else:
        what = f" {_SIGNS[facts['operation']]} ".join(numbers)
    name = f" ({facts['variable']})" if facts["variable"] else ""
    more = f"; it does {facts['count']} times in all" if facts["count"] > 1 else ""
    message = (
        f"{words.place(place)}: {what} is infinite{name}: the largest {TYPES[facts['dtype']]} is "
        f"{LARGEST[facts['dtype']]}{more}"
    )
    wider = "float32" if facts["dtype"] in ("f2", "bf") else "a wider type"
    return message, f"scale the values first (as by their largest), or keep this value in {wider}"


def _narrowed(facts: dict[str, Any], place: str) -> Said:
    (number,), to, bits = facts["numbers"], TYPES[facts["dtype"]], 8 * SIZES[facts["dtype"]]
    left = number % 2**bits
    left -= 2**bits if facts["dtype"][0] == "i" and left >= 2 ** (bits - 1) else 0
    name = f" ({facts['variable']})" if facts["variable"] else ""
    more = f"; it does {facts['count']} times in all" if facts["count"] > 1 else ""
    return (
        f"{place}: {TYPES[facts['source']]} {number}, which is to index an array, becomes {to} {left}{name}: its upper "
        f"bits are lost{more}",
        "keep indices in int64",
    )


def _not_called(fault: Fault, words: Words) -> Said:
    name = fault.facts["name"]
    return f"{at(fault.places[0].pos)}: {name} is named but not called, which does nothing", f"write {name}()"


SENTENCES: dict[str, Tell] = {
    "float64": _float64,
    "overflow": _overflow,
    "uncoalesced": _uncoalesced,
    "bank-conflict": _bank_conflict,
    "barrier-not-called": _not_called,
    "unwritten-output": _unwritten,
}
"""How each kind of fault is told."""
