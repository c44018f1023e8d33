"""Untrusted folders: reading one runs no program, sees no other file and gives no traceback."""

import os
import re
import shutil
import subprocess
import sys
import warnings
import xml.etree.ElementTree
from pathlib import Path

import matplotlib as mpl
import polars as pl
import pytest
from matplotlib.text import Text
from rich.table import Table

import narrows
from narrows import frames, plots, progress, report, sql
from narrows.cli import outcome
from narrows.errors import UsageError

from conftest import BOOT, ONE_FLOW, ROOT, call, refused  # isort: skip

TABLE = {"t": pl.DataFrame({"a": [1.0], "s": ["x"]})}


@pytest.fixture(scope="module")
def results():
    return narrows.run(ONE_FLOW)


# SQL


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM READ_CSV ('{file}')",
        "SELECT * FROM \"read_csv\"('{file}')",
        "SELECT * FROM `read_csv`('{file}')",
        "SELECT * FROM read_csv/**/('{file}')",
        "SELECT * FROM read_csv--\n('{file}')",
        "SELECT seed, 1 AS value FROM runs WHERE seed IN (SELECT a FROM read_csv('{file}'))",
        "WITH x AS (SELECT * FROM read_csv('{file}')) SELECT * FROM x",
        "SELECT * FROM runs JOIN read_csv('{file}') AS x ON TRUE",
        "SELECT * FROM runs, read_csv('{file}')",
        "FROM read_csv('{file}')",
        "CREATE TABLE x AS SELECT * FROM read_csv('{file}')",
        "DROP TABLE runs",
        "SELECT 'it''s' AS a, * FROM read_csv('{file}')",
        "SELECT E'\\'' AS a FROM read_csv('{file}') --'",
        "SELECT $$'$$ AS a FROM read_csv('{file}') --'",
    ],
)
def test_query_sees_no_files(query, results, tmp_path):
    """A query that reads a file is refused, however it is written, by claims and by plots."""
    file = tmp_path / "data.csv"
    file.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"the query .*; accepted: one SELECT over the tables"):
        frames.query(results, query.format(file=file))
    with pytest.raises(UsageError, match="the query"):
        results.plot("line", sql=query.format(file=file), x="a", y="b")


def table_functions():
    """Return the names of functions that read files, as the library of polars spells them."""
    library = next(Path(pl.__file__).parents[1].glob("_polars_runtime*/*.so"), None)
    named = {name for name in dir(pl) if name.startswith(("read_", "scan_"))}
    if library is not None:
        found = re.findall(rb"(?:read|scan)_(?:[a-z]+_)?[a-z0-9]+", library.read_bytes())
        named |= {name.decode() for name in found}
    return sorted(named)


@pytest.mark.slow
def test_law_no_function_of_polars_reads_files(results, tmp_path):
    """Every name with which polars reads files is refused, and no accepted function is one of its table functions."""
    names = table_functions()
    assert {"read_csv", "read_parquet", "read_ipc", "read_json", "scan_parquet"} <= set(names)
    for name in names:
        with pytest.raises(ValueError, match="the query"):
            sql.check(f"SELECT * FROM {name}('x')")
    file = tmp_path / "data.csv"
    file.write_text("a,b\n1,2\n")
    context = pl.SQLContext(frames=TABLE)
    assert context.execute(f"SELECT * FROM read_csv('{file}')", eager=True).rows() == [(1, 2)], "polars has changed"
    for name in sorted(sql.FUNCTIONS):
        with pytest.raises(pl.exceptions.PolarsError, match="is not a supported table function"):
            context.execute(f"SELECT * FROM {name}('{file}')", eager=True)


def test_law_words_before_parentheses_call_nothing():
    """No keyword that may stand before a parenthesis is a table function."""
    context = pl.SQLContext(frames=TABLE)
    for word in sorted(sql.KEYWORDS):
        try:
            context.execute(f"SELECT * FROM {word}('/nosuch')", eager=True)
        except pl.exceptions.PolarsError as error:
            assert "No such file" not in str(error), word
        else:
            assert word in ("values",), word


