"""URLs of databases: what they mean, and how they are shown.

A URL may hold a password, and one that is written wrong may hold it anywhere. So whatever reads
otherwise than the grammar here is refused before a driver sees it, who would quote it, and no
part of it is shown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from outrider.errors import ConfigError

Product: TypeAlias = Literal["postgres", "sqlite"]

_PRODUCTS: dict[str, Product] = {
    "postgresql": "postgres",
    "postgres": "postgres",
    "sqlite": "sqlite",
}
_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9]*)(?:\+[a-z0-9_]+)?://(?P<rest>.*)", re.DOTALL)
_SERVER = re.compile(
    r"(?:(?P<user>[^\s@/:?#]*)(?P<password>:[^\s@/:?#]*)?@)?"
    r"(?P<place>[^\s@/?#]*(?:/[^\s@/?#]*)?)"
    r"(?:\?(?P<parameters>[^\s@#]*))?"
)
_PARAMETER = re.compile(r"[^=&]+=[^&]*")
_FILE = re.compile(r"(?P<place>[^?#\x00]*)(?:\?(?P<parameters>[^\s#]*))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseUrl:
    """A URL that was understood."""

    product: Product
    place: str
    """A server and its database, or the path of a file as the URL writes it."""
    rest: str = field(repr=False)
    """What follows ``://``, with the password."""
    shown: str
    """The URL without its password and parameters."""


def parse(url: str) -> DatabaseUrl:
    """Take *url* apart; the driver that SQLAlchemy's users name in it is dropped.

    >>> parse("postgresql+psycopg://shop@db/shop").place
    'db/shop'
    """
    match = _URL.fullmatch(url)
    if match is None:
        raise ConfigError(
            "not a URL; write it like postgresql://user:password@host/database or sqlite:///path"
        )
    product = _PRODUCTS.get(match["scheme"])
    if product is None:
        raise ConfigError(
            f"no database is spoken to by {match['scheme']}://; use postgresql:// or sqlite://"
        )
    parts = (_FILE if product == "sqlite" else _SERVER).fullmatch(match["rest"])
    if parts is None or not _are_parameters(parts["parameters"]):
        raise ConfigError(
            f"the {match['scheme']}:// URL cannot be read, and is not shown because it may hold a "
            "password; percent-encode special characters in user and password (@ is %40, / is %2F)"
        )
    login = "" if product == "sqlite" or parts["user"] is None else f"{parts['user']}@"
    if login and parts["password"] is not None:
        login = f"{parts['user']}:***@"
    return DatabaseUrl(
        product=product,
        place=parts["place"],
        rest=match["rest"],
        shown=f"{match['scheme']}://{login}{parts['place']}",
    )


def safe_url(url: str) -> str:
    """Return *url* without its password or any parameter, for messages.

    >>> safe_url("postgresql://shop:secret@db:5432/shop?sslkey=x")
    'postgresql://shop:***@db:5432/shop'
    >>> safe_url("postgresql://shop:sec/ret@db:5432/shop")
    '***'
    """
    try:
        return parse(url).shown
    except ConfigError:
        return "***"


def _are_parameters(text: str | None) -> bool:
    return not text or all(_PARAMETER.fullmatch(part) for part in text.split("&"))
