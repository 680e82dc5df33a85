"""``numba-sim profile`` and what it is made of: operations, occupancy, bytes and their time."""

from __future__ import annotations

import io
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import cuda, float32
from rich.console import Console

from simulator import simulate
from simulator.__main__ import main
from simulator.compiled import NO_LINE, MachineCode, NotCompiled, Resources
from simulator.cost.cards import CAPABILITIES, CARDS, card
from simulator.cost.occupancy import occupancy
from simulator.cost.profile import profile
from simulator.errors import NotRecorded
from simulator.frontend import front_end
from simulator.observers.operations import KIND_NAMES
from simulator.trace import Trace
from simulator.views.profile import document, report

SOURCE = """
import math
from numba import cuda, float32


@cuda.jit
def total(x, out):
    tile = cuda.shared.array(64, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    tile[t] = x[i] * x[i] if i < x.size else float32(0)
    cuda.syncthreads()
    if t < 8:
        tile[t] = math.sqrt(tile[t]) + tile[t] * 0.1
    out[i] = tile[t]
"""


@cuda.jit
def total(x, out):
    tile = cuda.shared.array(64, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    tile[t] = x[i] * x[i] if i < x.size else float32(0)
    cuda.syncthreads()
    if t < 8:
        tile[t] = math.sqrt(tile[t]) + tile[t] * 0.1
    out[i] = tile[t]


def run(**options: Any) -> Trace:
    return simulate(total, operations=True, **options)[2, 64](np.ones(100, np.float32), np.zeros(128, np.float32))


def counts(trace: Trace, kind: str) -> dict[str, tuple[int, int]]:
    """(issued, lanes) of one kind, by dtype, over all lines."""
    found: dict[str, tuple[int, int]] = {}
    for row in trace.operations:
        if row.kind == kind:
            issued, lanes = found.get(row.dtype, (0, 0))
            found[row.dtype] = issued + row.issued, lanes + row.lanes
    return found


# -- operations -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", ["affine", "vector"])
def test_operations_by_kind_and_width(values: str) -> None:
    trace = run(values=values)
    # 4 warps hold 100 of 128 lanes: the fourth has 4 of its 32; two warps have 8 lanes below 8
    assert counts(trace, "float") == {"f4": (4, 100), "f8": (4, 32)}, "x * x; tile * 0.1 and the sum"
    assert counts(trace, "special") == {"f4": (2, 16)}, "the square root"
    assert counts(trace, "barrier") == {"i4": (4, 128)}
    memory = counts(trace, "memory")["f4"]
    assert memory == (4 + 4 + 4 + 2 * 3 + 2 * 4, 100 * 2 + 128 + 16 * 3 + 128 * 2)


@pytest.mark.parametrize("order", ["first", "last", 3])
def test_lanes_do_as_much_in_every_order(order: str | int) -> None:
    """Lanes that diverged may go on apart, so that warps issue more."""
    for kind in KIND_NAMES:
        waves, splits = (counts(run(orders=(name,)), kind) for name in ("waves", order))
        assert {key: lanes for key, (_, lanes) in splits.items()} == {key: lanes for key, (_, lanes) in waves.items()}
        assert all(splits[key][0] >= issued for key, (issued, _) in waves.items())


def test_lanes_of_the_memory_rows_agree_with_the_operations() -> None:
    trace = run()
    for row in {(row.file, row.line) for row in trace.lines}:
        traffic = [line for line in trace.lines if (line.file, line.line) == row]
        (memory,) = [o for o in trace.operations if (o.file, o.line) == row and o.kind == "memory"]
        assert (memory.issued, memory.lanes) == (sum(t.requests for t in traffic), sum(t.lanes for t in traffic))


def test_operations_are_counted_on_request() -> None:
    trace = simulate(total)[2, 64](np.ones(100, np.float32), np.zeros(128, np.float32))
    with pytest.raises(NotRecorded, match="operations=True"):
        _ = trace.operations
    with pytest.raises(NotRecorded):
        profile(trace, card("h200"))


def test_warp_operations_and_predicates() -> None:
    @cuda.jit
    def kernel(out):
        t = cuda.threadIdx.x
        value = cuda.shfl_down_sync(0xFFFFFFFF, t, 1)
        if cuda.any_sync(0xFFFFFFFF, t > 3 and t < 9):
            cuda.syncwarp()
            out[t] = value

    trace = simulate(kernel, operations=True)[3, 64](np.zeros(64, np.int64))
    assert sum(issued for issued, _ in counts(trace, "warp").values()) == 3 * 2 * 3 - 3, "the upper warps skip syncwarp"


# -- occupancy ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "registers", "shared", "dynamic", "threads", "blocks", "limited"),
    [
        # 65,536 registers hold 2,048 threads of 32 registers each
        ("h200", 32, 0, 0, 256, 8, ("warps", "registers")),
        # 33 registers of 32 lanes are 1,056, handed out as 1,280: 51 warps, 48 of them by fours, 6 blocks of 8
        ("h200", 33, 0, 0, 256, 6, ("registers",)),
        ("h200", 16, 0, 0, 32, 32, ("blocks",)),
        # 48 KiB and 1 KiB of the system's: 4 in 228 KiB
        ("h200", 32, 48 << 10, 0, 256, 4, ("shared memory",)),
        ("h200", 32, 0, 227 << 10, 256, 1, ("shared memory",)),
        ("h200", 32, 0, 228 << 10, 256, 0, ("shared memory",)),
        ("rtx4090", 32, 0, 0, 1024, 1, ("warps",)),
        ("t4", 64, 32 << 10, 0, 256, 2, ("shared memory",)),
        # 255 registers are 8,192 of a warp: 2 warps in each quarter, of 16 that the block has
        ("a100", 255, 0, 0, 512, 0, ("registers",)),
    ],
)
def test_occupancy_by_hand(
    name: str, registers: int, shared: int, dynamic: int, threads: int, blocks: int, limited: tuple[str, ...]
) -> None:
    found = occupancy(card(name), Resources(registers, shared, 0, 0), threads, dynamic)
    assert (found.blocks, found.limited_by) == (blocks, limited)
    assert found.warps == blocks * threads // 32 and found.part == found.warps / card(name).sm.warps


