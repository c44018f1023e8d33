"""`narrows perf`: its documents on invented reports, and client against server over loopback on the built engine."""

import json
import re
import shutil
import signal
import subprocess

import pytest

from narrows import hosts, iperf, perf

from conftest import call, json_rows, narrows_in, ran, refused, start_narrows  # isort: skip
from loopback import free_port  # isort: skip

ROW = {
    "test": 0, "peer": "[::1]:9", "start_s": 0.0, "end_s": 1.0, "bytes": 3000, "streams": [1000, 2000],
    "mbit_s": 0.024, "packets": 10, "lost": 1, "rtt_ms": 1.5, "cwnd_bytes": 5000, "pacing_mbit_s": 8.0,
    "mtu_bytes": 1452, "state": "startup", "sends": True, "silent_s": 0.0,
}  # fmt: skip
END = {
    "test": 0, "local": "[::1]:8", "peer": "[::1]:9", "client": True, "sends": True, "scheme": "bbr", "streams": 2,
    "duration_s": 1.0, "total": ROW, "sent": {"seconds": 1.0, "streams": [1000, 2000], "lost": 1},
    "received": {"seconds": 1.25, "streams": [1100, 2200], "lost": None}, "complete": True, "failure": None,
}  # fmt: skip
"""Reports of the engine."""
SOCKETS = {"cookie", "tcp_mss_default", "sock_bufsize", "sndbuf_actual", "rcvbuf_actual"}
"""Keys under `start` that only TCP's sockets have."""


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("bbr", ("bbr", [])),
        ("bbr:cwnd_gain=1.5,lt_bw=off", ("bbr", [("cwnd_gain", "1.5"), ("lt_bw", "off")])),
        ("noq:cubic", ("noq:cubic", [])),
    ],
)
def test_schemes_of_perf_are_split(text, parsed):
    """The prefix of noq's own controllers is no parameter."""
    assert perf.parse_scheme(text) == parsed


def paths(value, place=""):
    """Yield the paths of all keys of a document; items of a list share one path."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield f"{place}.{key}"
            yield from paths(inner, f"{place}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from paths(inner, f"{place}[]")


@pytest.mark.realtime
@pytest.mark.skipif(shutil.which("iperf3") is None, reason="needs iperf3")
@pytest.mark.parametrize("reverse", [False, True])
def test_document_has_the_keys_of_iperf3(reverse):
    """Every key of a real run of iperf3 has the same path in our document, except for keys of TCP sockets."""
    port = str(free_port())
    server = subprocess.Popen(["iperf3", "-s", "-1", "-p", port, "--forceflush"], stdout=subprocess.PIPE, text=True)
    try:
        while "listening" not in (line := server.stdout.readline()):
            assert line, "iperf3 has ended"
        options = ["-c", "127.0.0.1", "-p", port, "-t", "1", "-P", "2", "-J", *(["-R"] if reverse else [])]
        run = subprocess.run(["iperf3", *options], capture_output=True, text=True, timeout=60, check=False)
    finally:
        server.kill()
        server.communicate()
    real = json.loads(run.stdout)
    assert run.returncode == 0 and real["intervals"], run.stdout
    recording = iperf.Recording()
    recording.add({**ROW, "sends": not reverse})
    own = set(paths(recording.document({**END, "sends": not reverse})))
    missing = {place for place in paths(real) if place not in own} - {f".start.{key}" for key in SOCKETS}
    assert missing == {".end.receiver_tcp_congestion"}


def test_document_has_values_in_units_of_iperf3():
    """Values in bytes, bits per second and microseconds stand under iperf3's keys."""
    recording = iperf.Recording()
    recording.add(ROW)
    recording.add({**ROW, "start_s": 1.0, "end_s": 2.0, "rtt_ms": 0.5, "cwnd_bytes": 7000})
    document = recording.document(END)
    first = document["intervals"][0]
    assert [stream["bytes"] for stream in first["streams"]] == [1000, 2000]
    assert first["sum"]["bits_per_second"] == 24_000 and first["sum"]["retransmits"] == 1
    assert first["streams"][0]["rtt"] == 1500 and first["streams"][0]["snd_cwnd"] == 5000
    assert first["streams"][0]["retransmits"] is None, "losses belong to no stream"
    sender = document["end"]["streams"][1]["sender"]
    assert (sender["min_rtt"], sender["mean_rtt"], sender["max_rtt"]) == (500, 1000, 1500)
    assert sender["max_snd_cwnd"] == 7000
    sent, received = document["end"]["sum_sent"], document["end"]["sum_received"]
    assert (sent["bytes"], sent["bits_per_second"], sent["retransmits"]) == (3000, 24_000, 1)
    assert (received["bytes"], received["seconds"], received["bits_per_second"]) == (3300, 1.25, 21_120)
    assert document["start"]["connecting_to"] == {"host": "::1", "port": 9}
    assert document["start"]["test_start"]["reverse"] == 0 and "error" not in document
    assert recording.document({**END, "failure": "a reason"})["error"] == "a reason"


