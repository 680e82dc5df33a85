"""``numba-sim run`` and ``check``: unmodified scripts, exit status, and what is said."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from simulator.__main__ import main

SCRIPT = """
import sys
import numpy as np
from numba import cuda, float32
from numba.cuda import to_device
import neighbour

@cuda.jit("void(float32[:])")
def total(x):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    if t < 32:
        s[t] += s[t + 32]
    x[t] = s[t]

@cuda.jit
def add(x, step):
    x[cuda.grid(1)] += step

if __name__ == "__main__":
    x = to_device(np.ones(64, np.float32))
    add[2, 32](x, np.float32(1))
    print("sum", x.copy_to_host().sum(), sys.argv[1:])
    if "race" in sys.argv:
        total[1, 64](x)
    if "--far" in sys.argv:
        add[3, 32](x, np.float32(1))
    if "large" in sys.argv:
        from cuda.core._utils.cuda_utils import CUDAError
        try:
            add[1, 1025](x, np.float32(1))
        except CUDAError as error:
            print("refused", error.findings[0].kind)
    if "stop" in sys.argv:
        sys.exit(3)
    if "break" in sys.argv:
        {}["nothing"]
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "neighbour.py").write_text("")
    (tmp_path / "lab.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["pytest"])
    return "lab.py"


@pytest.fixture
def says(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*tokens: str) -> tuple[int, str, str]:
        status = main(tokens)
        out, err = capsys.readouterr()
        return status, out, err

    return run


def test_run_in_a_process_of_its_own(script: str) -> None:
    command = [sys.executable, "-W", "ignore", "-m", "simulator", "run", script, "a", "--", "--b"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "sum 128.0 ['a', '--b']\n", "")


def test_run_tells_a_faulty_launch_where_it_was_made(script: str, says: Any) -> None:
    status, out, err = says("run", script, "--", "--far")
    assert status == 1
    assert out == "sum 128.0 ['--far']\n"
    assert "OutOfBounds: lab.py:19: thread 0 of block 2" in err
    assert err.count("\n  File ") == 1  # none of our frames
    assert "add[3, 32](x, np.float32(1))" in err


def test_a_launch_that_is_refused_is_caught_as_on_a_gpu_and_told(script: str, says: Any) -> None:
    assert says("run", script, "large")[:2] == (0, "sum 128.0 ['large']\nrefused launch-limit\n")
    for target in ([script, "large"], [f"{script}:add", "--launch", "1,1025", "--arg", "x=zeros:float32[9]"]):
        options = [] if len(target) == 2 else ["--arg", "step=float32:1"]
        status, out, _ = says("check", *target, *options)
        assert status == 1
        assert "block x is 1025, but 1024 is the most" in out


def test_run_ends_as_the_script_does(script: str, says: Any) -> None:
    assert says("run", script, "stop")[0] == 3
    status, _, err = says("run", script, "break")
    assert status == 2
    assert "KeyError: 'nothing'" in err
    assert err.count("\n  File ") == 1


def test_run_of_nothing(script: str, says: Any) -> None:
    Path("empty.py").write_text("print('hello')")
    assert says("run", "empty.py") == (2, "hello\n", "numba-sim: empty.py launched no kernel\n")
    assert says("run", "nowhere.py")[2] == "numba-sim: there is no file nowhere.py\n"
    assert "the cards are t4" in says("run", script, "--card", "voodoo")[2]
    assert "write -- before what the script itself takes" in says("run", script, "--far")[2]


def test_a_library_with_a_device_of_its_own_has_none(script: str, says: Any) -> None:
    Path("guest.py").write_text(
        "class CUDARuntimeError(Exception): __module__ = 'cupy_backends.cuda'\nraise CUDARuntimeError"
    )
    status, _, err = says("run", "guest.py")
    assert status == 2
    assert "CuPy has no device here" in err


def test_check_of_a_clean_script(script: str, says: Any) -> None:
    status, out, _ = says("check", script)
    assert status == 0
    assert out.splitlines() == ["sum 128.0 []", "1 launch of add: no findings"]


def test_check_tells_what_is_wrong_once(script: str, says: Any) -> None:
    status, out, _ = says("check", script, "race")
    assert status == 1
    assert "error: race-shared: lab.py:12:" in out
    assert "likely mend: put cuda.syncthreads()" in out
    assert out.splitlines()[-1].startswith("2 launches of add, total: ")


def test_check_picks_among_the_launches(script: str, says: Any) -> None:
    assert says("check", f"{script}:add", "race")[0] == 0
    assert says("check", f"{script}:total", "race")[0] == 1
    status, _, err = says("check", f"{script}:total")
    assert (status, err) == (2, "numba-sim: lab.py:total launched no kernel, but add\n")


def test_check_of_a_script_that_stops(script: str, says: Any) -> None:
    status, out, err = says("check", script, "break")
    assert status == 2
    assert "KeyError" in err
    assert "1 launch of add: no findings" in out
    assert says("check", script, "race", "break")[0] == 1  # what was found stays found


def test_check_of_one_launch(script: str, says: Any) -> None:
    options = ["--launch", "1,64", "--arg", "x=randn:float32[64]"]
    status, out, _ = says("check", f"{script}:total", *options)
    assert status == 1
    assert "race-shared" in out
    assert "sum" not in out  # imported, not run
    assert "takes no --shape" in says("check", script, "--shape", "8")[2]
    assert "no arguments after the target" in says("check", f"{script}:total", "more", *options)[2]


def test_check_of_a_built_in_kernel(says: Any) -> None:
    status, out, _ = says("check", "rms_norm", "--shape", "1x64", "--threads", "32", "--orders", "waves,last,3")
    assert (status, out) == (0, "1 launch of rms_norm: no findings\n")
    assert "no built-in kernel 'lab'" in says("check", "lab")[2]
    assert "takes no --launch" in says("check", "rms_norm", "--shape", "8", "--launch", "1,32")[2]


def test_findings_for_machines(script: str, says: Any) -> None:
    status, out, err = says("check", script, "race", "--json", "-")
    assert "sum" in err  # what the script prints does not spoil the document
    document = json.loads(out)
    assert (document["schema"], document["version"], document["status"], status) == ("numba-sim/check", 1, 1, 1)
    assert document["launches"] == {"add": 1, "total": 1}
    race = next(found for found in document["findings"] if found["kind"] == "race-shared")
    assert (race["severity"], race["fails"], race["tolerated"]) == ("error", True, "")
    assert [site["line"] for site in race["sites"]] == [12, 14]

    _, out, _ = says("check", script, "race", "--format", "github")
    annotation = next(line for line in out.splitlines() if "race-shared" in line)
    assert annotation.startswith("::error file=lab.py,line=12,title=numba-sim%3A race-shared::")
    assert "%0Alikely mend" in annotation


def test_what_fails_a_check(script: str, says: Any) -> None:
    assert says("check", script, "race", "--ignore", "race-shared", "--ignore", "order-dependent")[0] == 0
    assert says("check", script, "--fail-on", "note")[0] == 0
    Path("pyproject.toml").write_text('[tool.numba-sim]\nignore = ["race-shared"]\n')
    status, out, _ = says("check", script, "race")
    assert status == 0
    assert "tolerated: race-shared" in out
    assert "no 'sometimes'" in says("check", script, "--fail-on", "sometimes")[2]
    assert "an order is one of" in says("check", script, "--orders", "sideways")[2]
    Path("pyproject.toml").write_text('[tool.numba-sim]\nfail-on = ["sometimes"]\n')
    assert "pyproject.toml" in says("check", script)[2]


def test_a_file_that_asks_for_a_device_is_told_how(script: str, says: Any) -> None:
    status, _, err = says(
        "trace", f"{script}:add", "--launch", "2,32", "--arg", "x=zeros:float32[64]", "--arg", "step=1"
    )
    if status:  # no GPU here: the signature of its neighbour asks for one
        assert "a @cuda.jit with signatures does" in err
