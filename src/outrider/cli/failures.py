"""What a command exits with, and how it says why."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import click

from outrider.cli.output import VERSION, json_text, print_note
from outrider.errors import (
    ConfigError,
    OutriderError,
    SchemaMismatchError,
    StoreUnavailableError,
)

DONE = 0
FAILED = 1
USAGE = 2
UNHEALTHY = 3
NOTHING_FOUND = 5
UNREACHABLE = 69
INTERRUPTED = 130

EXIT_CODES: Mapping[int, str] = {
    DONE: "done",
    FAILED: "failed",
    USAGE: "wrong usage or configuration",
    UNHEALTHY: "unhealthy: the database needs care",
    NOTHING_FOUND: "nothing found",
    UNREACHABLE: "database unreachable",
    INTERRUPTED: "interrupted",
}

# A login that already lost its password is left alone.
_LOGIN = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)(?![^\s:@/]*(?::\*\*\*)?@)[^\n]*@")
_SECRETS = re.compile(
    r"://[^:@]*:(?P<login>.*)@|[?&](?:ssl)?password=(?P<parameter>[^&]*)", re.DOTALL
)
_KEYWORD = re.compile(r"(\bpassword\s*=\s*)('(?:[^'\\]|\\.)*'|[^\s&]+)", re.IGNORECASE)
_REMEDY = re.compile(r"\n\s*fix:\s*")


class NothingFoundError(OutriderError):
    """What was asked for is not there."""

    code = "OUT012"


@dataclass(slots=True)
class Invocation:
    """One run of the command line: what must not be seen in anything it says."""

    secrets: set[str] = field(default_factory=set)

    def hide(self, url: str) -> None:
        """Let the password of *url* appear nowhere."""
        for found in _SECRETS.finditer(url):
            secret = found["login"] or found["parameter"] or ""
            self.secrets |= {secret, unquote(secret)} - {""}

    def scrubbed(self, text: str) -> str:
        """Return *text* without passwords: neither known ones nor what looks like one."""
        for secret in sorted(self.secrets, key=len, reverse=True):
            text = text.replace(secret, "***")
        return _KEYWORD.sub(r"\1***", _LOGIN.sub(r"\1***@", text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An error as a command tells it."""

    exit_code: int
    code: str
    message: str
    remedy: str | None = None


def failure_of(error: Exception) -> Failure:
    """Return what *error* means for the caller of a command."""
    if isinstance(error, OutriderError):
        message, remedy = _split(str(error))
        return Failure(
            exit_code=_exit_code(error), code=error.code, message=message, remedy=remedy or None
        )
    if isinstance(error, click.ClickException):
        return _click_failure(error)
    return Failure(
        exit_code=FAILED,
        code=OutriderError.code,
        message=f"{type(error).__name__}: {error}",
        remedy="run it again with -v, and report the traceback: this is a mistake of Outrider's",
    )


def report(error: Exception, run: Invocation, *, as_json: bool, verbose: bool) -> int:
    """Tell *error* on stdout (JSON) or stderr (people), and return the exit code."""
    failure = failure_of(error)
    if verbose and not isinstance(error, click.ClickException):
        print_note(run.scrubbed("".join(traceback.format_exception(error)).rstrip()))
    message = run.scrubbed(failure.message)
    remedy = None if failure.remedy is None else run.scrubbed(failure.remedy)
    if as_json:
        document: dict[str, Any] = {"error": message, "code": failure.code}
        if remedy is not None:
            document["remedy"] = remedy
        click.echo(json_text({"v": VERSION, "ok": False, **document}))
    else:
        print_note(f"error {failure.code}: {message}" + (f"\n  fix: {remedy}" if remedy else ""))
    return failure.exit_code


def wants(args: Iterable[str], *names: str) -> bool:
    """Say whether one of the flags *names* is among *args*, before they are understood.

    An error of usage happens before a command has its options, and still has to be told rightly.
    """
    for arg in args:
        if arg == "--":
            return False
        if arg in names:
            return True
    return False


def _exit_code(error: OutriderError) -> int:
    # The first that fits; classes further down the tree stand first.
    for kind, exit_code in _EXITS:
        if isinstance(error, kind):
            return exit_code
    return FAILED


_EXITS: tuple[tuple[type[OutriderError], int], ...] = (
    (NothingFoundError, NOTHING_FOUND),
    (ConfigError, USAGE),
    (StoreUnavailableError, UNREACHABLE),
    (SchemaMismatchError, UNHEALTHY),
)


def _click_failure(error: click.ClickException) -> Failure:
    context = getattr(error, "ctx", None)
    return Failure(
        exit_code=USAGE if isinstance(error, click.UsageError) else FAILED,
        code=ConfigError.code if isinstance(error, click.UsageError) else OutriderError.code,
        message=error.format_message(),
        remedy=None if context is None else f"{context.command_path} --help",
    )


def _split(message: str) -> tuple[str, str]:
    """Separate what happened from what to do."""
    found = _REMEDY.search(message)
    if found is None:
        return message, ""
    return message[: found.start()], message[found.end() :]
