"""Random kernels about memory: places that the threads of a block share, written, read and updated in turns.

Rules of this file:

* A kernel is a list of phases with a barrier after each.  In a phase a place is *own* (each thread writes elements that
  no other touches), *read* (everybody reads everywhere), *atomic* (one kind of update that commutes) or idle.  So the
  kernel is free of races by construction, and its results do not depend on the order of execution.
* In one phase of each kernel every thread writes a place, and in the next one it reads what a neighbour wrote.  The
  barrier in between is needed; ``dropped`` is the kernel without it.
* A place is shared memory (declared, or a part of the dynamic window) or the block's part of a global array.  Its
  element k is written in many ways: from the end, through views, slices, a transposed or reshaped array.
* Each text means the same to Numba and to Python: see ``tests.fuzz.expressions`` and ``tests.fuzz.lane_by_lane``.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tests.fuzz.device_functions import DeviceFunctions
from tests.fuzz.expressions import FLOATS, INTEGERS, NAMES, Scope

INDENT = "    "
NEEDED = "cuda.syncthreads()  # needed"
ATOMIC = ("i4", "u4", "i8", "u8")
"""Dtypes of places with atomics."""
COMMUTING = {
    "add": "{name}({name}({old}) + {value})",
    "xor": "{name}({old} ^ {value})",
    "and_": "{name}({old} & {value})",
    "or_": "{name}({old} | {value})",
    "min": "min({old}, {value})",
    "max": "max({old}, {value})",
}
"""The updates that agree in every order, and each as the step of a compare-and-swap loop."""


@dataclass(frozen=True)
class Place:
    """Memory of a block: ``shape`` has one or two extents, ``home`` is shared, dynamic or a global array's layout."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    home: str

    @property
    def size(self) -> int:
        """How many elements."""
        return self.shape[0] * (self.shape[1] if len(self.shape) == 2 else 1)


@dataclass(frozen=True)
class MemoryKernel:
    """``places`` and ``totals`` (arrays of the whole grid, updated by atomics) are what the arguments are made of."""

    seed: int
    text: str
    grid: int
    block: tuple[int, ...]
    places: list[Place]
    totals: dict[str, str]
    dynamic: int

    @property
    def dropped(self) -> str:
        """The kernel without a barrier that it needs."""
        assert NEEDED in self.text
        return self.text.replace(NEEDED, "pass")

    @property
    def arguments(self) -> list[Place]:
        """The places that are global arrays."""
        return [place for place in self.places if place.home not in ("shared", "dynamic")]


@dataclass
class Phase:
    """What a place is in one phase, and the map by which each thread finds its own elements of it."""

    mode: dict[str, str] = field(default_factory=dict)
    own: dict[str, str] = field(default_factory=dict)


def memory_kernel(seed: int) -> MemoryKernel:
    """The kernel of this seed; always the same one."""
    return _Generator(seed).kernel()


