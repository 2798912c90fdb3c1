"""Fixtures of the ledger's tests: a server where there is one, and an address on each kind of database."""

from privacy.ledger.postgres import address, emptied_url, postgres_server, postgres_url

__all__ = ["address", "emptied_url", "postgres_server", "postgres_url"]
