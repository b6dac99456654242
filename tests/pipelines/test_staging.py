"""Requirements for workers: a user's file means the same when its lines are in another folder."""

import pytest

from hushgram.pipelines.cli.console import UsageError
from hushgram.pipelines.staging import requirement_lines, with_absolute_paths


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("-r other.txt", "-r /home/job/other.txt"),
        ("-rother.txt", "-r /home/job/other.txt"),
        ("  --requirement=sub/other.txt", "--requirement /home/job/sub/other.txt"),
        ("--requirement ../other.txt  # why", "--requirement /home/other.txt"),
        ("-c constraints.txt", "-c /home/job/constraints.txt"),
        ("--constraint constraints.txt", "--constraint /home/job/constraints.txt"),
        ("-r 'my other.txt'", "-r '/home/job/my other.txt'"),
    ],
)
def test_files_that_a_line_includes_are_found_from_anywhere(line, expected):
    assert with_absolute_paths(line, "/home/job") == expected


@pytest.mark.parametrize(
    "line",
    [
        "numpy>=2.0",
        "requests[security]==2.8.1 ; python_version < '3.12'",
        "# -r other.txt",
        "",
        "-r /etc/other.txt",
        "-r https://example.org/other.txt",
        "-c file:///etc/constraints.txt",
        "--find-links https://example.org/wheels",
        "--find-links wheels",  # of the working directory, where nothing is beside the file
        "--requirements-of-nobody x",
        "-r",
        "-r 'no end",
        "--index-url https://example.org/simple",
    ],
)
def test_other_lines_stay_as_they_are(line):
    assert with_absolute_paths(line, "/home/job") == line


def test_lines_of_a_file_are_resolved_against_its_folder(tmp_path, monkeypatch):
    (tmp_path / "job" / "wheels").mkdir(parents=True)
    (tmp_path / "job" / "requirements.txt").write_text("numpy\n-r other.txt\n-f wheels\n")
    monkeypatch.chdir(tmp_path)
    assert requirement_lines("job/requirements.txt") == [
        "numpy",
        f"-r {tmp_path}/job/other.txt",
        f"-f {tmp_path}/job/wheels",
    ]
    assert requirement_lines(None) == []
    with pytest.raises(UsageError, match=r"--requirements_file: nowhere\.txt: .*No such file"):
        requirement_lines("nowhere.txt")
