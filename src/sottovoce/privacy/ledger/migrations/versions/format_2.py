"""Format 2: failures kept within their own sum, one Renyi order, caps of callers, counters, and the head."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "2"
down_revision = "1"

_COLUMNS = (
    "failure_delta VARCHAR(64) DEFAULT '0.0' NOT NULL",
    "alpha VARCHAR(64)",
    "failure_cap BIGINT DEFAULT '0' NOT NULL",
    "failure_spent BIGINT DEFAULT '0' NOT NULL CHECK (failure_spent >= 0 AND failure_spent <= failure_cap)",
    "answers BIGINT DEFAULT '0' NOT NULL",
    "non_private BIGINT DEFAULT '0' NOT NULL",
    "unverified BIGINT DEFAULT '0' NOT NULL",
)
_COUNTERS = """
UPDATE sotto_data_set SET
  answers = (SELECT count(*) FROM sotto_entry e WHERE e.data_set = sotto_data_set.id AND e.kind = 'reserve'),
  non_private = (SELECT count(*) FROM sotto_entry e WHERE e.data_set = sotto_data_set.id AND e.kind = 'non-private'),
  unverified = (SELECT count(*) FROM sotto_entry e WHERE e.data_set = sotto_data_set.id AND e.kind = 'reserve'
                AND e.detail LIKE '%isolation not verified%')
"""
_HEAD = """
INSERT INTO sotto_meta (key, value)
SELECT 'head', coalesce(
  (SELECT CAST(seq AS VARCHAR(20)) || ' ' || hash FROM sotto_entry ORDER BY seq DESC LIMIT 1), :none)
"""


def upgrade() -> None:
    """Adds them; the history stays as it is, byte for byte."""
    for column in _COLUMNS:
        op.execute(f"ALTER TABLE sotto_data_set ADD COLUMN {column}")
    op.create_table(
        "sotto_cap",
        sa.Column("data_set", sa.Integer, sa.ForeignKey("sotto_data_set.id"), primary_key=True),
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
    op.execute(_COUNTERS)
    op.execute(sa.text(_HEAD).bindparams(none=f"0 {'0' * 64}"))
