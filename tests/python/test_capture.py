"""`--pcap` and `--csv`: accepted options, and captures as tshark and tcptrace read them."""

import csv
import io
import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from fake_executor import ENGINE

from conftest import BRIEF, call, narrows_in, python, refused, start_narrows  # isort: skip

SCENARIO = """
duration = "5s"
warmup = "0s"
[network]
rate = "20mbit"
buffer = "20pkt"
[[flows]]
scheme = "bbr"
rtt = "40ms"
[[flows]]
scheme = "cubic"
rtt = "30ms"
size = "1MB"
[[flows]]
scheme = "ccid2"
rtt = "40ms"
stop = "4s"
"""


@pytest.mark.parametrize(
    ("more", "kept"), [((), ("senders", None)), (("--pcap-at", "both", "--pcap-bytes", 94), ("both", 94))]
)
def test_pcap_passes_file_and_contents(tmp_path, monkeypatch, more, kept):
    """The capture of a single run goes to the named file, and the command reports this."""
    file = tmp_path / "run.pcapng"
    asked, execute = [], ENGINE.run
    monkeypatch.setattr(ENGINE, "run", lambda *given: asked.append(given[4]) or execute(*given))
    result = call("compare", *BRIEF, "bbr", "cubic", "--pcap", file, *more)
    assert (result.exit_code, asked) == (0, [(str(file), *kept)])
    assert file.read_bytes()[:4] == b"\x0a\x0d\x0d\x0a", "a section header of pcapng"
    assert f"packets are in {file}" in result.stderr


def test_pcap_with_folder_executes_a_finished_run_again(tmp_path, executed):
    """A saved run has no packets, so it runs again."""
    before = len(executed)
    assert call("compare", *BRIEF, "bbr", "-o", tmp_path / "out").exit_code == 0
    assert call("compare", *BRIEF, "bbr", "-o", tmp_path / "out", "--pcap", tmp_path / "run.pcapng").exit_code == 0
    assert len(executed) == before + 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--pcap", "{}/a", "--repeat", "3"], "--pcap: the file holds one run, not 3; accepted: a single value"),
        (["--pcap", "{}/a", "--each"], "--pcap: the file holds one run, not 2; accepted: a single value"),
        (
            ["--pcap", "{}/o/results.jsonl", "-o", "{}/o"],
            "--pcap, -o: {}/o/results.jsonl lies among the results; accepted:",
        ),
        (["--pcap", "{}"], "is a folder; accepted: a file in a writable folder"),
        (["--pcap", "{}/none/a"], "there is no folder {}/none; accepted: a file in a writable folder"),
        (["--pcap", "{}/a", "--pcap-at", "node"], "--pcap-at: `node` names no hosts; accepted: senders, receivers,"),
        (["--pcap", "{}/a", "--pcap-bytes", "0"], "--pcap-bytes: `0` is too small; accepted: a whole number from 1"),
        (["--pcap-at", "both"], "--pcap-at: this describes a capture; accepted: together with --pcap FILE"),
        (["--pcap-bytes", "94"], "--pcap-bytes: this describes a capture; accepted: together with --pcap FILE"),
        (["--explain", "--csv"], "--explain, --csv: --explain runs nothing; accepted: one of them"),
        (["--csv", "--json"], "--json, --csv: both print the results; accepted: one of them"),
    ],
)
def test_options_without_sense_are_refused(tmp_path, arguments, message):
    """Invalid usage ends with status 2 and a message that names option and accepted values; nothing is written."""
    result = call("compare", *BRIEF, "bbr", "cubic", *(text.format(tmp_path) for text in arguments))
    refused(result, message.format(tmp_path))
    assert list(tmp_path.iterdir()) == []


def rows(text):
    """Parse a CSV text."""
    return list(csv.DictReader(io.StringIO(text)))


def test_csv_prints_flows_with_the_names_of_json():
    """`--csv` prints a row per flow and run, and nothing else; missing values are empty."""
    printed = json.loads(call("compare", *BRIEF, "bbr", "cubic", "--json").stdout)
    result = call("compare", *BRIEF, "bbr", "cubic", "--csv")
    table = rows(result.stdout)
    assert [row["scheme"] for row in table] == ["bbr", "cubic"]
    for row, flow in zip(table, printed["flows"], strict=True):
        assert set(flow) <= set(row)
        assert float(row["goodput_mbit_s"]) == flow["goodput_mbit_s"]
        assert row["completion_s"] == ""
    swept = rows(call("compare", *BRIEF, "bbr", "--set", "network.buffer=1bdp,4bdp", "--repeat", 2, "--csv").stdout)
    assert [(row["network.buffer"], row["seed"]) for row in swept] == [
        ("1bdp", "1"), ("1bdp", "2"), ("4bdp", "1"), ("4bdp", "2")
    ]  # fmt: skip


