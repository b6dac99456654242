"""multi-freq-ldpy: OLH, GRR, OUE and subset selection, with its two estimators, matrix inversion (MI) and IBU."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import xxhash
from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Aggregator_MI, GRR_Client
from multi_freq_ldpy.pure_frequency_oracles.LH import LH_Aggregator_MI, LH_Client
from multi_freq_ldpy.pure_frequency_oracles.SS import SS_Aggregator_MI, SS_Client
from multi_freq_ldpy.pure_frequency_oracles.UE import UE_Aggregator_IBU, UE_Aggregator_MI, UE_Client
from numba import njit

from benchmarks.peers.scripts.answering import PeerMethod, main


def methods(buckets: int, epsilon: float) -> dict[str, Callable[[], PeerMethod]]:
    symbols = round(np.exp(epsilon)) + 1
    return {
        "OLH, MI": lambda: PeerMethod(
            lambda value: LH_Client(value, buckets, epsilon),
            lambda reports: LH_Aggregator_MI(reports, buckets, epsilon),
            lambda report, value: bool(
                report[0] == xxhash.xxh32(str(value).encode(), seed=report[1]).intdigest() % symbols
            ),
            lambda reports: [int(seed) % 2**32 * symbols + int(symbol) for symbol, seed in reports],
        ),
        "GRR, MI": lambda: PeerMethod(
            lambda value: GRR_Client(value, buckets, epsilon),
            lambda reports: GRR_Aggregator_MI(reports, buckets, epsilon),
            lambda report, value: bool(report == value),
        ),
        "OUE, MI": lambda: PeerMethod(
            lambda value: UE_Client(value, buckets, epsilon),
            lambda reports: UE_Aggregator_MI(reports, epsilon),
            lambda report, value: bool(report[value]),
        ),
        "OUE, IBU": lambda: PeerMethod(
            lambda value: UE_Client(value, buckets, epsilon),
            lambda reports: UE_Aggregator_IBU(reports, buckets, epsilon),
        ),
        "subset selection, MI": lambda: PeerMethod(
            lambda value: SS_Client(value, buckets, epsilon),
            lambda reports: SS_Aggregator_MI(reports, buckets, epsilon),
            lambda report, value: bool((report == value).any()),
        ),
    }


@njit  # type: ignore[untyped-decorator]  # compiled code has a generator of its own
def seed_compiled(seed: int) -> None:
    np.random.seed(seed)  # noqa: NPY002


if __name__ == "__main__":
    np.random.seed(1)  # noqa: NPY002
    seed_compiled(1)
    main("multi-freq-ldpy", methods)