@pytest.mark.parametrize("scheme", ["bbr3", None])
def test_receiver_names_the_scheme_of_the_sender(scheme):
    """A receiver shows the scheme if the sender has stated it, and null for values that only a sender measures."""
    received = {**END, "sends": False, "scheme": scheme}
    recording = iperf.Recording()
    recording.add({**ROW, "sends": False, "cwnd_bytes": None})
    document = recording.document(received)
    assert document["start"]["test_start"]["congestion"] == document["end"]["sender_tcp_congestion"] == scheme
    sender = document["end"]["streams"][0]["sender"]
    assert [sender[key] for key in ("max_rtt", "min_rtt", "mean_rtt", "max_snd_cwnd", "max_snd_wnd")] == [None] * 5
    assert perf.summary(received).splitlines()[0] == ("bbr3, " if scheme else "") + "2 streams from [::1]:9"


def test_scheme_of_a_client_that_receives_is_misuse():
    """`--scheme` beside `-R` is refused: the server sends, with its own scheme."""
    done = call("perf", "client", "127.0.0.1", "--insecure", "-R", "--scheme", "cubic")
    assert (done.exit_code, done.stderr.startswith("narrows: --scheme, --reverse: the server sends")) == (2, True)


def test_line_of_a_silent_peer_shows_the_silence():
    """A line shows the time since the last packet of the other end, instead of outdated conditions."""
    assert perf.line(ROW) == (
        "0.0–1.0 s: 0.02 Mbit/s, RTT 1.50 ms, 1 lost (10.00 %), cwnd 5.0 kB, pacing 8.00 Mbit/s, startup"
    )
    assert perf.line({**ROW, "mbit_s": 0.0, "silent_s": 1.62}) == "0.0–1.0 s: 0.00 Mbit/s, nothing received for 1.6 s"


def test_scope_of_an_address_is_no_name(monkeypatch):
    """The scope of a link-local address is part of the address, not of the name in a certificate."""
    asked = []
    monkeypatch.setattr(hosts, "perf_client", lambda *given: asked.append(given))
    for host in ("[fe80::1%1]:6000", "fe80::1%1"):
        perf.Session(scheme="bbr").test(host, duration="1s", streams=1, reverse=False, name=None, trust="any")
    assert [given[0].partition("]")[0] for given in asked] == ["[fe80::1%1"] * 2
    assert [given[-4] for given in asked] == ["fe80::1"] * 2


@pytest.mark.parametrize("host", ["::1", "[::1]", "[::1]:6000", "127.0.0.1", "127.0.0.1:6000"])
def test_name_of_a_certificate_is_the_host(monkeypatch, host):
    """The name that the certificate must have is the host without its port, also for addresses of IPv6."""
    asked = []
    monkeypatch.setattr(hosts, "perf_client", lambda *given: asked.append(given))
    perf.Session(scheme="bbr").test(host, duration="1s", streams=1, reverse=False, name=None, trust="any")
    [(address, *_, name, _trust, _handle, _report)] = asked
    assert name == ("::1" if ":" in host[:4] else "127.0.0.1")
    assert address.startswith("[::1]:" if name == "::1" else "127.0.0.1:")


def test_recording_is_bounded(monkeypatch):
    """A long test keeps bounded numbers of intervals and of stream rows, and counts the intervals that it omits."""
    monkeypatch.setattr(iperf, "MAX_ROWS", 10)
    recording = iperf.Recording()
    for _ in range(25):
        recording.add(ROW)
    document = recording.document(END)
    assert (len(document["intervals"]), document["intervals_omitted"]) == (10, 15)
    assert sum(len(interval["streams"]) for interval in document["intervals"]) == 10


def test_tests_that_end_leave_nothing():
    """A server keeps the intervals of tests that run, by their number and only for --json, until their end."""
    for as_json in (False, True):
        session = perf.Session(scheme="bbr", as_json=as_json)
        for number in (1, 2):
            for row in ({"event": "begun", **END}, {"event": "interval", **ROW}):
                session.report({**row, "test": number})
        assert set(session.recordings) == ({1, 2} if as_json else set())
        for number in (1, 2):
            session.report({"event": "ended", **END, "test": number, "failure": "gone"})
        assert session.recordings == {}