def test_csv_with_folder_writes_all_tables(tmp_path):
    """With `-o`, every table is a CSV file beside its Parquet file."""
    result = call("compare", *BRIEF, "bbr", "cubic", "--csv", "-o", tmp_path / "out")
    files = {path.name: path.read_text() for path in (tmp_path / "out").glob("*.csv")}
    assert set(files) == {"flows.csv", "links.csv", "runs.csv"}
    assert files["flows.csv"] == result.stdout
    assert rows(files["links.csv"])[0]["link"] == "bottleneck"
    call("compare", *BRIEF, "bbr", "-o", tmp_path / "plain")
    assert not list((tmp_path / "plain").glob("*.csv"))


def captured(tmp_path, *more):
    """Run the scenario on the built engine with a capture; return the capture and the result."""
    (tmp_path / "mix.toml").write_text(SCENARIO)
    file = tmp_path / "run.pcapng"
    done = python("-m", "narrows", "run", "mix.toml", "--pcap", file, "--json", *more, cwd=tmp_path, check=True)
    return file, json.loads(done.stdout)


def tool(name, *arguments):
    """Run a tool; skip the test if it is not installed."""
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    return subprocess.run([name, *map(str, arguments)], capture_output=True, text=True, check=True).stdout


CHECKED = [f"{layer}.check_checksum:TRUE" for layer in ("ip", "tcp", "udp", "dccp")]


@pytest.mark.slow
@pytest.mark.parametrize(("more", "unverified"), [((), False), (("--pcap-at", "both", "--pcap-bytes", "94"), True)])
def test_tshark_finds_no_fault(tmp_path, more, unverified):
    """Each checksum is good, or unverified for lack of data; no packet is malformed."""
    if shutil.which("tshark") is None:
        pytest.skip("tshark is not installed")
    file, _ = captured(tmp_path, *more)
    options = [part for option in CHECKED for part in ("-o", option)]
    fields = ["ip.checksum.status", "tcp.checksum.status", "_ws.malformed"]
    shown = [part for field in fields for part in ("-e", field)]
    lines = tool("tshark", "-r", file, *options, "-T", "fields", *shown).splitlines()
    found = {tuple(line.split("\t")) for line in lines}
    # 1 is good, 2 unverified; a DCCP packet has no TCP checksum.
    assert found == {("1", "1", ""), ("1", "", ""), *([("1", "2", "")] if unverified else [])}
    assert "Errors" not in tool("tshark", "-r", file, *options, "-q", "-z", "expert,error")


@pytest.mark.slow
def test_tshark_sees_hosts_times_and_retransmissions(tmp_path):
    """Interfaces are hosts, times are nanoseconds, and tshark's retransmissions are those of the run."""
    if shutil.which("tshark") is None:
        pytest.skip("tshark is not installed")
    file, result = captured(tmp_path)
    fields = ("frame.interface_name", "frame.time_epoch", "tcp.analysis.retransmission", "tcp.analysis.out_of_order")
    shown = [part for field in fields for part in ("-e", field)]
    lines = [line.split("\t") for line in tool("tshark", "-r", file, "-T", "fields", *shown).splitlines()]
    assert {line[0] for line in lines} == {"sender-1", "sender-2", "sender-3"}
    assert all(re.fullmatch(r"\d\.\d{9}", line[1]) for line in lines)
    assert sum(any(line[2:]) for line in lines) == result["counters"]["retransmits"] > 0


def test_tcptrace_counts_the_packets_of_the_run(tmp_path):
    """tcptrace finds the TCP connections, their data and retransmissions, and nothing out of order."""
    if shutil.which("tcptrace") is None:
        pytest.skip("tcptrace is not installed")
    file, result = captured(tmp_path)
    report = tool("tcptrace", "-l", file)

    def counts(name):
        return [int(number) for number in re.findall(rf"^\s+{name}:\s+(\d+)", report, re.M)]

    streams = [flow for flow in result["flows"] if flow["scheme"] != "ccid2"]
    assert "2 TCP connections traced" in report
    assert counts("actual data pkts") == [flow["packets_sent"] for flow in streams]
    assert sum(counts("rexmt data pkts")) == result["counters"]["retransmits"]
    assert counts("outoforder pkts") == [0, 0]
    assert counts("mss requested") == [1460, 1460]


