"""What every model behind a server has: an address, who sees its prompts, and answers that are kept."""

from __future__ import annotations

from typing import Any, Final

from sottovoce.models.base import Isolation
from sottovoce.models.encrypted_cache import EncryptedCache
from sottovoce.models.http.address import ApiKey, Server
from sottovoce.models.http.asking import Asker

MOST_KEPT: Final = 200_000
MOST_KEPT_BYTES: Final = 512 << 20


class ServedModel:
    """A model behind a server.

    Args:
        server: Where, and how it is asked.
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        self.asker = Asker(server, ApiKey.found())
        self._kept = _kept_replies() if server.cache else None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @property
    def name(self) -> str:
        """``openai:``, the model and the server."""
        return self.server.name

    @property
    def run_settings(self) -> dict[str, Any]:
        """How it is asked, which its name does not tell: a run is resumed so alone. What the server runs is its own."""
        return {"api": self.server.api, "score": self.server.score}

    @property
    def isolation(self) -> Isolation:
        """What the operator says of it; nothing is tested."""
        return Isolation.ASSERTED if self.server.asserted else Isolation.NOT_VERIFIED

    @property
    def note(self) -> str:
        """Who sees the prompts, for whoever is about to send them."""
        return f"Prompts with private examples go to {self.server.host}: whoever hosts the model sees them."

    def _scope(self, path: str) -> str:
        """What answers depend on beside the request: the address, and the version that answered the rehearsal.

        Args:
            path: Behind the server's address.
        """
        return f"{self.server.url}{path} {self.asker.accepted}"


def _kept_replies() -> EncryptedCache:
    """Where answers of servers are kept."""
    return EncryptedCache("replies", "reply 1", most_entries=MOST_KEPT, most_bytes=MOST_KEPT_BYTES)
