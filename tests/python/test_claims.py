"""Claims files: tables of claims expand, and mistakes are errors."""

import json
import math
import tomllib

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narrows import claims, papers
from narrows.errors import UsageError
from narrows.templates import Sql, Writer, literal

from conftest import FIGURE, ROOT, python, ran, write_paper  # isort: skip

QUERIES = """
[query]
delay = '''
SELECT seed, avg(rtt_mean_ms) AS value FROM flows
WHERE scheme = {scheme} AND "network.buffer" IN {buffers} GROUP BY seed'''
two-delays = "SELECT a.seed, a.value, b.value AS than FROM ({delay}) AS a JOIN ({delay(scheme = than)}) AS b ON a.seed = b.seed"
"""
TABLE = """
[[claim]]
text = "{scheme}: delay of {paper} ms"
source = "figure {panel}: '{said}'"
unit = "ms"
buffers = ["1bdp", "5bdp"]
query = "delay"
header = ["id", "scheme", "paper", "panel", "said", "cause"]
rows = [
  ["reno-delay", "newreno", 40, "3a", "about 40"],
  ["cubic-delay", "cubic", 55.5, "3b", "55.5", "queue", { within = 1.0, schemes = ["{scheme}"] }],
]

[[claim]]
id = "order"
text = "{than} waits longer than {scheme}"
source = "text"
kind = "less"
scheme = "newreno"
than = "cubic"
buffers = ["5bdp"]
query = "two-delays"

[causes]
queue = "{scheme} keeps a queue: {why}"
why = "it is loss-based."

[names]
newreno = "NewReno"
cubic = "CUBIC"
"""


def delay_claim(key, name, scheme, source, delay, more=""):
    """Return a claim about the mean round-trip time of a scheme in both buffers."""
    return f"""
[[claim]]
id = "{key}-delay"
text = "{name}: delay of {delay} ms"
source = "{source}"
kind = "value"
unit = "ms"
paper = {delay}
{more}sql = '''SELECT seed, avg(rtt_mean_ms) AS value FROM flows
WHERE scheme = '{scheme}' AND "network.buffer" IN ('1bdp', '5bdp') GROUP BY seed'''
"""


WRITTEN = (
    delay_claim("reno", "NewReno", "newreno", "figure 3a: 'about 40'", 40)
    + delay_claim(
        "cubic",
        "CUBIC",
        "cubic",
        "figure 3b: '55.5'",
        55.5,
        'within = 1.0\nschemes = ["cubic"]\ncause = "CUBIC keeps a queue: it is loss-based."\n',
    )
    + """
[[claim]]
id = "order"
text = "CUBIC waits longer than NewReno"
source = "text"
kind = "less"
sql = '''SELECT a.seed, a.value, b.value AS than FROM (SELECT seed, avg(rtt_mean_ms) AS value FROM flows
WHERE scheme = 'newreno' AND "network.buffer" IN ('5bdp') GROUP BY seed) AS a JOIN (SELECT seed, avg(rtt_mean_ms) AS value FROM flows
WHERE scheme = 'cubic' AND "network.buffer" IN ('5bdp') GROUP BY seed) AS b ON a.seed = b.seed'''
"""
)


def keys(sheet):
    return [dict(claim.keys) for claim in sheet.claims]


def spread(sql):
    """SQL with each run of white space as one space."""
    return " ".join(sql.split())


def equal(one, other):
    return [{**each, "sql": spread(each["sql"])} for each in keys(one)] == [
        {**each, "sql": spread(each["sql"])} for each in keys(other)
    ]


def test_table_of_claims_equals_claims_written_out(read_claims):
    """A table of two rows and a claim of two queries expand to the same claims as three claims without placeholders."""
    assert equal(read_claims(QUERIES + TABLE), read_claims(WRITTEN))


def test_rows_as_tables_equal_rows_as_lists(read_claims):
    """A list under a header and a table of keys state the same row."""
    tables = TABLE.replace('header = ["id", "scheme", "paper", "panel", "said", "cause"]\n', "")
    tables = tables.replace(
        '["reno-delay", "newreno", 40, "3a", "about 40"]',
        '{ id = "reno-delay", scheme = "newreno", paper = 40, panel = "3a", said = "about 40" }',
    )
    tables = tables.replace(
        '["cubic-delay", "cubic", 55.5, "3b", "55.5", "queue", { within',
        '{ id = "cubic-delay", scheme = "cubic", paper = 55.5, panel = "3b", said = "55.5", cause = "queue", within',
    ).replace('schemes = ["{scheme}"] }]', 'schemes = ["{scheme}"] }')
    assert equal(read_claims(QUERIES + tables), read_claims(WRITTEN))


