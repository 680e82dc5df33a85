"""Random device functions: early returns, loops, calls of each other, tuples returned, arrays given.

Rules of this file: ``numbers`` take an int64 and a float64 and return an int64 that fits into an int32; ``pair``
returns both; ``writer`` stores to one element of an array that it is given; ``meet`` has barriers of its own.
"""

from __future__ import annotations

from random import Random

from tests.fuzz.expressions import Scope

INDENT = "    "
FIXED = """\
@device
def near(x):
    if -100 <= x and x < 100:
        return float64(x)
    return float64(7.0)

@device
def meet(lent, t, value):
    lent[t] = value
    cuda.syncthreads()
    found = int64(lent[(t + 1) % T])
    cuda.syncthreads()
    return found

@device
def put(array, k, value):
    if k >= array.size:
        return
    array[k:k + 1][0] = value
"""


class DeviceFunctions:
    """The text of a kernel's device functions, and their names."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.numbers: list[str] = []
        self.lines = FIXED.splitlines()
        self.pair, self.writer = "pair", "put"
        for number in range(random.choice((1, 2, 2))):
            self._function(f"h{number}", pair=False)
            self.numbers.append(f"h{number}")
        self._function(self.pair, pair=True)

    def _function(self, name: str, pair: bool) -> None:
        """A function that calls those before it, each with a return inside a branch and one inside a loop."""
        scope = Scope(self.random, ["x", "x", "a"], ["y"])
        scope.functions = list(self.numbers)

        def result() -> str:
            return f"{scope.integer()}, float64({scope.real('f8')})" if pair else scope.integer()

        self.lines += ["", "@device", f"def {name}(x, y):"]
        body = [
            f"a = {Scope(self.random, ['x'], ['y']).integer()}",
            f"if {scope.condition()}:",
            f"{INDENT}return {result()}",
        ]
        if self.random.random() < 0.6:
            body.append(f"for i in range({scope.below(3)}):")
            scope.integers.append("i")
            body += [
                f"{INDENT}a = {scope.integer()}",
                f"{INDENT}if {scope.condition()}:",
                f"{INDENT}{INDENT}return {result()}",
            ]
            scope.integers.pop()
        body.append(f"return {result()}")
        self.lines += [INDENT + line for line in body]
