"""`narrows packetdrill`: which scripts run, what is printed, and the exit status."""

import os

import pytest

from fake_executor import ENGINE
from narrows import progress

from conftest import built, call, json_rows, ran, refused, without_rights_in  # isort: skip

GOOD = """0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 65535 <mss 1000,sackOK,nop,nop,nop,wscale 8>
+0 > S. 0:0(0) ack 1 <...>
+.1 < . 1:1(0) ack 1 win 1000
+0 accept(3, ..., ...) = 4
+0 write(4, ..., 1000) = 1000
+0 > P. 1:1001(1000) ack 1
"""
BAD = GOOD.replace("1:1001(1000)", "1:2001(2000)")
NO_SACK = "`../common/defaults.sh`\n" + GOOD.replace("<...>", "<mss 1460,nop,wscale 7>")


@pytest.fixture
def scripted(monkeypatch):
    """Take a script's result from its remarks; the kernel skips scripts without the remark `kernel MS` (tolerance)."""

    def run(text, directory=None, lateness_ms=None):
        if lateness_ms is not None and f"// kernel {lateness_ms:g}" not in text:
            text = "// skip"
        result = next((word for word in ("fail", "skip") if f"// {word}" in text), "pass")
        line, reason = (None, "") if result == "pass" else (2, f"the reason to {result}")
        return {"unchecked": [], "result": result, "line": line, "reason": reason}

    monkeypatch.setattr(ENGINE, "packetdrill", run)


def test_packetdrill_folder_prints_every_script_and_totals(tmp_path, scripted):
    """A folder is searched recursively for files; each script is one object, the totals are the last one."""
    (tmp_path / "deep").mkdir()
    (tmp_path / "folder.pkt").mkdir()
    os.mkfifo(tmp_path / "pipe.pkt")
    for name, text in (("a.pkt", ""), ("deep/b.pkt", "// fail"), ("c.pkt", "// skip"), ("notes.txt", "// fail")):
        (tmp_path / name).write_text(text)
    result = call("packetdrill", tmp_path, tmp_path / "a.pkt", "--json")
    assert result.exit_code == 1
    first, second, third, totals = json_rows(result)
    assert list(first) == ["script", "result", "line", "reason", "unchecked"]
    assert first == {"script": str(tmp_path / "a.pkt"), "result": "pass", "line": None, "reason": "", "unchecked": []}
    assert (second["script"], second["result"], second["line"]) == (str(tmp_path / "c.pkt"), "skip", 2)
    assert (third["script"], third["reason"]) == (str(tmp_path / "deep" / "b.pkt"), "the reason to fail")
    assert totals == {"scripts": 3, "pass": 1, "fail": 1, "skip": 1}


def test_packetdrill_table_shows_reasons(tmp_path, scripted):
    """The table names each script with its result and reason; without a failure the status is 0."""
    (tmp_path / "a.pkt").write_text("")
    (tmp_path / "c.pkt").write_text("// skip")
    result = ran(call("packetdrill", tmp_path))
    assert "a.pkt" in result.stdout
    assert "the reason to skip" in result.stdout
    assert result.stdout.splitlines()[-1] == "2 scripts: 1 pass, 0 fail, 1 skip"
    assert call("packetdrill", tmp_path / "a.pkt").stdout.splitlines()[-1] == "1 script: 1 pass, 0 fail, 0 skip"


def test_packetdrill_deviations_are_known_until_they_pass(tmp_path, scripted):
    """Listed scripts are `known` with their reason, and failures once they pass; others fail as before."""
    (tmp_path / "deep").mkdir()
    for name, text in (("a.pkt", "// fail"), ("deep/a.pkt", "// skip"), ("b.pkt", "")):
        (tmp_path / name).write_text(text)
    listed = tmp_path / "known.txt"
    listed.write_text(f"# remark\n\n{tmp_path.name}/a.pkt: a cause\ndeep/a.pkt: another\n")
    result = ran(call("packetdrill", tmp_path, "--deviations", listed, "--json"))
    first, _, deep, totals = json_rows(result)
    assert (first["result"], first["reason"]) == ("known", "a cause (the reason to fail)")
    assert (deep["result"], deep["line"]) == ("known", 2)
    assert totals == {"scripts": 3, "pass": 1, "fail": 0, "skip": 0, "known": 2}
    listed.write_text("b.pkt: a cause\n")
    result = call("packetdrill", tmp_path / "b.pkt", "--deviations", listed)
    assert result.exit_code == 1
    assert "it passes; no longer true: a cause" in result.stdout
    assert result.stdout.splitlines()[-1] == "1 script: 0 pass, 1 fail, 0 skip, 0 known"