def test_cards() -> None:
    assert {found.capability for found in CARDS.values()} <= set(CAPABILITIES)
    assert all(found.sm.threads % 32 == 0 and found.bandwidth > 1e11 and found.l2 > 1 << 20 for found in CARDS.values())
    assert card("H200") is CARDS["h200"]
    with pytest.raises(ValueError, match="no card 'h9000'; the cards are t4"):
        card("h9000")


# -- compiled code --------------------------------------------------------------------------------------------------

PTX = """
.file	1 "/somewhere/k.py"
	.local .align 8 .b8 	__local_depot0[16];
	.loc	1 3 0
	ld.global.f64 	%fd1, [%rd1];
	mov.f64 	%fd2, 0d3FB999999999999A;
	cvt.f64.f32 	%fd4, %f8;
	cvt.rn.f32.f64 	%f7, %fd3;
	.loc	1 5 0
	fma.rn.f64 	%fd3, %fd1, 0d3FB999999999999A, %fd2;
	.loc	1 6 0, function_name $L1, inlined_at 1 9 0
	@%p1 add.f64 	%fd9, %fd8, %fd6;
	.loc	1 7 0
	cvt.rn.f64.s64 	%fd5, %rd6;
	.loc	1 8 0
	mul.f32 	%f1, %f2, %f3;
	setp.leu.f32 	%p3, %f1, 0f3F000000;
	.loc	1 0 0
	div.rn.f64 	%fd4, %fd5, %fd6;
	cvt.rn.f64.s64 	%fd5, %rd6;
.shared .align 4 .b8 _tile[256];
"""


def test_lines_that_compute_in_float64() -> None:
    code = MachineCode(PTX, lambda _: "ptxas info: Used 40 registers, 16 bytes stack frame, 8 bytes spill stores")
    found = code.float64_instructions()
    assert {line for line, _ in found} == {("k.py", 5), ("k.py", 6), ("k.py", 7), NO_LINE}
    assert {name for line, name in found if line == NO_LINE} == {"div", "cvt"}
    assert code.resources() == Resources(registers=40, shared=256, local=16, spills=8)


def test_device_functions_compile_without_a_device() -> None:
    @cuda.jit(device=True)
    def squared(value):
        return value * value

    @cuda.jit
    def kernel(x, out):
        out[cuda.grid(1)] = squared(x[cuda.grid(1)]) * 0.1

    trace = simulate(kernel)[1, 32](np.ones(32, np.float32), np.zeros(32, np.float32))
    assert trace.machine_code is not None
    code = trace.machine_code((8, 0))
    assert code.resources().registers > 0 and len({line for line, _ in code.float64_instructions()}) == 1


