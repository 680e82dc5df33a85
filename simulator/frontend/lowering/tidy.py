"""Last touches on a lowered program: fewer blocks, and no slot that is read before anything was written.

Inlining leaves blocks that hold nothing but a jump, and chains of blocks with one way in; each would cost the machine
a step.  A variable that some path leaves unassigned starts with zero (Numba leaves it undefined).
"""

from __future__ import annotations

from collections import Counter

from simulator.program import Block, Const, Op, Program, Term


def tidy(program: Program) -> None:
    """Simplify the control flow and initialise what needs it."""
    _settle_branches(program)
    _skip_empty_blocks(program)
    _skip_known_branches(program)
    _drop_unreachable(program)
    _join_chains(program)
    _initialise(program)


def _term(block: Block) -> Term:
    assert block.term is not None
    return block.term


def _settle_branches(program: Program) -> None:
    """A branch on a constant goes one way only."""
    for block in program.blocks.values():
        term = _term(block)
        if term.cond is not None:
            init = program.slots[term.cond].init
            if isinstance(init, Const):
                block.term = Term("jump", term.pos, (term.to[0 if init.value else 1],))
            elif term.to[0] == term.to[1]:
                block.term = Term("jump", term.pos, term.to[:1])


def _skip_empty_blocks(program: Program) -> None:
    """Lead past blocks that only jump (an endless empty loop stays)."""

    def final(label: str) -> str:
        seen = {label}
        while True:
            block = program.blocks[label]
            term = _term(block)
            if block.ops or term.kind != "jump" or term.to[0] in seen:
                return label
            label = term.to[0]
            seen.add(label)

    for block in program.blocks.values():
        block_term = _term(block)
        block_term.to = tuple(map(final, block_term.to))
    program.entry = final(program.entry)
    _settle_branches(program)


def _skip_known_branches(program: Program) -> None:
    """Lead past a block that only branches on what the block before has just set to a constant."""
    for block in program.blocks.values():
        known = {op.dst[0]: _constant(program, op) for op in block.ops if op.kind == "mov"}
        last = {slot: op for op in block.ops for slot in op.dst}
        term = _term(block)
        to = list(term.to)
        for k, label in enumerate(term.to):
            following = program.blocks[label]
            cond = _term(following).cond
            if following.ops or cond is None or cond not in last or last[cond].kind != "mov":
                continue
            if (value := known[cond]) is not None:
                to[k] = _term(following).to[0 if value else 1]
        term.to = tuple(to)
    _settle_branches(program)


def _constant(program: Program, op: Op) -> object:
    init = program.slots[op.src[0]].init
    return init.value if isinstance(init, Const) else None


def _drop_unreachable(program: Program) -> None:
    reached: set[str] = set()
    waiting = [program.entry]
    while waiting:
        label = waiting.pop()
        if label not in reached:
            reached.add(label)
            waiting += _term(program.blocks[label]).to
    for label in [label for label in program.blocks if label not in reached]:
        del program.blocks[label]


def _join_chains(program: Program) -> None:
    """Append a block to the one before it, where that is the only way in."""
    ways = Counter(to for block in program.blocks.values() for to in _term(block).to)
    for label in list(program.blocks):
        block = program.blocks.get(label)
        while block is not None and _term(block).kind == "jump":
            to = _term(block).to[0]
            if ways[to] != 1 or to in (label, program.entry):
                break
            following = program.blocks.pop(to)
            block.ops += following.ops
            block.term = following.term


def _initialise(program: Program) -> None:
    """Move zero into every slot that is live at the entry."""
    live: dict[str, frozenset[int]] = {label: frozenset() for label in program.blocks}
    changed = True
    while changed:
        changed = False
        for label in reversed(list(program.blocks)):
            found = _live_in(program, label, live)
            if found != live[label]:
                live[label], changed = found, True
    zeros = []
    for slot in sorted(live[program.entry]):
        code = program.slots[slot].dtype
        zero = program.const(code, False if code == "b1" else 0.0 if code[0] in "fb" else 0)
        zeros.append(Op("mov", code, (slot,), (zero,), program.pos))
    if not zeros:
        return
    if any(program.entry in _term(block).to for block in program.blocks.values()):
        start = "start"
        program.blocks = {start: Block(zeros, Term("jump", program.pos, (program.entry,))), **program.blocks}
        program.entry = start
    else:
        program.blocks[program.entry].ops[:0] = zeros


def _live_in(program: Program, label: str, live: dict[str, frozenset[int]]) -> frozenset[int]:
    block = program.blocks[label]
    found = {slot for to in _term(block).to for slot in live[to]}
    if (condition := _term(block).cond) is not None:
        found.add(condition)
    for op in reversed(block.ops):
        found.difference_update(op.dst)
        found.update(op.src)
    return frozenset(slot for slot in found if program.slots[slot].init is None)
