"""Random command lines and arguments of the library: a message and status 0, 1 or 2, never a traceback or a hang."""

import functools
import inspect
import os
import signal
import socket
import time
import warnings
from pathlib import Path

import pytest
import typer

import fake_hosts
import narrows
from attempts import Tally, generators, many
from narrows import engine, plots, qlog
from narrows.cli import app
from narrows.errors import DamagedError, UsageError
from narrows.runner import RunError
from test_bench import measured  # noqa: F401 (a fixture)
from test_packetdrill import GOOD

from conftest import BRIEF, SHORT, call  # isort: skip

SECONDS = 20
"""Longest time of an attempt, on a busy machine."""
WORDS = [
    "", " ", "-", "--", "x", "0", "-1", "1", "2", "1.5", "1e999", "nan", "inf", "99999999999999999999", "0x10", "١",
    "bbr", "cubic", "bbr:cwnd_gain=2", "bbr:", ":", "broken", "bbq", "1s", "10ms", "-5s", "100mbit", "1bdp", "1%",
    "10ms,20ms", ",", "a=b", "=", "a=", "network.buffer=1bdp,2bdp", "flows.scheme=x", "tcp.nosuch=1", "flows.9.rtt=1s",
    "a={", "seed=x", "repeat=-1", "rcp", "5g", "time", "share", "line", "heatmap", "cdf", "delay", "flows", "samples",
    "scheme", "goodput_mbit_s", "network.buffer", "column", "page", "sim", "kernel", "shim", "senders", "both", "quick",
    "(", "[a-", "*", "..", ".", "/", "/dev/null", "/proc/nosuch", "/nosuch/a", "a" * 300, "a\nb", "\t", "é", "\udcff",
    "\x00", "🦆", "127.0.0.1:1", "[::1]", "h:99999", "127.0.0.1:99999",
    "127.0.0.1:9999999999999999999", "[::1]:70000", "10.0.0.0/8=127.0.0.1", "a..b", "lo", "lo:bottleneck", "bbr:a=b",
    "unix:/nosuch", "10MB", "1e999mbit", "1e999s", "1e30mbit", "noq:cubic", "fake_bbr", "$(id)", "{}", "[[[[", "%s", "{x}",
]  # fmt: skip


