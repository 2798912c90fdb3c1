"""What a copy of the process answers comes back, whole or not at all, and nothing else does."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from sottovoce.testing import another_process
from sottovoce.testing.another_process import NoAnswerError, of_a_copy


def raises():
    raise RuntimeError("not an answer")


def killed():
    os.kill(os.getpid(), signal.SIGKILL)


def works(seconds):
    began = time.process_time()
    while time.process_time() < began + seconds:
        sum(range(1000))
    return "worked"


def test_an_answer_comes_back_whole():
    answer = ["é", 0.1 + 0.2, [1, -0.0, float("inf")], "." * 200_000]
    assert of_a_copy(lambda: answer) == answer


def test_what_the_copy_keeps_stays_there():
    kept = []
    assert of_a_copy(lambda: kept.append(1) or len(kept)) == 1
    assert kept == []


def test_a_copy_that_works_is_waited_for(monkeypatch):
    monkeypatch.setattr(another_process, "STILL", 0.8)
    monkeypatch.setattr(another_process, "EVERY", 0.05)
    assert of_a_copy(lambda: works(1.0)) == "worked"


def test_a_copy_of_a_thread_answers():
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(of_a_copy, lambda: 3).result() == 3


@pytest.mark.parametrize("limit", ["STILL", "PATIENCE"])
@pytest.mark.parametrize("ends", [lambda: os._exit(0), killed, raises, object, lambda: time.sleep(60)])
def test_a_copy_that_does_not_answer_is_gone(ends, limit, monkeypatch):
    monkeypatch.setattr(another_process, limit, 1.0)
    copies, fork = [], os.fork

    def noted():
        copies.append(fork())
        return copies[-1]

    monkeypatch.setattr(os, "fork", noted)
    with pytest.raises(NoAnswerError, match="did not answer"):
        of_a_copy(ends)
    with pytest.raises(ChildProcessError):  # it was waited for
        os.waitpid(copies[0], os.WNOHANG)
    with pytest.raises(ProcessLookupError):
        os.kill(copies[0], 0)


def test_a_copy_that_does_not_come_to_an_end_is_given_up(monkeypatch):
    monkeypatch.setattr(another_process, "PATIENCE", 0.8)
    monkeypatch.setattr(another_process, "EVERY", 0.05)
    with pytest.raises(NoAnswerError):
        of_a_copy(lambda: works(60))


def test_a_copy_that_waits_for_a_pool_of_threads_is_given_up(monkeypatch):
    monkeypatch.setattr(another_process, "STILL", 1.0)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()
        with pytest.raises(NoAnswerError):
            of_a_copy(lambda: pool.submit(int).result())


def test_what_a_copy_starts_ends_with_it():
    def starts():
        return subprocess.Popen(["sleep", "60"]).pid

    started = of_a_copy(starts)
    until = time.monotonic() + 10
    while time.monotonic() < until and runs(started):
        time.sleep(0.01)
    assert not runs(started)


@pytest.mark.parametrize("signalled", [signal.SIGTERM, signal.SIGKILL])
def test_a_copy_ends_with_the_process_that_asked(signalled):
    asked = """
import os, subprocess, sys, threading, time
from sottovoce.testing.another_process import of_a_copy

def stuck():
    print(os.getpid(), subprocess.Popen(["sleep", "60"]).pid, flush=True)
    threading.Event().wait()

of_a_copy(stuck)
"""
    with subprocess.Popen([sys.executable, "-c", asked], stdout=subprocess.PIPE, text=True) as asking:
        copies = [int(process) for process in asking.stdout.readline().split()]
        assert all(map(runs, copies))
        asking.send_signal(signalled)
        until = time.monotonic() + 20
        while time.monotonic() < until and any(map(runs, copies)):
            time.sleep(0.05)
        assert not any(map(runs, copies))


def test_copies_of_several_threads_end_with_the_process_that_asked():
    asked = """
import os, threading
from concurrent.futures import ThreadPoolExecutor
from sottovoce.testing.another_process import of_a_copy

def stuck():
    os.write(1, f"{os.getpid()}\\n".encode())
    threading.Event().wait()

with ThreadPoolExecutor(8) as pool:
    [*pool.map(of_a_copy, [stuck] * 8)]
"""
    with subprocess.Popen([sys.executable, "-c", asked], stdout=subprocess.PIPE, text=True) as asking:
        copies = [int(asking.stdout.readline()) for _ in range(8)]
        asking.kill()
        until = time.monotonic() + 20
        while time.monotonic() < until and any(map(runs, copies)):
            time.sleep(0.05)
        left = [copy for copy in copies if runs(copy)]
        for copy in left:
            os.kill(copy, signal.SIGKILL)
        assert left == []


def runs(process):
    """Whether it is there and is no zombie, which a container without an init process keeps."""
    try:
        with open(f"/proc/{process}/stat") as told:
            return told.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_many_open_files_are_no_hindrance(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 1_500:
        pytest.skip(f"no more than {hard} files may be open here")
    with ExitStack() as files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1_500), hard))
        files.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for _ in range(1_100):
            files.enter_context((tmp_path / "a").open("w"))
        before = len(os.listdir("/proc/self/fd"))
        assert of_a_copy(lambda: 3) == 3
        assert len(os.listdir("/proc/self/fd")) == before


def test_signals_of_children_may_be_ignored():
    asked = "from sottovoce.testing.another_process import of_a_copy; print(of_a_copy(lambda: 3))"
    made = subprocess.run(
        [sys.executable, "-c", asked],
        preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (made.stdout, made.stderr) == ("3\n", "")


def test_where_no_process_may_be_copied_nothing_is_left_open(monkeypatch):
    def refused():
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refused)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(NoAnswerError, match="temporarily unavailable"):
        of_a_copy(lambda: 3)
    assert len(os.listdir("/proc/self/fd")) == before


def test_where_no_process_can_be_copied_there_is_no_answer(monkeypatch):
    monkeypatch.delattr(os, "fork")
    with pytest.raises(NoAnswerError, match="copies no process"):
        of_a_copy(lambda: 3)
