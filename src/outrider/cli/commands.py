"""How our commands are built: lazily, with exit codes and examples in their help, in one tone."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, TypeVar

import click

from outrider.cli.failures import EXIT_CODES, INTERRUPTED, USAGE, Invocation, report, wants
from outrider.errors import MissingDependencyError

F = TypeVar("F", bound=Callable[..., Any])

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class Command(click.Command):
    """A command whose help ends with examples to copy."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **more: Any) -> None:
        more.setdefault("context_settings", CONTEXT)
        super().__init__(*args, **more)
        self.examples = examples

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the exit codes and the examples."""
        _write_end(formatter, self.examples)
        super().format_epilog(ctx, formatter)


class Group(click.Group):
    """A group that imports a command when it is asked for, not before."""

    command_class = Command

    def __init__(
        self,
        *args: Any,
        examples: Sequence[str] = (),
        lazy: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        more.setdefault("context_settings", CONTEXT)
        super().__init__(*args, **more)
        self.examples = examples
        self.lazy = lazy or {}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options; a group alone shows what it has, which is not what was asked for."""
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help(), err=True)
            ctx.exit(USAGE)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's interface
        """Return the names in the order in which they were written down."""
        return [*self.lazy, *(name for name in self.commands if name not in self.lazy)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, imported now."""
        place = self.lazy.get(cmd_name)
        if place is None:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = place.partition(":")
        try:
            command: click.Command = getattr(import_module(module), attribute)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] == __package__.partition(".")[0]:
                raise
            raise MissingDependencyError(f"outrider {cmd_name}", "postgres") from error
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of *args*, or say which is nearest."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            raise click.UsageError(
                f"no command {name!r}; {nearest(name, self.list_commands(ctx))}", ctx
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands; one whose package is missing says so, and is no error."""
        rows = []
        for name in self.list_commands(ctx):
            try:
                command = self.get_command(ctx, name)
            except ImportError as error:
                rows.append((name, f"(cannot be loaded: {error})"))
            except MissingDependencyError:
                rows.append((name, "(needs a package that is not installed)"))
            else:
                if command is not None and not command.hidden:
                    rows.append((name, command.get_short_help_str(100)))
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the exit codes and the examples."""
        _write_end(formatter, self.examples)
        super().format_epilog(ctx, formatter)


class Root(Group):
    """The program: every error leaves through here, as one exit code and one message."""

    group_class = Group

    def main(  # type: ignore[override]  # the overloads of click differ by version
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        *,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command line and exit."""
        if not standalone_mode:
            return super().main(args, prog_name, standalone_mode=False, **extra)
        args = sys.argv[1:] if args is None else list(args)
        run = extra.setdefault("obj", Invocation())
        as_json = wants(args, "--json")
        verbose = wants(args, "-v", "--verbose")
        try:
            result = super().main(args, prog_name or "outrider", standalone_mode=False, **extra)
        except click.exceptions.Abort:
            # KeyboardInterrupt arrives as this, too.
            sys.exit(INTERRUPTED)
        except Exception as error:  # noqa: BLE001 - the last one who can tell it
            sys.exit(report(error, run, as_json=as_json, verbose=verbose))
        sys.exit(result if isinstance(result, int) else 0)


def nearest(name: str, known: Sequence[str]) -> str:
    """Return a hint at what *name* may have meant."""
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"


def verbose_option(function: F) -> F:
    """Add ``-v``, which the root looks for by itself."""
    return click.option(
        "-v",
        "--verbose",
        is_flag=True,
        expose_value=False,
        help="Show the traceback of an error.",
    )(function)


def json_option(function: F) -> F:
    """Add ``--json``."""
    return click.option(
        "--json", "as_json", is_flag=True, help="Write one JSON document, errors included."
    )(function)


def schema_option(function: F) -> F:
    """Add ``--schema``."""
    return click.option(
        "--schema", metavar="NAME", help="The schema that holds Outrider's tables."
    )(function)


def _write_end(formatter: click.HelpFormatter, examples: Sequence[str]) -> None:
    with formatter.section("Exit codes"):
        formatter.write_text(", ".join(f"{code} {says}" for code, says in EXIT_CODES.items()))
    if examples:
        with formatter.section("Examples"):
            for example in examples:
                # Never wrapped: they are there to be copied.
                formatter.write(f"  {example}\n")
