"""``outrider help TOPIC``: short texts for the moment in which one is stuck."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping

import click

from outrider.cli.commands import Command, nearest, verbose_option
from outrider.cli.failures import EXIT_CODES, NothingFoundError
from outrider.cli.output import print_line
from outrider.config import SETTINGS
from outrider.filters import QUALIFIERS

_WIDTH = 88


@click.command(
    "help",
    cls=Command,
    examples=(
        "outrider help",
        "outrider help filters",
        "outrider help no-transaction",
    ),
)
@click.argument("topic", required=False)
@verbose_option
@click.pass_context
def topic_help(context: click.Context, topic: str | None) -> None:
    """Explain a TOPIC, or a command; without one, list the topics."""
    if topic is None:
        for line in _list_of_topics():
            print_line(line)
        return
    if topic in TOPICS:
        print_line(text_of(topic))
        return
    root = context.find_root()
    assert isinstance(root.command, click.Group)
    command = root.command.get_command(root, topic)
    if command is None:
        raise NothingFoundError(f"there is no help on {topic!r}; {nearest(topic, list(TOPICS))}")
    print_line(command.get_help(click.Context(command, parent=root, info_name=topic)))


def text_of(topic: str) -> str:
    """Return the text of *topic*."""
    return textwrap.dedent(TOPICS[topic]()).strip()


def _list_of_topics() -> list[str]:
    width = max(map(len, TOPICS))
    lines = [f"  {topic:{width}}  {text_of(topic).splitlines()[0]}" for topic in TOPICS]
    return ["outrider help TOPIC, where TOPIC is a command or one of", *lines]


def _no_transaction() -> str:
    return """\
        Emit inside the transaction that stores your data.

        NotInTransactionError means that the connection commits each statement by itself:
        the event could be stored without your data, or your data without the event. Open
        a transaction around both:

          psycopg      with connection.transaction(): ...
          SQLAlchemy   with Session(engine) as session, session.begin(): ...
          asyncpg      async with connection.transaction(): ...
          sqlite3      with connection: ...   (not isolation_level=None)

        Outrider never begins, commits or rolls back: the transaction is yours. Where an event
        has no data to go with, Outbox(on_autocommit="allow") lets it be stored alone.
        """


def _filters() -> str:
    width = max(len(name) for name in QUALIFIERS) + 1
    lines = []
    for name, qualifier in QUALIFIERS.items():
        lines += textwrap.wrap(
            qualifier.says.replace("`", ""),
            _WIDTH,
            initial_indent=f"  {name + ':':{width}}  ",
            subsequent_indent=" " * (width + 4),
        )
    return "\n".join(
        (
            "Select events: qualifiers separated by spaces, all of which hold.",
            "",
            *lines,
            "",
            'Values with spaces are quoted: key:"a b". Inside, \\" is a quotation mark and \\\\ a',
            "backslash. Each qualifier stands once. In a shell, quote the whole filter:",
            "",
            "  outrider events list --where 'type:order.* tenant:acme since:2h'",
        )
    )


def _exit_codes() -> str:
    return "\n".join(
        (
            "What the exit code of a command says.",
            "",
            *(f"  {code:>3}  {says}" for code, says in EXIT_CODES.items()),
            "",
            "With --json an error is a document too: error, code and, where there is one, remedy.",
        )
    )


def _configuration() -> str:
    width = max(map(len, SETTINGS))
    lines = [f"  {name:{width}}  {one.example}" for name, one in SETTINGS.items()]
    return "\n".join(
        (
            "Where settings come from, and which there are.",
            "",
            "An option or argument wins over the environment (OUTRIDER_ and the name in capitals),",
            "and that over outrider.toml or [tool.outrider] of pyproject.toml, both looked for in",
            "the working directory.",
            "",
            *lines,
            "",
            "OUTRIDER_..._FILE names a file that holds the value, for secrets.",
        )
    )


def _json() -> str:
    return """\
        What --json and --jsonl write.

        --json writes one document: {"v":1,"ok":true,...}, or {"v":1,"ok":false,"error":...,
        "code":"OUT...","remedy":...} when the command fails. Keys are added, never renamed
        and never left out. Numbers have every digit that was stored; a reader that takes all
        numbers for floats loses those of large integers.

        --jsonl writes one event per line and nothing else; errors go to stderr.

        data is the payload as JSON. A payload that is not JSON is in data_base64 instead.
        """


def _masking() -> str:
    return """\
        Sensitive values are shown as \u2022\u2022\u2022, everywhere and to everybody.

        Fields that an event class declares as sensitive= are stored encrypted. No command
        decrypts them, and what is encrypted is not shown either, so a list, a terminal's log
        and an export hold none of it. Applications that read the log get the values.
        """


def _late_events() -> str:
    return """\
        Events may become visible after others with a higher position.

        A position is drawn when an event is written, and seen when its transaction commits.
        So a reader that asks for what is after the newest position misses the events of a
        transaction that was open then. outrider events tail looks again at a window behind the
        newest position; outrider events export does not: leave some time between writing
        and exporting, or begin the next export a little earlier and drop what has an id you
        know.
        """


TOPICS: Mapping[str, Callable[[], str]] = {
    "configuration": _configuration,
    "exit-codes": _exit_codes,
    "filters": _filters,
    "json": _json,
    "late-events": _late_events,
    "masking": _masking,
    "no-transaction": _no_transaction,
}
