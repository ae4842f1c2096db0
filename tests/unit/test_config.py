"""Settings: where they come from, what is refused, and what no message shows."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from outrider import config, grammar
from outrider.config import SETTINGS, Settings, load, safe_url
from outrider.errors import ConfigError

SECRET = "S3cret"
URL = f"postgresql://shop:{SECRET}@db:5432/shop"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def message_of(**environ: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(environ=environ, folder=Path("/nonexistent"))
    return str(caught.value)


def test_without_any_source_there_are_only_defaults(folder: Path) -> None:
    assert load(environ={}, folder=folder) == Settings()


@pytest.mark.parametrize("name", SETTINGS)
def test_what_is_given_wins_over_the_environment_and_that_over_files(
    name: str, folder: Path
) -> None:
    values = {
        "database_url": ("sqlite:///a", "sqlite:///b", "sqlite:///c", "sqlite:///d"),
        "schema": ("a", "b", "c", "d"),
        "namespace": ("a", "b", "c", "d"),
        "payload_bytes_max": ("1", "2", "3", "4"),
        "app": ("a:b", "b:b", "c:b", "d:b"),
    }[name]
    given, variable, own_file, project = values
    environ = {f"OUTRIDER_{name.upper()}": variable}
    found = []

    (folder / "pyproject.toml").write_text(f'[tool.outrider]\n{name} = "{project}"\n')
    found.append(load(environ={}, folder=folder))
    (folder / "outrider.toml").write_text(f'{name} = "{own_file}"\n')
    found.append(load(environ={}, folder=folder))
    found.append(load(environ=environ, folder=folder))
    found.append(load({name: given}, environ=environ, folder=folder))

    assert [str(getattr(one, name)) for one in found] == [project, own_file, variable, given]
    assert [one.origins[name] for one in found] == [
        "pyproject.toml",
        "outrider.toml",
        f"OUTRIDER_{name.upper()}",
        f"argument {name}",
    ]


def test_a_default_hides_no_value_of_a_lower_source(folder: Path) -> None:
    (folder / "outrider.toml").write_text('namespace = "shop"\n')

    assert load({"namespace": None}, environ={}, folder=folder).namespace == "shop"


def test_a_value_equal_to_the_default_still_wins(folder: Path) -> None:
    (folder / "outrider.toml").write_text('namespace = "shop"\n')

    assert load({"namespace": "app"}, environ={}, folder=folder).namespace == "app"


def test_an_empty_variable_counts_as_not_set(folder: Path) -> None:
    (folder / "outrider.toml").write_text('schema = "outbox"\n')
    environ = {"OUTRIDER_SCHEMA": "", "OUTRIDER_SCHEMA_FILE": "", "DATABASE_URL": ""}

    found = load(environ=environ, folder=folder)

    assert found.schema == "outbox"
    assert found.database_url is None


def test_variables_of_others_are_no_errors(folder: Path) -> None:
    # What Kubernetes sets for a service called outrider.
    environ = {"OUTRIDER_SERVICE_HOST": "10.0.0.1", "OUTRIDER_PORT": "tcp://10.0.0.1:80"}

    assert load(environ=environ, folder=folder) == Settings()


def test_database_url_is_read_where_ours_is_not_set(folder: Path) -> None:
    environ = {"DATABASE_URL": "sqlite:///theirs"}

    assert load(environ=environ, folder=folder).database_url == "sqlite:///theirs"
    environ["OUTRIDER_DATABASE_URL"] = "sqlite:///ours"
    assert load(environ=environ, folder=folder).database_url == "sqlite:///ours"


def test_variables_of_libpq_count_where_nothing_else_names_a_database(folder: Path) -> None:
    environ = {"PGHOST": "db", "PGPASSWORD": SECRET}

    alone = load(environ=environ, folder=folder)
    (folder / "outrider.toml").write_text('database_url = "sqlite:///shop.db"\n')
    with_file = load(environ=environ, folder=folder)

    assert (alone.database_url, alone.origins["database_url"]) == ("postgresql://", "PGHOST")
    assert with_file.database_url == "sqlite:///shop.db"


def test_a_secret_may_be_in_a_file(folder: Path) -> None:
    (folder / "secret").write_text(f"{URL}\n")

    found = load(environ={"OUTRIDER_DATABASE_URL_FILE": str(folder / "secret")}, folder=folder)

    assert found.database_url == URL
    assert found.origins["database_url"] == "OUTRIDER_DATABASE_URL_FILE"


def test_a_value_and_a_file_for_it_are_refused(folder: Path) -> None:
    message = message_of(OUTRIDER_SCHEMA="a", OUTRIDER_SCHEMA_FILE="/run/secrets/schema")

    assert "OUTRIDER_SCHEMA and OUTRIDER_SCHEMA_FILE" in message


def test_a_secret_that_cannot_be_read_names_its_variable(folder: Path) -> None:
    (folder / "binary").write_bytes(SECRET.encode() + b"\xff")

    missing = message_of(OUTRIDER_SCHEMA_FILE="/nonexistent")
    binary = message_of(OUTRIDER_SCHEMA_FILE=str(folder / "binary"))

    assert "OUTRIDER_SCHEMA_FILE" in missing
    assert "No such file" in missing
    assert "not UTF-8" in binary
    assert SECRET not in binary


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ('shema = "a"', "did you mean 'schema'?"),
        ('databse_url = "a"', "did you mean 'database_url'?"),
        ("zzz = 1", "known are database_url, schema"),
    ],
)
def test_an_unknown_name_in_a_file_is_an_error_with_the_nearest(
    folder: Path, text: str, hint: str
) -> None:
    (folder / "outrider.toml").write_text(text)

    with pytest.raises(ConfigError) as caught:
        load(environ={}, folder=folder)

    assert hint in str(caught.value)
    assert "outrider.toml" in str(caught.value)


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("outrider.toml", "schema = ", "outrider.toml cannot be read"),
        ("outrider.toml", "schema = 5", "5 is int; write text in quotes"),
        ("outrider.toml", "schema = ['a']", "['a'] is list; write text in quotes"),
        ("outrider.toml", "namespace = true", "True is bool; write text in quotes"),
        ("outrider.toml", "payload_bytes_max = true", "True is not a size"),
        ("outrider.toml", "payload_bytes_max = 1.5", "1.5 is not a size"),
        ("outrider.toml", "payload_bytes_max = 0", "from 1 to 67108864"),
        ("outrider.toml", "app = 'app.events'", "like 'app.events:outbox'"),
        ("outrider.toml", "namespace = ''", "'' is not a namespace"),
        ("outrider.toml", "[schema]\na = 1", "is dict; write text in quotes"),
        ("outrider.toml", f"payload_bytes_max = {'9' * 5000}", "cannot be read"),
        ("pyproject.toml", "tool = 5", "tool in pyproject.toml is no table"),
        ("pyproject.toml", "[tool]\noutrider = 5", "tool.outrider in pyproject.toml is no table"),
    ],
)
def test_a_bad_value_in_a_file_says_what_and_where(
    folder: Path, file: str, text: str, says: str
) -> None:
    (folder / file).write_text(text)

    with pytest.raises(ConfigError) as caught:
        load(environ={}, folder=folder)

    assert says in str(caught.value)
    assert file in str(caught.value)


def test_a_file_that_is_not_utf_8_is_an_error(folder: Path) -> None:
    (folder / "outrider.toml").write_bytes(b'namespace = "\xff"')

    with pytest.raises(ConfigError, match=r"outrider\.toml cannot be read: it is not UTF-8"):
        load(environ={}, folder=folder)


def test_a_project_without_our_table_is_fine(folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[project]\nname = "shop"\n')

    assert load(environ={}, folder=folder) == Settings()


def test_a_message_names_setting_origin_value_and_remedy() -> None:
    message = message_of(OUTRIDER_SCHEMA="Public")

    assert message.startswith("setting schema (OUTRIDER_SCHEMA): 'Public' is not a schema name")
    assert "use lower-case letters" in message


def test_a_flag_is_named_as_it_was_written(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"setting database_url \(--database-url\)"):
        load({"database_url": "nowhere"}, flags=True, environ={}, folder=folder)


@pytest.mark.parametrize(
    "name",
    [
        "events; DROP TABLE users",
        'ev"ents',
        "ev`ents",
        "public.events",
        "e" * 49,
        "événements",
        "events\n",
        "Events",
        "1events",
        "",
        " events",
        "events\x00",
    ],
)
def test_a_schema_is_a_plain_identifier_or_refused(name: str) -> None:
    with pytest.raises(ConfigError):
        grammar.identifier(name, "schema")
    if name and "\x00" not in name:
        assert "is not a schema name" in message_of(OUTRIDER_SCHEMA=name)


@pytest.mark.parametrize(
    "text",
    [
        "!!python/object/apply:os.system ['true']",
        "schema = !!python/object:x",
        pickle.dumps("schema").decode("latin-1"),
    ],
)
def test_a_file_can_hold_no_objects(folder: Path, text: str) -> None:
    (folder / "outrider.toml").write_text(text, encoding="latin-1")

    with pytest.raises(ConfigError, match=r"outrider\.toml cannot be read"):
        load(environ={}, folder=folder)


@pytest.mark.parametrize(
    "url",
    [
        f"postgres//shop:{SECRET}@db/shop",
        f"shop:{SECRET}@db/shop",
        f"postgresql:/shop:{SECRET}@db",
        f"mysql://shop:{SECRET}@db/shop",
        f"{SECRET}",
        f"postgresql://shop:{SECRET}@x@db/shop",
        f"postgresql://shop:a/{SECRET}@db/shop",
        f"postgresql://shop:a?{SECRET}@db/shop",
        f"postgresql://shop:a#{SECRET}@db/shop",
        f"postgresql://shop:a {SECRET}@db/shop",
        f"postgresql://shop:a\n{SECRET}@db/shop",
        f"postgresql://db/shop?{SECRET}",
        f"host=db password={SECRET}",
    ],
)
def test_a_url_that_cannot_be_used_shows_no_part_of_itself(url: str, folder: Path) -> None:
    (folder / "outrider.toml").write_text("database_url = 5\n")

    for given, environ in (({"database_url": url}, {}), ({}, {"DATABASE_URL": url})):
        with pytest.raises(ConfigError) as caught:
            load(given, environ=environ, folder=folder)
        assert SECRET not in str(caught.value)
        assert caught.value.__cause__ is None
    assert SECRET not in safe_url(url)


def test_a_url_that_is_no_text_is_refused(folder: Path) -> None:
    (folder / "outrider.toml").write_text("database_url = 5\n")

    with pytest.raises(ConfigError, match=r"setting database_url \(outrider\.toml\)"):
        load(environ={}, folder=folder)


def test_no_repr_shows_where_the_database_is(folder: Path) -> None:
    found = load({"database_url": URL}, environ={}, folder=folder)

    assert found.database_url == URL
    assert "shop" not in repr(found)
    assert "db:5432" not in f"{found} {found!r} {[found]}"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (URL, "postgresql://shop:***@db:5432/shop"),
        ("postgresql://shop@db/shop?sslpassword=x", "postgresql://shop@db/shop"),
        ("sqlite:////srv/shop.db", "sqlite:////srv/shop.db"),
        ("postgresql://h1:1,h2:2/shop", "postgresql://h1:1,h2:2/shop"),
        ("postgresql://u:p%40ss@[::1]:5432/shop", "postgresql://u:***@[::1]:5432/shop"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert safe_url(url) == shown


def test_every_setting_has_a_field_and_an_example_that_is_accepted() -> None:
    assert set(SETTINGS) == set(Settings.__dataclass_fields__) - {"origins"}
    for name, setting in SETTINGS.items():
        assert str(config.load({name: setting.example}, environ={}).origins) == str(
            {name: f"argument {name}"}
        )
