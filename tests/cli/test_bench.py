"""The bench: what it says about itself and its figures."""

from pathlib import Path
from typing import Any

from holdfast.cli import main
from holdfast.lab import bench


async def test_sizes_are_called_what_they_are(tmp_path, monkeypatch):
    made: list[int] = []

    async def new_event(shop: Any, event: str, seats: int) -> None:
        made.append(seats)

    async def hold_and_release(shop: Any, event: str, seats: int) -> float:
        return float(seats)

    monkeypatch.setattr(bench, "new_event", new_event)
    monkeypatch.setattr(bench, "hold_and_release", hold_and_release)
    for scale in (1.0, 0.05):
        made.clear()
        measured = await bench.Bench("memory://", Path(tmp_path), print, scale).large_event()
        ratio = measured.pop("ratio")
        assert measured == {f"pairs_per_second_of_{seats:,}": seats for seats in made}
        assert ratio == made[1] / made[0]


def test_its_help_tells_what_it_leaves_makes_and_ignores(capfd, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    assert main(["bench", "--help"]) == 0
    text = " ".join(capfd.readouterr().out.split())
    for says in ("holdfast_baseline_*", "HOLDFAST_STORE and holdfast.toml do not count here"):
        assert says in text
