"""Checks queries before polars runs them: they may read tables, but no files and no network.

A table function such as `read_csv` lets a query read files and addresses, and polars cannot disable that. A call is a
name before a parenthesis, so only listed names are accepted there: functions of values, and keywords. Names of
functions that read files are refused everywhere, even in string literals.
"""

from __future__ import annotations

import re

FUNCTIONS = frozenset(
    """
    abs acos asin atan atan2 avg cbrt ceil ceiling char_length character_length coalesce concat concat_ws corr cos count
    covar date_part datetrunc degrees dense_rank ends_with exp first first_value floor greatest if ifnull initcap last
    last_value least left length ln log log10 log1p log2 lower ltrim max median min mod nullif pi pow power quantile
    quantile_cont quantile_disc radians rank regexp_like replace reverse right round row_number rtrim sign sin sqrt
    starts_with stddev stddev_samp stdev strpos substr sum tan upper var var_samp variance
    """.split()  # noqa: SIM905 (words are easier to read)
)
"""Functions that polars computes from the columns of a row or group."""
BARE = frozenset({"dense_rank", "pi", "rank", "row_number"})
"""Functions without arguments."""
KEYWORDS = frozenset(
    """
    all and as between by case cast distinct else except exists filter from group having in intersect is join like
    limit not on or order over partition select then try_cast union using values when where with
    """.split()  # noqa: SIM905 (words are easier to read)
)
"""Words that may stand before a parenthesis without being a function."""
DECIMALS = frozenset({"bigdecimal", "bignumeric", "dec", "decimal", "numeric"})
"""Decimal types: polars panics for some of them."""
MOST_BYTES = 4_000
"""The longest query: polars computes two thousand operators, and overflows its stack for some more."""
ACCEPTED = "accepted: one SELECT over the tables, with functions of values"
_TOKEN = re.compile(
    r"""\s+|--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\w+|.""", re.DOTALL
)
_FILES = re.compile(r"\b(read|scan|write|sink)_[a-z]", re.IGNORECASE)


def check(sql: str) -> None:
    """Refuse a query that does not just select from tables.

    Raises:
        ValueError: The query is another statement, calls an unknown function, names a function that reads files, or is
            too large.
    """
    if not isinstance(sql, str) or len(sql) > MOST_BYTES:
        raise ValueError(f"the query is no text of at most {MOST_BYTES} characters; {ACCEPTED}")
    if found := _FILES.search(sql):
        raise ValueError(f"the query names {sql[found.start() :].split('(')[0][:20]!r}, but sees no files; {ACCEPTED}")
    if "\\" in sql or "$" in sql:  # other quotation marks of SQL dialects
        raise ValueError(f"the query has a backslash or a dollar sign; {ACCEPTED}")
    tokens = [token for token in _TOKEN.findall(sql) if not token.isspace() and not token.startswith(("--", "/*"))]
    words = [token.lower() for token in tokens]
    first = next((word for word in words if word != "("), "")
    if first not in ("select", "with"):
        raise ValueError(f"the query begins with {first[:20]!r}; {ACCEPTED}")
    for before, word, after, last in zip(["", *words], words, words[1:], [*words[2:], ""], strict=False):
        if before == word == "/":  # polars panics for nulls
            raise ValueError("the query has the operator //; accepted: floor(a / b)")
        if word.strip('"`') in DECIMALS and before in ("as", ":", "") and after in ("(", ")"):
            raise ValueError(f"the query casts to {word}; accepted: casts to double, int or varchar")
        if after != "(" or not (word[0].isalnum() or word[0] in '_"`'):
            continue
        if word in FUNCTIONS and word not in BARE and last == ")":
            raise ValueError(f"the query calls {word}(), which takes values; {ACCEPTED}")  # polars panics for some
        if word == "all" and before not in ("union", "intersect", "except"):  # polars fills the memory for some
            raise ValueError(f"the query compares with all of a list; {ACCEPTED}")
        if word in FUNCTIONS or word in KEYWORDS or before == "as":  # `AS name(column, …)` names columns
            continue
        raise ValueError(f"the query calls {word[:30]!r}, which is no function of values; {ACCEPTED}")
