"""What options say where the command line does not: the environment does, then holdfast.toml.

Settings have names of their own, and `settings.py` reads them. The other options are those of
single commands: `--buyers` of `holdfast stampede` is HOLDFAST_STAMPEDE_BUYERS, or HOLDFAST_BUYERS
for every command that has such an option, or `buyers` in the table [stampede] of the file.
"""

import os
from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.cli.shared import OPTIONS, Failed
from holdfast.settings import PREFIX, Settings, config_tables, hint

Command = Any  # of click, which typer carries without exporting its types
SETTINGS = {*Settings.__struct_fields__, *(word.removeprefix("--") for word in OPTIONS.values())}


def open_to_environment(program: Command) -> None:
    """Every option may be said by a variable."""
    for path, command in _commands(program, ()):
        for name, option in _options(command).items():
            option.envvar = [_variable([*path, name])]
            if name not in SETTINGS:
                option.envvar.append(_variable([name]))
            option.show_envvar = False  # the names follow from the option's own


def from_file(program: Command, commands: Iterable[str]) -> dict[str, Any]:
    """What the file says of each command, as click takes it. `commands`: the names of all, though
    the program may have been made with a few of them. Raises Failed for a name that is none."""
    path, tables = config_tables(os.environ)
    return {
        name: _table(program.commands[name], table, f"{path}: [{name}]")
        for name, table in tables.items()
        if _known(name, commands, f"{path}: there is no command") and name in program.commands
    }


def _table(command: Command, table: Mapping[str, Any], where: str) -> dict[str, Any]:
    options, commands = _options(command), getattr(command, "commands", {})
    said: dict[str, Any] = {}
    for name, value in table.items():
        _known(name, [*options, *commands], f"{where}: there is no option")
        if name in commands and isinstance(value, dict):
            said[name] = _table(commands[name], value, f"{where}.{name}")
        elif name not in options:
            raise Failed(f"{where}: {name} is a command: its options stand in a table")
        elif isinstance(value, bool) and not options[name].is_flag:
            raise Failed(f"{where}: {name} is no flag: it takes a value")
        elif name not in SETTINGS or not os.environ.get(_variable([name])):
            # Else the environment counts, as for any setting. One of several is one.
            single = options[name].multiple and not isinstance(value, list)
            said[options[name].name] = [value] if single else value
    return said


def _known(name: str, names: Iterable[str], fault: str) -> bool:
    known = list(names)
    if name in known:
        return True
    raise Failed(f"{fault} {name!r}{hint(name, known)}")


def _commands(command: Command, path: tuple[str, ...]) -> Iterable[tuple[tuple[str, ...], Command]]:
    yield path, command
    for name, each in getattr(command, "commands", {}).items():
        yield from _commands(each, (*path, name))


def _options(command: Command) -> dict[str, Any]:
    """By their names on the command line. Nobody presets --help and --version."""
    options = (each for each in command.params if each.param_type_name == "option")
    return {
        each.opts[0].removeprefix("--").replace("-", "_"): each
        for each in options
        if not (each.is_eager or each.hidden)
    }


def _variable(words: Iterable[str]) -> str:
    return PREFIX + "_".join(words).replace("-", "_").upper()


def typed(context: Any, name: str) -> bool:  # of click, as above
    """Whether the command line itself has it: what a variable says may be meant for others."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def said_by(context: Any, option: Any) -> str | None:  # of click, as above
    """The variable, or the file, that said what an option is; None if the command line did."""
    source = context.get_parameter_source(option.name) if context is not None else None
    if source is None or source.name not in ("ENVIRONMENT", "DEFAULT_MAP"):
        return None
    if source.name == "DEFAULT_MAP":
        return str(config_tables(os.environ)[0])
    return next((name for name in option.envvar or () if os.environ.get(name)), None)
