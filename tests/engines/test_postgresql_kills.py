"""Writers to a real PostgreSQL server that are killed within a transaction, or right behind it."""

import os
import signal
from contextlib import closing

import psycopg
import pytest

from hushgram.pipelines.results import best
from hushgram.transforms.sinks.postgresql import Writer, prepare_tables, write_all
from tests.helpers.lakes import make_panes
from tests.helpers.tables import read_rows

PANES = make_panes()
EARLIER, LATER = PANES[::2], PANES[1::2]


def sort_records(panes):
    return sorted((pane.to_avro() for pane in panes), key=str)


def write_and_die(url, rows_sent):
    """In a process of its own, which ends by kill -9: the earlier panes, and of the later ones a share of the rows;
    with None all of them, and their commit."""
    pid = os.fork()
    if pid == 0:
        send = psycopg.Cursor.executemany

        def send_and_die(cursor, query, rows, **named):
            send(cursor, query, rows[: round(rows_sent * len(rows))], **named)
            os.kill(os.getpid(), signal.SIGKILL)

        try:
            with closing(Writer(url)) as writer:
                writer.write(EARLIER)
                if rows_sent is not None:
                    psycopg.Cursor.executemany = send_and_die
                writer.write(LATER)
                os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(70)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL


@pytest.mark.parametrize("rows_sent", [0.5, 1.0, None])
def test_a_writer_that_is_killed_leaves_whole_transactions_and_a_replay_completes_the_table(postgres, rows_sent):
    prepare_tables(postgres.url)
    with postgres.connect() as connection:
        connection.execute("TRUNCATE hushgram_snapshots")
    write_and_die(postgres.url, rows_sent)
    expected = EARLIER if rows_sent is not None else PANES
    assert sorted(read_rows(postgres), key=str) == sort_records(best(expected))
    write_all(postgres.url, 60, PANES)
    assert sorted(read_rows(postgres), key=str) == sort_records(best(PANES))
