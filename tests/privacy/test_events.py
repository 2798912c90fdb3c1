"""Events: the classes of ``dp_accounting``, found without the rest of that package."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import pickle, sys
from sottovoce.privacy import events
assert "dp_accounting" not in sys.modules
event = events.SelfComposedDpEvent(events.GaussianDpEvent(2.0), 3)
again = pickle.loads(pickle.dumps(event))
import dp_accounting
from dp_accounting import dp_event, rdp
assert dp_event.GaussianDpEvent is events.GaussianDpEvent is dp_accounting.GaussianDpEvent
assert dp_accounting.dp_event is dp_event
assert again == event == dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(2.0), 3)
rdp.RdpAccountant().compose(event).get_epsilon(1e-6)
assert issubclass(events.BoundedRange, dp_accounting.DpEvent)
"""


@pytest.mark.slow
def test_who_imports_the_whole_package_later_finds_the_same_classes():
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", CODE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
