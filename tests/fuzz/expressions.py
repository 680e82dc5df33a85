"""Random expressions in a text that means the same to Numba and to plain Python.

Rules of this file: Numba's rules of typing play no part, since every result is converted by name.

* An integer expression is an int64 whose value fits into an int32, so that no sum or product overflows; a real one is a
  float32 or float64 whose operands are both of that type.
* What an array of any dtype holds is converted as it is loaded, and as it is stored.
* Where Numba defines nothing, nothing is generated: a float becomes an integer by ``near``, which keeps it in range,
  shifts stay inside the width, divisors are not zero.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

INTEGERS = {"i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64"}
INTEGERS |= {f"u{code[1]}": f"u{name}" for code, name in INTEGERS.items()}
FLOATS = {"f2": "float16", "f4": "float32", "f8": "float64"}
NAMES = {**INTEGERS, **FLOATS, "b1": "boolean"}
"""dtype code -> the name that a kernel calls it by."""


class Scope:
    """The names that expressions may use; ``loads`` make the text of an element that may be read, with its dtype."""

    def __init__(self, random: Random, integers: list[str], reals: list[str]) -> None:
        self.random = random
        self.integers = integers
        self.reals = reals
        self.loads: list[tuple[str, Callable[[], str]]] = []
        self.functions: list[str] = []

    def integer(self, depth: int = 0) -> str:
        """An int64 that fits into an int32."""
        choice = self.random.random()
        if depth >= 2 or choice < (0.15, 0.55)[depth]:
            return self._integer_leaf()
        choice = self.random.random()
        if choice < 0.08:
            return f"int64(near({self.real('f8', depth + 1)}))"
        if choice < 0.18:
            return f"({self.integer(depth + 1)} if {self.condition(depth + 1)} else {self.integer(depth + 1)})"
        if choice < 0.3 and self.functions:
            function = self.random.choice(self.functions)
            return f"{function}({self.integer(depth + 1)}, {self.real('f8', depth + 1)})"
        return f"int64(int32({self._operation(self.integer(depth + 1), depth)}))"

    def _integer_leaf(self) -> str:
        choice = self.random.random()
        if choice < 0.3 and (loads := [load for load in self.loads if load[0] not in FLOATS]):
            dtype, text = self.random.choice(loads)
            return f"(1 if {text()} else 0)" if dtype == "b1" else f"int64(int32({text()}))"
        if choice < 0.85:
            return self.random.choice(self.integers)
        return f"int64({self.random.choice((-1000, -7, -1, 0, 1, 2, 3, 31, 255, 70_000))})"

    def _operation(self, left: str, depth: int) -> str:
        how = self.random.choice(("+", "-", "*", "&", "|", "^", "//", "%", "<<", ">>", "min", "max", "-1", "~1"))
        if how in ("//", "%"):
            return f"{left} {how} int64({self.random.choice((-5, -2, 3, 7, 16))})"
        if how in ("<<", ">>"):
            return f"{left} {how} int64({self.random.randrange(20)})"
        if how in ("-1", "~1"):
            return f"{how[0]}{left}"
        right = self.integer(depth + 1)
        return f"{how}({left}, {right})" if how in ("min", "max") else f"{left} {how} {right}"

    def real(self, code: str, depth: int = 0) -> str:
        """A float32 (f4) or float64 (f8)."""
        name, choice = FLOATS[code], self.random.random()
        if depth >= 2 or choice < (0.2, 0.6)[depth]:
            return self._real_leaf(name)
        choice = self.random.random()
        if choice < 0.12:
            return f"{name}({self.integer(depth + 1)})"
        if choice < 0.24:
            return f"{name}({self.real('f4' if code == 'f8' else 'f8', depth + 1)})"
        if choice < 0.36:
            return f"{self.random.choice(('abs', 'math.sqrt', '-'))}({self.real(code, depth + 1)})"
        if choice < 0.46:
            yes, no = self.real(code, depth + 1), self.real(code, depth + 1)
            return f"({yes} if {self.condition(depth + 1)} else {no})"
        left, right = self.real(code, depth + 1), self.real(code, depth + 1)
        return f"({left} {self.random.choice('+-*/')} {right})"

    def _real_leaf(self, name: str) -> str:
        choice = self.random.random()
        if choice < 0.35 and (loads := [load for load in self.loads if load[0] in FLOATS]):
            dtype, text = self.random.choice(loads)
            return f"{name}(float32({text()}))" if dtype == "f2" else f"{name}({text()})"
        if choice < 0.75 and self.reals:
            return f"{name}({self.random.choice(self.reals)})"
        return f"{name}({self.random.choice((-3.5, -0.1, 0.0, 0.3, 1.0, 2.5, 1e4))})"

    def condition(self, depth: int = 0) -> str:
        """A bool."""
        choice = self.random.random()
        if choice < 0.12 and depth < 2:
            how = self.random.choice(("and", "or"))
            return f"({self.condition(depth + 1)} {how} {self.condition(depth + 1)})"
        if choice < 0.2:
            return f"(not {self.condition(depth + 1)})"
        how = self.random.choice(("<", "<=", ">", ">=", "==", "!="))
        if choice < 0.35:
            return f"({self.real('f8', 1)} {how} {self.real('f8', 2)})"
        return f"({self.integer(1)} {how} {self.integer(2)})"

    def value(self, dtype: str) -> str:
        """What may be stored to an array of this dtype."""
        if dtype == "b1":
            return self.condition()
        if dtype in FLOATS:
            return f"{FLOATS[dtype]}({self.real('f8' if dtype == 'f8' else 'f4')})"
        name, text = INTEGERS[dtype], self.integer()
        if dtype in ("i8", "u8") and self.random.random() < 0.5:
            return f"{name}({name}({text}) * {name}({self.random.choice((3, 1 << 20, (1 << 31) - 1))}))"
        return f"{name}({text})"

    def below(self, count: int) -> str:
        """An index from 0 to ``count - 1``."""
        return f"({self.integer(1)} % {count})"
