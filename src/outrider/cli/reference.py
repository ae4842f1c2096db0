"""The reference pages of the command line, the settings and the filters, written from the code.

``python -m outrider.cli.reference docs/reference`` writes them; a test compares them with what is
there, so a page cannot say anything that the code does not.
"""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from outrider.cli.commands import Command, Group
from outrider.cli.failures import EXIT_CODES
from outrider.cli.main import COMMANDS, cli
from outrider.config import SETTINGS, Settings
from outrider.filters import LENGTH_MAX, QUALIFIERS
from outrider.log.export import FIELDS

_WIDTH = 100
_CLI = """\
# Command line

What a command found goes to stdout, everything else to stderr. Nothing asks questions. Colours are
used on a terminal only, never with `NO_COLOR`, always with `FORCE_COLOR`.

`outrider help TOPIC` explains what is not about one command.

## Documents

`--json` writes one document, `{"v":1,"ok":true,…}`. When the command fails it is
`{"v":1,"ok":false,"error":"…","code":"OUT…","remedy":"…"}`, the remedy only where there is one;
[Errors](errors.md) explains the codes; `OUT012`, which only commands have, says that what was named
is not there. Keys are added, never renamed and never left out.

`--jsonl` writes one event per line and nothing else; errors go to stderr.

An event has the fields

%(fields)s.

Times are in UTC with microseconds. `data` is the payload as JSON, every number with the digits that
were stored; a payload that is no JSON is in `data_base64`, and `data` is null. Encrypted values are
shown as `•••`, in every command and in exports.

What came out of the log is shown on a terminal with control characters, line breaks and
bidirectional overrides escaped, so no event can fake a line or rewrite the screen.

## Exit codes

| code | meaning |
|---|---|
%(codes)s

"""

_CONFIGURATION = """\
# Configuration

A setting is taken from the first place that has it:

1. an argument of `Outbox(…)`, or an option of the command line: `--database-url`, `--schema`
2. the environment: `OUTRIDER_` and the name in capitals
3. `outrider.toml`, or else `[tool.outrider]` of `pyproject.toml`, in the working directory
4. for the database only: libpq's own variables, where one of `PGHOST`, `PGHOSTADDR`, `PGSERVICE`
   and `PGDATABASE` is set
5. its default

An empty variable counts as not set. `OUTRIDER_…_FILE` names a file that holds the value, for
secrets; setting both is an error. Unknown names in a file are errors, with the nearest known name;
unknown variables are not, because Kubernetes sets some of its own for a service called `outrider`.

No message shows a password: URLs are shown without it, and a URL that cannot be read is not shown
at all.

| setting | variable | default | example |
|---|---|---|---|
%(rows)s

%(texts)s

```toml
[tool.outrider]
namespace = "shop"
schema = "outbox"
```
"""

_FILTERS = """\
# Filters

A filter selects events: `outrider events list --where FILTER`, and `outbox.read(tx, "FILTER")`. It
is qualifiers separated by spaces, all of which must hold:

```text
type:order.* tenant:acme since:2h
```

| qualifier | selects | example |
|---|---|---|
%(rows)s

Each qualifier stands once. A filter without qualifiers selects everything; one with more than
%(length)s characters is refused. What is wrong is told with its place and the nearest known name.

## Values

A value with spaces is quoted: `key:"a b"`. Inside the quotation marks `\\"` is a quotation mark and
`\\\\` a backslash. Values compare byte for byte.

`type:` takes a pattern in which `*` stands for any run of characters, dots included: `type:order.*`
selects `order.placed` and `order.item.added`, but not `order`.

Times are those of storing (`created_at`), in the database's clock. A duration counts back from the
clock of the machine that reads the filter.

## Tenants

Entities, correlations and idempotency keys live within a tenant: `42` of one tenant is not the `42`
of another. A filter with `entity:TYPE/ID`, `entity_id:`, `correlation:` or `idempotency:` but
without `tenant:` therefore looks at events without a tenant only. All other filters without
`tenant:` look at all events.
"""


def pages() -> Mapping[str, str]:
    """Return the pages by the names of their files."""
    return {"cli.md": _cli(), "configuration.md": _configuration(), "filters.md": _filters()}


def _cli() -> str:
    head = _CLI % {
        "fields": textwrap.fill(", ".join(f"`{name}`" for name in FIELDS), _WIDTH),
        "codes": "\n".join(f"| {code} | {says} |" for code, says in EXIT_CODES.items()),
    }
    context = click.Context(cli, info_name="outrider")
    return head + "\n".join(line for name in COMMANDS for line in _command(context, cli, name))


def _command(parent: click.Context, group: click.Group, name: str) -> Iterator[str]:
    command = group.get_command(parent, name)
    assert isinstance(command, Command | Group)
    context = click.Context(command, parent=parent, info_name=name)
    arguments = " ".join(command.collect_usage_pieces(context))
    yield f"## {context.command_path}"
    yield ""
    yield f"`{context.command_path} {arguments}`"
    yield ""
    yield inspect.cleandoc(command.help or "")
    yield ""
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and "--help" not in parameter.opts:
            yield f"- `{record[0]}`: {record[1]}"
    yield ""
    yield "```text"
    yield from command.examples
    yield "```"
    yield ""
    if isinstance(command, Group):
        for child in command.list_commands(context):
            yield from _command(context, command, child)


def _configuration() -> str:
    defaults = Settings()
    rows = [
        f"| `{name}` | `OUTRIDER_{name.upper()}` | {_code(getattr(defaults, name))} "
        f"| `{setting.example}` |"
        for name, setting in SETTINGS.items()
    ]
    texts = [f"**`{name}`**: {setting.says}" for name, setting in SETTINGS.items()]
    return _CONFIGURATION % {"rows": "\n".join(rows), "texts": "\n\n".join(texts)}


def _code(value: object) -> str:
    return "not set" if value is None else f"`{value}`"


def _filters() -> str:
    rows = [f"| `{name}:` | {one.says} | `{one.example}` |" for name, one in QUALIFIERS.items()]
    return _FILTERS % {"rows": "\n".join(rows), "length": LENGTH_MAX}


def main() -> None:
    """Write the pages into the folder that is named."""
    folder = Path(sys.argv[1])
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
