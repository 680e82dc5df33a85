"""The stand-in device over a run of pytest: which test launched what, and which findings fail it.

Rules of this file: findings belong to the test in whose setup, call or teardown the launch was made (a fixture that
many tests share launches for the first of them), or to the file that was being imported.  The device is one for the
whole process, from before the first conftest to the end.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from simulator.config import ConfigError, find, words
from simulator.device.session import device
from simulator.findings import KINDS, Finding
from simulator.judgement import Judged, judge
from simulator.pytest_plugin.tally import Tally
from simulator.trace import Trace

MARK = "cuda_findings"
SECTION = "CUDA simulator"
WORKER_KEY = "cuda_simulator"
REPLACED = (
    "{by} has replaced numba.cuda, so that the stand-in device of --cuda-simulator no longer stands behind it: take out"
    " what reloads numba.cuda or sets NUMBA_ENABLE_CUDASIM"
)


@dataclass(slots=True)
class Wishes:
    """What the ``cuda_findings`` marks of a test say."""

    expect: list[str] = field(default_factory=list)
    ignore: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, item: pytest.Item) -> Wishes:
        """The marks of a test, its class and its module together.

        Raises
        ------
        TypeError, ValueError
            A mark takes something else, or names a kind that there is not.
        """
        wishes = cls()
        for mark in item.iter_markers(MARK):
            if mark.args or (unknown := set(mark.kwargs) - {"expect", "ignore"}):
                wrong = repr(mark.args[0]) if mark.args else f"{unknown.pop()}="
                raise TypeError(f"it takes expect=[...] and ignore=[...], not {wrong}")
            wishes.expect += words(mark.kwargs.get("expect", ()), KINDS)
            wishes.ignore += words(mark.kwargs.get("ignore", ()), KINDS)
        return wishes


@dataclass(slots=True)
class Current:
    """The test that is running: what it found, in all and in this phase, and the failure that this made of it.

    ``refused``: it has been told already that numba.cuda was replaced.
    """

    name: str
    wishes: Wishes
    found: list[Finding] = field(default_factory=list)
    phase: list[Judged] = field(default_factory=list)
    failure: BaseException | None = None
    refused: bool = False


RAISED = "the test gets it as an exception"
"""Why a launch that does not begin, or whose kernel raises, does not fail a test that expects so."""


class Session:
    """The hooks of a run that was given the option."""

    def __init__(self, config: pytest.Config, check: bool) -> None:
        self.config = config
        self.check = check
        self.tally = Tally()
        self.current: Current | None = None
        self.fresh: list[Finding] = []
        self.replacer = ""
        stack = ExitStack()
        config.add_cleanup(stack.close)
        try:
            self.settings = find(config.rootpath)
            options: dict[str, Any] = {"record": False, **self.settings.device_options}
            if check:
                options |= {"check": True, "on_trace": self.launched}
            self.device = stack.enter_context(device(**options))
        except (ConfigError, RuntimeError) as error:
            raise pytest.UsageError(str(error)) from error
        self.numba_cuda = sys.modules["numba.cuda"]

    def launched(self, trace: Trace) -> None:
        """Called by the device after each launch that it checks."""
        self.tally.launched(trace)
        self.fresh += trace.findings

    # -- numba.cuda stays the one behind which the device stands

    def replaced(self, by: str) -> str:
        """The complaint, if numba.cuda is no longer the module that it was; the first to be caught stays to blame."""
        module = sys.modules.get("numba.cuda")
        there = module is self.numba_cuda and not module.jit.__module__.startswith("numba.cuda.simulator")
        if there:
            self.replacer = ""
            return ""
        self.replacer = self.replacer or by
        return REPLACED.format(by=self.replacer)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Generator[None, Any, Any]:
        result = yield
        self._refuse(f"the fixture {fixturedef.argname!r}", self.current)
        return result

    def _refuse(self, by: str, test: Current | None) -> None:
        """Fail for the complaint, once a test."""
        complaint = self.replaced(by)
        if complaint and not (test is not None and test.refused):
            if test is not None:
                test.refused = True
            pytest.fail(complaint, pytrace=False)

    def pytest_sessionstart(self) -> None:
        if complaint := self.replaced("a conftest.py or a plug-in"):
            raise pytest.UsageError(complaint)

    # -- collection

    def pytest_report_header(self) -> str:
        where = "" if self.settings.file is None else f", settings in {self.settings.file}"
        how = "check" if self.check else "run"
        return f"cuda-simulator: {how}, stand-in for {self.device.card.name}{where}"

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[None, Any, Any]:
        """What a module launches as it is imported belongs to the module."""
        report = yield
        judged = self._take(collector.nodeid, Wishes())
        complaint = self.replaced(f"the import of {collector.nodeid}")
        if report.passed and complaint:
            _fail(report, complaint)
        elif not report.failed and any(each.fails for each in judged):
            _fail(report, _text(judged))
        elif text := _text(judged, every=True):
            report.sections.append((SECTION, text))
        if report.failed:
            report.result = []
            self.tally.failed(judged)
        return report

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Marks that mean nothing are told before anything runs."""
        wrong = []
        for item in items:
            try:
                Wishes.of(item)
            except (TypeError, ValueError) as error:
                wrong.append(f"{item.nodeid}: mark {MARK}: {error}")
        if wrong:
            raise pytest.UsageError(*wrong)

    # -- tests

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self.current = Current(item.nodeid, Wishes.of(item))
        try:
            return (yield)
        finally:
            self.current = None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self) -> Generator[None, Any, Any]:
        yield from self._phase("setup")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, Any, Any]:
        yield from self._phase("call")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self) -> Generator[None, Any, Any]:
        yield from self._phase("teardown")

    def _phase(self, when: str) -> Generator[None, Any, Any]:
        """Run a phase; then fail it for its findings, unless it has failed by itself."""
        test = self.current
        assert test is not None
        if when == "setup":
            self._refuse("an earlier test", test)
        test.failure = None
        try:
            yield
        finally:
            test.phase = self._take(test.name, test.wishes)
            test.found += [each.finding for each in test.phase]
        self._refuse(f"the test {test.name}", test)
        if any(each.fails for each in test.phase):
            test.failure = pytest.fail.Exception(_text(test.phase), pytrace=False)
            raise test.failure
        if when == "call" and self.check and (missing := _missing(test)):
            pytest.fail(missing, pytrace=False)

    def _take(self, name: str, wishes: Wishes) -> list[Judged]:
        """The findings since the last call, judged and counted."""
        found, self.fresh = _once(self.fresh), []
        raised = [finding for finding in found if finding.raised]
        others = [finding for finding in found if not finding.raised]
        judged = judge(others, self.settings, (*wishes.expect, *wishes.ignore), f"stated by the mark {MARK}")
        judged += [Judged(finding, tolerated=RAISED) for finding in raised]
        self.tally.judged(judged, name)
        return judged

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> Generator[None, Any, pytest.TestReport]:
        """A test that failed by itself is told its findings too: they are often the cause.

        One that skips itself fails for what it launched before: that has run, and is wrong whatever the test says of
        the rest.  Who expects a failure, by a mark or by ``pytest.xfail()``, expects this one, too; the summary has it.
        """
        hide_frames()  # a failure of unittest is not in ``call`` yet
        report: pytest.TestReport = yield
        test = self.current
        if test is None:
            return report
        told = call.excinfo is not None and call.excinfo.value is test.failure
        fails = any(each.fails for each in test.phase)
        text = "" if told else _text(test.phase, every=True)
        shown: Any = report.longrepr
        if fails and report.skipped and not hasattr(report, "wasxfail"):
            _fail(report, _text(test.phase))
        elif text and report.failed and hasattr(shown, "addsection"):
            shown.addsection(SECTION, text)
        elif text:
            report.sections.append((SECTION, text))
        if report.failed:
            self.tally.failed(test.phase)
        test.phase = []
        return report

    # -- the end

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, Any, Any]:
        """What hooks and late fixtures launch belongs to no test; it fails the run."""
        try:
            return (yield)
        finally:
            judged = self._take("after the last test", Wishes())
            if session.exitstatus == pytest.ExitCode.OK and any(each.fails for each in judged):
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
            if not self.check:
                self.tally.launches = self.device.launches
            output = getattr(self.config, "workeroutput", None)
            if output is not None:
                output[WORKER_KEY] = self.tally.as_dict()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """A worker of pytest-xdist has ended; one that crashed has left nothing."""
        tally = getattr(node, "workeroutput", {}).get(WORKER_KEY)
        if tally is not None:
            self.tally.add(tally)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.section(SECTION, sep="-")
        for line in self.tally.lines():
            terminalreporter.write_line(line)


