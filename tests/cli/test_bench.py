"""The bench: what it says about itself and its figures, and what it does with a run."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli import main
from holdfast.errors import SettingsError
from holdfast.lab.bench import bench, benchmarks, rivals, runs
from holdfast.lab.bench.figures import GROUPS, MEASUREMENTS, Better, Spread, known, shown, summed_up
from holdfast.lab.bench.granian import Granian
from holdfast.lab.bench.grounds import GROUNDS, ON_REQUEST, Addresses, Session, everything
from holdfast.lab.bench.runs import LeftOut, Load, Measured, Run

DOCS = Path(__file__).parents[2] / "docs"
TINY = ("bench", "--quick", "--only", "hot_pool", "--rounds", "2")


@pytest.fixture
def run(tmp_path, monkeypatch, capfd):
    """A command line run in a folder of its own: its exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(os, "getloadavg", lambda: (0.1, 0.1, 0.1))
    monkeypatch.setattr(runs, "STOLEN_PERCENT", 101)

    def call(*args: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main(args)
        return code, *capfd.readouterr()

    return call


def canned(quick: bool = False, busy: bool = False, **rates: float) -> Run:
    """A run as `--save` keeps it, of figures that are far apart in no round."""
    holds = rates.get("holds", 20_000.0)
    figures = {
        "holds_per_second": Spread(holds, holds - 500, holds + 500, 3),
        "p99_ms": Spread(41.5, 40, 44, 3),
        "ratio": Spread(rates.get("ratio", 9.5), 9.1, 10, 3),
    }
    return Run(
        date="2026-11-16T10:15:00Z",
        quick=quick,
        rounds=3,
        machine={"cpus": 2, "model": "Some", "memory_gb": 8, "python": "3.11", "system": "Linux"},
        versions={"holdfast": "0.1.0", "PostgreSQL": "15.18"},
        load=Load(2.5 if busy else 0.1, 1.9, 0.0, busy),
        measured=[Measured("group_commit", "engine", "sqlite", figures, {"tasks": 1000})],
        left_out=[LeftOut("relay", "postgresql, wal_level=logical", "no broker")],
    )


# Names


def test_a_group_is_its_measurements_and_a_name_is_itself():
    assert known(["stores"]) == ["baskets", "paced", "large_event", "long_log"]
    assert known(["rivals", "gate", "gate"]) == ["gate", "neveroversell", "granian"]
    assert {name for group in GROUPS for name in known([group])} == set(MEASUREMENTS)


def test_everything_that_is_listed_can_be_measured_somewhere():
    on_servers = {name for ground in GROUNDS for name in ground.names}
    assert on_servers == set(MEASUREMENTS)
    assert all(callable(getattr(bench.Bench, name)) for name in MEASUREMENTS)
    assert set(MEASUREMENTS) - set(everything(rivals=False)) == set(ON_REQUEST)
    assert set(MEASUREMENTS) - set(everything(rivals=True)) == {"long_log"}


def test_every_measurement_is_on_the_page_about_the_bench():
    text = (DOCS / "bench.md").read_text(encoding="utf-8")
    assert [name for name in (*GROUPS, *MEASUREMENTS) if f"`{name}`" not in text] == []


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--only", "group-commit"), "unknown measurement 'group-commit'"),
        (("--only", "engine", "--only", ""), "unknown measurement ''"),
        (("--only", "baskets"), "name one with --store"),
        (("--only", "relay"), "name one with --store"),
        (("--only", "neveroversell"), "name one with --store"),
        (("--only", "granian"), "name one with --store"),
        (("--rivals",), "--rivals needs PostgreSQL"),
        (("--servers", "--store", "memory://"), "servers of its own"),
        (("--rounds", "0"), "--rounds must be a whole number from 1 to 50"),
        (("--store", "nonsense://"), "nonsense"),
        (("--compare",), "no run with any of these figures was saved yet"),
        (("--quick", "--compare", "no-such-file"), "no-such-file"),
    ],
)
def test_what_is_wrong_is_one_line(run, args, says, tmp_path):
    code, out, err = run("bench", *args)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert says in err
    assert list(tmp_path.glob(".holdfast-bench-*")) == []