class _Generator:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.block = self.random.choice(((33,), (48,), (64,), (8, 5), (16, 4), (4, 4, 3)))
        self.threads = 1
        for extent in self.block:
            self.threads *= extent
        self.grid = self.random.choice((1, 2, 3))
        self.lines: list[str] = []
        self.depth = 1
        self.counted = 0
        self.scope = Scope(self.random, ["t", "b", "p0", "p1"], ["q0", "q1"])
        self.functions = DeviceFunctions(self.random)
        self.scope.functions = self.functions.numbers
        self.places = self._places()
        self.totals = {f"total{k}": self.random.choice(ATOMIC) for k in range(self.random.choice((0, 1, 1)))}
        self.updates = {name: self._update(code) for name, code in self.totals.items()}

    def _places(self) -> list[Place]:
        places, dynamic = [], False
        for number in range(self.random.choice((2, 2, 3))):
            home = self.random.choice(("shared", "shared", "C", "strided", "reversed", "F", "dynamic"))
            if number == 0:
                home = "shared"
            dtype = self.random.choice((*INTEGERS, *FLOATS, "b1", *ATOMIC))
            count = self.threads * self.random.choice((1, 1, 2, 3))
            rows = self.random.choice([k for k in range(1, count + 1) if count % k == 0])
            shape = (rows, count // rows) if self.random.random() < 0.5 else (count,)
            if home == "dynamic":
                home, shape, dynamic = "shared" if dynamic else home, (count,), True
            places.append(Place(f"x{number}", dtype, shape, home))
        return places

    # -- the kernel -------------------------------------------------------------------------------------------------

    def kernel(self) -> MemoryKernel:
        """Put it together: declarations, phases, and what each thread ends with."""
        self._declarations()
        count = self.random.choice((2, 3, 3))
        needed = self.random.randrange(count - 1)
        before = Phase()
        known = {place.name for place in self.places if place.home not in ("shared", "dynamic")}
        for number in range(count):
            before = self._phase(number, known, before, needed)
            known |= {place.name for place in self.places}
        self._write("if " + self.scope.condition() + ":")
        self._write(INDENT + "return")
        self._write("ends[b * T + t] = p0 + p1")
        self._write("halves[b * T + t] = float64(q0) + q1")
        arguments = ["ends", "halves", *self.totals, *(f"g{place.name}" for place in self._global())]
        head = [f"T = {self.threads}", "", *self.functions.lines, f"def kernel({', '.join(arguments)}):"]
        text = "\n".join([*head, *self.lines]) + "\n"
        size = {place.name: place.size * int(place.dtype[1]) for place in self.places if place.home == "dynamic"}
        return MemoryKernel(self.seed, text, self.grid, self.block, self.places, self.totals, 2 * sum(size.values()))

    def _global(self) -> list[Place]:
        return [place for place in self.places if place.home not in ("shared", "dynamic")]

    def _write(self, line: str) -> None:
        self.lines.append(INDENT * self.depth + line)

    def _name(self, kind: str) -> str:
        self.counted += 1
        return f"{kind}{self.counted}"

    def _declarations(self) -> None:
        self._write(
            "t = int64(cuda.threadIdx.x + cuda.blockDim.x * (cuda.threadIdx.y + cuda.blockDim.y * cuda.threadIdx.z))"
        )
        self._write("b = int64(cuda.blockIdx.x)")
        self._write("p0, p1, q0, q1 = t * 3 - 5, int64(7), float32(t) / float32(8.0), float64(0.75)")
        self._write("lent = cuda.shared.array(T, int32)")
        for place in self.places:
            name, size, dtype = place.name, place.size, NAMES[place.dtype]
            if place.home == "shared":
                shape = place.shape if len(place.shape) == 2 else size
                self._write(f"{name} = cuda.shared.array({shape}, {dtype})")
            elif place.home == "dynamic":
                self._write(f"{name} = cuda.shared.array(0, {dtype})[{self.random.choice((f':{size}', f'{size}:'))}]")
            elif len(place.shape) == 2:
                self._write(f"{name} = g{name}[b]")
            else:
                self._write(f"{name} = g{name}[b * {size}:(b + 1) * {size}]")
            self._write(f"{name}r, {name}t = {name}[::-1], {name}.T")

    # -- phases -----------------------------------------------------------------------------------------------------

    def _phase(self, number: int, known: set[str], before: Phase, needed: int) -> Phase:
        """Statements and the barrier after them; phase ``needed`` writes what the one after it reads."""
        phase = Phase()
        first = self.places[0]
        for place in self.places:
            modes = ["own", "own", "read"] + ["atomic"] * 3 * (place.dtype in ATOMIC)
            mode = self.random.choice(modes) if place.name in known else "own"
            if place is first and number in (needed, needed + 1):
                mode = "own" if number == needed else "read"
            phase.mode[place.name] = mode
            phase.own[place.name] = self.random.choice(("{j} * T + {t}", "{t} * {m} + {j}", self._scattered()))
        self._loads(phase, known)
        if number == needed + 1:
            self._neighbour(first, before)
        loop = number not in (needed, needed + 1) and not {place.name for place in self.places} - known
        if looped := loop and self.random.random() < 0.3:
            self._write(f"for s{number} in range({self.random.randint(2, 3)}):")
            self.depth += 1
            self.scope.integers.append(f"s{number}")
        self._work(phase, known, sure=number == needed)
        self._barrier(number == needed)
        if looped:
            self.depth -= 1
            self.scope.integers.pop()
        return phase

    def _scattered(self) -> str:
        factor = self.random.choice([k for k in range(1, self.threads) if _coprime(k, self.threads)])
        return f"{{j}} * T + ({{t}} * {factor} + {self.random.randrange(self.threads)}) % T"

    def _loads(self, phase: Phase, known: set[str]) -> None:
        """What expressions may read in this phase: all of a place that nobody writes, else a thread's own."""
        self.scope.loads = []
        for place in self.places:
            mode = phase.mode[place.name]
            if mode == "read":
                self.scope.loads.append((place.dtype, lambda place=place: self._anywhere(place)))
            elif mode == "own" and place.name in known:
                index = phase.own[place.name]
                self.scope.loads.append((place.dtype, lambda place=place, own=index: self._mine(place, own)))

    def _anywhere(self, place: Place) -> str:
        simple = self.random.choice(self.scope.integers)
        return self._element(
            place, f"(({simple} * {self.random.choice((1, 3, 7))} + {self.random.randrange(9)}) % {place.size})"
        )

    def _mine(self, place: Place, own: str, thread: str = "t", j: str | None = None) -> str:
        times = place.size // self.threads
        number = str(self.random.randrange(times)) if j is None else j
        return self._element(place, "(" + own.format(j=number, t=thread, m=times) + ")")

    def _element(self, place: Place, k: str) -> str:
        """Element ``k`` (in C order, whatever the layout), in one of the ways in which it may be written."""
        name, n = place.name, place.size
        if len(place.shape) == 1:
            ways = [f"{name}[{k}]", f"{name}[{k} - {n}]", f"{name}r[{n - 1} - {k}]", f"{name}[{k}:][0]",
                    f"{name}[:{k} + 1][-1]", f"{name}[{k} % 2::2][{k} // 2]", f"{name}t[{k}]"]  # fmt: skip
            return self.random.choice(ways)
        rows, columns = place.shape
        row, column = f"{k} // {columns}", f"{k} % {columns}"
        ways = [f"{name}[{row}, {column}]", f"{name}[{row}, {column} - {columns}]", f"{name}t[{column}, {row}]",
                f"{name}r[{rows - 1} - {row}, {column}]", f"{name}[{row}][{column}]", f"{name}[:, {column}][{row}]",
                f"{name}[{row} - {rows}, ::-1][{columns - 1} - {column}]"]  # fmt: skip
        if place.home == "shared":
            ways.append(f"{name}.reshape({n})[{k}]")
        return self.random.choice(ways)

    def _neighbour(self, place: Place, before: Phase) -> None:
        """Read what another thread wrote in the phase before."""
        away = f"((t + {self.random.randrange(1, self.threads)}) % T)"
        element = self._mine(place, before.own[place.name], away)
        if place.dtype in FLOATS:
            self._write(f"q0 = float32({element})")
        else:
            self._write(
                f"p1 = (int64(1) if {element} else int64(0))"
                if place.dtype == "b1"
                else f"p1 = int64(int32({element}))"
            )

    def _barrier(self, needed: bool) -> None:
        choice = self.random.random()
        if needed or choice < 0.7:
            self._write(NEEDED if needed else "cuda.syncthreads()")
        elif choice < 0.85:
            how = self.random.choice(("count", "and", "or"))
            self._write(f"p0 = int64(cuda.syncthreads_{how}(int32(1 if {self.scope.condition()} else 0)))")
        else:
            self._write(f"p1 = meet(lent, t, int32({self.scope.random.choice(self.scope.integers)}))")

    # -- statements -------------------------------------------------------------------------------------------------

    def _work(self, phase: Phase, known: set[str], sure: bool) -> None:
        for place in self.places:
            mode = phase.mode[place.name]
            if mode == "own":
                fills = place.name not in known or (sure and place is self.places[0])
                self._fill(place, phase) if fills or self.random.random() < 0.5 else self._some(place, phase)
            elif mode == "atomic":
                self._guarded(
                    lambda place=place: self._update_one(place.name, place.dtype, place.size, self._update(place.dtype))
                )
            if self.random.random() < 0.3:
                self._guarded(self._private)
        for name, code in self.totals.items():
            if self.random.random() < 0.4:
                self._guarded(lambda name=name, code=code: self._update_one(name, code, 8, self.updates[name]))

    def _guarded(self, write: object) -> None:
        """One statement, now and then under a branch or in a loop that some lanes leave early."""
        assert callable(write)
        choice, depth = self.random.random(), self.depth
        if choice < 0.3:
            self._write(f"if {self.scope.condition()}:")
            self.depth += 1
        elif choice < 0.45:
            name = self._name("k")
            self._write(f"for {name} in range({self.scope.below(4)}):")
            self.depth += 1
            self.scope.integers.append(name)
            if self.random.random() < 0.5:
                self._write(f"if {self.scope.condition()}:")
                self._write(INDENT + self.random.choice(("break", "continue")))
        write()
        if self.depth > depth and choice >= 0.3:
            self.scope.integers.pop()
        self.depth = depth

    def _fill(self, place: Place, phase: Phase) -> None:
        """Write all of one's elements."""
        name, own = self._name("j"), phase.own[place.name]
        self._write(f"for {name} in range({place.size // self.threads}):")
        self.scope.integers.append(name)
        value = self.scope.value(place.dtype)
        self._write(f"{INDENT}{self._mine(place, own, j=name)} = {value}")
        self.scope.integers.pop()

    def _some(self, place: Place, phase: Phase) -> None:
        """Write one of one's elements, by a store or by a device function that is given the array."""
        own = phase.own[place.name]

        def write() -> None:
            value = self.scope.value(place.dtype)
            if len(place.shape) == 1 and place.dtype != "b1" and self.random.random() < 0.4:
                index = own.format(
                    j=self.random.randrange(place.size // self.threads), t="t", m=place.size // self.threads
                )
                self._write(f"{self.functions.writer}({place.name}, {index}, {value})")
            else:
                self._write(f"{self._mine(place, own)} = {value}")

        self._guarded(write)

    def _private(self) -> None:
        choice = self.random.random()
        if choice < 0.3:
            self._write(f"{self.random.choice(('p0', 'p1'))} = {self.scope.integer()}")
        elif choice < 0.5:
            self._write(f"q0 = float32({self.scope.real('f4')})")
        elif choice < 0.6:
            self._write(f"q1 = {self.scope.real('f8')}")
        elif choice < 0.8:
            self._write(f"p0, q1 = {self.functions.pair}({self.scope.integer(1)}, {self.scope.real('f8', 1)})")
        else:
            self._local()

    def _local(self) -> None:
        """A local array: filled, then read at an index that differs from lane to lane."""
        name, j, size = self._name("l"), self._name("j"), self.random.choice((3, 5, 8))
        dtype = self.random.choice((*INTEGERS, "f4", "f8"))
        self._write(f"{name} = cuda.local.array({size}, {NAMES[dtype]})")
        self._write(f"for {j} in range({size}):")
        self.scope.integers.append(j)
        self._write(
            f"{INDENT}{name}[{self.random.choice((j, f'{j} - {size}', f'{size - 1} - {j}'))}]"
            f" = {self.scope.value(dtype)}"
        )
        self.scope.integers.pop()
        element = self.random.choice((name, f"{name}[::-1]")) + f"[{self.scope.below(size)}]"
        self._write(f"q1 = float64({element})" if dtype in FLOATS else f"p0 = int64(int32({element}))")

    # -- atomics ----------------------------------------------------------------------------------------------------

    def _update(self, dtype: str) -> str:
        extra = ("inc", "dec") if dtype in ("u4", "u8") else ("exch",)
        return self.random.choice((*COMMUTING, *COMMUTING, *extra))

    def _update_one(self, name: str, dtype: str, size: int, how: str) -> None:
        """One atomic update; places that have two axes are indexed by both."""
        place = next((place for place in self.places if place.name == name), None)
        k = self.scope.below(size)
        index = k if place is None or len(place.shape) == 1 else f"({k} // {place.shape[1]}, {k} % {place.shape[1]})"
        kind = NAMES[dtype]
        if how in ("inc", "dec", "exch"):
            self._write(f"cuda.atomic.{how}({name}, {index}, {kind}({self._constant(how)}))")
        elif self.random.random() < 0.7 or not isinstance(index, str):
            self._write(f"cuda.atomic.{how}({name}, {index}, {kind}({self.scope.integer(1)}))")
        else:
            self._swap(name, index, kind, how)

    def _constant(self, how: str) -> int:
        return 5 + self.seed % 7 if how != "exch" else self.seed % 97

    def _swap(self, name: str, index: str, kind: str, how: str) -> None:
        """The update as a loop of compare and swap, which begins with an atomic read."""
        at, value, old, seen = (self._name(kind_of) for kind_of in ("i", "v", "old", "seen"))
        step = COMMUTING[how].format(name=kind, old=old, value=value)
        for line in (
            f"{at}, {value} = {index}, {kind}({self.scope.integer(1)})",
            f"{old} = cuda.atomic.cas({name}, {at}, {kind}(0), {kind}(0))",
            "while True:",
            f"{INDENT}{seen} = cuda.atomic.cas({name}, {at}, {old}, {step})",
            f"{INDENT}if {seen} == {old}:",
            f"{INDENT}{INDENT}break",
            f"{INDENT}{old} = {seen}",
        ):
            self._write(line)


def _coprime(a: int, b: int) -> bool:
    while b:
        a, b = b, a % b
    return a == 1
