"""`--explain`: every effective option and its origin."""

import json

import pytest

from conftest import BRIEF, built, call, json_rows, narrows_in, ran, refused  # isort: skip

SCENARIO = """
duration = "10s"
[network]
rate = "100mbit"
[tcp]
profile = "ns3"
ack_delay = "40ms"
[[flows]]
scheme = "cubic:beta=0.8"
rtt = "10ms"
[[flows]]
scheme = "newreno"
rtt = "50ms"
tcp = { profile = "rfc" }
"""


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "two.toml"
    path.write_text(SCENARIO)
    return path


def origins(rows):
    return {row["key"]: (row["value"], row["from"], row.get("line")) for row in rows}


def test_explain_runs_nothing_and_names_options(executed):
    """Values from options name their option, values from the profile name the profile; no run starts."""
    before = len(executed)
    result = ran(call("compare", *BRIEF, "newreno", "--seed", 7, "--explain", "--json"))
    assert len(executed) == before
    (point,) = json_rows(result)
    assert origins(point["run"])["seed"] == (7, "--seed", None)
    assert origins(point["network"])["rate"] == ("1mbit", "--rate", None)
    (flow,) = point["flows"]
    assert origins(flow["options"])["scheme"] == ("newreno", "SCHEME", None)
    assert origins(flow["transport"])["min_rto"] == ("200ms", "profile linux", None)


def test_explain_prints_one_object_per_point():
    """A sweep has one explanation per point."""
    result = call("compare", *BRIEF, "newreno", "--set", "network.rate=10mbit,20mbit", "--explain", "--json")
    assert [point["point"] for point in json_rows(result)] == [{"network.rate": rate} for rate in ("10mbit", "20mbit")]


def test_explain_tables_list_option_value_origin():
    """The tables have a row per option; a value that depends on others shows both forms."""
    lines = call("compare", *BRIEF, "cubic", "--explain").stdout.splitlines()
    rows = [line.split() for line in lines]
    assert ["option", "value", "from"] in rows
    assert ["buffer", "1bdp", "=", "5000B", "--buffer"] in rows
    assert ["min_rto", "200ms", "profile", "linux"] in rows
    assert ["hystart", "linux", "profile", "linux"] in rows
    assert any(line.startswith("flow cubic: TCP") for line in lines)


@pytest.mark.parametrize(("option", "value"), [("-o", "out"), ("--learn", "learned.json"), ("--pcap", "run.pcapng")])
def test_explain_excludes_output(option, value, scenario, tmp_path):
    """Nothing runs, so nothing is saved."""
    result = call("run", scenario, "--explain", option, tmp_path / value)
    refused(result, f"--explain, {option}: --explain runs nothing")
    assert not (tmp_path / value).exists()


def test_explain_on_the_engine_names_lines_and_profiles(scenario):
    """On the built engine: default, profile, `[tcp]` with its line, the flow, `--set`."""
    settings = ("--set", "flows.1.tcp.quick_acks=4", "--set", "tcp.min_rto=300ms")
    flows = json.loads(ran(narrows_in(scenario.parent, "run", scenario, "--explain", "--json", *settings)).stdout)[
        "flows"
    ]
    first, second = (origins(flow["transport"]) for flow in flows)
    assert first["profile"] == ("ns3", "[tcp]", 6)
    assert first["ack_delay"] == ("40ms", "[tcp]", 7)
    assert first["max_rto"] == ("60s", "profile ns3", None)
    assert first["header_bytes"] == (52, "default", None)
    assert first["min_rto"] == second["min_rto"] == ("300ms", "--set", None)
    assert second["profile"] == ("rfc", "[[flows]]", 14)
    assert second["quick_acks"] == (4, "--set", None)
    cubic = origins(flows[0]["params"])
    assert cubic["beta"] == (0.8, "[[flows]]", 9)
    assert cubic["hystart"] == ("linux", "profile ns3", None)


def test_explain_on_the_engine_prints_tables(scenario):
    """The tables fit 80 columns and have a part per flow."""
    done = ran(narrows_in(scenario.parent, "run", scenario, "--explain", "--scheme", "cubic:hystart=off"))
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    assert max(map(len, lines)) <= 80
    rows = [line.split() for line in lines]
    assert rows.count(["hystart", "off", "--scheme"]) == 2
    titles = [line for line in lines if line.startswith("flow ") and ":" not in line]
    assert len(titles) == len(set(titles)) == 2
    assert ["tlp", "false", "profile", "ns3"] in rows
    assert ["ack_delay", "40ms", "[tcp],", "line", "7"] in rows


def test_explain_refuses_an_unknown_profile(scenario):
    """An error names the key and the accepted values."""
    done = narrows_in(scenario.parent, "run", scenario, "--explain", "--set", "tcp.profile=bsd")
    refused(done, "--set tcp.profile: unknown value `bsd`", "accepted: linux, rfc, ns3")


def test_profiles_of_the_engine_list_what_they_follow():
    """Every option of a profile states what it follows."""
    profiles = built("engine.profiles()")
    assert [profile["name"] for profile in profiles] == ["linux", "rfc", "ns3"]
    assert all(row["follows"] for profile in profiles for row in [*profile["tcp"], *profile["params"]])
    assert profiles[2]["lacks"]