def test_text_and_json_agree(capsys):
    """The lines of the summary show the document's numbers, for sender and receiver."""
    recording = iperf.Recording()
    recording.add(ROW)
    end = recording.document(END)["end"]
    text = perf.summary(END)
    for name, key in (("sent", "sum_sent"), ("received", "sum_received")):
        found = re.search(rf"{name}: (\d+) bytes in ([\d.]+) s, ([\d.]+) Mbit/s", text)
        assert (int(found[1]), float(found[2])) == (end[key]["bytes"], end[key]["seconds"])
        assert float(found[3]) == pytest.approx(end[key]["bits_per_second"] / 1e6, abs=0.005)
    assert "the test ended early" in perf.summary({**END, "complete": False})
    assert "received: the other end did not say" in perf.summary({**END, "received": None})
    assert "the test failed: a reason" in perf.summary({**END, "complete": False, "failure": "a reason"})


@pytest.mark.parametrize("option", [("--interval", "1ms"), ("--duration", "90000s"), ("--longest", "90000s")])
def test_times_out_of_range_are_misuse(option):
    """Intervals shorter than the reports, and tests longer than a day, are refused with what is accepted."""
    words = ("server", "--listen", "127.0.0.1:1") if option[0] == "--longest" else ("client", "127.0.0.1")
    refused(call("perf", *words, *option), f"{option[0]}: {option[1]!r} is out of range; accepted: ")


@pytest.fixture
def server(tmp_path):
    """Start a server of throughput tests; return it with its port and the fingerprint of its certificate."""
    started = []

    def start(*args):
        port = free_port()
        process = start_narrows("perf", "server", "--listen", f"127.0.0.1:{port}", *args, cwd=tmp_path)
        started.append(process)
        assert f"127.0.0.1:{port}" in process.stderr.readline()
        return process, port, process.stderr.readline().split()[-1]

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.mark.realtime
@pytest.mark.parametrize("reverse", [False, True])
def test_perf_measures_and_prints_as_iperf3(tmp_path, server, reverse):
    """Both ends print the same tallies, in the layout of iperf3, and the server ends after one test."""
    process, port, fingerprint = server("--once", "--json", "--scheme", "cubic")
    where = ("perf", "client", f"127.0.0.1:{port}", "--fingerprint", fingerprint, *(["-R"] if reverse else []))
    done = ran(narrows_in(tmp_path, *where, "--duration", "2s", "--streams", 2, "--interval", "500ms", "--json"))
    (own,) = json_rows(done)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    other = json.loads(out)
    for key in ("sum_sent", "sum_received"):
        assert own["end"][key]["bytes"] == other["end"][key]["bytes"] > 0
        assert own["end"][key]["seconds"] == pytest.approx(other["end"][key]["seconds"], abs=1e-5)
    assert 0 < own["end"]["sum_sent"]["bytes"] <= own["end"]["sum_received"]["bytes"]
    sender, receiver = (other, own) if reverse else (own, other)
    scheme = "cubic" if reverse else "bbr-gc"
    assert {document["start"]["test_start"]["congestion"] for document in (own, other)} == {scheme}
    assert own["start"]["connected"][0]["local_host"] == "127.0.0.1" == other["start"]["connected"][0]["remote_host"]
    assert sender["intervals"][0]["sum"]["cwnd_bytes"] > 0
    assert all(stream["pmtu"] >= 1200 for stream in sender["intervals"][0]["streams"])
    for document, key in ((sender, "sum_sent"), (receiver, "sum_received")):
        moved = [interval["sum"]["bytes"] for interval in document["intervals"]]
        assert sum(moved) == document["end"][key]["bytes"]
    assert (own["start"]["test_start"]["num_streams"], own["end"]["complete"]) == (2, True)
    assert own["start"]["connected"][0]["remote_port"] == port == other["start"]["connected"][0]["local_port"]


@pytest.mark.long
@pytest.mark.realtime
def test_perf_counts_what_a_slow_sender_delivers(tmp_path, server):
    """A sender that paces 4 Mbit/s reports at most that, in text and in JSON: data in a buffer does not count."""
    _, port, fingerprint = server("--scheme", "fixed:rate=4mbit")
    where = ("perf", "client", f"127.0.0.1:{port}", "--fingerprint", fingerprint)
    burst = 10 * 1452 * 8e-6  # megabits that noq's pacer releases at once
    for direction in (["--scheme", "fixed:rate=4mbit"], ["-R"]):
        done = narrows_in(tmp_path, *where, "--duration", "2s", "--json", *direction)
        (row,) = json_rows(done)
        for key in ("sum_sent", "sum_received"):
            assert 0 < row["end"][key]["bits_per_second"] / 1e6 <= 4 + burst / row["end"][key]["seconds"]
        done = narrows_in(tmp_path, *where, "--duration", "2s", *direction)
        rates = re.findall(r"(?:sent|received): \d+ bytes in ([\d.]+) s, ([\d.]+) Mbit/s", done.stdout)
        assert len(rates) == 2, done.stdout
        assert all(0 < float(rate) <= 4.01 + burst / float(passed) for passed, rate in rates), done.stdout


