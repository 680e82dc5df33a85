"""Random kernels, each in three texts: for the simulator, for ``numba.njit`` and for plain Python.

Rules of this file:

* A kernel works on variables of fixed dtypes, kept in one array each: loaded at the start, stored at the end.  Its body
  is a list of phases; after a phase every lane shuffles one variable.  Inside a phase there is anything: nested if,
  for, while, break, continue and (in the last one) return.
* The first two texts hold the same expressions, typed by Numba.  The third holds other ones: every operand is converted
  and every result wrapped as *our* reading of Numba's rules (``arithmetic_type``) says, on Python ints and NumPy
  scalars.  Neither of the two evaluations shares code with the machine.
* Where Numba defines nothing (LLVM takes it that signed sums and products do not overflow) or GPU and CPU differ by
  design, nothing is generated: signed operands are cut to 32 bits before they are added or multiplied, a float
  becomes an integer only inside its range (``near``), shifts stay inside the width, the smallest integer is never
  divided by -1, uint64 never meets a signed integer in arithmetic (int64 in numba-cuda, float64 in Numba).
  Numba on the CPU has no float16: there it is a float32 that is rounded at each conversion.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

SIGNED, UNSIGNED = ("i1", "i2", "i4", "i8"), ("u1", "u2", "u4", "u8")
INTEGERS = SIGNED + UNSIGNED
FLOATS = ("f2", "f4", "f8")
SHUFFLED = ("i4", "i8", "f4", "f8")
NAMES = {f"{kind[0]}{size}": f"{kind}{8 * size}" for kind in ("int", "uint") for size in (1, 2, 4, 8)}
NAMES |= {f"f{size}": f"float{8 * size}" for size in (2, 4, 8)}
"""dtype code -> name of Numba's type."""

COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
INDENT = "    "


def arithmetic_type(left: str, right: str) -> str:
    """The dtype in which Numba computes ``left op right`` for + - * // % & | ^: at least 64 bits for integers.

    Small integers fit into a float32; larger ones make it a float64.  So does uint16, which would fit, too.
    """
    if left in FLOATS or right in FLOATS:
        narrow = all(code in ("f4", "i1", "i2", "u1") for code in (left, right))
        return "f4" if narrow else "f8"
    return "u8" if left in UNSIGNED and right in UNSIGNED else "i8"


@dataclass(frozen=True)
class Expression:
    """A value: its dtype ("b1" for a condition), Numba's text and plain Python's."""

    dtype: str
    numba: str
    plain: str


@dataclass
class Phase:
    """Statements, run ``repeat`` times, each time followed by the shuffle (mode, variable, operand) if there is one."""

    numba: list[str] = field(default_factory=list)
    plain: list[str] = field(default_factory=list)
    repeat: int = 1
    shuffle: tuple[str, str, int] | None = None


@dataclass(frozen=True)
class RandomKernel:
    """``variables`` maps names to dtype codes.  ``threads`` are those of a block."""

    seed: int
    variables: dict[str, str]
    phases: list[Phase]
    threads: int

    def _arguments(self) -> str:
        return ", ".join(["table", *(f"{name}_" for name in self.variables)])

    def _edges(self) -> tuple[list[str], str]:
        loads = [f"{name} = {name}_[t]" for name in self.variables]
        return loads, "; ".join(f"{name}_[t] = {name}" for name in self.variables)

    @property
    def cuda(self) -> str:
        """The kernel itself."""
        loads, stores = self._edges()
        lines = [f"def kernel({self._arguments()}):", f"{INDENT}t = cuda.grid(1)", *(INDENT + load for load in loads)]
        for phase in self.phases:
            lines.append(f"{INDENT}for s in range({phase.repeat}):")
            lines += [2 * INDENT + line for line in phase.numba]
            if phase.shuffle is not None:
                mode, name, operand = phase.shuffle
                lines.append(f"{2 * INDENT}{name} = cuda.{mode}(0xffffffff, {name}, {operand})")
        return "\n".join([*lines, INDENT + stores]).replace("@stores", stores) + "\n"

    def thread(self, plain: bool) -> str:
        """``thread(phase, t, s, table, …)``: one thread's part of one phase, for Numba on the CPU or plain Python."""
        loads, stores = self._edges()
        lines = [f"def thread(phase, t, s, {self._arguments()}):", *(INDENT + load for load in loads)]
        for number, phase in enumerate(self.phases):
            lines.append(f"{INDENT}if phase == {number}:")
            lines += [2 * INDENT + line for line in (phase.plain if plain else phase.numba)]
        return "\n".join([*lines, INDENT + stores]).replace("@stores", stores) + "\n"