def test_defaults_fill_in_and_tables_and_rows_replace(read_claims):
    """Keys of a row replace those of its claim, and these replace defaults."""
    text = """
[defaults]
unit = "ms"
source = "table 1"
sql = "SELECT 1"
[[claim]]
id = "a"
text = "A"
[[claim]]
text = "B"
unit = "s"
rows = [{ id = "b" }, { id = "c", unit = "%", source = "table 2" }]
"""
    found = {claim["id"]: (claim["unit"], claim["source"]) for claim in keys(read_claims(text))}
    assert found == {"a": ("ms", "table 1"), "b": ("s", "table 1"), "c": ("%", "table 2")}


CASES = """
[cases]
small = { buffer = "1bdp{at}", at = "", id = "{id}-small", text = "{text}, small buffer" }
large = { buffer = "5bdp{at}", at = "@10ms", id = "{id}-large", text = "{text}, large buffer" }

[query]
mean = "SELECT seed, 1 AS value FROM runs WHERE b = {buffer} GROUP BY seed"

[[claim]]
text = "{scheme}"
source = "table 1"
query = "mean"
header = ["id", "scheme", "small.paper", "large.paper", "large.cause"]
rows = [["a", "bbr", 1, 2, "It is late."], ["b", "cubic", 3, 4]]

[[claim]]
id = "once"
text = "Without a buffer"
source = "table 1"
paper = 5
sql = "SELECT seed, 2 AS value FROM runs"
"""


def test_cases_make_each_row_once_per_column(read_claims):
    """A row with a printed value per case gives one claim per case; a claim without keys of the cases stays single."""
    found = [
        (c["id"], c["text"], c["paper"], c.get("cause"), c["sql"].split("b = ")[-1][:12])
        for c in keys(read_claims(CASES))
    ]
    assert found == [
        ("a-small", "bbr, small buffer", 1, None, "'1bdp' GROUP"),
        ("a-large", "bbr, large buffer", 2, "It is late.", "'5bdp@10ms' "),
        ("b-small", "cubic, small buffer", 3, None, "'1bdp' GROUP"),
        ("b-large", "cubic, large buffer", 4, None, "'5bdp@10ms' "),
        ("once", "Without a buffer", 5, None, "SELECT seed,"),
    ]


def test_cases_equal_claims_written_out(read_claims):
    """Two cases of two rows expand to the same claims as four claims without cases."""
    rows = [("a-small", "bbr, small buffer", 1, "'1bdp'", ""), ("a-large", "bbr, large buffer", 2, "'5bdp@10ms'", "It is late."),
            ("b-small", "cubic, small buffer", 3, "'1bdp'", ""), ("b-large", "cubic, large buffer", 4, "'5bdp@10ms'", "")]  # fmt: skip
    written = "".join(
        f'[[claim]]\nid = "{name}"\ntext = "{text}"\nsource = "table 1"\nkind = "value"\npaper = {paper}\n'
        + (f'cause = "{cause}"\n' if cause else "")
        + f'sql = "SELECT seed, 1 AS value FROM runs WHERE b = {buffer} GROUP BY seed"\n'
        for name, text, paper, buffer, cause in rows
    )
    table = read_claims(
        CASES[: CASES.index('[[claim]]\nid = "once"')].replace('text = "{scheme}"', 'text = "{scheme}"')
    )
    assert equal(table, read_claims(written))


