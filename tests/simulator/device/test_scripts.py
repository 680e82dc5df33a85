"""``numba-sim run`` and ``check``: unmodified scripts, exit status, and what is said."""

from __future__ import annotations

import atexit
import gc
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from simulator.__main__ import main
from simulator.cli import streams
from simulator.cli.endings import Ending
from simulator.device import Device

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


def test_a_faulty_launch_behind_an_error_is_told_where_it_was_made(script: str, says: Any) -> None:
    source = Path(script).read_text().replace('if "--far" in sys.argv:\n        add[3', "try:\n        add[3")
    Path(script).write_text(
        source.replace('    if "large"', "    except IndexError as error:\n        1 / 0\n    if 0")
    )
    status, _, err = says("run", script)
    assert status == 2
    assert "OutOfBounds: lab.py:19: " in err
    assert err.endswith("ZeroDivisionError: division by zero\n")
    assert err.count("\n  File ") == 2  # of the launch, and of the division


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


# -- what comes after a script's last line -----------------------------------------------------------------------------

ENDS = """
import atexit, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
import numpy as np
from numba import cuda

@cuda.jit
def past(x):
    x[cuda.grid(1)] = 1

def launch(who, size=32):
    past[2, 16](cuda.to_device(np.zeros(size, np.float32)))
    print(who)

def later(who):
    time.sleep(0.2)
    launch(who)

@atexit.register
def first():
    assert sys.modules["__main__"].first is first
    launch("first handler", 31 if "faulty" in sys.argv else 32)

def never():
    print("never")

def stumbles():
    raise ValueError("no matter")

atexit.register(never)
atexit.register(stumbles)
atexit.register(launch, who="last handler")
atexit.unregister(never)
atexit.register(sys.exit, 5)
if "faulty" not in sys.argv:
    pool = ThreadPoolExecutor(1)
    pool.submit(later, "pool")
    threading.Thread(target=lambda: threading.Thread(target=later, args=("thread",)).start()).start()
print("end")
"""


def test_threads_and_handlers_end_before_the_device_goes(script: str, says: Any) -> None:
    Path("ends.py").write_text(ENDS)
    register = atexit.register
    status, out, err = says("check", "ends.py")
    told = out.splitlines()
    assert (status, told[0], sorted(told[1:3])) == (0, "end", ["pool", "thread"])
    assert told[3:] == ["last handler", "first handler", "4 launches of past: no findings"]
    assert err.startswith("Exception ignored in atexit callback: <function stumbles")
    assert err.endswith("ValueError: no matter\n")
    assert err.count("\n  File ") == 1
    assert atexit.register is register
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(int).result() == 0


def test_a_launch_in_a_handler_that_goes_wrong_is_told(script: str, says: Any) -> None:
    Path("ends.py").write_text(ENDS)
    status, out, err = says("run", "ends.py", "faulty")
    assert (status, out) == (1, "end\nlast handler\n")
    assert "OutOfBounds: ends.py:9: thread 15 of block 1" in err
    status, out, _ = says("check", "ends.py", "faulty")
    assert status == 1
    assert "error: out-of-bounds: ends.py:9: thread 15 of block 1" in out


def test_handlers_of_others_are_left_to_the_end_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[Any] = []
    monkeypatch.setattr(atexit, "register", lambda *args: left.append(args))
    with Ending() as ending:
        for name in ("logging", "numba.core.utils", "__main__", "my_library.part"):
            exec("import atexit; atexit.register(print, name)", {"__name__": name, "name": name})
        mine = atexit.register
    assert left == [(print, "logging"), (print, "numba.core.utils")]
    ran: list[str] = []
    monkeypatch.setattr("builtins.print", ran.append)
    ending._handlers = [(ran.append, args, kwargs) for _, args, kwargs in ending._handlers]
    assert ending.finish() is None
    assert ran == ["my_library.part", "__main__"]
    mine(len, ())  # who kept the function still registers
    assert left[2:] == [(len, ())]


# -- however it ends ---------------------------------------------------------------------------------------------------

FAULTY = """
import asyncio, io, os, sys
import numpy as np
from numba import cuda

@cuda.jit
def past(x):
    x[cuda.grid(1)] = 1  # sim: ignore[misaligned-access] {why}

past[2, 16](cuda.to_device(np.zeros(31, np.float32)))
"""


@pytest.mark.parametrize(
    ("ending", "status", "told"),
    [
        ("sys.stdout = io.StringIO()", 1, ""),
        ("sys.stdout = sys.stderr = None", 1, ""),
        ("sys.stdout = object()", 1, ""),
        ("raise asyncio.CancelledError", 1, "CancelledError"),
        ("class Own(BaseException): pass\nraise Own('so')", 1, "Own: so"),
        ("raise KeyboardInterrupt", 130, "KeyboardInterrupt"),
        ("import atexit\natexit.register(lambda: {}[0])\nsys.stdout = io.StringIO()", 1, "KeyError: 0"),
        ("sys.exit('enough')", 1, "enough"),
    ],
)
def test_findings_are_told_however_a_script_ends(script: str, says: Any, ending: str, status: int, told: str) -> None:
    Path("faulty.py").write_text(FAULTY + ending)
    found, out, err = says("check", "faulty.py")
    assert found == status
    assert out.startswith("error: out-of-bounds: faulty.py:8: ")
    assert out.endswith("1 launch of past: 1 error\n")
    assert told in err
    assert "simulator" not in err


