"""Clients with one fault each, made of the reference: an examination must find every one.

Those of `HIDDEN` are honest as long as draws are scripted, so that only their free draws can give them away.
"""

import json
import os
import random
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from tests.helpers.clients import load_reference


def _favoured(client, make):
    """Another way to draw one of the favoured outcomes or the others."""
    client.draw_favoured = make
    client.DRAWS["block"] = make


def _only_free(client, faulty):
    """The faulty draw where nothing is scripted, the honest one otherwise."""
    honest = client.draw_favoured

    def draw(c, start, below):
        return (honest if isinstance(below, client.Scripted) else faulty)(c, start, below)

    _favoured(client, draw)


def biased_modulo(client):
    client.secrets = _Secrets(lambda limit: int.from_bytes(os.urandom(8), "big") % limit)


def modulo_of_32_bits(client):
    client.secrets = _Secrets(lambda limit: int.from_bytes(os.urandom(4), "big") % limit)


def seeded_generator(client):
    client.secrets = _Secrets(random.Random(7).randrange)


def short_period(client):
    """A generator that begins anew after some thousand draws."""
    state = {"draws": 0, "random": random.Random(os.urandom(16))}
    start = state["random"].getstate()

    def below(limit):
        state["draws"] += 1
        if state["draws"] % 3000 == 0:
            state["random"].setstate(start)
        return state["random"].randrange(limit)

    client.secrets = _Secrets(below)


def dependent_draws(client):
    """Every other draw is the one before it."""
    last = {}

    def below(limit):
        last[limit] = last.pop(limit) if limit in last and last[limit] is not None else None
        if last[limit] is None:
            last[limit] = random.SystemRandom().randrange(limit)
            return last[limit]
        drawn, last[limit] = last[limit], None
        return drawn

    client.secrets = _Secrets(below)


def even_far_branch(client):
    """Away from the value, as often to its left as to its right."""

    def faulty(c, start, below):
        r = below(c["total"])
        if r < c["width"] * c["P"]:
            return start + r // c["P"]
        left, right = start, c["others"] - start
        if left and (not right or below(2)):
            return below(left)
        return start + c["width"] + below(right)

    _only_free(client, faulty)


def doubled_epsilon(client):
    def faulty(c, start, below):
        P = c["P"] ** 2 // c["Q"]
        return honest({**c, "P": P, "total": c["width"] * P + c["others"] * c["Q"]}, start, below)

    honest = client.draw_favoured
    _only_free(client, faulty)


def epsilon_a_tenth_larger(client):
    def faulty(c, start, below):
        P = int(c["P"] * (c["P"] / c["Q"]) ** 0.1)
        return honest({**c, "P": P, "total": c["width"] * P + c["others"] * c["Q"]}, start, below)

    honest = client.draw_favoured
    _only_free(client, faulty)


def no_noise(client):
    _only_free(client, lambda c, start, below: start)


def shifted_cell(client):
    honest = client.draw_favoured
    _favoured(client, lambda c, start, below: (honest(c, start, below) + 1) % (c["width"] + c["others"]))


def floats_instead_of_integers(client):
    def faulty(c, start, below):
        r, favoured = float(below(c["total"])), float(c["width"] * c["P"])
        if r < favoured:
            return start + int(r / c["P"])
        other = int((r - favoured) / c["Q"])
        return other if other < start else other + c["width"]

    _favoured(client, faulty)