def test_plot_rows_and_cases_make_several_plots(read_claims):
    """Rows and cases expand plots as they expand claims; printed points may be a table."""
    text = """
[[figure.plot]]
kind = "line"
title = "{panel}: {scheme}, {of}"
query = "drawn"
columns = 3
header = ["panel", "scheme"]
rows = [["1a", "bbr", { points.bbr = { "1bdp{at}" = 7, "2bdp{at}" = 8 } }], ["1b", "cubic"]]

[[figure.plot]]
kind = "bar"
x = "scheme"
points = { bbr = 4, cubic = 5 }

[cases]
long = { at = "", of = "long" }
short = { at = "@10ms", of = "short" }
[query]
drawn = "SELECT 1 AS y FROM flows WHERE scheme = {scheme} AND b = 'x'"
[names]
bbr = "BBR"
"""
    plots = read_claims(text).plots
    assert [plot.get("title") for plot in plots] == [
        "1a: BBR, long",
        "1a: BBR, short",
        "1b: cubic, long",
        "1b: cubic, short",
        None,
    ]
    assert plots[1] == {
        "kind": "line", "columns": 3, "title": "1a: BBR, short",
        "sql": "SELECT 1 AS y FROM flows WHERE scheme = 'bbr' AND b = 'x'",
        "points": [{"series": "bbr", "x": "1bdp@10ms", "y": 7}, {"series": "bbr", "x": "2bdp@10ms", "y": 8}],
    }  # fmt: skip
    assert plots[4]["points"] == [{"series": "bbr", "x": "bbr", "y": 4}, {"series": "cubic", "x": "cubic", "y": 5}]


def test_tables_of_a_paper_serve_all_its_figures(read_claims):
    """Figures may ignore queries, causes and names of their paper; those of the figure take precedence."""
    text = """
[names]
bbr = "BBRv1"
[[claim]]
id = "a"
text = "{scheme}"
source = "text"
scheme = "bbr"
cause = "known"
query = "all"
"""
    sheet = read_claims(
        text,
        names={"bbr": "BBR", "cubic": "CUBIC"},
        query={"all": "SELECT {scheme} AS value", "other": "SELECT 1"},
        causes={"known": "As known.", "unknown": "Not known."},
    )
    (claim,) = keys(sheet)
    assert (claim["text"], claim["sql"], claim["cause"]) == ("BBRv1", "SELECT 'bbr' AS value", "As known.")


def test_schemes_leave_out_a_name_that_a_claim_lacks(read_claims):
    """`schemes = ["{scheme}", "{than}"]` lists one scheme if the claim has no `than`."""
    text = """
[defaults]
schemes = ["{scheme}", "{than}"]
source = "text"
[[claim]]
text = "{scheme}"
sql = "SELECT {scheme} AS value"
rows = [{ id = "a", scheme = "bbr" }]
[[claim]]
text = "{scheme}, {than}"
sql = "SELECT {scheme} AS value, {than} AS than"
rows = [{ id = "b", scheme = "bbr", than = "cubic" }]
"""
    assert [claim["schemes"] for claim in keys(read_claims(text))] == [["bbr"], ["bbr", "cubic"]]