@pytest.mark.parametrize(
    ("source", "status", "told"),
    [
        ("raise KeyboardInterrupt", 130, "KeyboardInterrupt\n"),
        ("raise GeneratorExit", 2, "GeneratorExit\n"),
        ("if\n", 2, "SyntaxError: invalid syntax\n"),
    ],
)
def test_run_tells_what_ends_a_script_as_python_does(
    script: str, says: Any, source: str, status: int, told: str
) -> None:
    Path("ends.py").write_text(source)
    found, out, err = says("run", "ends.py")
    assert (found, out) == (status, "")
    assert err.endswith(told)
    assert err.count("  File ") == 1


def test_an_interrupted_launch_is_told_where_it_was_made(
    script: str, says: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Device, "run", interrupted)
    status, _, err = says("run", script)
    assert status == 130
    assert err.count("\n  File ") == 1
    assert "add[2, 32](x, np.float32(1))" in err


def _wrap() -> None:
    """As scripts do that want UTF-8: what they put round the buffer closes it when it dies."""
    sys.stdout = wrapper = io.TextIOWrapper(sys.stdout.buffer)
    sys.stdout = io.TextIOWrapper(wrapper.detach(), line_buffering=True)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda: sys.stdout.close(),
        lambda: io.TextIOWrapper.detach(sys.stdout),  # type: ignore[arg-type]
        lambda: os.close(sys.stdout.fileno()),
        lambda: os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()),
        lambda: setattr(sys, "stdout", None),
        _wrap,
    ],
)
def test_what_a_command_tells_comes_on_the_stream_that_it_began_with(
    spoil: Callable[[], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT)
    monkeypatch.setattr(sys, "stdout", open(number, "w", closefd=False))  # as Python opens its own
    with streams.kept():
        print("before", flush=True)
        spoil()
    gc.collect()
    print("after", flush=True)
    sys.stdout.close()
    os.close(number)
    assert (tmp_path / "out").read_text() == "before\nafter\n"


def test_a_process_of_its_own_that_spoils_all(script: str) -> None:
    spoils = "import atexit\natexit.register(past[2, 16], np.zeros(30, np.float32))\nsys.stdout.close()\n"
    Path("faulty.py").write_text(FAULTY + spoils + "raise asyncio.CancelledError")
    command = [sys.executable, "-W", "ignore", "-m", "simulator", "check", "faulty.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout.endswith("2 launches of past: 1 error\n")
    assert done.stderr.count("\n  File ") == 1


def test_a_script_that_goes_to_another_folder(script: str, says: Any, tmp_path: Path) -> None:
    tolerant = FAULTY.replace("misaligned-access] {why}", "out-of-bounds] shown")
    away = "import pathlib\nassert pathlib.Path(__file__).is_file()\nos.chdir('/')\n"
    Path("away.py").write_text(tolerant + away + "assert pathlib.Path(__file__).is_file()\n")
    assert says("check", "away.py", "--json", "found.json")[0] == 0
    assert Path.cwd() == tmp_path
    assert json.loads(Path("found.json").read_text())["findings"][0]["tolerated"] == "shown"


# -- modules -----------------------------------------------------------------------------------------------------------


def test_a_module_runs_as_with_python_m(script: str, says: Any) -> None:
    parcel = Path("parcel_of_lab")
    parcel.mkdir()
    (parcel / "__init__.py").write_text("")
    (parcel / "lab.py").write_text(SCRIPT)
    (parcel / "needy.py").write_text("import no_such_thing")
    (parcel / "__main__.py").write_text(
        "import sys\nfrom .lab import add, np, to_device\n"
        "x = to_device(np.ones(64, np.float32))\nadd[2, 32](x, np.float32(1))\n"
        "print(x.copy_to_host().sum(), sys.argv[1:], __package__, __name__, __file__ == sys.argv[0], sys.path[0])\n"
    )
    for command in (["run"], ["check"]):
        status, out, _ = says(*command, "-m", "parcel_of_lab", "a", "--", "--b")
        assert (status, out.splitlines()[0]) == (0, f"128.0 ['a', '--b'] parcel_of_lab __main__ True {Path.cwd()}")
    status, out, _ = says("check", "-m", "parcel_of_lab.lab:total", "race")
    assert status == 1
    assert out.splitlines()[0] == "sum 128.0 ['race']"
    assert "1 launch of total: 1 error, " in out
    assert "sectors" in says("profile", "-m", "parcel_of_lab")[1]
    status, _, err = says("run", "-m", "parcel_of_lab.needy")
    assert (status, err.count("\n  File "), err.splitlines()[-1]) == (
        2, 1, "ModuleNotFoundError: No module named 'no_such_thing'",
    )  # fmt: skip
    for name, missing in (("parcel_of_labs", ""), ("parcel_of_lab.lab.x", ""), ("json", ".__main__"), ("__main__", "")):
        assert says("run", "-m", name)[2] == f"numba-sim: there is no module {name}{missing}\n"
    assert "a script takes no --launch" in says("check", "-m", "parcel_of_lab", "--launch", "1,1")[2]
    assert "name what is to run" in says("check")[2]


def test_an_archive_runs_as_with_python(script: str, says: Any) -> None:
    import zipapp

    Path("app").mkdir()
    Path("app/__main__.py").write_text(SCRIPT.replace("import neighbour", "import beside"))
    Path("app/beside.py").write_text("")
    zipapp.create_archive("app", "app.pyz")
    assert says("run", "app.pyz", "a")[:2] == (0, "sum 128.0 ['a']\n")