@pytest.mark.realtime
@pytest.mark.parametrize("reverse", [[], ["-R"]])
def test_ctrl_c_prints_the_summary(tmp_path, server, reverse):
    """An interrupted client prints its tallies and ends with the status of the signal; the server continues."""
    process, port, _ = server()
    where = ("perf", "client", f"127.0.0.1:{port}", "--insecure")
    client = start_narrows(*where, *reverse, "--duration", "600s", "--interval", "200ms")
    assert "Mbit/s" in client.stderr.readline()
    client.send_signal(signal.SIGINT)
    out, err = client.communicate(timeout=60)
    assert client.returncode == 130, err
    assert re.search(r"received: [1-9]\d* bytes", out) and "the test ended early" in out, out
    again = narrows_in(tmp_path, *where, "--duration", "300ms")
    assert again.returncode == 0 and process.poll() is None, again.stderr


@pytest.mark.long
@pytest.mark.realtime
def test_killed_server_is_named_as_the_cause(server):
    """A client whose server is killed shows the silence in its lines, names it as the reason and ends with status 1."""
    process, port, _ = server()
    options = ("--insecure", "--duration", "3s", "--interval", "200ms")
    client = start_narrows("perf", "client", f"127.0.0.1:{port}", *options)
    assert "Mbit/s" in client.stderr.readline()
    process.kill()
    out, err = client.communicate(timeout=120)
    reason = "the other end does not answer: nothing has arrived from it for 10 s"
    assert (client.returncode, f"the test failed: {reason}" in out) == (1, True), out
    assert "0.00 Mbit/s, nothing received for" in err and err.rstrip().endswith(reason), err


def test_perf_stops_on_ctrl_c(server):
    """The server ends on Ctrl-C with the status of the signal."""
    process, _, _ = server()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, "stopped" in err) == (130, True), err


@pytest.mark.realtime
def test_untrusted_certificate_is_a_failure(tmp_path, server):
    """A certificate of an unknown issuer, or an unexpected one, ends the client with the reason and status 1."""
    process, port, _ = server()
    for trust, reason in [
        ([], "is not signed by an authority that this system trusts; accepted: --ca FILE, --fingerprint DIGITS"),
        (["--fingerprint", "00" * 32], "has the fingerprint "),
    ]:
        done = narrows_in(tmp_path, "perf", "client", f"127.0.0.1:{port}", *trust)
        assert (done.returncode, done.stdout) == (1, ""), done.stderr
        assert done.stderr.startswith(f"narrows: cannot connect to 127.0.0.1:{port}: the server's certificate {reason}")
        assert "the handshake failed: the other end does not accept the certificate" in process.stderr.readline()


@pytest.mark.realtime
@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_certificate_of_an_authority_is_accepted(tmp_path, server):
    """`--cert` and `--key` show a certificate that `--ca` and `--name` accept; another certificate's key is refused."""
    for name in ("perf.example", "other.example"):
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
             "-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}",
             "-addext", f"subjectAltName=DNS:{name}", "-addext", "basicConstraints=critical,CA:FALSE"],
            cwd=tmp_path, check=True, capture_output=True,
        )  # fmt: skip
    _, port, _ = server("--cert", "perf.example.pem", "--key", "perf.example.key")
    where = ("perf", "client", f"127.0.0.1:{port}", "--ca", "perf.example.pem", "--duration", "300ms")
    done = ran(narrows_in(tmp_path, *where, "--name", "perf.example"))
    done = narrows_in(tmp_path, *where)
    assert done.returncode == 1 and "is for perf.example, not for 127.0.0.1; accepted: --name" in done.stderr
    mixed = ("--listen", "127.0.0.1:1", "--cert", "perf.example.pem", "--key", "other.example.key")
    done = narrows_in(tmp_path, "perf", "server", *mixed)
    assert done.returncode == 2 and "accepted: a certificate and its own key" in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--scheme", "bbr-gc:gain"), "is no parameter"),
        (("--scheme", "noq:vegas", "--insecure"), "accepted: noq:cubic, noq:newreno, noq:bbr3"),
        (("--insecure", "--fingerprint", "00"), "exclude each other"),
        (("--fingerprint", "00"), "64 hexadecimal digits"),
        (("--fingerprint", ""), "64 hexadecimal digits"),
        (("--insecure", "--fingerprint", ""), "exclude each other"),
    ],
)
def test_perf_refuses_with_what_is_accepted(tmp_path, args, message):
    """Invalid usage ends with status 2 before anything is sent."""
    refused(narrows_in(tmp_path, "perf", "client", "127.0.0.1:9", *args), message)
