"""Nothing that is tested, doctests included, reads or writes the user's own trusted store."""

import atexit
import os
import shutil
import tempfile

os.environ["SOTTOVOCE_HOME"] = tempfile.mkdtemp(prefix="sottovoce-tests-")
atexit.register(shutil.rmtree, os.environ["SOTTOVOCE_HOME"], ignore_errors=True)
