"""Our revisions are a branch of an application's own Alembic history."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from pathlib import Path
from textwrap import dedent

import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory

from outrider.connections import owned
from outrider.errors import ConfigError, SchemaMismatchError
from outrider.sql import migrate, schema
from outrider.sql.dialect import Dialect
from outrider.sql.dialects import dialect_named
from outrider.sql.plan import Plan
from outrider.sql.schema import migration_files
from outrider.sql.verify import require, verify
from tests.fixtures.structure import opened, structure, versions

NEWEST = schema.newest(dialect_named("postgres"))

ENV = """
    from alembic import context
    from sqlalchemy import MetaData, create_engine, pool

    from outrider.alembic import include_name

    url = context.config.get_main_option("sqlalchemy.url")
    options = {"target_metadata": MetaData(), "include_name": include_name}

    if context.is_offline_mode():
        context.configure(url=url, literal_binds=True, **options)
        with context.begin_transaction():
            context.run_migrations()
    else:
        engine = create_engine(url, poolclass=pool.NullPool)
        with engine.connect() as connection:
            context.configure(connection=connection, **options)
            with context.begin_transaction():
                context.run_migrations()
        engine.dispose()
"""

ORDERS = """
    from alembic import op
    import sqlalchemy as sa

    revision = "orders_1"
    down_revision = None
    branch_labels = ("shop",)
    depends_on = None

    def upgrade():
        op.create_table("orders", sa.Column("id", sa.Integer, primary_key=True))

    def downgrade():
        op.drop_table("orders")
"""

TEMPLATE = """
    revision = ${repr(up_revision)}
    down_revision = ${repr(down_revision)}
    branch_labels = ${repr(branch_labels)}
    depends_on = ${repr(depends_on)}

    def upgrade():
        ${upgrades if upgrades else "pass"}

    def downgrade():
        ${downgrades if downgrades else "pass"}
"""

Project = Callable[..., Config]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Make an application with a history of its own, as the how-to page has it."""

    def make(url: str, name: str | None = None, *, output: StringIO | None = None) -> Config:
        folder = tmp_path / "migrations"
        (folder / "versions").mkdir(parents=True, exist_ok=True)
        (folder / "env.py").write_text(dedent(ENV))
        (folder / "script.py.mako").write_text(dedent(TEMPLATE))
        (folder / "versions/orders_1.py").write_text(dedent(ORDERS))
        address = url.replace("postgresql://", "postgresql+psycopg://")
        (tmp_path / "alembic.ini").write_text(
            dedent(f"""
                [alembic]
                script_location = %(here)s/migrations
                path_separator = newline
                version_locations =
                    %(here)s/migrations/versions
                    outrider.alembic:versions
                sqlalchemy.url = {address}
                {f"outrider_schema = {name}" if name else ""}
            """)
        )
        return Config(str(tmp_path / "alembic.ini"), output_buffer=output, stdout=StringIO())

    return make


def twin(database_url: str, sqlite_path: Path) -> str:
    """Return where the same schema can be made by ``migrate``, to compare."""
    if database_url.startswith("sqlite"):
        return f"sqlite:///{sqlite_path.with_name('twin.db')}"
    apply_uninstall(database_url)
    return database_url


def apply_uninstall(url: str) -> None:
    with opened(url) as connection:
        for text in dialect_named("postgres").script("uninstall.sql"):
            connection.execute(text)


def recorded(url: str) -> set[str]:
    with opened(url) as connection:
        rows = connection.execute("SELECT version_num FROM alembic_version").fetchall()
        return {revision for (revision,) in rows}


def test_there_is_a_revision_for_every_migration(project: Project) -> None:
    script = ScriptDirectory.from_config(project("sqlite://"))

    ours = [found.revision for found in script.walk_revisions("base", "outrider@head")]

    expected = [f"outrider_{file[:4]}" for file in migration_files("postgres")]
    assert ours[::-1] == expected
    assert set(script.get_heads()) == {expected[-1], "orders_1"}


def test_upgrade_makes_what_migrate_makes(
    project: Project, database_url: str, sqlite_path: Path
) -> None:
    command.upgrade(project(database_url), "heads")

    assert recorded(database_url) == {f"outrider_{NEWEST:04}", "orders_1"}
    assert versions(database_url) == list(range(1, NEWEST + 1))
    by_alembic = structure(database_url)
    other = twin(database_url, sqlite_path)
    with owned.connect(other) as connection:
        connection.run(migrate.migrate(connection.dialect))
        require(connection.read(verify(connection.dialect)))
    assert structure(other) == by_alembic