class TooLongError(Exception):
    pass


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Return words that name files of a folder with results, a scenario, a study and unsuitable files."""
    monkeypatch.chdir(tmp_path)
    text = 'duration = "1s"\n[network]\nrate = "1mbit"\n[[flows]]\nrtt = "40ms"\nscheme = "bbr"\n'
    (tmp_path / "s.toml").write_text(text)
    (tmp_path / "bad.toml").write_bytes(b"a = '\xff'\n")
    (tmp_path / "deep.toml").write_text("a = " + "[" * 50_000)
    (tmp_path / "a.pkt").write_text(GOOD)
    (tmp_path / "empty").mkdir()
    assert call("compare", *BRIEF, "bbr", "cubic", "--trace", "-o", "results").exit_code == 0
    assert call("new", "study", "mine").exit_code == 0
    Path("link").symlink_to("s.toml")
    os.mkfifo("fifo")
    os.mkfifo("fifo.qlog")
    event = '{"time": 1, "name": "quic:packet_sent", "data": {"header": {"packet_number": 1}, "raw": {"length": 9}}}'
    Path("a.qlog").write_text(f'{{"qlog_version": "0.3", "traces": [{{"events": [{event}]}}]}}')
    Path("bad.qlog").write_bytes(b'{"qlog_version": "0.3", "traces": [\xff')
    Path("ca.pem").write_text("-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n")
    return [
        "s.toml", "bad.toml", "deep.toml", "a.pkt", "empty", "results", "mine", "link", "new", "o.png", "o.html",
        "a.qlog", "bad.qlog", "ca.pem",
    ]  # fmt: skip


def commands():
    """Return all commands by name, as typer made them."""

    def walk(group, path):
        for name, command in group.commands.items():
            if hasattr(command, "commands"):
                yield from walk(command, (*path, name))
            else:
                yield (*path, name), command

    return dict(walk(typer.main.get_command(app), ()))


NEEDED = {("reproduce",): ["mine", "--quick"], ("bench",): ["--no-ns3"]}
"""Words that keep a command from working for minutes."""


SUITABLE = {
    ("brf", "attach"): ["--limit", "20mbit", "--dry-run"],
    ("brf", "controller"): ["--port", "lo", "--control", "127.0.0.1:1"],
    ("brf", "switch"): ["--port", "lo", "--rate", "10mbit"],
    ("compare",): ["bbr", "cubic"],
    ("dccp", "recv"): ["--once"],
    ("dccp", "send"): ["127.0.0.1:1"],
    ("kernel", "load"): ["fake_bbr"],
    ("kernel", "unload"): ["fake_bbr"],
    ("new", "study"): ["another"],
    ("nodectl", "node"): ["--rate", "10mbit"],
    ("nodectl", "request"): ["127.0.0.1", "--size", "10MB"],
    ("packetdrill",): ["a.pkt"],
    ("perf", "client"): ["127.0.0.1"],
    ("plot",): ["a.qlog", "-o", "o.png"],
    ("report",): ["results"],
    ("reproduce",): [],
    ("run",): ["s.toml"],
    ("sweep",): ["s.toml"],
    ("trace",): ["5g", "-o", "radio"],
}
"""Words that a command needs; other commands need none."""
REACHES = {
    ("brf", "attach"): "attach_brf",
    ("brf", "controller"): "PortJudge",
    ("brf", "detach"): "detach_brf",
    ("brf", "status"): "brf_status",
    ("brf", "switch"): "run_brf_switch",
    ("dccp", "recv"): "live",
    ("dccp", "send"): "live",
    ("kernel", "list"): "kernel_programs",
    ("kernel", "load"): "load_program",
    ("kernel", "status"): "program_status",
    ("kernel", "unload"): "unload_program",
    ("nodectl", "node"): "negotiate node",
    ("nodectl", "request"): "negotiate client",
    ("nodectl", "server"): "negotiate server",
    ("perf", "client"): "perf_client",
    ("perf", "server"): "perf_server",
}
"""Functions of the engine behind the commands for hosts: reached by arguments that passed Python's checks."""
PIPES = ["fifo", "fifo.qlog"]
STREAMED = {("run",), ("compare",), ("sweep",), ("packetdrill",)}
"""Commands that read a scenario or a script from a pipe, or write packets into one, and wait for its other end."""
HOSTS = ("brf", "dccp", "kernel", "nodectl", "perf")


