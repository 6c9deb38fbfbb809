import sys

import pytest

from holdfast.errors import SettingsError
from holdfast.lab.bench import pages
from holdfast.lab.bench.pages import SEATS_A_CHANGE, Pages, chromium
from holdfast.pages.site import Site


def test_without_chromium_the_figures_of_the_pages_say_what_they_need(monkeypatch):
    monkeypatch.setitem(sys.modules, "playwright", object())
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(SettingsError, match="need Chromium"):
        chromium()


def test_without_playwright_they_say_so_first(monkeypatch):
    monkeypatch.setitem(sys.modules, "playwright", None)
    with pytest.raises(SettingsError, match="need playwright"):
        chromium()


def test_without_a_build_they_ask_for_one(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "playwright", object())
    monkeypatch.setattr("shutil.which", lambda name: "/usr/bin/true")
    monkeypatch.setattr(pages, "Site", lambda: Site(tmp_path))
    with pytest.raises(SettingsError, match="make web"):
        chromium()


def test_no_seat_is_asked_for_twice_while_it_is_held(monkeypatch):
    """Else a change would be a refusal, and the rate would be made of nothing."""
    monkeypatch.setattr(pages, "chromium", lambda: "/usr/bin/true")
    measured = Pages("memory://", 1.0)
    asked: list[str] = []

    def call(method: str, path: str, body: object = None) -> bytes:
        assert isinstance(body, dict)
        asked.extend(body["seats"])
        return b'{"id": "h"}'

    monkeypatch.setattr(measured, "_call", call)
    for nth in range(0, 60, 2):
        measured._change_once(nth)
    assert len(asked) == len(set(asked)) == 30 * SEATS_A_CHANGE