def test_kernels_without_source_compile_in_silence() -> None:
    space = {"cuda": cuda}
    exec("def kernel(x):\n    x[cuda.grid(1)] *= 0.1", space)
    trace = simulate(space["kernel"], check=True)[1, 32](np.ones(32, np.float32))
    assert [found.kind for found in trace.findings] == ["float64"]


# -- the profile ----------------------------------------------------------------------------------------------------


def test_bytes_against_the_least() -> None:
    found = profile(run(), card("h200"))
    x, out = found.arrays
    # 100 elements are 13 sectors; x is read twice, out written once and whole
    assert (x.array, x.requested, x.read, x.written) == ("x", 2 * 13 * 32, 13 * 32, 0)
    assert (out.requested, out.read, out.written) == (16 * 32, 0, 16 * 32)
    assert found.least == 29 * 32 and found.seconds == 29 * 32 / 4800e9


def test_shown_as_text() -> None:
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(report(profile(run(check=True), card("rtx4090"))))
    said = console.export_text()
    assert "tile[t] = math.sqrt(tile[t])" in said and "NVIDIA GeForce RTX 4090" in said
    assert all(name in said for name in ("float64", "float32", "special", "convert", "sync", "occupancy", "limited by"))
    assert re.search(r"load tile +4 +4 w +4 w +8\.0", said), "two warps load twice, each a wavefront, by eight lanes"


def test_without_a_compiler_there_is_no_occupancy(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise NotCompiled("no compiler here")

    monkeypatch.setattr(type(front_end().half), "machine_code", refuse)
    found = profile(run(), card("h200"))
    assert found.occupancy is None and found.no_occupancy == "no compiler here" and found.waves == 0
    assert document(found)["occupancy"] is None


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "k.py"
    file.write_text(SOURCE)
    given = ["--launch", "2,64", "--arg", "x=ones:float32[100]", "--arg", "out=zeros:float32[128]"]
    assert main(["profile", f"{file}:total", *given, "--card", "a100"]) == 0
    said = capsys.readouterr().out
    assert "NVIDIA A100-SXM4-80GB" in said and "float64" in said
    assert main(["profile", f"{file}:total", *given, "--json", "-"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["schema"], made["version"]) == ("numba-sim/profile", 1)
    assert made["bytes"]["least"] == 29 * 32 and made["card"]["name"] == "NVIDIA H200"
    assert set(made["operations"]["kind"]) >= {"float", "special", "memory", "barrier"}
    assert made["occupancy"]["blocks"] == 32 and "blocks" in made["occupancy"]["limited_by"]
    assert [finding["kind"] for finding in made["findings"]].count("float64") == 1


def test_a_built_in_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "rms_norm", "--shape", "2x512"]) == 0
    assert "reduce.py" in capsys.readouterr().out


SCRIPT = (
    SOURCE
    + """
import sys
import numpy as np

x, out = cuda.to_device(np.ones(100, np.float32)), cuda.device_array(128, np.float32)
for _ in range(int(sys.argv[1])):
    total[2, 64](x, out)
total[2, 32](x, out)
print("done")
"""
)


def test_the_launches_of_a_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "script.py"
    file.write_text(SCRIPT)
    assert main(["profile", str(file), "3"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("done") and said.count("occupancy") == 2
    assert said.index("launched so 3 times") < said.index("launched so once")
    assert main(["profile", f"{file}:total", "1", "--json", "-"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert [launch["times"] for launch in made["launches"]] == [1, 1]
    assert main(["profile", f"{file}:other", "1"]) == 2
    assert "launched no kernel other" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (["rms_norm", "--shape", "1x64", "more"], "a built-in kernel takes no arguments after the target"),
        (["k.py", "--shape", "1x64"], "a script takes no --shape"),
        (["rms_norm", "--shape", "1x64", "--card", "voodoo"], "there is no card 'voodoo'; the cards are t4, v100"),
        (["rms_norm"], "needs --shape"),
        (["no.py:k", "--launch", "1,32"], "there is no file no.py"),
        (["rms_norm", "--shape", "1x64", "--seed", "-1"], "--seed"),
    ],
)
def test_what_cannot_be_profiled(tokens: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", *tokens]) == 2
    assert said in capsys.readouterr().err


def test_a_launch_that_never_began(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "k.py"
    file.write_text("from numba import cuda\n\n\n@cuda.jit\ndef k(x):\n    x[0] = nothing\n")
    assert main(["profile", f"{file}:k", "--launch", "1,32", "--arg", "x=zeros:float32[4]"]) == 1
    assert "does-not-compile" in capsys.readouterr().out
