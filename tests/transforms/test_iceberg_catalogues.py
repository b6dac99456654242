"""Catalogues of Iceberg as they are configured: advice, secrets, and clients that were given up."""

import threading

import pytest

from hushgram.transforms.sinks import iceberg
from hushgram.transforms.sinks.iceberg import Writer
from hushgram.transforms.sinks.iceberg_tables import IcebergError, TableName, open_catalog, prepare_table
from tests.helpers.lakes import NAME
from tests.helpers.tables import make_snapshot


@pytest.mark.parametrize("name", ["lake", "data-lake"])
def test_the_variable_that_is_advised_configures_the_catalogue(monkeypatch, tmp_path, name):
    with pytest.raises(IcebergError, match=f"no catalogue '{name}' is configured; set PYICEBERG_") as error:
        open_catalog(name)
    variable = str(error.value).partition("; set ")[2].partition(",")[0]
    monkeypatch.setenv(variable, f"sqlite:///{tmp_path}/catalog.db")
    open_catalog(name).close()


def test_a_name_that_no_variable_can_have_is_for_the_file():
    with pytest.raises(IcebergError, match=r"; add it to \.pyiceberg\.yaml, since a variable cannot name it"):
        open_catalog("data_lake")


@pytest.mark.parametrize("uri", ["postgres://someone:hunter2@example.org/db", "unknown://example.org/?key=hunter2"])
def test_an_address_is_quoted_without_its_secrets(monkeypatch, uri):
    monkeypatch.setenv("PYICEBERG_CATALOG__POND__URI", uri)
    with pytest.raises(IcebergError) as error:
        prepare_table(TableName.parse("pond/a.b"))
    assert "hunter2" not in str(error.value)
    assert f"{uri.partition(':')[0]}://example.org" in str(error.value)


class Client:
    """Of a catalogue that answers when it is let."""

    def __init__(self, answers):
        self.answers, self.closed = answers, threading.Event()

    def load_table(self, _):
        assert self.answers.wait(60)
        assert not self.closed.is_set()
        return self

    def close(self):
        self.closed.set()


def test_an_attempt_that_was_given_up_closes_no_client_of_another(monkeypatch):
    late, at_once = threading.Event(), threading.Event()
    at_once.set()
    clients = [Client(late), Client(at_once)]
    opened = list(clients)
    monkeypatch.setattr(iceberg, "open_catalog", lambda _: opened.pop(0))
    monkeypatch.setattr(iceberg, "ANSWER_SECONDS", 0.2)

    def upsert(table, best):
        if table is clients[0]:
            raise OSError("too late")
        return len(best)

    monkeypatch.setattr(iceberg, "upsert", upsert)
    writer = Writer(NAME, 60)
    assert writer.write([make_snapshot()]) == 1
    late.set()
    assert clients[0].closed.wait(60)
    assert writer.write([make_snapshot()]) == 1
    assert not clients[1].closed.is_set()
    writer.close()
    assert clients[1].closed.is_set()
