"""OpenDP: randomised response over the bits of a one-hot vector, and its estimate of how often each bit was set.

Its randomised response over categories has no estimate beside it. It takes no seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import opendp.prelude as dp

from benchmarks.peers.scripts.answering import PeerMethod, main


def methods(buckets: int, epsilon: float) -> dict[str, Callable[[], PeerMethod]]:
    domain, metric = dp.bitvector_domain(max_weight=1), dp.discrete_distance()
    # One value is one bit: ε = 2·ln((2 - f)/f). A hair more of f, so that rounding keeps within ε.
    flip = 2 / (math.exp(epsilon / 2) + 1) + 1e-12
    randomise = dp.m.make_randomized_response_bitvec(domain, metric, f=flip)
    assert randomise.map(1) <= epsilon
    one_hot = [np.packbits(row).tobytes() for row in np.eye(buckets, dtype=np.uint8)]
    return {
        "bit vectors": lambda: PeerMethod(
            lambda value: randomise(one_hot[value]),
            lambda reports: np.array(dp.m.debias_randomized_response_bitvec(reports, flip)) / len(reports),
            lambda report, value: bool(report[value // 8] >> (7 - value % 8) & 1),
        )
    }


if __name__ == "__main__":
    dp.enable_features("contrib")
    main("opendp", methods)