def test_its_help_tells_what_it_leaves_makes_and_ignores(capfd, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    assert main(["bench", "--help"]) == 0
    text = " ".join(capfd.readouterr().out.split())
    for says in ("holdfast_baseline_*", "HOLDFAST_STORE and holdfast.toml do not count here"):
        assert says in text


# Measuring


@pytest.mark.parametrize("name", ["group_commit", "hot_pool", "best_available", "live"])
async def test_a_round_gives_every_figure_that_is_listed(name, tmp_path):
    measured = await bench.Bench(None, tmp_path, lambda _: None, 0.001).measure(name, rounds=1)
    figures, notes = summed_up(name, measured)
    assert figures.keys() == MEASUREMENTS[name].figures.keys()
    assert all(each.min == each.median == each.max for each in figures.values())
    assert notes


async def test_a_warm_up_does_not_count_and_sides_are_measured_in_every_round(tmp_path):
    shares = []

    class Noted(bench.Bench):
        async def live(self) -> dict[str, Any]:
            shares.append(self._share)
            return {"ratio": float(len(shares)), "subscribers": 7}

    rounds = await Noted(None, tmp_path, lambda _: None, 0.5).measure("live", rounds=3)
    figures, notes = summed_up("live", rounds)
    assert shares == [0.5 * bench.WARM_UP, 0.5, 0.5, 0.5]
    assert figures == {"ratio": Spread(3, 2, 4, 3)}
    assert notes == {"subscribers": 7}


async def test_sizes_are_called_what_they_are(tmp_path, monkeypatch):
    made: list[int] = []

    async def new_event(shop: Any, event: str, seats: int) -> None:
        made.append(seats)

    async def hold_and_release(shop: Any, event: str, seats: int, pairs: int) -> float:
        return float(seats)

    monkeypatch.setattr(bench, "new_event", new_event)
    monkeypatch.setattr(bench, "hold_and_release", hold_and_release)
    for scale in (1.0, 0.05):
        made.clear()
        [result] = await bench.Bench("memory://", tmp_path, print, scale).measure("large_event", 1)
        assert made == [result["small_seats"], result["large_seats"]]
        assert result["pairs_per_second_small"] == made[0]
        assert result["pairs_per_second_large"] == made[1]
        assert result["ratio"] == made[1] / made[0]


def test_on_servers_what_cannot_be_measured_is_left_out_and_the_rest_goes_on(tmp_path, monkeypatch):
    async def measure(self: bench.Bench, name: str, rounds: int) -> list[dict[str, Any]]:
        if name == "refusals":
            raise SettingsError("no way\nand more")
        return [{"holds_per_second": 1.0}]

    monkeypatch.setattr(bench.Bench, "measure", measure)
    monkeypatch.setattr("holdfast.lab.bench.grounds.GROUNDS", GROUNDS[:1])
    session = Session(tmp_path, lambda _: None, 1.0, 1)
    session.run_on_servers(["hot_pool", "refusals"], None)
    assert [each.measurement for each in session.measured] == ["hot_pool"]
    assert session.left_out == [LeftOut("refusals", "sqlite", "no way")]
    with pytest.raises(SettingsError, match="no way"):
        session.run_at(Addresses(), ["refusals"])


def test_a_rival_that_cannot_be_installed_is_said_so_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(SettingsError) as said:
        rivals.Neveroversell("postgresql://nobody@127.0.0.1:9/none", tmp_path)
    assert str(said.value) == "neveroversell could not be installed with pip"
    with pytest.raises(SettingsError, match="granian could not be installed with pip"):
        Granian(tmp_path)


# Runs that are kept and compared


def test_a_run_is_saved_and_the_next_is_compared_with_it(run, tmp_path):
    code, out, err = run(*TINY, "--save", "--json")
    first = json.loads(out)
    assert (code, err.count("\n")) == (0, 1)
    assert err.startswith("saved as ")
    [kept] = (tmp_path / "state" / "holdfast" / "bench").iterdir()
    assert json.loads(kept.read_text()) == first
    [measured] = first["measured"]
    spread = measured["figures"]["holds_per_second"]
    assert 0 < spread["min"] <= spread["median"] <= spread["max"]
    assert (measured["store"], measured["notes"], spread["rounds"]) == (
        *("sqlite", {"buyers": 1000}, 2),
    )
    assert first["machine"]["cpus"] == os.cpu_count()
    assert not first["load"]["busy"]

    code, out, err = run(*TINY, "--compare", "--save", "second.json")
    assert code == 0
    assert f"against the run of {first['date']}: " in out
    assert "verdict" in out
    second = runs.read(tmp_path / "second.json")
    assert second.compared is not None
    assert [each.figure for each in second.compared.changes] == [
        "holds_per_second",
        "p50_ms",
        "p99_ms",
    ]
    assert list(tmp_path.glob(".holdfast-bench-*")) == []


def test_the_last_run_that_has_any_of_the_figures_counts(run, tmp_path):
    def keep(kept: Run) -> Run:
        runs.save(kept, None)
        return kept

    older = keep(canned())
    newer = canned(holds=1.0)
    newer.date = "2026-11-17T00:00:00Z"
    keep(newer)
    quick = canned(quick=True)
    quick.date = "2026-11-18T00:00:00Z"
    keep(quick)
    (runs.folder() / "2026-11-19.json").write_text("{}")
    assert runs.last(False, {"group_commit", "http"}) == newer != older
    assert runs.last(True, {"group_commit"}) == quick
    with pytest.raises(SettingsError, match="no run with any of these figures"):
        runs.last(False, {"http"})
    with pytest.raises(SettingsError, match="is no run of holdfast bench"):
        runs.read(runs.folder() / "2026-11-19.json")


def test_no_more_runs_are_kept_than_the_limit(run, monkeypatch):
    monkeypatch.setattr(runs, "RUNS_KEPT", 2)
    for day in (1, 2, 3):
        each = canned()
        each.date = f"2026-11-0{day}T00:00:00Z"
        runs.save(each, None)
    assert [file.name[:10] for file in sorted(runs.folder().iterdir())] == [
        "2026-11-02",
        "2026-11-03",
    ]


@pytest.mark.parametrize(
    ("better", "was", "now", "verdict"),
    [
        (Better.MORE, (100, 95, 105), (121, 116, 126), "faster"),
        (Better.MORE, (100, 95, 105), (120, 115, 125), "within noise"),
        (Better.MORE, (121, 116, 126), (100, 95, 105), "slower"),
        (Better.LESS, (121, 116, 126), (100, 95, 105), "faster"),
        (Better.LESS, (100, 95, 105), (121, 116, 126), "slower"),
        (Better.MORE, (100, 100, 100), (100, 100, 100), "within noise"),
    ],
)
def test_faster_and_slower_need_more_than_both_spreads(better, was, now, verdict):
    def over(rounds: int, median: float, least: float, most: float) -> Spread:
        return Spread(median, least, most, rounds)

    assert runs.verdict(better, over(3, *was), over(3, *now)) == verdict
    assert runs.verdict(better, over(1, *was), over(3, *now)) == "one round"


def test_a_comparison_has_what_both_runs_have(run):
    was, now = canned(), canned(busy=True, holds=40_000.0)
    now.measured[0].figures["p50_ms"] = Spread(1, 1, 1, 3)
    compared = runs.compare(was, now)
    assert compared.busy
    assert compared.same_machine
    assert {each.figure: (each.ratio, each.verdict) for each in compared.changes} == {
        "holds_per_second": (2.0, "faster"),
        "p99_ms": (1.0, "within noise"),
        "ratio": (1.0, "within noise"),
    }


def test_a_busy_machine_is_warned_of(run, monkeypatch):
    monkeypatch.setattr(os, "getloadavg", lambda: (9.5, 3.0, 1.0))
    code, out, err = run(*TINY[:-1], "1")
    assert code == 0
    assert "load average 9.5 before, 9.5 after" in out
    assert "the machine was busy" in err
    assert "a quick run: a trial, not a figure" in out


# The page


def test_the_page_says_what_was_measured_where_and_what_is_claimed():
    text = benchmarks.page(canned())
    assert "Measured on 2026-11-16 at 10:15 UTC: 2 processors (Some), 8 GB" in text
    assert "Python 3.11, holdfast 0.1.0, PostgreSQL 15.18." in text
    assert "median of 3 rounds" in text
    holds = "| holds of one seat | sqlite | 20,000 /s | 19,500 to 20,500 | at least 15,000 /s |"
    assert holds in text
    assert "| 99 % of them answered within | sqlite | 41.5 ms | 40 to 44 |  |" in text
    assert "On sqlite, tasks: 1,000." in text
    assert "- `relay` on postgresql, wal_level=logical: no broker" in text
    assert "not reached" not in text
    assert "not quiet" not in text
    assert max(map(len, text.split("\n| ")[0].splitlines())) < 500


def test_the_page_hides_nothing():
    text = benchmarks.page(canned(busy=True, ratio=7.0))
    assert "at least 8 x: **not reached**" in text
    assert "**The machine was not quiet:** a load average of 2.5 on 2 processors" in text
    assert "These are no figures" in benchmarks.page(canned(quick=True))


def test_a_quick_run_overwrites_no_page_unless_told(run, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("as it was")
    code, _, err = run(*TINY[:-1], "1", "--write", "page.md")
    assert (code, page.read_text()) == (0, "as it was")
    assert err == "page.md was not written: a quick run is a trial (--force writes it)\n"
    assert not (tmp_path / "page.json").exists()

    code, _, err = run(*TINY[:-1], "1", "--write", "page.md", "--force")
    assert (code, err) == (0, "wrote page.md\n")
    assert page.read_text() == benchmarks.page(runs.read(tmp_path / "page.json"))


def test_the_page_in_the_documentation_is_of_the_run_beside_it():
    page = DOCS / "benchmarks.md"
    if not page.exists():
        pytest.skip("make bench has not written docs/benchmarks.md yet")
    kept = runs.read(page.with_suffix(".json"))
    assert not kept.quick
    assert page.read_text(encoding="utf-8") == benchmarks.page(kept)


@pytest.mark.parametrize(
    ("value", "text"),
    [(18_618.4, "18,618 x"), (0.2103, "0.21 x"), (4.0, "4 x"), (0, "0 x"), (99.94, "99.9 x")],
)
def test_figures_are_shown_as_people_read_them(value, text):
    assert shown(value, "x") == text
