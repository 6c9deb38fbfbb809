"""holdfast followers: how far each has come, and forgetting one that is no more."""

import asyncio
import json

from holdfast.cli import main
from holdfast.domain.views import Move
from holdfast.engine import Holdfast
from holdfast.followers.shards import Shards


def make_shop(url: str, *, working: bool = False) -> None:
    async def make() -> None:
        async with Holdfast.open(url, upkeep=False) as shop:
            pool = {"id": "floor", "capacity": 5, "tier": "any"}
            await shop.create_event({"id": "e1", "prices": {"any": 1}, "pools": [pool]})
            await shop.change_event("e1", name="again")
            await shop.store.move("relay", [Move("e1", 0, 1, 1)])
            if working:
                await Shards(shop.store, "relay", "a").renew()

    asyncio.run(make())


def test_the_list_shows_how_far_behind_each_is(tmp_path, capsys):
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    make_shop(url, working=True)
    assert main(["followers", "list", "--store", url, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["follower"], found["events"], found["behind"]) == ("relay", 1, 1)
    assert (found["idle"], found["members"]) == (0, 1)
    assert main(["followers", "list", "--store", url]) == 0
    assert "relay" in capsys.readouterr().out


def test_where_nobody_follows_it_says_so(tmp_path, capsys):
    assert main(["followers", "list", "--store", f"sqlite:///{tmp_path / 'shop.db'}"]) == 0
    assert capsys.readouterr().out == "Nobody follows the log.\n"


def test_one_that_is_no_more_is_forgotten(tmp_path, capsys):
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    make_shop(url)
    assert main(["followers", "forget", "relay", "--store", url]) == 0
    assert main(["followers", "forget", "relay", "--store", url]) == 1
    assert "no follower 'relay'" in capsys.readouterr().err


def test_one_that_is_at_work_is_not_forgotten(tmp_path, capsys):
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    make_shop(url, working=True)
    assert main(["followers", "forget", "relay", "--store", url]) == 1
    assert "is at work" in capsys.readouterr().err