@pytest.mark.parametrize("value", ["cast(goodput_mbit_s AS decimal(99,99))", "cast(1 AS decimal(0,0))", "seed // null"])
def test_hostile_queries_print_no_panic(value, results, capfd):
    """Queries on which polars panics are refused before polars prints the panic."""
    with pytest.raises(ValueError, match=r"the query (casts|has)"):
        frames.query(results, f"SELECT seed, {value} AS value FROM flows")
    assert capfd.readouterr().err == ""


# Terminals


@pytest.mark.parametrize(("key", "named"), [("title", "figure.title"), ("text", "claim.text"), ("unit", "claim.unit")])
def test_control_characters_in_studies_are_refused(key, named, study, tmp_path):
    """An escape sequence in a text of a study is refused with file and key, and does not reach the terminal."""
    folder = tmp_path / "mine"
    shutil.copytree(study, folder)
    lines = {"title": "", "text": "", "unit": ""} | {key: f'{key} = "\\u001b[31mF"\n'}
    (folder / "fig1.claims.toml").write_text(
        f"[figure]\n{lines['title']}[[claim]]\n{lines['text']}{lines['unit']}id = 'c'\nsource = 's'\nkind = 'value'\n"
    )
    done = call("reproduce", folder, "--quick", "-o", tmp_path / "report")
    refused(
        done, "fig1.claims.toml: cannot be read as", f"{named}: the text has the control character '\\x1b'; accepted: "
    )
    assert "\x1b" not in done.output


def test_control_characters_in_scenarios_are_refused(tmp_path):
    """An escape sequence in a scenario is refused with file and key, also in dictionaries and inside tables."""
    file = tmp_path / "a.toml"
    file.write_text('name = "a"\n[[flows]]\nrtt = "40ms"\nscheme = "bbr"\nlabel = "\\u0007"\n')
    for source, where in ((file, str(file)), ({"name": "a", "flows": [{"label": "\a"}]}, "the dictionary")):
        with pytest.raises(UsageError, match=re.escape(f"{where}: flows.label: the text has the control character")):
            narrows.run(source)


def test_control_characters_are_escaped_at_output(results, capsys):
    """Tables, lines and vector files escape control characters."""
    flows = [{**flow, "label": "\x1b[31mred"} for flow in results.raw[0]["flows"]]
    found = narrows.Results([{}], [{**results.raw[0], "flows": flows}])
    table = Table("label")
    table.add_row(str(found.flows["label"][0]))
    for printed in (table, "\x1b[31mred"):
        outcome.print_table(printed)
        out = capsys.readouterr().out
        assert "\\x1b" in out
        assert "\x1b" not in out
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        image = plots.image(found.plot("line", x="label", title="\x1b[31mred"), "svg")
    assert b"\x1b" not in image
    xml.etree.ElementTree.fromstring(image)


@pytest.mark.parametrize("columns", [1, 20, 50])
def test_numbers_stay_whole_on_narrow_terminals(columns, capsys, monkeypatch):
    """No number is broken or left out on a narrow terminal: lines become longer."""
    found = narrows.compare("bbr", "cubic", duration="3s", loss="0.5%", repeat=3)
    monkeypatch.setenv("COLUMNS", "200")
    outcome.print_table(found.table())
    numbers = re.findall(r"\d\S*±\S+", capsys.readouterr().out)
    assert len(numbers) > 8
    monkeypatch.setenv("COLUMNS", str(columns))
    outcome.print_table(found.table())
    printed = capsys.readouterr().out.split()
    assert [number for number in numbers[:8] if number not in printed] == []


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_tables_in_ascii_spell_signs(encoding):
    """Symbols that the terminal's encoding lacks are replaced by ASCII: `+-` instead of an escape."""
    script = "compare", "bbr", "cubic", "--duration", "1s", "--repeat", "2"
    env = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run([sys.executable, "-c", BOOT, *script], env=env, capture_output=True, check=True)
    out = done.stdout.decode(encoding)
    assert re.search(r"\d\+-\d" if encoding == "ascii" else r"\d±\d", out), out
    assert "\\x" not in out
    error = UnicodeEncodeError("ascii", "a–µé", 1, 4, "not in range")
    assert progress.spelled(error) == (r"-u\xe9", 4)


class Unshown:
    """A value that cannot be formatted."""

    def __repr__(self):
        """Fail."""
        raise RuntimeError("no")


