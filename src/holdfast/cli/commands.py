"""Puts the commands together. Each is a small module, which is loaded when it is asked for: what
measures and compares takes longer to load than most commands do."""

import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Annotated

import typer
from typer.main import get_command

import holdfast
from holdfast.cli.options import from_file, open_to_environment, said_by
from holdfast.cli.shared import REFUSED, WRONG_VALUE, Failed, complain, hush_stdout, prepare_streams
from holdfast.errors import HoldfastError

COMMANDS = {
    "demo": "demo.demo",
    "serve": "serve.serve",
    "worker": "serve.worker",
    "events": "events.app",
    "keys": "keys.app",
    "orders": "orders.app",
    "log": "log.app",
    "stampede": "stampede.stampede",
    "migrate": "upkeep.migrate",
    "check": "upkeep.check",
    "repair": "upkeep.repair",
    "relay": "relay.relay",
    "followers": "followers.app",
    "dead-letters": "dead_letters.app",
    "projections": "projections.app",
    "webhooks": "webhooks.app",
    "bench": "bench.bench",
    "lab": "lab.lab",
    "sandbox": "sandbox.sandbox",
}
"""Each command's module, and what it is called there: a function, or the app of a group."""


HELP = frozenset(("-h", "--help", "--version"))


def make_app(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """The program, with these commands alone."""
    app = typer.Typer(
        name="holdfast",
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(holdfast_command)
    for name in names:
        module_name, _, attribute = COMMANDS[name].partition(".")
        module = import_module(f"holdfast.cli.{module_name}")
        command = getattr(module, attribute)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        elif name == "bench":
            app.command(name, cls=module.BenchCommand)(command)
        else:
            app.command(name)(command)
    return app


def _version(asked: bool) -> None:
    if asked:
        print(f"holdfast {holdfast.__version__}")
        raise typer.Exit


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


def run(args: Sequence[str] | None) -> int:
    """As `main`, which also takes an interruption for what it is."""
    prepare_streams()
    given = sys.argv[1:] if args is None else list(args)
    try:
        program = get_command(make_app(_needed(given)))
        open_to_environment(program)
        # Whoever asks for help gets it, whatever the file says.
        preset = {} if HELP.intersection(given) or not given else from_file(program, COMMANDS)
        code = program(given, prog_name="holdfast", standalone_mode=False, default_map=preset)
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
    except BrokenPipeError:
        hush_stdout()
        return REFUSED
    except OSError as trouble:
        hush_stdout()
        where = f"{trouble.filename}: " if trouble.filename else ""
        complain(f"{where}{trouble.strerror or trouble}")
        return REFUSED
    return code if isinstance(code, int) else 0


def _needed(given: Sequence[str]) -> Iterable[str]:
    """All of them for the help, and to say what a wrong one may have been meant to be."""
    first = given[0] if given else ""
    if first == "--version":
        return ()
    return (first,) if first in COMMANDS else COMMANDS


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
    text = f"{text[:1].lower()}{text[1:]} (see `{path} --help`)"
    source = None if option is None else said_by(context, option)
    return text if source is None else f"{source}: {text}"
