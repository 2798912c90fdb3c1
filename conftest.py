"""Nothing that is tested, doctests included, reads or writes the user's own trusted store; and what tests cost.

``@pytest.mark.cases(n)`` on a test with many cases: ``n`` of them, evenly spread, run by default; the others are slow.
"""

import atexit
import gc
import os
import shutil
import tempfile
from pathlib import Path

import pytest

GARBAGE = (10_000, 20, 20)
"""How many new objects start a search for garbage, and how many searches one that goes further back. No test waits
for one; 979 tests took 55.2 s of processor time instead of 57.8."""
MEMORY = Path("/dev/shm")
ROOM = 2 << 30
"""Bytes that must be free there. Nothing that tests write outlives them, and the tests of commands, ledgers, fits and
synthesis took 101 s of processor time in memory and 123 s on a disk, 190 and 427 s by the clock."""
if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= ROOM:
    os.environ["TMPDIR"] = str(MEMORY)
    tempfile.tempdir = None
STORES = tempfile.mkdtemp(prefix="sottovoce-tests-")
atexit.register(shutil.rmtree, STORES, ignore_errors=True)
os.environ["SOTTOVOCE_HOME"] = tempfile.mkdtemp(dir=STORES)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Without the search for garbage: what collecting makes stays, and going through it again took a third of the time.

    It is set aside afterwards, so that no search in a test goes through modules and tests again.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*GARBAGE)
        gc.enable()


def new_store() -> str:
    """A folder of its own, without the search for a free name among thousands."""
    return tempfile.mkdtemp(dir=STORES)


@pytest.fixture(autouse=True)
def _a_store_for_each(monkeypatch):
    """Doctests included: what one opened is not known to the next."""
    monkeypatch.setenv("SOTTOVOCE_HOME", new_store())


@pytest.fixture(scope="module", autouse=True)
def _a_store_for_each_module():
    """What fixtures of a module open is not known to the next module."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SOTTOVOCE_HOME", new_store())
        yield


def pytest_addoption(parser):
    parser.addoption(
        "--cpu-report", metavar="FILE", help="write processor seconds by test, subprocesses included, the dearest first"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Marks as slow what ``cases`` leaves for later, before slow ones are sorted out."""
    tests = {}
    for item in items:
        if item.get_closest_marker("cases"):
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in tests.values():
        (most,) = cases[0].get_closest_marker("cases").args
        kept = {round(i * (len(cases) - 1) / max(most - 1, 1)) for i in range(most)}
        for place, item in enumerate(cases):
            if place not in kept:
                item.add_marker("slow")


def pytest_configure(config):
    if path := config.getoption("--cpu-report"):
        config.pluginmanager.register(ProcessorTime(Path(path).absolute(), config), "processor-time")


def processor_seconds() -> float:
    """User and system time of this process and of its children that have ended."""
    return sum(os.times()[:4])


class ProcessorTime:
    """Processor time by test; on a shared machine the time by the clock means nothing.

    A child counts for the test during which it ended. What a worker of xdist spends outside its tests (imports,
    collection) is a line of its own.
    """

    def __init__(self, path: Path, config: pytest.Config) -> None:
        self.path, self.config = path, config
        self.tests: dict[str, float] = {}
        self.workers: dict[str, float] = {}
        self.mark = 0.0

    def pytest_runtest_logstart(self):
        self.mark = processor_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self):
        report = yield
        now = processor_seconds()
        report.user_properties.append((f"processor seconds {report.when}", now - self.mark))
        self.mark = now
        return report

    def pytest_runtest_logreport(self, report):
        spent = dict(report.user_properties).get(f"processor seconds {report.when}", 0.0)
        self.tests[report.nodeid] = self.tests.get(report.nodeid, 0.0) + spent

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node):
        self.workers[node.gateway.id] = getattr(node, "workeroutput", {}).get("processor seconds", 0.0)

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self):
        if hasattr(self.config, "workerinput"):
            self.config.workeroutput["processor seconds"] = processor_seconds()
            return (yield)
        result = yield
        own = sum(os.times()[:2]) if self.workers else processor_seconds()
        total = own + sum(self.workers.values())
        tests = sum(self.tests.values())
        lines = [f"{total:10.2f} in all", f"{tests:10.2f} in {len(self.tests)} tests", f"{total - tests:10.2f} besides"]
        lines += [f"{spent:10.2f} {name}" for name, spent in sorted(self.tests.items(), key=lambda item: -item[1])]
        self.path.write_text("\n".join([*lines, ""]), "utf-8")
        return result
