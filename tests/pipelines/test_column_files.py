"""Files of numbers as people have them: separators, missing values, colons in names, and what is wrong with a file."""

import gzip

import numpy as np
import polars as pl
import pytest

from hushgram import Collection
from hushgram.pipelines.cli.console import UsageError
from hushgram.pipelines.simulate.column_files import find_column, find_separator, read_column, read_numbers
from hushgram.pipelines.simulate.shapes import draw_for, missing_words

COMMUTE = Collection(name="commute", low=0, high=180, epsilon=1)


@pytest.mark.parametrize("ending", ["csv", "tsv", "txt"])
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_separator_is_found_in_the_header(tmp_path, separator, ending):
    path = tmp_path / f"v.{ending}"
    path.write_text(separator.join(["city", '"a,b;c|d,e"', "minutes"]) + "\n" + separator.join(["x", "y", "30"]) + "\n")
    assert find_separator(str(path)) == separator
    assert read_numbers(str(path), "minutes").numbers.tolist() == [30.0]


def test_the_separator_of_a_single_column_is_the_usual_one(tmp_path):
    for ending, usual in (("csv", ","), ("tsv", "\t")):
        (tmp_path / f"v.{ending}").write_text("minutes\n30\n")
        assert find_separator(str(tmp_path / f"v.{ending}")) == usual


def test_a_byte_order_mark_empty_last_lines_and_brackets_in_the_file_name_are_accepted(tmp_path):
    path = tmp_path / "v[1].csv"
    path.write_bytes(b"\xef\xbb\xbfcity;minutes\r\nx;30\r\n\r\n\r\n")
    found = read_numbers(str(path), "minutes")
    assert (found.numbers.tolist(), found.missing) == ([30.0], 0)


def test_a_compressed_file_is_read(tmp_path):
    path = tmp_path / "v.csv.gz"
    path.write_bytes(gzip.compress(b"city,minutes\n" + b"x,30\n" * 1000))
    assert set(read_numbers(str(path), "minutes").numbers) == {30.0}


TEXTS = ["", " ", "NA", "na", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "none", " Nan "]


def test_missing_values_are_left_out_and_counted(tmp_path):
    (tmp_path / "v.csv").write_text("x,y\n1,2\n" + "".join(f"{text},2\n" for text in TEXTS) + "3,2\n")
    found = read_numbers(str(tmp_path / "v.csv"), "x")
    assert (found.numbers.tolist(), found.missing) == ([1.0, 3.0], len(TEXTS))
    assert found.missing_words() == "13 of 15 values are missing, and left out"


def test_nulls_and_nans_of_parquet_and_json_lines_are_missing_values(tmp_path):
    frame = pl.DataFrame({"x": [1.0, None, float("nan"), 3.0]})
    frame.write_parquet(tmp_path / "v.parquet")
    (tmp_path / "v.jsonl").write_text('{"x": "1"}\n{"x": null}\n{"x": "NA"}\n{"x": "3"}\n')
    for name in ("v.parquet", "v.jsonl"):
        found = read_column(str(tmp_path / name), "x")
        assert (found.numbers.tolist(), found.missing) == ([1.0, 3.0], 2)


def test_missing_values_of_a_shape_are_told(tmp_path):
    (tmp_path / "v.csv").write_text("x\n1\nNA\n3\n")
    draw = draw_for(COMMUTE, f"{tmp_path}/v.csv:x")
    assert set(draw(100, np.random.default_rng(1))) == {1.0, 3.0}
    assert missing_words(draw) == [f"{tmp_path}/v.csv:x: 1 of 3 values is missing, and left out"]
    assert missing_words(draw_for(COMMUTE, "uniform")) == []


def test_a_histogram_file_with_a_missing_count_is_refused(tmp_path):
    """Without it, the counts after it would stand for other parts of the domain."""
    (tmp_path / "v.csv").write_text("counts,x\n3,1\nNA,1\n5,1\n")
    with pytest.raises(UsageError, match="got no number in 1 row, allowed: a count in each row"):
        draw_for(COMMUTE, f"{tmp_path}/v.csv")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a,b\n1,2\n3,4,5\n", "line 3 has 3 columns, allowed: at most 2; columns are separated by commas"),
        (b"\na;b\n1;2\n1,5;2;3\n", "line 4 has 3 columns, allowed: at most 2; columns are separated by semicolons"),
        (b'a,b\n1,2\n"3,4\n', "a quote is opened and not closed, at or before line 3"),
        (b"a,b\n1,\xff\n", "the file is no text in UTF-8"),
        (b"a;b\n1,5;2\n", "column 'a': got '1,5' in line 2, allowed: numbers, such as 12.5"),
    ],
)
def test_a_broken_text_file_is_refused_with_its_line(tmp_path, content, message):
    (tmp_path / "v.csv").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_numbers(str(tmp_path / "v.csv"), "a")


def test_file_and_column_names_may_hold_colons(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("v.csv", "at 12:30.csv"):
        (tmp_path / name).write_text("a:b,c\n1,2\n")
    assert find_column("v.csv:c") == ("v.csv", "c")
    assert find_column("v.csv:a:b") == ("v.csv", "a:b")
    assert find_column("at 12:30.csv:c") == ("at 12:30.csv", "c")
    assert find_column("at 12:30.csv:a:b") == ("at 12:30.csv", "a:b")
    assert find_column("at 12:30.csv") == ("at 12:30.csv", None)
    for text in ("", ":", ":c", "w.csv", "w.csv:c", "w" * 5000, "w\0:c"):
        assert find_column(text) is None
    assert set(draw_for(COMMUTE, "at 12:30.csv:a:b")(10, np.random.default_rng(1))) == {1.0}
