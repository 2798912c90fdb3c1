"""``python -m sottovoce``: the command ``sotto``."""

from sottovoce.cli import main

main()
