"""Messages of the command: the place, the value found and the accepted values, in one line."""

import dataclasses

import pytest

import narrows
from narrows import engine, live

from conftest import SHORT, call, ran, refused  # isort: skip


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["compare", "bbr", "--repeat", "x"], "--repeat: `x` is not a whole number; accepted: a whole number from 1"),
        (["compare", "bbr", "--seed", "1.5"], "--seed: `1.5` is not a whole number; accepted: a whole number from 0"),
        (["compare", "bbr", "--jobs", "0"], "--jobs: `0` is too small; accepted: a whole number from 1"),
        (["compare", "bbr", "--count", "0"], "--count: `0` is too small; accepted: a whole number from 1"),
        (["compare", "bbr", "--ack-every", ""], "--ack-every: `` is not a whole number; accepted: a whole number from 1"),
        (["bench", "--repeats", "0"], "--repeats: `0` is too small; accepted: a whole number from 1"),
        (["reproduce", "--seeds", "0"], "--seeds: `0` is too small; accepted: a whole number from 1"),
        (["plot", ".", "--run", "-1"], "--run: `-1` is too small; accepted: a whole number from 0"),
        (["dccp", "send", "h", "--size", "5"], "--size: `5` is too small; accepted: a whole number from 8 to 65000"),
        (
            ["dccp", "recv", "--connections", "10001"],
            "--connections: `10001` is too large; accepted: a whole number from 1 to 10000",
        ),
    ],
)  # fmt: skip
def test_number_errors_name_found_and_accepted(args, message):
    """The error of an option that takes a number names the value found and the accepted values."""
    done = call(*args)
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", f"narrows: {message}\n")


def test_values_that_no_file_holds_are_refused():
    """A value that contains itself is invalid usage at any depth."""
    own_table, own_list = {}, []
    own_table["a"] = own_table
    own_list.append(own_list)
    for call_it in (
        lambda: narrows.compare("bbr", set=own_table),
        lambda: narrows.run({"network": {"rate": "1mbit"}}, set={"network.rate": own_list}),
        lambda: narrows.run({"network": own_table}),
    ):
        with pytest.raises(narrows.UsageError, match="nested too deeply"):
            call_it()


@pytest.mark.parametrize("command", [["compare", "bbr"], ["trace", "5g"]])
def test_folder_that_cannot_be_made_exits_2(command):
    """A folder that cannot be created is invalid usage of `--out`."""
    done = call(*command, "-o", "/proc/nosuch")
    refused(done, "narrows: --out: /proc/nosuch: ", "accepted: a new or existing folder")


@pytest.mark.parametrize(("command", "problem"), [("plot", ":1: this is no qlog"), ("report", ": this is a file")])
def test_missing_folder_named_as_missing(command, problem, tmp_path):
    """A folder of results that does not exist is named as missing, a file as unsuitable."""
    refused(call(command, tmp_path / "nosuch"), f"{tmp_path / 'nosuch'}: there is no such folder; accepted: ")
    (tmp_path / "file").write_text("")
    done = call(command, tmp_path / "file")
    assert f"{tmp_path / 'file'}{problem}; accepted: " in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["r.pdf", "r"])
