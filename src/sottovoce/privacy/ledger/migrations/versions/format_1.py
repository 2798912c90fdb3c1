"""Format 1: data sets, their versions, and the chained history."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "1"
down_revision = None


def upgrade() -> None:
    """Makes the tables."""
    op.create_table(
        "sotto_meta",
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("value", sa.String(256), nullable=False),
    )
    op.create_table(
        "sotto_data_set",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(128), nullable=False, unique=True),
        sa.Column("adjacency", sa.String(32), nullable=False),
        sa.Column("unit", sa.String(128), nullable=False),
        sa.Column("epsilon", sa.String(64), nullable=False),
        sa.Column("delta", sa.String(64), nullable=False),
        sa.Column("cap", sa.BigInteger, nullable=False),
        sa.Column("spent", sa.BigInteger, nullable=False),
        sa.CheckConstraint("cap >= 0 AND spent >= 0 AND spent <= cap"),
    )
    op.create_table(
        "sotto_fingerprint",
        sa.Column("fingerprint", sa.String(64), primary_key=True),
        sa.Column("data_set", sa.Integer, sa.ForeignKey("sotto_data_set.id"), nullable=False),
    )
    op.create_table(
        "sotto_entry",
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("data_set", sa.Integer, sa.ForeignKey("sotto_data_set.id"), nullable=False),
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
    op.execute("INSERT INTO sotto_meta (key, value) VALUES ('schema_version', '1')")
