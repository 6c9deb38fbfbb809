"""How badly the sandbox behaves on purpose, by chance that can be repeated."""

from random import Random
from typing import NamedTuple


class Fate(NamedTuple):
    """What happens to one request."""

    delay_seconds: float
    fails: bool
    loses: bool
    stalls: bool
    """How the answer is lost: the line goes silent, else it is cut."""
    declines: bool


class Weather:
    """Percentages are from 0 to 100. The nth request meets the same fate in every run of one seed,
    however many are under way at once: all of it is drawn as the request arrives."""

    def __init__(
        self,
        *,
        seed: int = 0,
        latency_ms: float = 0.0,
        jitter_ms: float = 0.0,
        fail_percent: float = 0.0,
        lose_percent: float = 0.0,
        decline_percent: float = 0.0,
    ) -> None:
        self._random = Random(seed)
        self._latency_ms = latency_ms
        self._jitter_ms = jitter_ms
        self._fail_percent = fail_percent
        self._lose_percent = lose_percent
        self._decline_percent = decline_percent

    def draw(self) -> Fate:
        chance = self._random.random
        return Fate(
            delay_seconds=(self._latency_ms + self._jitter_ms * chance()) / 1000,
            fails=100 * chance() < self._fail_percent,
            loses=100 * chance() < self._lose_percent,
            stalls=chance() < 0.5,
            declines=100 * chance() < self._decline_percent,
        )