def test_report_accepts_html_endings_only(name, tmp_path):
    """A report is a page: other endings of its file are invalid usage, and nothing is written."""
    narrows.compare("bbr", **SHORT, out=tmp_path / "out")
    refused(call("report", tmp_path / "out", "-o", tmp_path / name), "--out: ", "accepted: .html or .htm")
    assert not (tmp_path / name).exists()
    assert call("report", tmp_path / "out", "-o", tmp_path / "r.htm").exit_code == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--kind", "pie"], "--kind: there is no kind 'pie'; accepted: time, share"),
        (["--kind", "line", "--x", "nosuch"], "--x: there is no column 'nosuch'; accepted: id"),
        (["--kind", "line", "--y", "nosuch"], "--y: there is no column 'nosuch'; accepted: id"),
        (["--kind", "line", "--series", "nosuch"], "--series: there is no column 'nosuch'; accepted: id"),
        (["--kind", "delay", "--series", "nosuch"], "--series: there is no column 'nosuch'; accepted: id"),
        (["--kind", "delay", "--x", "seed"], "--x: plots of kind 'delay' lack this option; accepted: --series"),
        (["--kind", "share", "--y", "seed"], "--y: plots of kind 'share' lack this option; accepted: --x, --series"),
        (["--kind", "time", "--run", "9"], "--run: there is no run 9; accepted: 0 to 0"),
        (["--series", "inflight_bytes,foo"], "--series: the trace has no series foo; accepted: backoff"),
        (["--series", "cwnd_bytes+foo,bar"], "--series: the trace has no series foo, bar; accepted: backoff"),
    ],
)
def test_plot_errors_name_options_of_the_command(options, message, tmp_path):
    """Errors of plots name the options of the command, and nothing is written."""
    narrows.compare("bbr", "cubic", trace=True, out=tmp_path / "out", **SHORT)
    refused(call("plot", tmp_path / "out", *options, "-o", tmp_path / "p.png"), f"narrows: {message}")
    assert not (tmp_path / "p.png").exists()


@pytest.mark.slow
def test_plot_series_option_serves_share_and_delay(tmp_path):
    """`--series` separates the lines of plots of shares and of delay too."""
    narrows.compare("bbr", "cubic", out=tmp_path, set={"network.buffer": ["1bdp", "2bdp"]}, **SHORT)
    for kind in ("share", "delay"):
        ran(call("plot", tmp_path, "--kind", kind, "--series", "rtt_base_ms"))


@pytest.mark.slow
@pytest.mark.parametrize("command", ["plot", "report"])
def test_interrupted_folder_warns(command, tmp_path):
    """A folder of interrupted work is shown with a warning on standard error, a complete folder without a warning."""
    narrows.compare("bbr", "cubic", out=tmp_path, set={"network.buffer": ["1bdp", "2bdp"]}, **SHORT)
    done = call(command, tmp_path)
    assert (done.exit_code, "warning" in done.stderr) == (0, False)
    (tmp_path / "SHA256SUMS").unlink()  # written last
    done = ran(call(command, tmp_path))
    assert "holds the 2 finished runs of interrupted work" in done.stderr


def test_listen_needs_port():
    """`--listen` without a port is invalid usage; a name that does not resolve is a failure of that option."""
    for text in ("foo", "[::1]", "foo:"):
        done = call("dccp", "recv", "--listen", text)
        refused(done, f"--listen: {text!r} is not an address with a port; accepted: ADDRESS:PORT")
    for port in ("0", "99999", "9" * 5000):
        done = call("dccp", "recv", "--listen", f"127.0.0.1:{port}")
        refused(done, f"has port {port[:20]}; accepted: ports 1 to 65535")
    for text in ("127.0.0.1:6521:3", "fe80::1:x", "127.0.0.1:x", "127.0.0.1:"):
        done = call("dccp", "send", text)
        refused(done, f"HOST: {text!r} is not a host with a port; accepted: ")
    done = call("dccp", "recv", "--listen", "nosuch.invalid:6511")
    assert done.exit_code == 1
    assert done.stderr.startswith("narrows: --listen: nosuch.invalid: ")
    assert live.resolve("127.0.0.1", "HOST") == f"127.0.0.1:{live.PORT}"


def test_page_of_an_algorithm_names_it_once(monkeypatch):
    """The head of a page has the name once, even if the summary begins with it."""
    rows = engine.routers()
    named = [dataclasses.replace(row, summary=f"{row.name.upper()}: assigns rates") for row in rows]
    monkeypatch.setattr(engine, "routers", lambda: tuple(named))
    assert call("routers", "rcp").stdout.startswith("rcp: assigns rates\n")


def test_help_of_reproduce_states_its_length():
    """The help of `reproduce` states that it runs all papers, and mentions `--quick`."""
    text = " ".join(call("reproduce", "--help").stdout.split())
    assert "Without PAPER it runs all papers" in text
    assert "--quick" in text
