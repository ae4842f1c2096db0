"""A URL is understood whole, or refused without showing any of it."""

from __future__ import annotations

import pytest

from outrider.errors import ConfigError
from outrider.urls import parse, safe_url


@pytest.mark.parametrize(
    ("url", "product", "place"),
    [
        ("postgresql://db/shop", "postgres", "db/shop"),
        ("postgres://shop:S3cret@db:5432/shop", "postgres", "db:5432/shop"),
        ("postgresql+psycopg://db/shop", "postgres", "db/shop"),
        ("postgresql+asyncpg://[::1]:5432/shop", "postgres", "[::1]:5432/shop"),
        ("postgresql://a:1,b:2/shop?target_session_attrs=read-write", "postgres", "a:1,b:2/shop"),
        ("postgresql:///shop?host=/run/postgresql", "postgres", "/shop"),
        ("postgresql://", "postgres", ""),
        ("sqlite:///shop.db", "sqlite", "/shop.db"),
        ("sqlite+aiosqlite:////data/sh@p.db", "sqlite", "//data/sh@p.db"),
        ("sqlite:///:memory:", "sqlite", "/:memory:"),
        ("sqlite://", "sqlite", ""),
    ],
)
def test_a_url_names_a_product_and_a_place(url: str, product: str, place: str) -> None:
    found = parse(url)

    assert (found.product, found.place) == (product, place)
    assert "S3cret" not in repr(found)
    assert "S3cret" not in found.shown


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "not a URL"),
        ("shop.db", "not a URL"),
        ("u:S3cret@db/shop", "not a URL"),
        ("host=db password=S3cret", "not a URL"),
        ("mysql://u:S3cret@db/shop", "no database is spoken to by mysql://"),
        ("postgres://u:S3cr/et@db/shop", "cannot be read"),
        ("postgres://u:S3cr?et@db/shop", "cannot be read"),
        ("postgres://u:S3cr#et@db/shop", "cannot be read"),
        ("postgres://u:S3cr@et@db/shop", "cannot be read"),
        ("postgres://u:S3cr:et@db/shop", "cannot be read"),
        ("postgres://u:S3cr et@db/shop", "cannot be read"),
        ("postgres://u:S3cr?x=et@db/shop", "cannot be read"),
        ("postgres://u:S3cret@db/shop\n", "cannot be read"),
        ("postgres://db/shop?S3cret", "cannot be read"),
        ("sqlite:///a\x00b", "cannot be read"),
    ],
)
def test_what_reads_otherwise_is_refused_and_not_shown(url: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        parse(url)

    assert "S3cr" not in str(caught.value)
    assert safe_url(url) == "***"