def test_migrate_finds_nothing_to_do_afterwards(project: Project, database_url: str) -> None:
    command.upgrade(project(database_url), "heads")

    with owned.connect(database_url) as connection:
        upgrade = connection.run(migrate.migrate(connection.dialect))

    assert (upgrade.before, upgrade.steps) == (NEWEST, ())


def test_alembic_leaves_alone_what_migrate_has_made(project: Project, database_url: str) -> None:
    with owned.connect(database_url) as connection:
        connection.run(migrate.migrate(connection.dialect))
    before = structure(database_url), versions(database_url)

    command.upgrade(project(database_url), "heads")

    assert (structure(database_url), versions(database_url)) == before
    assert recorded(database_url) == {f"outrider_{NEWEST:04}", "orders_1"}


def test_the_applications_own_branch_goes_its_own_way(project: Project, database_url: str) -> None:
    config = project(database_url)
    command.upgrade(config, "shop@head")
    assert structure(database_url) == []

    command.upgrade(config, "outrider@head")
    before = structure(database_url)
    command.downgrade(config, "shop@base")

    assert structure(database_url) == before
    assert recorded(database_url) == {f"outrider_{NEWEST:04}"}


def test_a_downgrade_is_refused_and_drops_nothing(project: Project, database_url: str) -> None:
    config = project(database_url)
    command.upgrade(config, "heads")
    before = structure(database_url)

    with pytest.raises(ConfigError, match="outrider sql uninstall"):
        command.downgrade(config, "outrider@base")

    assert structure(database_url) == before


def test_autogenerate_sees_nothing_to_drop(project: Project, database_url: str) -> None:
    config = project(database_url)
    command.upgrade(config, "heads")

    # Its metadata is empty, so whatever it may look at it would drop.
    command.revision(
        config,
        "next",
        autogenerate=True,
        head="shop@head",
        rev_id="orders_2",
        version_path=str(Path(str(config.config_file_name)).parent / "migrations/versions"),
    )

    folder = Path(str(config.config_file_name)).parent / "migrations/versions"
    (text,) = [path.read_text() for path in folder.glob("orders_2*.py")]
    assert "outbox_" not in text
    assert "orders" in text


def test_the_schema_is_an_option(project: Project, postgres_url: str) -> None:
    command.upgrade(project(postgres_url, "shop"), "heads")

    assert structure(postgres_url, "public") == []
    assert structure(postgres_url, "shop") != []


@pytest.mark.parametrize("name", [None, "shop"])
def test_sql_can_be_printed_instead(project: Project, postgres_url: str, name: str | None) -> None:
    output = StringIO()

    command.upgrade(project(postgres_url, name, output=output), "heads", sql=True)

    with opened(postgres_url) as connection:
        assert connection.execute("SELECT 1 FROM pg_class WHERE relname ~ 'outbox'").rowcount == 0
        connection.execute(output.getvalue())
    by_alembic = structure(postgres_url, name or "public")
    with owned.connect(postgres_url, name) as owned_connection:
        require(owned_connection.read(verify(owned_connection.dialect)))
    assert by_alembic != []
    assert recorded(postgres_url) == {f"outrider_{NEWEST:04}", "orders_1"}


def test_a_revision_that_fails_leaves_nothing_behind(
    project: Project, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = migrate.step

    def half(dialect: Dialect, version: int) -> Plan[None]:
        yield from whole(dialect, version)
        raise KeyError("mine")

    monkeypatch.setattr(migrate, "step", half)
    with pytest.raises(KeyError, match="mine"):
        command.upgrade(project(database_url), "outrider@head")
    assert structure(database_url) == []
    monkeypatch.undo()

    command.upgrade(project(database_url), "outrider@head")

    assert versions(database_url)[-1] == NEWEST


def test_tables_of_somebody_else_are_refused(project: Project, database_url: str) -> None:
    with opened(database_url) as connection:
        connection.execute("CREATE TABLE outbox_rollups (n integer)")
    before = structure(database_url)

    with pytest.raises(SchemaMismatchError, match="created outbox_rollups"):
        command.upgrade(project(database_url), "outrider@head")

    assert structure(database_url) == before
