"""pure-ldp: OLH, fast local hashing, direct encoding (GRR), OUE and Hadamard response. Its values count from 1."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import xxhash
from pure_ldp.frequency_oracles.direct_encoding import DEClient, DEServer
from pure_ldp.frequency_oracles.hadamard_response import HadamardResponseClient, HadamardResponseServer
from pure_ldp.frequency_oracles.local_hashing import FastLHClient, FastLHServer, LHClient, LHServer
from pure_ldp.frequency_oracles.unary_encoding import UEClient, UEServer

from benchmarks.peers.scripts.answering import PeerMethod, main

HASHES = 1000
"""Hash functions of FLH: the larger of its experiments' numbers, and the more accurate."""


def build_method(client: Any, new_server: Callable[[], Any], buckets: int, **more: Any) -> PeerMethod:
    def server(reports: list[Any]) -> Any:
        instance = new_server()
        instance.aggregate_all(reports)
        return instance.estimate_all(range(1, buckets + 1), suppress_warnings=True) / len(reports)

    return PeerMethod(lambda value: client.privatise(value + 1), server, **more)


def methods(buckets: int, epsilon: float) -> dict[str, Callable[[], PeerMethod]]:
    def hashes_to(report: Any, value: int) -> bool:
        return bool(report[0] == xxhash.xxh32(str(value).encode(), seed=report[1]).intdigest() % client.g)

    client = LHClient(epsilon, buckets, use_olh=True)

    def olh() -> PeerMethod:
        return build_method(
            client,
            lambda: LHServer(epsilon, buckets, use_olh=True),
            buckets,
            supports=hashes_to,
            cells=lambda reports: [seed % 2**32 * client.g + int(symbol) for symbol, seed in reports],
        )

    def flh() -> PeerMethod:
        # The matrix of hashes is the same for every window: made once, and not timed.
        matrix = FastLHServer(epsilon, buckets, HASHES, use_olh=True).hash_matrix
        return build_method(
            FastLHClient(epsilon, buckets, HASHES, use_olh=True),
            lambda: FastLHServer(epsilon, buckets, HASHES, use_olh=True, hash_matrix=matrix),
            buckets,
            supports=hashes_to,
        )

    def grr() -> PeerMethod:
        return build_method(
            DEClient(epsilon, buckets),
            lambda: DEServer(epsilon, buckets),
            buckets,
            supports=lambda report, value: report == value,
        )

    def oue() -> PeerMethod:
        return build_method(
            UEClient(epsilon, buckets, use_oue=True),
            lambda: UEServer(epsilon, buckets, use_oue=True),
            buckets,
            supports=lambda report, value: bool(report[value]),
        )

    def hadamard() -> PeerMethod:
        # Above ε = 1 client and server share a permutation, which a second server must be given as well.
        first = HadamardResponseServer(epsilon, buckets)

        def reset_server() -> Any:
            first.reset()
            return first

        return build_method(HadamardResponseClient(epsilon, buckets, first.get_hash_funcs()), reset_server, buckets)

    return {"OLH": olh, f"FLH, {HASHES} hashes": flh, "GRR": grr, "OUE": oue, "Hadamard response": hadamard}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    main("pure-ldp", methods)