@pytest.mark.parametrize(
    ("old", "new", "line", "named"),
    [
        ('query = "two-delays"', 'query = "three-delays"', "order", ["no query 'three-delays'", "delay, two-delays"]),
        ("than = \"cubic\"\n", "", "order", ["{than} has no value", "accepted: ", "scheme"]),
        ('"said", "cause"]', '"sad", "cause"]', "reno-delay", ["{said} has no value", "sad"]),
        ('unit = "ms"', 'unit = "ms"\ntolerence = 0.2', "reno-delay", ["unknown key 'tolerence'", "tolerance"]),
        ('scheme = "newreno"\nthan', 'scheme = "newreno"\nmore = 3\nthan', "order", ["unknown key 'more'", "its placeholders"]),
        ('"cubic-delay"', '"reno-delay"', "reno-delay", ["two claims are called 'reno-delay'"]),
        ('id = "order"', 'id = "cubic-delay"', "cubic-delay", ["two claims are called 'cubic-delay'"]),
        ('"55.5", "queue"', '"55.5", "quene"', "cubic-delay", ["no cause 'quene'", "a sentence, or one of queue, why"]),
        ('= "{scheme} keeps a queue: {why}"', '= "{scheme} keeps a queue: {wy}"', "cubic-delay", ["{wy} has no value", "why"]),
        ('why = "it is loss-based."', 'why = "it is {queue}"', "cubic-delay", ["{queue} contains itself", "queue → why → queue"]),
        ('queue = "{scheme} keeps', 'late = "It is late."\nqueue = "{scheme} keeps', None, ["causes.late is unused"]),
        ("two-delays = ", "spare = 'SELECT 1'\ntwo-delays = ", None, ["query.spare is unused"]),
        ("WHERE scheme = {scheme}", "WHERE scheme = '{scheme}'", "reno-delay", ["{scheme} stands within '", "quoted here"]),
        ('"network.buffer" IN', '"network.{scheme}" IN', "reno-delay", ["{scheme} stands within \""]),
        ("GROUP BY seed'''", "GROUP BY {seed'''", "reno-delay", ["the brace of '{seed'", "{{ or }}"]),
        ("GROUP BY seed'''", "GROUP BY seed}'''", "reno-delay", ["the brace of '}'", "{{ or }}"]),
        ("(scheme = than)", "(scheme than)", "order", ["{delay(scheme than)} is no placeholder"]),
        ("(scheme = than)", "(schem = than)", "order", ["'delay' has no placeholder {schem}", "accepted: buffers, scheme"]),
        ("{delay(scheme = than)}", "{scheme(than = than)}", "order", ["{scheme(…)} is no query", "delay, two-delays"]),
        ("WHERE scheme = {scheme}", "WHERE {two-delays}", "reno-delay", ["contains itself", "delay → two-delays → delay"]),
        ('than = "cubic"', 'than = "cubic"\ndelay = 3', "order", ["'delay' is the name of a query", "another name"]),
        ('query = "two-delays"', 'query = "two-delays"\nsql = "SELECT 1"', "order", ["sql and query"]),
        ('text = "{than} waits', 'text = "{delay} waits', "order", ["{delay} is a query and cannot stand in a text"]),
        ('than = "cubic"', "than = 2020-01-01", "order", ["is no value for SQL", "a text, a number"]),
        ('than = "cubic"', "than = []", "order", ["[] is no value for SQL"]),
        ("within = 1.0", "within = nan", "cubic-delay", ["within = nan; accepted: a finite number"]),
        ('than = "cubic"', "than = nan", "order", ["nan is no value for SQL"]),
        ('than = "cubic"', 'than = "{than}"', "order", ["{than} contains itself"]),
        ('"about 40"],', '"about 40", "queue", 7],', "reno-delay", ["7 values", "id, scheme, paper, panel, said, cause"]),
        ('40, "3a"', '{ within = 2 }, 40, "3a"', "reno-delay", ["a table before a value"]),
        ("{ within = 1.0", "{ panel = 4", "cubic-delay", ["panel is stated twice"]),
        ('  ["reno-delay", "newreno", 40, "3a", "about 40"],', "  3,", None, ["row 1 is no list"]),
        ('header = ["id", "scheme"', 'header = [1, "scheme"', None, ["header = [1", "a list of names"]),
        ("rows = [", "rows = 3\nother = [", None, ["rows = 3", "a list of rows"]),
        ("within = 1.0", 'within = "1"', "cubic-delay", ["within = '1'", "a number"]),
        ('unit = "ms"', "unit = 3", "reno-delay", ["unit = 3", "a text"]),
        ('source = "text"', "", "order", ["source is missing"]),
        ("[causes]", "[causses]", None, ["unknown key 'causses'", "causes"]),
        ("[names]", "[defaults]\nids = 3\n[names]", None, ["defaults.unknown key 'ids'"]),
        ("[names]", "[cases]\nsmall = 3\n[names]", None, ["cases is not a table"]),
        ('newreno = "NewReno"', "newreno = 3", None, ["names is not a table of texts"]),
    ],
)  # fmt: skip
def test_claims_file_with_a_slip_is_refused_by_line(read_claims, tmp_path, old, new, line, named):
    """An error names the file, the line, the mistake and the accepted values."""
    text = QUERIES + TABLE
    assert old in text
    text = text.replace(old, new, 1)
    with pytest.raises(UsageError) as raised:
        read_claims(text)
    said = str(raised.value)
    assert said.startswith(str(tmp_path / "fig1.claims.toml"))
    for part in named:
        assert part in said
    if line is not None:
        place = said.removeprefix(f"{tmp_path / 'fig1.claims.toml'}:").partition(":")[0]
        at = (FIGURE + text).splitlines()[int(place) - 1]
        assert f'"{line}"' in at or at == "[[claim]]", "the line of its row, or of its table"


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("b = {buffer} GROUP", "GROUP", "claim a: it uses no key of the cases; accepted: at, buffer"),
        ('"large.cause"]', '"huge.cause"]', "claim a: unknown key 'huge.cause'"),
        ('header = ["id"', 'small = 3\nheader = ["id"', "claim a: small is not a table"),
        ('id = "{id}-small"', 'id = "a"', "two claims are called 'a'"),
    ],
)
def test_cases_with_a_slip_are_refused(read_claims, old, new, named):
    """Values for an unknown case, or for a case that the claim does not use, are errors."""
    assert old in CASES
    with pytest.raises(UsageError) as raised:
        read_claims(CASES.replace(old, new, 1))
    assert named in str(raised.value)


