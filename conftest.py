"""Nothing that is tested, doctests included, reads or writes the user's own trusted store."""

import atexit
import os
import shutil
import tempfile

import pytest

os.environ["SOTTOVOCE_HOME"] = tempfile.mkdtemp(prefix="sottovoce-tests-")
atexit.register(shutil.rmtree, os.environ["SOTTOVOCE_HOME"], ignore_errors=True)


@pytest.fixture(autouse=True)
def _a_store_for_each(tmp_path_factory, monkeypatch):
    """Doctests included: what one opened is not known to the next."""
    monkeypatch.setenv("SOTTOVOCE_HOME", str(tmp_path_factory.mktemp("store")))


@pytest.fixture(scope="module", autouse=True)
def _a_store_for_each_module(tmp_path_factory):
    """What fixtures of a module open is not known to the next module."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SOTTOVOCE_HOME", str(tmp_path_factory.mktemp("store")))
        yield
