"""A short file cannot become a large one: hostile YAML ends in one line, within a memory limit of a real process."""

import json
import subprocess
import sys

import pytest

from hushgram import CollectionError
from hushgram.config import parse_collections

COLLECTION = "{domain: {low: 0, high: 1}, epsilon: 1}"


def chain(first, link, length=8, width=10):
    """Anchors, each of which names the one before `width` times."""
    return [f"n0: &n0 {first}", *(f"n{i + 1}: &n{i + 1} {link([f'*n{i}'] * width)}" for i in range(length))]


MERGES = "collections:\n" + "".join(
    f"  {line}\n" for line in chain("{a: 1, b: 2}", lambda names: f"{{<<: [{', '.join(names)}]}}")
)
ALIASES = "collections:\n" + "".join(f"  {line}\n" for line in chain("[1, 1]", lambda names: f"[{', '.join(names)}]"))
HOSTILE = {
    "merge keys": (MERGES, "expands to more than 1,048,576 entries"),
    "aliases": (ALIASES, "expands to more than 1,048,576 entries"),
    "aliases as keys": ("collections: {? &a [1] : 1, ? [*a, *a] : 2}", "not valid YAML"),
    "a merge of itself": ("collections: &a {<<: *a}", "an anchor that contains itself"),
    "a list of itself": ("collections: &a [*a]", "an anchor that contains itself"),
    "lists in lists": ("collections: " + "[" * 50_000, "line 1: nested too deeply, allowed: at most 32 levels"),
    "mappings in mappings": ("{a: " * 50_000, "line 1: nested too deeply, allowed: at most 32 levels"),
    "blocks in blocks": ("- " * 50_000, "line 1: nested too deeply, allowed: at most 32 levels"),
    "many digits": ("collections: " + "9" * 100_000, "line 1: got a text of 100,000 characters"),
    "many hexadecimal digits": ("collections: 0x" + "f" * 100_000, "line 1: got a text of 100,002 characters"),
    "a number by sixties": ("collections: 1" + ":1" * 50_000, "line 1: got a text of 100,001 characters"),
    "a long text": ("collections:\n- " + "a" * 100_000, "line 2: got a text of 100,000 characters"),
    "a long key": ("collections:\n  ? " + "a" * 100_000 + "\n  : 1", "line 2: got a text of 100,000 characters"),
    "a long quoted key": ("? '" + "a " * 50_000 + "'\n: 1", "line 1: got a text of 100,000 characters"),
}
MEMORY = 256 << 20

READ = f"""
import json, resource, sys
from hushgram import CollectionError
from hushgram.config import parse_collections
import yaml  # before the limit, so that its own memory does not count
texts = json.load(sys.stdin)
mapped = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (mapped + {MEMORY}, mapped + {MEMORY}))
resource.setrlimit(resource.RLIMIT_CPU, (300, 300))
for name, text in texts.items():
    try:
        parse_collections(text)
        print(json.dumps([name, "read"]))
    except CollectionError as error:
        print(json.dumps([name, str(error)]))
"""


@pytest.mark.skipif(
    sys.platform != "linux", reason="the limit is relative to the mapped memory, which is read from /proc"
)
def test_hostile_texts_are_refused_in_little_memory():
    assert len(MERGES) < 600
    texts = json.dumps({name: text for name, (text, _) in HOSTILE.items()})
    child = subprocess.run([sys.executable, "-c", READ], input=texts, capture_output=True, text=True, check=False)
    messages = dict(map(json.loads, child.stdout.splitlines()))
    assert child.returncode == 0, f"after {list(messages)}: {child.stderr[-500:]}"
    for name, (_, message) in HOSTILE.items():
        assert message in messages[name], name
        assert "\n" not in messages[name]
        assert len(messages[name]) < 300


def test_ordinary_anchors_and_merge_keys_work():
    text = """
collections:
  commute: &base
    domain: &domain {low: 0, high: 180, unit: minutes}
    epsilon: 1
    groups: &countries [DE, FR]
  weekend: {<<: *base, epsilon: 2}
  delay: {domain: {<<: *domain, high: 60}, epsilon: 1, groups: *countries}
  both: {<<: [{epsilon: 4}, *base], buckets: 64}
"""
    commute, weekend, delay, both = parse_collections(text).values()
    assert (commute.epsilon, weekend.epsilon, weekend.high, weekend.groups) == (1, 2, 180, ("DE", "FR"))
    assert (delay.low, delay.high, delay.unit, delay.groups) == (0, 60, "minutes", ("DE", "FR"))
    assert (both.epsilon, both.buckets, both.high) == (4, 64, 180)


def test_many_collections_may_share_a_long_list():
    groups = ", ".join(f"g{number}" for number in range(2000))
    others = "".join(f"  c{number}: {{<<: *base}}\n" for number in range(100))
    collections = parse_collections(
        f"collections:\n  first: &base {{domain: {{low: 0, high: 1}}, epsilon: 1, groups: [{groups}]}}\n{others}"
    )
    assert len(collections) == 101
    assert collections["c99"].groups == collections["first"].groups


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "got an empty file, allowed: one entry, collections"),
        ("just a text", "got a file that holds 'just a text', allowed: one entry, collections"),
        (f"commute: {COLLECTION}", "got the entries commute, allowed: one entry, collections"),
        ("collections: [a]", "collections: got ['a'], allowed: a mapping of names to collections"),
        ("collections: {a: {low: 0, high: 1, epsilon: 1}}", "collection 'a': low: belongs into domain"),
        ("collections: {a: {epsilon: 1}}", "collection 'a': domain: missing, allowed: a mapping such as"),
        (f"collections: {{2024: {COLLECTION}}}", "name of a collection: got 2024, allowed: a printable text of"),
        (f"collections: {{2024: {COLLECTION}}}", "put a number in quotes"),
        ("collections:\n\ta: 1", "not valid YAML: while scanning for the next token found character '\\t'"),
        ("collections: {a: \x01}", "not valid YAML: "),
    ],
)
def test_common_mistakes_in_yaml_are_explained(text, message):
    with pytest.raises(CollectionError) as raised:
        parse_collections(text)
    assert message in str(raised.value)
    assert "<unicode string>" not in str(raised.value)
    assert "\n" not in str(raised.value)