@pytest.mark.parametrize("value", [Unshown(), b"x", "x" * 10_000 + "\0"])
@pytest.mark.parametrize("option", ["kind", "title", "size", "where"])
def test_options_of_any_type_are_refused(option, value, results):
    """Options of plots refuse values of any type with a short message, also those that cannot be formatted."""
    given = {"scheme": value} if option == "where" and isinstance(value, bytes) else value
    with pytest.raises(UsageError, match="accepted: ") as caught:
        results.plot(**{"kind": "line", option: given})
    assert str(caught.value).startswith(f"{option}: ")
    assert len(str(caught.value)) < 250


# Programs


@pytest.mark.slow
def test_matplotlibrc_of_the_folder_starts_nothing(tmp_path):
    """A settings file of matplotlib in the current folder starts no LaTeX, and an endless one does not block."""
    marker = tmp_path / "ran"
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("latex", "dvipng", "pdflatex", "xelatex", "dvips", "kpsewhich"):
        (tools / name).write_text(f"#!/bin/sh\necho {name} >> {marker}\nexit 1\n")
        (tools / name).chmod(0o755)
    env = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    script = "compare", "bbr", "--set", "network.buffer=1bdp,2bdp", "-o", "out"

    def run(*args):
        return subprocess.run(
            [sys.executable, "-c", BOOT, *args], cwd=tmp_path, env=env, capture_output=True, timeout=60
        )

    assert run(*script).returncode == 0
    (tmp_path / "matplotlibrc").write_text("text.usetex: True\nsvg.fonttype: none\n")
    done = run("plot", "out", "-o", "p.svg")
    assert done.returncode == 0, done.stderr
    assert not marker.exists()
    (tmp_path / "matplotlibrc").unlink()
    os.mkfifo(tmp_path / "matplotlibrc")
    assert run("plot", "out", "-o", "q.svg").returncode == 0
    assert (tmp_path / "p.svg").read_bytes() == (tmp_path / "q.svg").read_bytes()


def test_figures_ignore_settings_of_matplotlib(results):
    """Figures do not depend on matplotlib's settings, one of which starts LaTeX."""
    plain = plots.image(results.plot("line", x="scheme"))
    with mpl.rc_context({"text.usetex": True, "font.size": 30, "axes.facecolor": "red"}):
        assert plots.image(results.plot("line", x="scheme")) == plain


@pytest.mark.slow
@pytest.mark.parametrize("text", ["$x^{$", "$$", "cost $5 and $10", r"$\notacommand$"])
def test_dollar_signs_in_texts_are_no_mathematics(text):
    """Labels and titles are drawn literally: no error of mathematics, and `$5 and $10` keeps its signs."""
    raw = narrows.compare("bbr", "cubic", duration="1s").raw
    flows = [{**flow, "label": f"{text} {number}"} for number, flow in enumerate(raw[0]["flows"])]
    found = narrows.Results([{}], [{**raw[0], "flows": flows}])
    for kind, options in (("line", {"x": "label"}), ("bar", {"series": "label"}), ("delay", {"by": "label"})):
        figure = found.plot(kind, title=text, **options)
        assert b"<svg" in plots.image(figure, "svg")
        drawn = [part for part in figure.findobj(Text) if "$" in part.get_text()]
        assert len(drawn) > 1
        assert not any(part.get_parse_math() for part in drawn)


def test_logarithmic_axes_have_powers_of_letters(results):
    """Ticks of logarithmic axes read 10² and 2×10², without mathematics."""
    sql = "SELECT seed, 1 AS x, goodput_mbit_s AS y FROM flows UNION ALL SELECT seed, 2 AS x, 900 AS y FROM flows"
    figure = results.plot("line", sql=sql, logy=True)
    plots.image(figure)
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels(which="both") if label.get_text()]
    assert "10²" in labels or "10³" in labels, labels
    assert not any("$" in label for label in labels)


@pytest.mark.slow
@pytest.mark.parametrize("command", [["compare", "bbr", "cubic", "--duration", "1s"], ["schemes"], ["--help"]])
def test_no_columns_are_unset_columns(command):
    """`COLUMNS=0`, as some shells set it, prints what an unset variable prints."""
    env = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    script = [sys.executable, "-c", BOOT, *command]
    unset, zero = (
        subprocess.run(script, env={**env, **more}, capture_output=True, text=True, check=True).stdout
        for more in ({}, {"COLUMNS": "0"})
    )
    assert zero.strip()
    assert zero == unset