def rounds_half_up(client):
    client.round = lambda value: int((value + 0.5) // 1)


def rounds_half_away(client):
    """As many languages do."""
    client.round = lambda value: int(value + 0.5) if value >= 0 else -int(-value + 0.5)


def grid_rounds_half_up(client):
    def position(self, place):
        found = int(place + 0.5) if self.half_even else int(place)
        return min(max(found, 0), self.positions - 1)

    client.Manifest._round = position


def edge_belongs_below(client):
    from bisect import bisect_left

    client.bisect_right = bisect_left


def keeps_milliseconds(client):
    client.Manifest.cut = lambda self, milliseconds: milliseconds


def checks_no_epsilon(client):
    client.exp_from_below = lambda epsilon: 1 << 300


def checks_epsilon_by_halves(client):
    """Accepts a little more than e^ε."""
    honest = client.exp_from_below
    client.exp_from_below = lambda epsilon: honest(epsilon) + (honest(epsilon) >> 32)


def spends_without_counting(client):
    client.Store.spend = lambda self, manifest, reports=1, below=None: None


def forgets_a_clock_set_back(client):
    def enter(account, now, every):
        start = now // every * every
        return account if account and account[0] == start else (start, start + every, 0)

    client.enter_period = enter


def constant_id(client):
    client.secrets = _Secrets(client.secrets.randbelow, lambda size: bytes(size))


def counted_ids(client):
    numbers = iter(range(10**9))
    start = int.from_bytes(os.urandom(4), "big")
    client.secrets = _Secrets(client.secrets.randbelow, lambda size: (start + next(numbers)).to_bytes(size, "big"))


def ids_of_a_device(client):
    """Half of an id is the same for ever."""
    client.secrets = _Secrets(client.secrets.randbelow, lambda size: b"device 7" + os.urandom(size - 8))


def clock_of_another_day(client):
    client.time = _Time(lambda: time.time_ns() - 86_400 * 10**9)


def messages_of_another_collection(client):
    honest = client._message

    def message(schema, manifest, *more):
        return honest(schema, manifest, *more).replace(manifest.revision, bytes(8))

    client._message = message


def messages_cut_short(client):
    honest = client.encode_report
    client.encode_report = lambda *parts: honest(*parts)[:-1]


UPLOADING = (
    *(constant_id, counted_ids, ids_of_a_device, clock_of_another_day, messages_of_another_collection),
    *(messages_cut_short, keeps_milliseconds),
)
SCRIPTED = (
    *(shifted_cell, floats_instead_of_integers, rounds_half_up, rounds_half_away, grid_rounds_half_up),
    *(edge_belongs_below, keeps_milliseconds, checks_no_epsilon, checks_epsilon_by_halves),
    *(spends_without_counting, forgets_a_clock_set_back),
)
HIDDEN = (
    *(biased_modulo, modulo_of_32_bits, seeded_generator, short_period, dependent_draws, even_far_branch),
    *(doubled_epsilon, epsilon_a_tenth_larger, no_noise),
)


class _Secrets:
    """In place of the module."""

    def __init__(self, below, token_bytes=os.urandom):
        self.randbelow, self.token_bytes = below, token_bytes


class _Time:
    """In place of the module."""

    def __init__(self, time_ns):
        self.time_ns = time_ns


# Programs that are no clients at all ----------------------------------------------------------------------------------


def hangs():
    time.sleep(3600)


def dies():
    sys.stdin.readline()
    print("out of ideas", file=sys.stderr)
    sys.exit(3)


def prints_garbage():
    for _ in sys.stdin:
        print("Segmentation fault", flush=True)


def prints_a_list():
    for _ in sys.stdin:
        print("[1, 2]", flush=True)


def floods():
    while True:
        os.write(1, b"x" * 65536)


def floods_with_lines():
    while True:
        os.write(1, b'{"cell": 1, "position": 2}\n' * 2000)


def answers_nothing_to_all():
    for _ in sys.stdin:
        print("{}", flush=True)


def draws_too_few():
    client = load_reference("mutant")
    state = {}
    for line in sys.stdin:
        try:
            answer = client.answer(json.loads(line), state)
        except client.RefusedError:
            answer = {"refused": ""}
        answer.get("cells", [0]).pop()
        print(json.dumps(answer), flush=True)


NO_CLIENTS = (hangs, dies, prints_garbage, prints_a_list, floods, floods_with_lines)


if __name__ == "__main__":
    chosen = globals()[sys.argv[1]]
    if chosen in (*SCRIPTED, *HIDDEN, *UPLOADING):
        mutant = load_reference("mutant")
        chosen(mutant)
        mutant.conform(sys.stdin, sys.stdout)
    else:
        chosen()
