"""``numba-sim``: output, files, exit status, and what it says to a mistake."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread
from numba import cuda

from simulator.__main__ import main
from simulator.cli import launches, output, words

KERNELS = """
from numba import cuda, float32
import neighbour

@cuda.jit
def scale(x, y, factor):
    i = cuda.grid(1)
    if i < x.size:
        part = x[i] * factor
        y[i] = part

@cuda.jit
def total(x, y):
    t = cuda.threadIdx.x
    value = x[t]
    for k in range(5):
        value += cuda.shfl_xor_sync(0xffffffff, value, 1 << k)
    y[t] = value

@cuda.jit
def beyond(x):
    x[cuda.grid(1) + 1] = 1

@cuda.jit
def with_shared(x):
    s = cuda.shared.array(0, float32)
    s[cuda.threadIdx.x] = x[cuda.threadIdx.x]

@cuda.jit
def does_not_compile(x):
    x[0] = x.nothing

@cuda.jit
def never_ends(x):
    while x[0] >= 0:
        x[0] += 1

def not_a_kernel():
    return 1
"""

SCALE = [
    "--launch",
    "2,64",
    "--arg",
    "factor=float32:2",
    "--arg",
    "x=randn:float32[100]",
    "--arg",
    "y=zeros:float32[100]",
]
FIGURE = ["--figure", "a.svg"]
TOTAL = ["--launch", "1,32", "--arg", "x=arange:float32[32]", "--arg", "y=zeros:float32[32]"]


@pytest.fixture
def kernels(tmp_path: Path) -> str:
    (tmp_path / "neighbour.py").write_text("")
    path = tmp_path / "my_kernels.py"
    path.write_text(KERNELS)
    return str(path)


def refused(tokens: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line on standard error of a command that could not run."""
    assert main(["trace", *tokens]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("numba-sim: ")
    assert err.count("\n") == 1
    return err.removeprefix("numba-sim: ").strip()


def test_a_kernel_of_a_file(kernels: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", f"{kernels}:scale", *SCALE, "--thread", "35", "--block", "1"]) == 0
    out, err = capsys.readouterr()
    assert "thread 35 of block 1" in out
    assert "load x   99" in out
    assert "part = x[i] * factor" in out
    assert err == ""


def test_thread_and_block_select_and_never_size(kernels: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused([f"{kernels}:scale", *SCALE, "--thread", "64"], capsys)
    assert "no thread 64" in said
    assert "no block 2: the grid has blocks 0 to 1" in refused([f"{kernels}:scale", *SCALE, "--block", "2"], capsys)


def test_json_to_a_file_and_to_standard_output(
    kernels: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", f"{kernels}:scale", *SCALE, "--json", "-", "--watch", "part"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["kernel"] == "scale"
    assert len(printed["thread"]["watched"]["part"]) == 1
    path = tmp_path / "trace.json"
    assert main(["trace", f"{kernels}:scale", *SCALE, "--json", str(path), "--watch", "part"]) == 0
    assert capsys.readouterr().out == ""
    stored = json.loads(path.read_text())
    assert stored["lines"] == printed["lines"]


def test_seed_decides_random_arguments(kernels: str, capsys: pytest.CaptureFixture[str]) -> None:
    def part(*more: str) -> Any:
        main(["trace", f"{kernels}:scale", *SCALE, "--json", "-", "--watch", "part", *more])
        return json.loads(capsys.readouterr().out)["thread"]["watched"]["part"]

    assert part() == part("--seed", "0") != part("--seed", "1")


@pytest.mark.parametrize("picture", ["coalescing", "indices", "tree"])
@pytest.mark.parametrize("suffix", [".svg", ".png", ".pdf"])
def test_figures(kernels: str, tmp_path: Path, picture: str, suffix: str) -> None:
    path = tmp_path / f"figure{suffix}"
    assert main(["trace", f"{kernels}:total", *TOTAL, "--figure", str(path), "--picture", picture]) == 0
    assert [found.name for found in tmp_path.iterdir() if found.name.startswith((".", "figure"))] == [path.name]
    if suffix == ".svg":
        text = path.read_text()
        assert {"coalescing": 'id="lane-31"', "indices": 'id="cell-0-0"', "tree": 'id="edge-0-'}[picture] in text
        assert "<dc:description>" in text
    elif suffix == ".png":
        assert imread(path).std() > 0.05
    else:
        assert path.read_bytes().startswith(b"%PDF")


def test_the_same_run_gives_the_same_svg(kernels: str, tmp_path: Path) -> None:
    paths = [tmp_path / "a.svg", tmp_path / "b.svg"]
    for path in paths:
        main(["trace", f"{kernels}:total", *TOTAL, "--figure", str(path)])
    assert paths[0].read_text() == paths[1].read_text()


def test_a_figure_is_whole_or_absent(kernels: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "old.png"
    path.write_text("what was there")
    command = ["trace", f"{kernels}:total", *TOTAL, "--figure", str(path), "--array", "nothing"]
    assert main(command) == 2
    assert "no array 'nothing'; it has x and y" in capsys.readouterr().err
    assert path.read_text() == "what was there"

    def half(part: str) -> None:
        Path(part).write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(launches.CannotRun, match=r"cannot write .*: No space left on device"):
        output.whole(path, half)
    assert path.read_text() == "what was there"
    assert not list(tmp_path.glob(".old*"))


def test_errors_of_the_kernel_are_findings(kernels: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", f"{kernels}:beyond", "--launch", "1,32", "--arg", "x=zeros:float32[32]"]) == 1
    out = capsys.readouterr().out
    assert "error: out-of-bounds: " in out
    assert f"my_kernels.py:{KERNELS.splitlines().index('    x[cuda.grid(1) + 1] = 1') + 1}: thread 31 of block 0" in out


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (["scale", *SCALE[2:], "--launch", "1,1025"], "launch-limit"),
        (["scale", *SCALE[2:], "--launch", "0,32", "--block", "1", "--thread", "2000"], "launch-limit"),
        (["does_not_compile", "--launch", "1,32", "--arg", "x=ones:float32[4]"], "does-not-compile"),
    ],
)
def test_findings_from_before_the_run_are_shown(
    kernels: str, tokens: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["trace", f"{kernels}:{tokens[0]}", *tokens[1:]]
    assert main(command) == 1
    out, err = capsys.readouterr()
    assert err == ""
    assert f"error: {said}: {kernels}:" in out
    assert main([*command, "--json", "-", "--figure", str(tmp_path / "a.svg")]) == 1
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert (found["thread"], found["accesses"], found["schedule"]) == (None, None, "not run")
    assert [finding["kind"] for finding in found["findings"]] == [said]
    assert err.endswith("a.svg is not written: the launch never began: nothing to draw\n")
    assert err.count("\n") == 1


def test_a_figure_that_a_failed_run_lacks(kernels: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figure = ["--figure", str(tmp_path / "a.svg"), "--picture", "tree"]
    assert main(["trace", f"{kernels}:beyond", "--launch", "1,32", "--arg", "x=zeros:float32[32]", *figure]) == 1
    out, err = capsys.readouterr()
    assert "error: out-of-bounds: " in out
    assert "a.svg is not written: " in err
    assert not (tmp_path / "a.svg").exists()


def test_the_budget_of_steps(kernels: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["trace", f"{kernels}:never_ends", "--launch", "1,1", "--arg", "x=zeros:float32[1]"]
    assert main([*command, "--max-steps", "50"]) == 1
    out = capsys.readouterr().out
    assert "after the budget of 50 steps" in out
    assert "--max-steps" in out


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--reduction", "7"], "there is no reduction 7: there is 1 pass (0 the first, -1 the last)"),
        (["--reduction", "-2"], "there is no reduction -2"),
        (["--index", "32"], "the index (32,) is outside y, whose shape is (32,)"),
        (["--index", "-33"], "the index (-33,) is outside y"),
        (["--index", "0,0"], "the index (0, 0) of y has 2 numbers, but its shape (32,) has 1"),
        (["--array", "nothing"], "no array 'nothing'"),
    ],
)
def test_a_tree_that_is_not_there(
    kernels: str, more: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figure = ["--figure", str(tmp_path / "a.svg"), "--picture", "tree"]
    assert main(["trace", f"{kernels}:total", *TOTAL, *figure, *more]) == 2
    assert said in capsys.readouterr().err
    assert main(["trace", f"{kernels}:total", *TOTAL, *figure, "--index", "-1"]) == 0


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("zeros:float32[99999999999999999]", "Unable to allocate|too big|too large"),
        ("randn:float32[99999999999999999999]", "Maximum allowed|too large"),
        ("arange:float32[9999999999,9999999999]", "Maximum allowed|too large"),
        ("integers(0,300):int8[300]", "is no int8"),
        ("arange:int8[300]", "299 is no int8"),
        ("full(300):uint8[3]", "300 is no uint8"),
    ],
)
def test_arrays_that_cannot_be_made(value: str, said: str) -> None:
    with pytest.raises(words.BadWord, match=said):
        words.value_of(value, "x")


@pytest.mark.filterwarnings("error")
def test_numbers_that_overflow_are_inf_without_a_warning() -> None:
    assert np.isinf(words.value_of("arange:float16[100000]", "x")[-1])
    assert words.value_of("arange:int8[128]", "x")[-1] == 127


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize("more", [[], ["--json", "-"]])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_standard_output_that_is_full(kernels: str, more: list[str], unbuffered: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "simulator", "trace", f"{kernels}:scale", *SCALE, *more], stdout=full,
            stderr=subprocess.PIPE, text=True, check=False, env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == "numba-sim: cannot write to the standard output: No space left on device\n"


@pytest.mark.parametrize("more", [[], ["--json", "-"]])
def test_a_reader_that_has_seen_enough(kernels: str, more: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "simulator", "trace", f"{kernels}:scale", *SCALE, *more], stdout=writer,
        stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PermissionError(13, "Permission denied", "k.py"), "[Errno 13] Permission denied: 'k.py'"),
        (MemoryError(), "too large for the memory of this machine"),
        (MemoryError("Unable to allocate"), "too large for the memory of this machine: Unable to allocate"),
    ],
)
def test_errors_of_the_system_end_in_one_line(
    error: Exception, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(launches, "from_file", fail)
    assert refused(["k.py:k", "--launch", "1,1"], capsys) == said


def test_dynamic_shared_memory(kernels: str) -> None:
    x = ["--arg", "x=zeros:float32[64]"]
    assert main(["trace", f"{kernels}:with_shared", "--launch", "1,64,0,256", *x]) == 0
    assert main(["trace", f"{kernels}:with_shared", "--launch", "1,64,0,128", *x]) == 1


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (["K:scale", "--launch", "2,64"], "kernel scale also needs --arg x=… --arg y=… --arg factor=…"),
        (["K:scale"], "needs --launch GRID,BLOCK"),
        (
            ["K:nothing", "--launch", "1,1"],
            "has no kernel 'nothing'; it has scale, total, beyond, with_shared, does_not_compile",
        ),
        (["K"], "name the kernel too"),
        (["my.kernels:scale", *SCALE], "a kernel is named by its file, as in FILE.py:KERNEL; perhaps my/kernels.py:"),
        (["/nowhere/k.py:scale", "--launch", "1,1"], "there is no file /nowhere/k.py"),
        (["K:scale", *SCALE, "--shape", "3"], "--shape does not go with FILE.py:KERNEL"),
        (["K:scale", *SCALE, "--figure", "a.gif"], "ends in .svg, .png, .pdf"),
        (["K:scale", *SCALE, "--figure", "/nowhere/a.png"], "there is no folder /nowhere"),
        (["K:scale", *SCALE, "--watch", "nothing"], "no variable 'nothing'"),
        (["K:scale", *SCALE, "--thread", "zero"], "'zero' is not a thread"),
        (["K:scale", *SCALE, "--order", "sideways"], "sideways"),
        (["K:scale", *SCALE, "--sead", "1"], "Unknown option: --sead"),
        (["K:scale", *SCALE, "--seed", "-1"], "--seed is a number from 0 up, not -1"),
        (["K:scale", *SCALE, "--max-steps", "0"], "max_steps is an int from 1 up, not 0"),
        (["K:scale", *SCALE, "--json", ""], "--json . is a folder"),
        (["K:scale", *SCALE, "--picture", "tree"], "--picture chooses what a picture shows: it needs --figure FILE"),
        (["K:scale", *SCALE, "--array", "x"], "--array chooses what a picture shows"),
        (["K:scale", *SCALE, *FIGURE, "--index", "0"], "--index does not go with --picture coalescing"),
        (["K:scale", *SCALE, *FIGURE, "--request", "-1"], "--request is a number from 0 up, not -1"),
        (["K:scale", *SCALE, *FIGURE, "--picture", "tree", "--index", "abc"], "'abc' is not an index"),
        (["unheard_of", "--shape", "-1x4"], "no built-in kernel 'unheard_of'"),
        (["unheard_of", "--shape", "3"], "no built-in kernel 'unheard_of'"),
        (["unheard_of", "--launch", "1,1"], "--launch does not go with a built-in kernel"),
    ],
)
def test_mistakes_end_in_one_line(
    kernels: str, tokens: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in refused(
        [token.replace("K", kernels, 1) if token.startswith("K") else token for token in tokens], capsys
    )


def test_a_file_that_fails_to_import(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "broken.py"
    path.write_text("raise RuntimeError('not\\ntoday')")
    assert refused([f"{path}:k", "--launch", "1,1"], capsys).endswith("fails to import: RuntimeError: not today")
    assert "broken" not in sys.modules


def test_a_file_of_a_package_is_imported_under_its_name(
    kernels: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inner = tmp_path / "lab_parcel" / "inner"
    inner.mkdir(parents=True)
    (inner.parent / "__init__.py").write_text("")
    (inner / "__init__.py").write_text("from .kernels import scale")
    source = KERNELS.replace("import neighbour", "from ..inner import scale as itself")
    (inner / "broken.py").write_text("from .kernels import nothing")
    (inner / "kernels.py").write_text(KERNELS.replace("import neighbour", "from .. import inner"))
    assert "cannot import name 'nothing'" in refused([f"{inner}/broken.py:k", "--launch", "1,1"], capsys)
    assert not [name for name in sys.modules if name.startswith("lab_parcel")]
    before = list(sys.path)
    assert main(["trace", f"{inner}/kernels.py:scale", *SCALE]) == 0
    assert "part = x[i] * factor" in capsys.readouterr().out
    assert (sys.path, sys.modules["lab_parcel.inner.kernels"].scale.__module__) == (before, "lab_parcel.inner.kernels")
    (tmp_path / "elsewhere" / "lab_parcel").mkdir(parents=True)
    for name in ("__init__.py", "inner.py"):
        (tmp_path / "elsewhere" / "lab_parcel" / name).write_text(source)
    said = refused([f"{tmp_path}/elsewhere/lab_parcel/inner.py:scale", *SCALE], capsys)
    assert "is lab_parcel.inner, but Python has the module of that name from" in said


def test_a_file_may_replace_the_standard_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mute.py"
    path.write_text(KERNELS.replace("import neighbour", "import io, sys; sys.stdout = sys.stderr = io.StringIO()"))
    assert main(["trace", f"{path}:scale", *SCALE]) == 0
    assert "part = x[i] * factor" in capsys.readouterr().out


# -- built-in kernels ------------------------------------------------------------------------------------------------


@cuda.jit
def built_in_kernel(x, y):
    y[cuda.blockIdx.x, cuda.threadIdx.x] = x[cuda.blockIdx.x, cuda.threadIdx.x]


def build(shape: tuple[int, ...], dtype: Any, threads: int | None) -> SimpleNamespace:
    if len(shape) != 2:
        raise ValueError("rows and columns, please")
    x = np.zeros(shape, dtype)
    return SimpleNamespace(kernel=built_in_kernel, grid=shape[0], block=threads or 32, args=(x, x.copy()))


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Entry:
        name = "copy"

        def load(self) -> Any:
            return build

    def groups(group: str) -> list[EntryPoint]:
        assert group == "simulator.kernels"
        return [Entry()]  # type: ignore[list-item]

    monkeypatch.setattr(launches, "entry_points", groups)


@pytest.mark.usefixtures("installed")
def test_a_built_in_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["trace", "copy", "--shape", "3x64", "--dtype", "bfloat16", "--threads", "64", "--block", "2"]
    assert main([*command, "--thread", "63"]) == 0
    out = capsys.readouterr().out
    assert "load x   191" in out
    assert "x bfloat16[3, 64]" in out
    assert "copy  grid 3" not in out  # the kernel's own name, not the entry's
    assert "built_in_kernel  grid 3, block 64" in out
    assert "needs --shape" in refused(["copy"], capsys)
    assert refused(["copy", "--shape", "-1x4"], capsys) == "'-1x4' is not a shape; write 8x4096 or 8,4096"
    assert refused(["copy", "--shape", "99999999x99999999999"], capsys).startswith("copy: ")
    assert refused(["copy", "--shape", "3"], capsys) == "copy: rows and columns, please"
    assert "installed are copy" in refused(["copies", "--shape", "3"], capsys)


def test_a_fresh_process_is_quick_and_does_not_import_matplotlib(kernels: str) -> None:
    """As a process of its own: piped, without colour, and drawing nothing."""
    script = (
        "import sys; from simulator.__main__ import main; status = main(sys.argv[1:]);"
        "assert not [name for name in sys.modules if name.startswith('matplotlib')]; sys.exit(status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "trace", f"{kernels}:scale", *SCALE],
        capture_output=True, text=True, check=False, env={**os.environ, "TERM": "xterm"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
