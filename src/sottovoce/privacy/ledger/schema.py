"""The ledger's tables, one set for SQLite and PostgreSQL.

``sotto_meta`` holds the schema's version and the head: sequence number and hash of the newest entry. Rows of
``sotto_secret`` and ``sotto_fingerprint`` never leave the database: with them a guess of the records could be checked.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

SCHEMA_VERSION: Final = "3"
NO_HEAD: Final = f"0 {'0' * 64}"

MAX_UNITS: Final = 2**63 - 1
"""What a column of the ledger can hold; no cap is as large."""

TABLES: Final = sa.MetaData()

META: Final = sa.Table(
    "sotto_meta",
    TABLES,
    sa.Column("key", sa.String(64), primary_key=True),
    sa.Column("value", sa.String(256), nullable=False),
)
DATA_SET: Final = sa.Table(
    "sotto_data_set",
    TABLES,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.String(128), nullable=False, unique=True),
    sa.Column("adjacency", sa.String(32), nullable=False),
    sa.Column("unit", sa.String(128), nullable=False),
    sa.Column("epsilon", sa.String(64), nullable=False),
    sa.Column("delta", sa.String(64), nullable=False),
    sa.Column("cap", sa.BigInteger, nullable=False),
    sa.Column("spent", sa.BigInteger, nullable=False),
    sa.Column("failure_delta", sa.String(64), nullable=False, server_default="0.0"),
    sa.Column("alpha", sa.String(64), nullable=True),
    sa.Column("failure_cap", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("failure_spent", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("answers", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("non_private", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("unverified", sa.BigInteger, nullable=False, server_default="0"),
    sa.CheckConstraint("cap >= 0 AND spent >= 0 AND spent <= cap"),
    sa.CheckConstraint("failure_spent >= 0 AND failure_spent <= failure_cap"),
)
FINGERPRINT: Final = sa.Table(
    "sotto_fingerprint",
    TABLES,
    sa.Column("fingerprint", sa.String(64), primary_key=True),
    sa.Column("data_set", sa.ForeignKey("sotto_data_set.id"), nullable=False),
)
SECRET: Final = sa.Table(
    "sotto_secret",
    TABLES,
    sa.Column("data_set", sa.ForeignKey("sotto_data_set.id"), primary_key=True),
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("value", sa.String(128), nullable=False),
)
"""The key of every data set, and what older formats kept in entries: keys of certificates, the head before the move."""
CAP: Final = sa.Table(
    "sotto_cap",
    TABLES,
    sa.Column("data_set", sa.ForeignKey("sotto_data_set.id"), primary_key=True),
    sa.Column("kind", sa.String(16), primary_key=True),
    sa.Column("name", sa.String(128), primary_key=True),
    sa.Column("member_of", sa.String(128), nullable=True),
    sa.Column("epsilon", sa.String(64), nullable=False),
    sa.Column("failure_delta", sa.String(64), nullable=False),
    sa.Column("cap", sa.BigInteger, nullable=False),
    sa.Column("spent", sa.BigInteger, nullable=False),
    sa.Column("failure_cap", sa.BigInteger, nullable=False),
    sa.Column("failure_spent", sa.BigInteger, nullable=False),
    sa.Column("answers", sa.BigInteger, nullable=False),
    sa.CheckConstraint("cap >= 0 AND spent >= 0 AND spent <= cap"),
    sa.CheckConstraint("failure_spent >= 0 AND failure_spent <= failure_cap"),
)
"""Caps of callers and of groups of callers within a data set's budget."""
ENTRY: Final = sa.Table(
    "sotto_entry",
    TABLES,
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("data_set", sa.ForeignKey("sotto_data_set.id"), nullable=False),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("release_id", sa.String(64), nullable=True),
    sa.Column("amount", sa.BigInteger, nullable=False),
    sa.Column("detail", sa.Text, nullable=False),
    sa.Column("at", sa.String(40), nullable=False),
    sa.Column("previous", sa.String(64), nullable=False),
    sa.Column("hash", sa.String(64), nullable=False),
    sa.UniqueConstraint("release_id", "kind"),
    sa.CheckConstraint("amount >= 0"),
)
