"""The page as one file: whole in itself, and with nothing in it that a name could turn into markup."""

import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from hushgram.pipelines.cli import command
from hushgram.pipelines.view import assets
from tests.helpers.foreign_files import ForeignFileSystem
from tests.helpers.pages import COMMUTE, make_estimate, unpack, write_pane, write_window


class PageParser(HTMLParser):
    """Scripts and data as a browser would see them, by an independent parser."""

    def __init__(self, text):
        super().__init__(convert_charrefs=False)
        self.inside, self.scripts, self.data, self.policy, self.addresses = None, [], {}, "", []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.addresses += [values[name] for name in ("src", "href") if name in values]
        if values.get("http-equiv") == "Content-Security-Policy":
            self.policy = values["content"]
        if tag == "script":
            self.inside = values.get("id", "script")

    def handle_endtag(self, tag):
        if tag == "script":
            self.inside = None

    def handle_data(self, data):
        if self.inside == "script":
            self.scripts.append(data)
        elif self.inside:
            self.data[self.inside] = data


@pytest.fixture(scope="module")
def snapshot():
    return make_estimate(COMMUTE, reports=1000)


def run_view(directory, *arguments):
    assert command.main(["view", str(directory), *arguments]) == 0


def test_the_standalone_page_is_self_contained(tmp_path, snapshot):
    write_pane(tmp_path, snapshot)
    run_view(tmp_path)
    page = PageParser((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert [address for address in page.addresses if not address.startswith(("#", "data:"))] == []
    assert page.policy.startswith("default-src 'none'; script-src 'sha256-")
    assert len(page.scripts) == len(assets.SCRIPTS) + 1
    allowed = set(re.findall(r"'sha256-([^']+)'", page.policy))
    assert allowed == {base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in page.scripts}
    script_sources = re.search(r"script-src ([^;]*);", page.policy)[1]
    assert "unsafe" not in script_sources
    assert "http" not in page.policy


def test_the_standalone_page_has_every_chunk_that_the_outline_names(tmp_path, snapshot):
    write_window(tmp_path, [snapshot, replace(snapshot, key=replace(snapshot.key, group="DE"))])
    later = replace(snapshot.key, window_start=snapshot.key.window_end, window_end=snapshot.key.window_end + 1)
    write_window(tmp_path, [replace(snapshot, key=later)])
    run_view(tmp_path, "--output", str(tmp_path / "deep" / "er" / "page.html"))
    page = PageParser((tmp_path / "deep" / "er" / "page.html").read_text(encoding="utf-8"))
    data = {name: unpack(base64.b64decode(text))[0] for name, text in page.data.items()}
    outline = data.pop("data-outline")
    [collection] = outline["collections"]
    changes = f"data-{collection['groups'][0]['id']}/changes"
    assert set(data) == {f"data-{entry['id']}" for entry in collection["groups"] + collection["windows"]} | {changes}
    assert data[changes] == {"problem": "there are no tallies beside the snapshots"}
    assert data[f"data-{collection['windows'][0]['id']}"]["groups"][0]["mean"] == snapshot.mean


def test_the_first_chunks_come_before_the_scripts_and_the_others_after(tmp_path, snapshot):
    for hour in range(3):
        times = {"window_start": hour * 10, "window_end": hour * 10 + 10}
        write_pane(tmp_path, replace(snapshot, key=replace(snapshot.key, **times)))
    run_view(tmp_path)
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    ids = {int(match[1]): match.start() for match in re.finditer(r'id="data-(\d+)"', text)}
    scripts = text.index("<script>")
    outline = unpack(base64.b64decode(PageParser(text).data["data-outline"]))[0]["collections"][0]
    first = [outline["groups"][0]["id"], outline["windows"][-1]["id"]]
    assert {number for number, position in ids.items() if position < scripts} == set(first)
    assert len(ids) == 4


def test_no_name_stands_unescaped_in_the_standalone_page(tmp_path, snapshot):
    hostile = "</script><img src=x onerror=alert(1)>"
    key = replace(snapshot.key, collection=hostile, group=hostile)
    write_pane(tmp_path, replace(snapshot, key=key, unit=hostile, estimator=hostile, software=hostile))
    run_view(tmp_path, "--title", f"{hostile}\"'&<!--data--><!--scripts--><!--more-->")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<img" not in text
    assert "onerror=alert" not in text.replace("&lt;img src=x onerror=alert(1)&gt;", "")
    assert len(PageParser(text).scripts) == len(assets.SCRIPTS) + 1


def test_the_view_command_reports_files_that_it_left_out(tmp_path, snapshot, capsys):
    path = write_pane(tmp_path, snapshot)
    (path.parent / "other.avro").write_bytes(b"no")
    run_view(tmp_path)
    captured = capsys.readouterr()
    assert "snapshots/commute/other.avro: left out: cannot be read" in captured.err
    assert captured.out.startswith("wrote 1 window of 1 collection to ")


def test_a_relative_output_is_written_to_the_current_folder(tmp_path, snapshot, monkeypatch):
    write_pane(tmp_path, snapshot)
    monkeypatch.chdir(tmp_path)
    run_view(tmp_path, "--output", "here.html")
    assert (tmp_path / "here.html").exists()


def test_without_plotly_a_line_says_how_to_get_it(tmp_path, snapshot, monkeypatch, capsys):
    write_pane(tmp_path, snapshot)
    assets.plotly.cache_clear()
    monkeypatch.setattr(assets, "find_spec", lambda name: None)
    assert command.main(["view", str(tmp_path)]) == 2
    assert "pip install 'hushgram[view]'" in capsys.readouterr().err
    assert not (tmp_path / "page.html").exists()


def test_another_file_system_is_read_and_written(tmp_path, snapshot, monkeypatch):
    monkeypatch.setattr(ForeignFileSystem, "HOME", str(tmp_path))
    write_pane(tmp_path / "results", snapshot)
    run_view("elsewhere://results")
    run_view("elsewhere://results", "--output", "elsewhere://pages/one.html")
    pages = [(tmp_path / name).read_text(encoding="utf-8") for name in ("results/page.html", "pages/one.html")]
    for text in pages:
        outline = unpack(base64.b64decode(PageParser(text).data["data-outline"]))[0]
        assert outline["collections"][0]["name"] == "commute"
        assert outline["problems"] == []
