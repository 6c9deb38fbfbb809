"""The command line. Every command is a small module; this one only puts them together.

Exit codes: 0 done, 1 refused or failed, 2 a wrong value, 3 drift found, 130 interrupted.
"""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

import holdfast
from holdfast.cli import (
    dead_letters,
    demo,
    events,
    followers,
    keys,
    log,
    orders,
    projections,
    relay,
    serve,
    stampede,
    upkeep,
    webhooks,
)
from holdfast.cli.bench import BenchCommand, bench
from holdfast.cli.lab import lab
from holdfast.cli.sandbox import sandbox
from holdfast.cli.shared import REFUSED, WRONG_VALUE, Failed, complain, hush_stdout, prepare_streams
from holdfast.errors import HoldfastError

INTERRUPTED = 130

app = typer.Typer(
    name="holdfast",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(demo.demo)
app.command("serve")(serve.serve)
app.command("worker")(serve.worker)
app.add_typer(events.app, name="events")
app.add_typer(keys.app, name="keys")
app.add_typer(orders.app, name="orders")
app.add_typer(log.app, name="log")
app.command("stampede")(stampede.stampede)
app.command("migrate")(upkeep.migrate)
app.command("check")(upkeep.check)
app.command("repair")(upkeep.repair)
app.command("relay")(relay.relay)
app.add_typer(followers.app, name="followers")
app.add_typer(dead_letters.app, name="dead-letters")
app.add_typer(projections.app, name="projections")
app.add_typer(webhooks.app, name="webhooks")
app.command("bench", cls=BenchCommand)(bench)
app.command("lab")(lab)
app.command("sandbox")(sandbox)


def _version(asked: bool) -> None:
    if asked:
        print(f"holdfast {holdfast.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def holdfast_command(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Hold and sell seats and stock to crowds, and never oversell.

    Example: holdfast demo
    """
    if context.invoked_subcommand is None:
        print(context.get_help())


def main(args: Sequence[str] | None = None) -> int:
    """Runs one command line and returns its exit code. A wrong value is one line on stderr."""
    prepare_streams()
    try:
        code = app(args, prog_name="holdfast", standalone_mode=False)
        sys.stdout.flush()
    except Failed as failed:
        complain(str(failed))
        return failed.code
    except typer.TyperException as usage:
        complain(_explained(usage))
        return WRONG_VALUE
    except HoldfastError as trouble:
        complain(str(trouble))
        return WRONG_VALUE
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        hush_stdout()
        return REFUSED
    except OSError as trouble:
        hush_stdout()
        where = f"{trouble.filename}: " if trouble.filename else ""
        complain(f"{where}{trouble.strerror or trouble}")
        return REFUSED
    return code if isinstance(code, int) else 0


def _explained(usage: typer.TyperException) -> str:
    # Only usage errors know the command and the option they are about, and typer does not export
    # their class.
    context, option = getattr(usage, "ctx", None), getattr(usage, "param", None)
    most = getattr(option, "max", None)
    if option is not None and most is not None:
        number = "a number" if isinstance(option.min, float) else "a whole number"
        text = f"{option.opts[0]} must be {number} from {option.min} to {most}"
    else:
        text = usage.format_message().strip().rstrip(".")
    path = context.command_path if context else "holdfast"
    return f"{text[:1].lower()}{text[1:]} (see `{path} --help`)"