def hide_frames() -> None:
    """Let tracebacks of errors that the simulator tells end at the launch.

    pytest would show its insides and numba.cuda's, and write out the arguments of the innermost call: a whole program,
    or an object of the driver, which hangs where there is none.  It asks a module for ``__tracebackhide__``; modules
    that are imported later are found at the next failure.
    """
    for name, module in list(sys.modules.items()):
        if name.startswith(("simulator.", "numba.cuda.")) and not name.startswith("numba.cuda.tests."):
            vars(module).setdefault("__tracebackhide__", _tells)


def _tells(error: pytest.ExceptionInfo[BaseException] | None) -> bool:
    """Is it an error that says where and what, so that nobody needs the frames in which it was raised?"""
    return error is not None and type(error.value).__module__.partition(".")[0] in ("simulator", "numba")


def _once(found: Iterable[Finding]) -> list[Finding]:
    """Findings of several launches, each pair of sites once."""
    known: dict[Any, Finding] = {}
    for finding in found:
        known.setdefault(finding.key, finding)
    return list(known.values())


def _fail(report: Any, text: str) -> None:
    """Make a failure of a report that is none; why it was skipped stays in its text."""
    if report.skipped:
        text += f"\n\n{report.longrepr[2]}"
    report.outcome, report.longrepr = "failed", text


def _text(judged: Iterable[Judged], every: bool = False) -> str:
    return "\n\n".join(str(each) for each in judged if each.fails or (every and not each.tolerated))


def _missing(test: Current) -> str:
    """The complaint about kinds that the test was to show and did not."""
    missing = [kind for kind in test.wishes.expect if all(found.kind != kind for found in test.found)]
    return f"the mark {MARK} expects {', '.join(missing)}, but no launch of the test shows it" if missing else ""