@pytest.mark.parametrize("key", ["baseline", "within", "tolerance"])
@pytest.mark.parametrize("value", ["nan", "inf"])
def test_number_of_a_claim_is_finite(read_claims, key, value):
    """A claim is judged against finite numbers only."""
    with pytest.raises(UsageError, match=f"{key} = {value}; accepted: a finite number"):
        read_claims(QUERIES + TABLE.replace('kind = "less"', f'kind = "less"\n{key} = {value}'))


def test_plot_placeholder_without_value_names_the_plot(read_claims):
    """An error in the template of a plot names the line of its table."""
    with pytest.raises(UsageError, match=r"fig1\.claims\.toml:4: plot 1: \{scheme\} has no value"):
        read_claims('\n[[figure.plot]]\nsql = "SELECT {scheme} AS y"\n')


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.text())
def test_literal_text_comes_back_from_sql_as_it_was(text):
    """Quoted text cannot escape its quotes: SQL matches exactly that text."""
    frame = pl.DataFrame({"a": [text, f"{text}'"]})
    sql = Writer({"text": text.replace("{", "{{").replace("}", "}}")}).sql("SELECT a FROM t WHERE a = {text}")
    assert pl.SQLContext(frames={"t": frame}).execute(sql, eager=True)["a"].to_list() == [text]


@given(st.lists(st.one_of(st.text(), st.integers(), st.booleans()), min_size=1))
def test_literal_list_is_its_literals_in_brackets(values):
    """A list becomes a parenthesised list of literals, for `IN`."""
    assert literal(values) == f"({', '.join(literal(value) for value in values)})"


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_literal_number_keeps_all_digits(number):
    """A literal number keeps all its digits."""
    assert math.isclose(float(literal(number)), number, rel_tol=0)


@given(st.text())
def test_braces_that_are_doubled_are_text(text):
    """A text with doubled braces yields itself, in SQL and in prose."""
    doubled = text.replace("{", "{{").replace("}", "}}")
    assert Writer({}).prose(doubled) == text
    assert Writer({}).sql(doubled) == text.strip()


def test_value_may_name_a_query(read_claims):
    """A value `"{NAME}"` selects a query, whose own placeholders can still be bound."""
    scope = {"of": "{delay}", "scheme": "bbr", "than": "cubic", "delay": Sql("d({scheme})")}
    writer = Writer(scope)
    assert writer.sql("{of} - {of(scheme = than)}") == "d('bbr') - d('cubic')"
    assert writer.used == {"of", "delay", "scheme", "than"}


LOADED = """
import json
from narrows.papers import find, load_all
papers = load_all(find(None))
print(json.dumps([(p.id, f.id, c.id, c.sql, c.text, c.cause) for p in papers for f in p.figures for c in f.claims]))
"""


@pytest.mark.slow
def test_papers_of_the_project_load_with_all_claims():
    """On the built engine all papers load, without remaining placeholders or missing claims."""
    done = ran(python("-c", LOADED, cwd=ROOT))
    loaded = json.loads(done.stdout)
    assert len(loaded) == 596
    assert sorted(tuple(row[:3]) for row in loaded) == sorted(claims.stated(ROOT / "papers"))
    for row in loaded:
        assert not any(brace in text for text in row[3:] for brace in "{}"), row
        assert "  " not in row[4] + row[5], row


def test_claims_files_of_the_project_keep_to_their_width():
    """No line of a claims file is longer than 120 characters."""
    for path in (ROOT / "papers").glob("*/*.claims.toml"):
        wide = [number for number, line in enumerate(path.read_text().splitlines(), 1) if len(line) > 120]
        assert not wide, f"{path.name}: lines {wide}"
        assert tomllib.loads(path.read_text())["claim"], f"{path.name} has no claims"


def test_paper_file_with_wrong_names_is_refused(tmp_path):
    """The shared tables of a paper hold strings only."""
    write_paper(tmp_path / "p", 'title = "T"\nauthors = []\ncitation = "C"\n[names]\nbbr = 3\n')
    with pytest.raises(UsageError, match=r"paper\.toml: names is not a table of texts"):
        papers.load_all(tmp_path)