def test_interrupt_leaves_a_readable_file(tmp_path):
    """Ctrl-C ends a run with status 130; the file has the packets so far, in whole blocks."""
    file = tmp_path / "run.pcapng"
    process = start_narrows("compare", "bbr", "cubic", "--duration", "3000s", "--pcap", file, "--pcap-bytes", "94")
    while process.poll() is None and (not file.exists() or file.stat().st_size < 1_000_000):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, messages = process.communicate(timeout=60)
    assert process.returncode == 130, messages
    assert f"the packets so far are in {file}" in messages
    data, at, packets = file.read_bytes(), 0, 0
    while at < len(data):
        kind, length = (int.from_bytes(data[at + n : at + n + 4], "little") for n in (0, 4))
        assert data[at + length - 4 : at + length] == data[at + 4 : at + 8]
        packets += kind == 6
        at += length
    assert at == len(data) and packets > 1000


def test_full_disk_names_the_file(tmp_path):
    """A capture that cannot be written is a failure that names the file."""
    done = narrows_in(tmp_path, "compare", "bbr", "--pcap", "/dev/full")
    refused(done, "/dev/full: No space left on device", status=1)


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["compare", "bbr", "--duration", "1s", "--csv"], ["schemes"]])
def test_full_output_names_standard_output(arguments):
    """Standard output that cannot be written is a failure, reported without the number of the error."""
    with Path("/dev/full").open("w") as full:
        done = start_narrows(*arguments, stdout=full)
        _, messages = done.communicate()
    assert done.returncode == 1
    assert messages.splitlines()[-1] == "narrows: standard output: No space left on device"


def test_pcap_never_replaces_its_scenario(tmp_path):
    """The scenario as the file of its own capture is refused and stays unchanged."""
    file = tmp_path / "run.toml"
    file.write_text('duration = "1s"\n[network]\nrate = "10mbit"\n[[flows]]\nscheme = "bbr"\nrtt = "40ms"\n')
    before = file.read_text()
    result = call("run", file, "--pcap", tmp_path / "." / "run.toml")
    refused(result, f"--pcap: {file} is the scenario; accepted: another file")
    assert file.read_text() == before


def test_csv_that_cannot_be_replaced_is_named(tmp_path):
    """A folder in place of a table is named, not the file that would replace it."""
    (tmp_path / "out" / "links.csv").mkdir(parents=True)
    result = call("compare", *BRIEF, "bbr", "--csv", "-o", tmp_path / "out")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1] == f"narrows: {tmp_path / 'out' / 'links.csv'}: Is a directory"


def start_into_pipe(pipe):
    """Start a run whose capture goes to a named pipe."""
    os.mkfifo(pipe)
    return start_narrows("compare", "bbr", "--duration", "2s", "--pcap", pipe)


@pytest.mark.slow
def test_pipe_without_a_reader_ends_with_ctrl_c(tmp_path):
    """A named pipe waits for its reader; Ctrl-C ends the wait."""
    process = start_into_pipe(tmp_path / "pipe")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=3)
    process.send_signal(signal.SIGINT)
    _, messages = process.communicate(timeout=30)
    assert process.returncode == 130, messages


@pytest.mark.slow
def test_pipe_gets_the_whole_capture(tmp_path):
    """A reader of a named pipe gets the bytes that a file would have."""
    process = start_into_pipe(tmp_path / "pipe")
    data = (tmp_path / "pipe").read_bytes()
    _, messages = process.communicate(timeout=60)
    assert process.returncode == 0, messages
    assert narrows_in(tmp_path, "compare", "bbr", "--duration", "2s", "--pcap", "file").returncode == 0
    assert data == (tmp_path / "file").read_bytes()


@pytest.mark.slow
def test_pipe_whose_reader_leaves_is_named(tmp_path):
    """A reader that closes early is a failure that names the pipe."""
    process = start_into_pipe(tmp_path / "pipe")
    with (tmp_path / "pipe").open("rb") as reader:
        reader.read(100)
    _, messages = process.communicate(timeout=60)
    assert process.returncode == 1
    assert f"{tmp_path / 'pipe'}: Broken pipe" in messages