def random_kernel(seed: int) -> RandomKernel:
    """The kernel of this seed; always the same one."""
    return _Generator(seed).kernel()


class _Generator:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        codes = self.random.sample(INTEGERS, 3) + self.random.sample(FLOATS, 2) + [self.random.choice(SHUFFLED)]
        self.variables = {f"{code}{'abcdef'[k]}": code for k, code in enumerate(codes)}
        self.counters: list[str] = []
        self.names = 0
        self.left = 0

    def kernel(self) -> RandomKernel:
        count = self.random.choice((1, 2, 3))
        phases = [self._phase(last=number == count - 1) for number in range(count)]
        threads = self.random.choice((33, 48, 64, 80)) if count == 1 else self.random.choice((32, 64))
        return RandomKernel(self.seed, self.variables, phases, threads)

    def _phase(self, last: bool) -> Phase:
        phase = Phase(repeat=1 if last else self.random.choice((1, 1, 3)))
        self.left = 5
        self._statements(phase, 0, loop=False, last=last)
        if not last:
            name = self.random.choice([name for name, code in self.variables.items() if code in SHUFFLED])
            mode = self.random.choice(("shfl_sync", "shfl_up_sync", "shfl_down_sync", "shfl_xor_sync"))
            phase.shuffle = (mode, name, self.random.randrange(32))
        return phase

    # -- statements -------------------------------------------------------------------------------------------

    def _statements(self, phase: Phase, depth: int, loop: bool, last: bool) -> None:
        for _ in range(self.random.randint(1, 2) if depth else self.random.randint(2, 3)):
            self._statement(phase, depth, loop, last)

    def _write(self, phase: Phase, depth: int, numba: str, plain: str | None = None) -> None:
        phase.numba.append(INDENT * depth + numba)
        phase.plain.append(INDENT * depth + (numba if plain is None else plain))

    def _statement(self, phase: Phase, depth: int, loop: bool, last: bool) -> None:
        self.left -= 1
        choice = self.random.random()
        if depth >= 4 or self.left < 0 or choice < 0.35:
            self._assign(phase, depth)
        elif choice < 0.65:
            self._if(phase, depth, loop, last)
        elif choice < 0.77:
            self._for(phase, depth, last)
        elif choice < 0.87:
            self._while(phase, depth, last)
        elif choice < 0.95 and loop:
            self._guarded(phase, depth, self.random.choice(("break", "continue")))
        elif last:
            self._guarded(phase, depth, "@stores; return")
        else:
            self._assign(phase, depth)

    def _assign(self, phase: Phase, depth: int) -> None:
        name = self.random.choice(list(self.variables))
        value = self._convert(self._number(0), self.variables[name])
        self._write(phase, depth, f"{name} = {value.numba}", f"{name} = {value.plain}")

    def _guarded(self, phase: Phase, depth: int, then: str) -> None:
        condition = self._condition()
        self._write(phase, depth, f"if {condition.numba}:", f"if {condition.plain}:")
        self._write(phase, depth + 1, then)

    def _if(self, phase: Phase, depth: int, loop: bool, last: bool) -> None:
        condition = self._condition()
        self._write(phase, depth, f"if {condition.numba}:", f"if {condition.plain}:")
        self._statements(phase, depth + 1, loop, last)
        if self.random.random() < 0.3:
            condition = self._condition()
            self._write(phase, depth, f"elif {condition.numba}:", f"elif {condition.plain}:")
            self._statements(phase, depth + 1, loop, last)
        if self.random.random() < 0.5:
            self._write(phase, depth, "else:")
            self._statements(phase, depth + 1, loop, last)

    def _counter(self) -> str:
        self.names += 1
        return f"k{self.names}"

    def _for(self, phase: Phase, depth: int, last: bool) -> None:
        name, stop = self._counter(), self._small(7)
        start, step = self.random.choice((("", ""), ("-2, ", ", 3"), ("5, ", ", -2"), ("1, ", "")))
        numba, plain = (f"for {name} in range({start}{text}{step}):" for text in (stop.numba, stop.plain))
        self._write(phase, depth, numba, plain)
        self._loop(phase, depth, name, last)
        if self.random.random() < 0.2:
            self._write(phase, depth, "else:")
            self._assign(phase, depth + 1)

    def _while(self, phase: Phase, depth: int, last: bool) -> None:
        name, condition = self._counter(), self._condition()
        self._write(phase, depth, f"{name} = 0")
        numba, plain = (f"while {name} < 4 and {text}:" for text in (condition.numba, condition.plain))
        self._write(phase, depth, numba, plain)
        self._write(phase, depth + 1, f"{name} += 1")
        self._loop(phase, depth, name, last)

    def _loop(self, phase: Phase, depth: int, counter: str, last: bool) -> None:
        self.counters.append(counter)
        self._statements(phase, depth + 1, True, last)
        self.counters.pop()

    # -- expressions ------------------------------------------------------------------------------------------

    def _leaf(self) -> Expression:
        choice = self.random.random()
        if choice < 0.65:
            name = self.random.choice(list(self.variables))
            return self._raised(Expression(self.variables[name], name, name))
        if choice < 0.75:
            name = self.random.choice(["t", "s", *self.counters])
            return Expression("i8", f"int64({name})", name)
        if choice < 0.85:
            number = repr(round(self.random.uniform(-9, 9), 2))
            return Expression("f8", number, f"f8({number})")
        number = str(self.random.choice((-7, -3, -1, 0, 1, 2, 5, 31, 1000, 1 << 33)))
        return Expression("i8", f"({number})", f"({number})")

    def _raised(self, value: Expression) -> Expression:
        """A float16 is a storage format here: arithmetic raises it."""
        return self._convert(value, "f4") if value.dtype == "f2" else value

    def _number(self, depth: int) -> Expression:
        choice = self.random.random()
        if depth > 1 or choice < 0.25:
            return self._leaf()
        if choice < 0.3:
            return self._raised(self._convert(self._number(depth + 1), self.random.choice(INTEGERS + FLOATS)))
        if choice < 0.38:
            return self._gather(depth)
        if choice < 0.48:
            return self._ternary(depth)
        if choice < 0.58:
            return self._unary(self._number(depth + 1))
        left, right = self._number(depth + 1), self._number(depth + 1)
        if left.dtype in FLOATS or right.dtype in FLOATS:
            return self._float_operation(left, right)
        return self._integer_operation(left, right)

    def _float_operation(self, left: Expression, right: Expression) -> Expression:
        how = self.random.choice(("+", "-", "*", "/", "+", "-", "*", "//", "%"))
        if how in ("//", "%"):
            number = self.random.choice((0.75, -2.5, 3.0))
            right = Expression("f4", f"float32({number})", f"f4({number})")
        code = arithmetic_type(left.dtype, right.dtype)
        plain = f"({code}({left.plain}) {how} {code}({right.plain}))"
        return Expression(code, f"({left.numba} {how} {right.numba})", plain)

    def _integer_operation(self, left: Expression, right: Expression) -> Expression:
        left, right = self._reconciled(left, right)
        how = self.random.choice(
            ("+", "-", "*", "&", "|", "^", "+", "-", "*", "//", "%", "/", "<<", ">>", "min", "max")
        )
        code = arithmetic_type(left.dtype, right.dtype)
        if how == "/":
            plain = f"(f8({left.plain}) / f8({right.plain}))"
            return Expression("f8", f"({left.numba} / {right.numba})", plain)
        if how in ("min", "max"):
            left, right = self._convert(left, code), self._convert(right, code)
            return Expression(
                code, *(f"{how}({a}, {b})" for a, b in ((left.numba, right.numba), (left.plain, right.plain)))
            )
        if how in ("<<", ">>"):
            code = arithmetic_type(left.dtype, left.dtype)
            amount = self._small(63)
            return Expression(
                code, f"({left.numba} {how} {amount.numba})", f"{code}({left.plain} {how} {amount.plain})"
            )
        if how in "+-*" and code == "i8":
            left, right = self._cut(left), self._cut(right)
        if how in ("//", "%"):
            right = self._divisor(right)
            code = arithmetic_type(left.dtype, right.dtype)
            name = "floordiv" if how == "//" else "mod"
            return Expression(
                code, f"({left.numba} {how} {right.numba})", f"{code}({name}({left.plain}, {right.plain}))"
            )
        return Expression(code, f"({left.numba} {how} {right.numba})", f"{code}({left.plain} {how} {right.plain})")

    def _reconciled(self, left: Expression, right: Expression) -> tuple[Expression, Expression]:
        """uint64 and a signed integer: make both int64, or both uint64."""
        codes = {left.dtype, right.dtype}
        if "u8" not in codes or not codes & set(SIGNED):
            return left, right
        code = self.random.choice(("i8", "u8"))
        return self._convert(left, code), self._convert(right, code)

    def _cut(self, value: Expression) -> Expression:
        return self._convert(value, "i4") if value.dtype == "i8" else value

    def _divisor(self, value: Expression) -> Expression:
        """0 … 15, or a negative number other than -1."""
        if value.dtype in SIGNED and self.random.random() < 0.3:
            return Expression("i8", "(-3)", "(-3)")
        code = "i8" if value.dtype in SIGNED else "u8"
        mask = "15" if code == "i8" else "uint64(15)"
        return Expression(code, f"({value.numba} & {mask})", f"({value.plain} & 15)")

    def _unary(self, value: Expression) -> Expression:
        code = value.dtype if value.dtype in FLOATS else arithmetic_type(value.dtype, value.dtype)
        if value.dtype not in FLOATS:
            value = self._cut(value)
            how = self.random.choice("-~")  # Numba negates and inverts before it widens
            return Expression(code, f"({how}{value.numba})", f"{value.dtype}({how}{value.plain})")
        how = self.random.choice(("-", "abs", "math.sqrt"))
        return Expression(code, f"({how}({value.numba}))", f"({how.replace('math.', '')}({value.plain}))")

    def _ternary(self, depth: int) -> Expression:
        code, condition = self.random.choice((*INTEGERS, "f4", "f8")), self._condition(depth + 1)
        yes, no = (self._convert(self._number(depth + 1), code) for _ in range(2))
        return Expression(
            code,
            f"({yes.numba} if {condition.numba} else {no.numba})",
            f"({yes.plain} if {condition.plain} else {no.plain})",
        )

    def _gather(self, depth: int) -> Expression:
        """An element of a table, at an index that differs from lane to lane."""
        index = self._small(31)
        return Expression("i4", f"table[{index.numba}]", f"table[{index.plain}]")

    def _small(self, most: int) -> Expression:
        """An int64 from 0 to ``most``."""
        value = self._convert(self._leaf(), "i8")
        return Expression("i8", f"({value.numba} & {most})", f"({value.plain} & {most})")

    def _convert(self, value: Expression, code: str) -> Expression:
        if value.dtype in FLOATS and code in INTEGERS:
            # near() is a device function: outside of a small range GPU and CPU disagree about the integer
            near = "near" if code in SIGNED else "near_positive"
            return Expression(code, f"{NAMES[code]}({near}({value.numba}))", f"int({near}({value.plain}))")
        if code == "f2" and value.dtype not in FLOATS:
            value = self._convert(value, "f8")
        return Expression(code, f"{NAMES[code]}({value.numba})", f"{code}({value.plain})")

    def _condition(self, depth: int = 0) -> Expression:
        choice = self.random.random()
        if choice < 0.15 and depth < 2:
            how = self.random.choice(("and", "or"))
            left, right = self._condition(depth + 1), self._condition(depth + 1)
            return Expression("b1", f"({left.numba} {how} {right.numba})", f"({left.plain} {how} {right.plain})")
        if choice < 0.2:
            inner = self._condition(depth + 1)
            return Expression("b1", f"(not {inner.numba})", f"(not {inner.plain})")
        left, right, how = self._number(2), self._leaf(), self.random.choice(COMPARISONS)
        a, b = left.plain, right.plain
        if left.dtype in FLOATS or right.dtype in FLOATS:
            code = arithmetic_type(left.dtype, right.dtype)
            a, b = f"{code}({a})", f"{code}({b})"
        return Expression("b1", f"({left.numba} {how} {right.numba})", f"({a} {how} {b})")