def command_line(path, command, words, draw):
    """Return a random command line: options and arguments that the command has, with values from `words`.

    A third of the lines begins with arguments that suit the command.
    """
    line = [*path, *NEEDED.get(path, [])]
    suits = draw.random() < 1 / 3
    line += SUITABLE.get(path, []) if suits else []
    arguments = [] if suits else [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option"]
    for argument in arguments:
        for _ in range(draw.choice([1, 1, 1, 0, 2])):
            if path != ("reproduce",) or argument.name == "figures":
                line.append(draw.choice(words))
    for option in draw.sample(options, min(len(options), draw.choice([0, 1, 1, 2, 3]))):
        if {"--version", "--ns3"} & {*option.opts}:  # a comparison with ns-3 compiles it
            continue
        line.append(draw.choice([*option.opts, *option.secondary_opts]))
        if not getattr(option, "is_flag", False) and draw.random() < 0.9:
            line.append(draw.choice(words))
    if draw.random() < 0.05:
        line.append(draw.choice(["--nosuch", "-z", "--help", "extra"]))
    return line


def limited(what, work):
    """Run work with a time limit."""

    def end(*_):
        raise TooLongError(f"{what} took more than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(SECONDS)
    try:
        return work()
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.slow
@pytest.mark.attempts
@pytest.mark.usefixtures("measured")
def test_random_command_lines_end_with_a_message(place, executor, monkeypatch):
    """Every random command line ends with 0, 1 or 2, a failure with a message, and none with a traceback."""
    fake_hosts.install(monkeypatch.setattr)
    monkeypatch.setattr("socket.getaddrinfo", no_names)
    monkeypatch.setattr("narrows.sdn.run", lambda watcher, **_: watcher.on_port(1.0, 1, 0))
    monkeypatch.setattr("narrows.sdn.ANSWER_S", 0.01)
    tally = Tally("random command lines")
    known = commands()
    assert set(REACHES) == {path for path in known if path[0] in HOSTS} - {("dccp", "dissector")}
    tried, reached, succeeded = set(), set(), set()
    for number, draw in generators("commands", many(150, 1000, 20_000)):
        path = draw.choice(sorted(known)) if number >= len(known) else sorted(known)[number]
        own = place if path in STREAMED else place + PIPES
        line = command_line(path, known[path], WORDS + own * 4, draw)
        if number < len(known):
            line = [*path, *NEEDED.get(path, []), *SUITABLE.get(path, [])]
        tried.add(path)
        before = fake_hosts.reached.copy()
        begin = time.monotonic()
        try:
            done = limited(line, lambda line=line: call(*line))
        except typer.Exit as ended:  # before the command, as in `main`
            assert ended.exit_code == 2, line
            tally.add("refused")
            continue
        case = (number, line, done.exc_info, done.stderr[-500:])
        assert done.exception is None or isinstance(done.exception, SystemExit), case
        assert done.exit_code in (0, 1, 2), case
        assert done.exit_code == 0 or done.stderr or done.stdout, case
        assert "Traceback" not in done.output, case
        assert time.monotonic() - begin < SECONDS, case
        tally.add({0: "done", 1: "failed with a message", 2: "refused"}[done.exit_code])
        if fake_hosts.reached[REACHES.get(path)] > before[REACHES.get(path)]:
            reached.add(path)
        if done.exit_code == 0 and "--help" not in line:
            succeeded.add(path)
    tally.close()
    assert tried == set(known)
    assert reached == set(REACHES), "every command for hosts got past Python's checks"
    # A grid takes longer than an attempt may, and there is no kernel.
    assert succeeded >= set(known) - {("fidelity",)}, "every command worked at least once"


RESOLVE = socket.getaddrinfo


def no_names(host, port, family=0, type=0, proto=0, flags=0):  # noqa: A002 (named like the function's)
    """Resolve numbers only: names raise the resolver's errors without a query to the network."""
    return RESOLVE(host, port, family, type, proto, flags | socket.AI_NUMERICHOST)


VALUES = [
    None, True, False, 0, 1, -1, 40, 1.5, float("nan"), 10**30, "", "x", "40ms", "1bdp", "bbr", "\udcff", "\x00", b"bbr",
    [], ["bbr"], ["40ms", "50ms"], [1], [None], (), {}, {"a": 1}, {"network.buffer": ["1bdp"]}, {1: 2}, {"a": object()},
    {"a": {"b": []}}, object(), int, lambda: 1, {"network.buffer": []}, "a\nb", "/nosuch/file", [["bbr"]], set(), 1j,
]  # fmt: skip
FUNCTIONS = {
    "run": ("[network]\nrate = '1mbit'\n[[flows]]\nrtt = '40ms'\nscheme = 'bbr'\n",),
    "compare": ("bbr", "cubic"),
    "sweep": ("[network]\nrate = '1mbit'\n[[flows]]\nrtt = '40ms'\nscheme = 'bbr'\n", {"network.buffer": ["1bdp"]}),
    "radio_trace": (),
}
FIRST = {"plots.plot": plots.plot, "plots.default_kind": plots.default_kind, "plots.image": plots.image}
"""Functions that the fuzz gives any first argument."""
READERS = {"qlog.load": qlog.load, "schemes": narrows.schemes, "routers": narrows.routers}
EXPECTED = (UsageError, DamagedError, narrows.ScenarioError, engine.HostUnable, RunError, OSError)


def options_of(function):
    named = [each.name for each in inspect.signature(function).parameters.values() if each.kind is each.KEYWORD_ONLY]
    return named or options_of(narrows.run)


@pytest.mark.slow
@pytest.mark.attempts
def test_arguments_of_library_give_messages(tmp_path, monkeypatch):
    """Every public function accepts its arguments or refuses them with a message that states what is accepted."""
    monkeypatch.chdir(tmp_path)
    tally = Tally("random arguments of the library")
    results = narrows.compare("bbr", "cubic", set={"network.buffer": ["1bdp", "2bdp"]}, **SHORT)
    kinds = [*plots.KINDS, "nosuch", None]
    for number, draw in generators("library", many(60, 600, 20_000)):
        what = draw.choice([*FUNCTIONS, "plot", "load", "save", *READERS, *FIRST])
        args, options = list(FUNCTIONS.get(what, ())), {}
        if what in FUNCTIONS:
            if args and draw.random() < 0.3:
                args[draw.randrange(len(args))] = draw.choice(VALUES)
            for name in draw.sample(options_of(getattr(narrows, what)), draw.choice([0, 1, 1, 2])):
                options[name] = draw.choice(VALUES)
            function = getattr(narrows, what)
        elif what == "plot":
            args = [draw.choice([*kinds[:9], draw.choice(VALUES)])]
            names = plots.options_of(args[0]) if isinstance(args[0], str) and args[0] in plots.KINDS else ["x"]
            options = {name: draw.choice([*VALUES, "scheme", "network.buffer"]) for name in draw.sample(names, 1)}
            function = results.plot
        elif what in FIRST:
            function = FIRST[what]
            args = [draw.choice([*VALUES, results]) if what != "plots.image" else draw.choice(VALUES)]
        elif what in READERS:
            function = READERS[what]
            args = [draw.choice([*VALUES, [draw.choice(VALUES)], tmp_path / "a.qlog"])] if what == "qlog.load" else []
        else:
            function = {"load": narrows.Results.load, "save": results.save}[what]
            args = [draw.choice([each for each in VALUES if what == "load" or not isinstance(each, str)])]
        case = (number, what, args, options)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                limited(case, functools.partial(function, *args, **options))
            tally.add("done")
        except EXPECTED as error:
            assert str(error), case
            tally.add("refused")
        except Exception as error:
            raise AssertionError(case) from error
    tally.close()


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda: narrows.compare(["bbr"]), "schemes: (['bbr'],) does not fit; accepted: texts, one per flow"),
        (lambda: narrows.compare("bbr", rtt=40), "rtt: 40 does not fit; accepted: a text with a unit, such as '40ms'"),
        (lambda: narrows.run(3), "scenario: 3 does not fit; accepted: a path, a TOML text, or a dictionary"),
        (lambda: narrows.sweep("x=1", {"a": 3}), "a: 3 is not a list of values; accepted: a list such as"),
        (lambda: narrows.sweep("x=1", {"a": [3]}, nosuch=1), "nosuch: there is no such option; accepted: scenario, seed"),
        (lambda: narrows.Results.load(3), "directory: 3 does not fit; accepted: the path of a folder"),
        (lambda: plots.plot(3), "results: 3 does not fit; accepted: what run, compare, sweep or load returns"),
        (lambda: plots.default_kind(3), "results: 3 does not fit; accepted: what run, compare, sweep or load returns"),
        (lambda: plots.image(3), "figure: 3 does not fit; accepted: a figure, such as plot returns"),
        (lambda: plots.save(3, Path("a.png")), "figure: 3 does not fit; accepted: a figure, such as plot returns"),
        (lambda: qlog.load(3), "paths: 3 does not fit; accepted: the path of a qlog file, or a list of them"),
        (lambda: qlog.load(None), "paths: None does not fit"),
        (lambda: qlog.load([3]), "paths: [3] does not fit"),
        (lambda: qlog.load([]), "paths: [] does not fit"),
        (lambda: qlog.load([b"x"]), "paths: [b'x'] does not fit"),
        (lambda: qlog.load(["\0"]), "paths: ['\\x00'] does not fit"),
        (lambda: qlog.load("nosuch.qlog"), "nosuch.qlog: there is no such file"),
    ],
)  # fmt: skip
def test_wrong_types_name_argument_value_and_accepted(work, message):
    """The message for a wrong type names the argument, the value and the accepted values."""
    with pytest.raises(UsageError) as caught:
        work()
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "line",
    [
        ("dccp", "send", "a" * 300),
        ("dccp", "send", "a..b"),
        ("dccp", "recv", "--listen", f"{'a' * 300}:1"),
        ("perf", "client", "a" * 300),
        ("perf", "server", "--listen", f"{'a' * 300}:1"),
        ("nodectl", "node", "--rate", "1mbit", "--listen", "a" * 300),
        ("brf", "controller", "--port", "x", "--control", "127.0.0.1:99999"),
        ("brf", "controller", "--port", "x", "--control", "127.0.0.1:-1"),
    ],
)
def test_impossible_address_names_option_and_accepted(line):
    """An address that the resolver cannot even encode, or a port above 65 535, ends with a message and status 2."""
    done = call(*line)
    assert isinstance(done.exception, SystemExit) and done.exit_code == 2, (line, done.exc_info)
    flag = next((word for word in reversed(line) if word.startswith("--")), "HOST")
    assert done.stderr.startswith(f"narrows: {flag}"), done.stderr
    assert "accepted: " in done.stderr, done.stderr


