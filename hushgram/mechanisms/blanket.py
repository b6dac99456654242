"""The privacy blanket of a mechanism: the part of a report's law that is the same whatever the value is.

Reports that are counted hide among the blankets of the others (Balle, Bell, Gascón, Nissim: *The Privacy Blanket of the
Shuffle Model*, CRYPTO 2019). A mechanism declares its own; `hushgram.central_epsilon` turns it into a promise.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from hushgram.sampling import Law


@dataclass(frozen=True)
class Blanket:
    """The blanket ω(y) = min_v R_v(y), cut up by the two values v and w that reports tell apart best.

    Of every mechanism here, or of one that tells at least as much, R_v(y) and R_w(y) are ω(y) or 1 + `excess` times
    ω(y). So reports are of four kinds: favoured by v alone, by w alone, by both or by neither. The masses below are
    those of ω on a kind.

    Which two values are told apart best follows from one argument. Let a little mass of the kinds "both" and "neither",
    as much of each, become "v alone" and "w alone". That spreads the law of the privacy loss and keeps its mean, and
    the bound is the mean of a convex function: it grows. So the best two values are those with the most `apart`, for
    each of several channels alike, and `apart` may be overstated but not understated.
    """

    excess: float
    apart: float
    """ω of the reports that v favours and w does not; of those that w favours and v does not, it is the same."""
    both: float

    @property
    def neither(self) -> float:
        """Follows from Σ R_v = 1."""
        return max(0.0, 1 - (2 + self.excess) * self.apart - (1 + self.excess) * self.both)

    @classmethod
    def of(cls, law: Law, apart: float, always: float = 0.0) -> Self:
        """The blanket of one law.

        `apart` counts the outcomes that v favours and w does not, `always` those that every value favours: they are
        part of the blanket as a whole. Where outcomes depend on a public draw, such as a hash, both are averages.
        """
        excess = (law.P - law.Q) / law.Q
        return cls(excess, apart * law.q, (law.width - apart - always) * law.q)

    @classmethod
    def mixed(cls, parts: Iterable[tuple[float, Self]]) -> Self:
        """The blanket of a report that says which channel it took, where the channel was drawn whatever the value."""
        shares, blankets = zip(*parts, strict=True)
        weights = [share / sum(shares) for share in shares]
        return cls(
            blankets[0].excess,
            sum(weight * blanket.apart for weight, blanket in zip(weights, blankets, strict=True)),
            sum(weight * blanket.both for weight, blanket in zip(weights, blankets, strict=True)),
        )
