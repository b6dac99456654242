"""hushgram: the distribution of a number across many devices, under local differential privacy.

>>> from hushgram import Collection
>>> commute = Collection(name="commute", low=0, high=180, buckets=64, epsilon=1.0, unit="minutes")
>>> 0 <= commute.report(37.5) < commute.mechanism.cells
True
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hushgram._validation import CollectionError as CollectionError
    from hushgram.collection import Collection as Collection
    from hushgram.comparison import Comparison as Comparison
    from hushgram.config import load_collections as load_collections
    from hushgram.device import Budget as Budget
    from hushgram.device import Device as Device
    from hushgram.domain import Domain as Domain
    from hushgram.estimate import Estimate as Estimate
    from hushgram.intervals import Interval as Interval
    from hushgram.intervals import NotEstimableError as NotEstimableError
    from hushgram.windows import Windows as Windows

    __version__: str

# Names are imported when they are first used (SPEC 1 of Scientific Python does the same): the command lives in this
# package, and must answer to signals before numpy and scipy are loaded.
_MODULES = {
    "Budget": "device",
    "Collection": "collection",
    "CollectionError": "_validation",
    "Comparison": "comparison",
    "Device": "device",
    "Domain": "domain",
    "Estimate": "estimate",
    "Interval": "intervals",
    "NotEstimableError": "intervals",
    "Windows": "windows",
    "load_collections": "config",
}

__all__ = [
    "Budget",
    "Collection",
    "CollectionError",
    "Comparison",
    "Device",
    "Domain",
    "Estimate",
    "Interval",
    "NotEstimableError",
    "Windows",
    "load_collections",
]


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("hushgram")
    if name in _MODULES:
        value = getattr(import_module(f"hushgram.{_MODULES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'hushgram' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