@pytest.mark.parametrize("flag", ["--ca", "--cert", "--key"])
def test_pipes_and_devices_are_no_certificates(tmp_path, flag):
    """A pipe, a device, a folder, a large and a missing file are refused without waiting, with status 2."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "large").write_bytes(b"x" * ((1 << 20) + 1))
    for name, problem in [
        (tmp_path / "fifo", "is not a regular file; accepted: a file that is no pipe and no device"),
        ("/dev/zero", "is not a regular file; accepted: a file that is no pipe and no device"),
        (tmp_path / "large", "is larger than 1 MiB; accepted: a smaller file"),
        (tmp_path, "Is a directory; accepted: a PEM file"),
        (tmp_path / "none", "No such file or directory; accepted: a PEM file"),
    ]:
        others = {"--ca": [], "--cert": ["--key", __file__], "--key": ["--cert", __file__]}[flag]
        line = ("perf", "client", "127.0.0.1") if flag == "--ca" else ("perf", "server", "--listen", "127.0.0.1:1")
        done = limited(name, lambda: call(*line, *others, flag, name))  # noqa: B023 (called at once)
        assert done.exit_code == 2 and done.stderr.startswith(f"narrows: {flag}: {name}"), (name, done.stderr)
        assert problem in done.stderr, done.stderr


class PanicException(BaseException):
    """Stands for pyo3's exception for a panic of Rust, which is no `Exception`."""


@pytest.fixture
def broken(raised, monkeypatch):
    """Let the command raise an exception; return its main function."""
    from narrows import cli

    def broken(*_, **__):
        raise raised("a bug")

    monkeypatch.setattr(cli, "app", broken)
    monkeypatch.setattr("sys.argv", ["narrows", "schemes"])
    return cli.main


@pytest.mark.parametrize("raised", [ZeroDivisionError, PanicException])
def test_last_resort_names_a_bug(broken, raised, monkeypatch, capsys):
    """An unexpected exception ends the command with a message and status 1; `NARROWS_DEBUG` shows it."""
    with pytest.raises(SystemExit) as ended:
        broken()
    assert ended.value.code == 1
    assert capsys.readouterr().err.startswith(f"narrows: a bug of Narrows: {raised.__name__}: a bug\n")
    monkeypatch.setenv("NARROWS_DEBUG", "1")
    with pytest.raises(raised):
        broken()


@pytest.mark.parametrize("raised", [SystemExit, GeneratorExit])
def test_ends_of_python_are_no_bugs(broken, raised, capsys):
    """Exceptions that end a program or a generator pass the handler of unexpected exceptions."""
    with pytest.raises(raised):
        broken()
    assert capsys.readouterr().err == ""