def test_git_sees_only_the_sources_of_the_package(tmp_path):
    """A package installed inside an untrusted repository runs no programs of that repository's configuration."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    home, marker = tmp_path / "study", tmp_path / "ran"
    package = home / ".venv" / "lib" / "narrows"
    package.mkdir(parents=True)
    (package / "report.py").write_text("")
    script = tmp_path / "monitor"
    script.write_text(f"#!/bin/sh\ntouch {marker}\n")
    script.chmod(0o755)
    git = ["git", "-C", str(home), "-c", "user.name=n", "-c", "user.email=n@example.org"]
    for command in (
        ["init", "-q"],
        ["add", "-f", "."],
        ["commit", "-qm", "x"],
        ["config", "core.fsmonitor", str(script)],
    ):
        subprocess.run([*git, *command], check=True, capture_output=True)
    subprocess.run([*git, "status"], check=True, capture_output=True)
    assert marker.exists(), "this git obeys core.fsmonitor"
    marker.unlink()
    assert report.commit(package) == ""
    assert not marker.exists()


# Paths


def test_figures_stay_in_their_folder(study, tmp_path):
    """A figure's scenario lies in the folder of its paper, also behind links, unless `--allow-outside`."""
    folder = tmp_path / "mine"
    shutil.copytree(study, folder)
    outside = tmp_path / "outside.toml"
    shutil.move(folder / "fig1.toml", outside)
    for name in ("../outside.toml", str(outside), "link.toml"):
        if name == "link.toml":
            (folder / name).symlink_to(outside)
        claims = (study / "fig1.claims.toml").read_text()
        text = re.sub(r"^\[figure\]\n", f'[figure]\nscenario = "{name}"\n', claims, flags=re.MULTILINE)
        (folder / "fig1.claims.toml").write_text(text)
        done = call("reproduce", folder, "--quick", "-o", tmp_path / "report")
        assert done.exit_code == 2, name
        assert f"{name!r} lies outside {folder}; accepted: a file in it, or --allow-outside" in done.stderr
        assert narrows_loads(folder, allow_outside=True)
    for name in ("paper.toml", "fig1.claims.toml"):
        inner = tmp_path / name
        shutil.move(folder / name, inner)
        (folder / name).symlink_to(inner)
        done = call("reproduce", folder, "--quick", "-o", tmp_path / "report")
        refused(done, "lies outside")
        (folder / name).unlink()
        shutil.move(inner, folder / name)


def narrows_loads(folder, **options):
    from narrows import papers

    return papers.load_all(folder.parent, folder.name, **options)


@pytest.mark.parametrize("name", ["paper.toml", "fig1.toml", "fig1.claims.toml"])
@pytest.mark.parametrize("kind", ["pipe", "device", "large", "not UTF-8", "deep", "folder"])
def test_unsuitable_files_are_named(kind, name, study, tmp_path):
    """A pipe, a device, a huge, a deep or a binary file in a study is named, and nothing waits for it."""
    folder = tmp_path / "mine"
    shutil.copytree(study, folder)
    path = folder / name
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "large":
        with path.open("wb") as file:
            file.truncate(1 << 40)
    elif kind == "deep":
        path.write_text("a = " + "[" * 100_000)
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_bytes(b"title = '\xff'\n")
    done = call("reproduce", folder, "--quick", "-o", tmp_path / "report")
    refused(done, "accepted: ")
    assert str(path) in done.stderr or "lies outside" in done.stderr, done.stderr


# Sources


def test_sources_execute_nothing_from_folders():
    """No source file of the package executes or unpickles what it reads."""
    forbidden = re.compile(
        r"\b(exec|eval|compile|__import__)\(|import_module|\bpickle\b|\brunpy\b|shell=True|os\.system"
    )
    files = sorted((ROOT / "python" / "narrows").rglob("*.py"))
    assert len(files) > 60
    found = [(path.name, line) for path in files for line in path.read_text().splitlines() if forbidden.search(line)]
    assert [line for _, line in found if "re.compile(" not in line] == []
