"""Logs: one line for each record on stderr, JSON for programs and text for people, without secrets.

Modules log with the standard library, under `holdfast.`; here that meets structlog. What is printed
is masked last, whoever wrote it: keys, tokens and passwords by their shape and by where they stand,
and those of this deployment's settings wherever they are.
"""

import json
import logging
import re
import sys
import threading
from types import TracebackType
from typing import Any
from urllib.parse import unquote, urlsplit

from structlog.processors import EventRenamer, TimeStamper, format_exc_info
from structlog.stdlib import ExtraAdder, ProcessorFormatter, add_log_level, add_logger_name
from structlog.typing import EventDict, WrappedLogger

from holdfast.settings import Settings

HANDLER = "holdfast"
TEXT_CHARS_MAX = 20_000
SECRET_CHARS_MIN = 6
"""A shorter one would be found in common words; where it is a password in an address it is masked
anyway."""
HIDDEN = "***"

_names = (
    r"authorization|(?:buyer|hold|queue)[-_]token|token|(?:api|admin)[-_]key|password|passwd|secret"
)
SECRET_NAME = re.compile(_names, re.IGNORECASE)
SHAPES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\bhf_([a-z]+)_[\w-]+"), rf"hf_\1_{HIDDEN}"),
    (re.compile(r"\b(bearer|basic)\s+[^\s'\",;)}\]]+", re.IGNORECASE), rf"\1 {HIDDEN}"),
    # user:password@host, with whatever a password may contain; redis also takes it alone.
    (re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s:/@]*):\S*@", re.IGNORECASE), rf"\1:{HIDDEN}@"),
    (re.compile(r"(\brediss?://)[^\s:@]+@", re.IGNORECASE), rf"\1{HIDDEN}@"),
    (re.compile(r"([?&]key=)[^\s&'\"#]+", re.IGNORECASE), rf"\1{HIDDEN}"),
    # As in a header, a query, a settings file, or Python's way to show a pair.
    (
        re.compile(
            rf"\b((?:{_names})['\"]?\s*[:=,]\s*b?['\"]?)(?!bearer\b|basic\b)[^\s'\",;&)}}\]]+",
            re.IGNORECASE,
        ),
        rf"\1{HIDDEN}",
    ),
)

log = logging.getLogger("holdfast")


def set_up_logs(settings: Settings) -> None:
    """For the whole process. Doing so again replaces what was set up before."""
    as_text = settings.log_format == "text" or (
        settings.log_format == "auto" and sys.stderr.isatty()
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.name = HANDLER
    handler.setFormatter(
        ProcessorFormatter(
            foreign_pre_chain=[
                # An event is what is sold here, and may be named in an extra.
                EventRenamer("message"),
                ExtraAdder(),
                add_log_level,
                add_logger_name,
                TimeStamper(fmt="iso", utc=True),
                format_exc_info,
            ],
            processors=[
                ProcessorFormatter.remove_processors_meta,
                Mask(settings),
                _as_text if as_text else _as_json,
            ],
        )
    )
    root = logging.getLogger()
    for old in [each for each in root.handlers if each.name == HANDLER]:
        root.removeHandler(old)
    root.addHandler(handler)
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    root.setLevel(max(level, logging.WARNING))
    log.setLevel(level)
    logging.captureWarnings(True)
    sys.excepthook = _uncaught
    threading.excepthook = _uncaught_in_thread


class Mask:
    """Takes what is secret out of a record, its extras and its traceback."""

    def __init__(self, settings: Settings) -> None:
        known = {settings.admin_key, settings.secret}
        for url in (settings.store, settings.gate, settings.broker):
            password = _password(url)
            known |= {password, unquote(password)}
        long = sorted((each for each in known if len(each) >= SECRET_CHARS_MIN), key=len)
        # The longest first: one may be a part of another.
        self._known = long[::-1]

    def __call__(self, logger: WrappedLogger, method: str, record: EventDict) -> EventDict:
        return {name: self.value(name, value) for name, value in record.items()}

    def value(self, name: str, value: Any) -> Any:  # of the same kind, where JSON has it
        if SECRET_NAME.fullmatch(name):
            return HIDDEN
        match value:
            case None | bool() | int() | float():
                return value
            case str():
                return self.text(value)
            case bytes():
                return self.text(value.decode(errors="replace"))
            case dict():
                shown = {_shown(key): each for key, each in value.items()}
                return {self.text(key): self.value(key, each) for key, each in shown.items()}
            case list() | tuple() | set() | frozenset():
                return [self.value("", each) for each in value]
        return self.text(repr(value))

    def text(self, text: str) -> str:
        for secret in self._known:
            text = text.replace(secret, HIDDEN)
        text = text[:TEXT_CHARS_MAX]
        for shape, masked in SHAPES:
            text = shape.sub(masked, text)
        return text


def _shown(key: object) -> str:
    return key.decode(errors="replace") if isinstance(key, bytes) else str(key)


def _password(url: str) -> str:
    try:
        return urlsplit(url).password or ""
    except ValueError:
        return ""


def _as_json(logger: WrappedLogger, method: str, record: EventDict) -> str:
    first = {name: record.pop(name, "") for name in ("timestamp", "level", "logger", "message")}
    return json.dumps({**first, **record}, default=str)


def _as_text(logger: WrappedLogger, method: str, record: EventDict) -> str:
    """The extras behind the message, a traceback below. What others wrote makes no new lines."""
    traceback = record.pop("exception", "")
    parts = [record.pop(name, "") for name in ("timestamp", "level", "logger", "message")]
    parts[1] = f"{parts[1]:<8}"
    parts += [f"{name}={value}" for name, value in record.items()]
    line = " ".join(_one_line(str(part)) for part in parts)
    return f"{line}\n{traceback}" if traceback else line


def _one_line(text: str) -> str:
    return text if text.isprintable() else repr(text)[1:-1]


def _uncaught(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, traceback)
        return
    log.critical("uncaught %s", kind.__name__, exc_info=(kind, error, traceback))


def _uncaught_in_thread(uncaught: threading.ExceptHookArgs) -> None:
    error = uncaught.exc_value or uncaught.exc_type()
    if not issubclass(uncaught.exc_type, SystemExit):
        _uncaught(uncaught.exc_type, error, uncaught.exc_traceback)