def test_packetdrill_both_places_are_columns(tmp_path, scripted):
    """With two backends, a script has a result per backend, and `--tolerance` reaches the kernel."""
    (tmp_path / "a.pkt").write_text("// kernel 4")
    (tmp_path / "b.pkt").write_text("// fail // kernel 9")
    result = call("packetdrill", tmp_path, "--on", "sim,kernel", "--json")
    assert result.exit_code == 1
    first, second, totals = json_rows(result)
    assert (first["sim"]["result"], first["kernel"]["result"]) == ("pass", "pass")
    assert (second["sim"]["result"], second["kernel"]["line"]) == ("fail", 2)
    assert totals["sim"] == {"pass": 1, "fail": 1, "skip": 0}
    assert totals["kernel"] == {"pass": 1, "fail": 0, "skip": 1}
    result = call("packetdrill", tmp_path, "--on", "sim,kernel")
    assert result.stdout.splitlines()[-1] == "2 scripts on kernel: 1 pass, 0 fail, 1 skip"
    assert "kernel: the reason to skip" in result.stdout
    result = call("packetdrill", tmp_path / "b.pkt", "--on", "kernel", "--tolerance", "9", "--json")
    assert json_rows(result)[0]["result"] == "fail"


@pytest.mark.slow
def test_packetdrill_kernel_without_rights_is_usage_error(tmp_path):
    """Without rights `--on kernel` is refused in one sentence with status 2, and so is an unknown backend."""
    (tmp_path / "a.pkt").write_text("")
    done = without_rights_in(tmp_path, "packetdrill", ".", "--on", "kernel")
    assert (done.returncode, done.stderr.count("\n"), "needs root" in done.stderr) == (2, 1, True), done.stderr
    refused(call("packetdrill", tmp_path, "--on", "moon"), "accepted: sim, kernel, or sim,kernel")


def test_packetdrill_deviations_name_one_script_each(tmp_path):
    """An entry without a reason, and one that names no script or several, are usage errors with their line."""
    (tmp_path / "deep").mkdir()
    for name in ("a.pkt", "deep/a.pkt"):
        (tmp_path / name).write_text("")
    listed = tmp_path / "known.txt"
    for entry, problem in (
        ("a.pkt", "no reason; accepted: "),
        ("c.pkt: cause", "c.pkt: none of the scripts; accepted: "),
        ("a.pkt: cause", "a.pkt: several of the scripts; accepted: "),
    ):
        listed.write_text(f"# remark\n{entry}\n")
        refused(call("packetdrill", tmp_path, "--deviations", listed), f"narrows: {listed}:2: {problem}")


def test_packetdrill_engine_compares_and_reads_defaults(tmp_path):
    """The built engine compares packets, and reads a script's defaults relative to the script."""
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "defaults.sh").write_text("sysctl -q net.ipv4.tcp_sack=0\n")
    (tmp_path / "own").mkdir()
    pairs = [(GOOD, str(tmp_path)), (BAD, str(tmp_path)), (NO_SACK, str(tmp_path / "own"))]
    good, bad, other = built(f"[engine.packetdrill(text, engine.Path(folder)) for text, folder in {pairs!r}]")
    assert (good["result"], good["line"], good["reason"]) == ("pass", None, "")
    assert (bad["result"], bad["line"]) == ("fail", 8)
    assert bad["reason"].startswith("expected . 1:2001(2000) ack 1 at 0.1 s; seen . 1:1001(1000) ack 1 at 0.1 s")
    assert other["result"] == "pass", other["reason"]


def test_packetdrill_folder_of_too_many_files_is_usage_error(tmp_path, scripted, monkeypatch):
    """A folder with too many other files, such as `/`, is refused before it is read to its end."""
    monkeypatch.setattr("narrows.cli.packetdrill.MOST_FILES", 3)
    (tmp_path / "deep").mkdir()
    for place in ("a.pkt", "deep/b.pkt", "deep/b.txt"):
        (tmp_path / place).write_text("")
    refused(call("packetdrill", tmp_path), f"{tmp_path}: more than 3 files and folders")
    monkeypatch.setattr("narrows.cli.packetdrill.MOST_FILES", 5)
    assert call("packetdrill", tmp_path).stdout.splitlines()[-1] == "2 scripts: 2 pass, 0 fail, 0 skip"


def test_packetdrill_misuse_names_path_and_accepted(tmp_path):
    """A path that does not exist and a folder without scripts are usage errors."""
    for path, problem in ((tmp_path / "none", "no such file or folder"), (tmp_path, "the folder has no scripts")):
        refused(call("packetdrill", path), f"narrows: {path}: {problem}; accepted: ")


def test_packetdrill_reports_progress_of_many_scripts(tmp_path, scripted, monkeypatch):
    """If standard error is no terminal, a line periodically states how many scripts are done."""
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0)
    for name in "abc":
        (tmp_path / f"{name}.pkt").write_text("")
    result = ran(call("packetdrill", tmp_path, "--json"))
    assert "2 of 3 scripts, about 0 s left" in result.stderr
    assert len(json_rows(result)) == 4
