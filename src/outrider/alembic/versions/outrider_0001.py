"""Outrider: version 1 of the schema."""

from __future__ import annotations

from outrider import alembic

revision = "outrider_0001"
down_revision = None
branch_labels = ("outrider",)
depends_on = None


def upgrade() -> None:
    """Create the schema."""
    alembic.upgrade(1)


def downgrade() -> None:
    """Refuse."""
    alembic.downgrade()
