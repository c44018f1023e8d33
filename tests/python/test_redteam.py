"""The list of hostile tests: all run, and the page states only those that passed."""

import sys

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "tests"))
import redteam

ATTACKS = {
    "narrows-negotiation": ("test tests::attack::flood_of_requests_is_limited ... ok",),
    "narrows-brf": ("test switch::control::tests::bind_replaces_nothing_but_dead_sockets ... ok",),
    "narrows-perf": ("test tests::hostile::lying_sender_ends_the_test ... ok",),
    "narrows-dccp-udp": (
        "test tests::attack::buckets_refill_and_are_separate ... ok",
        "test tests::attack::server_repeated_request_gets_few_answers ... ok",
        "test tests::endings::sender_without_listener_closes ... ok",
        "successes:",
        "---- tests::attack::server_repeated_request_gets_few_answers stdout ----",
        "DCCP server: a repeated Request | 200 | 40 answers",
    ),
    "narrows-host": ("test text::tests::shown_text_moves_no_cursor ... ok",),
}
CRATES = tuple(ATTACKS)


@pytest.fixture
def ran(tmp_path, monkeypatch):
    """Run the list with invented outcomes: commands of which a word contains `fails` are failures."""
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- redteam -->\nold\n<!-- /redteam -->\n")
    commands = []

    def run(fails, attacks=ATTACKS):
        def invented(command, settings):
            commands.append(" ".join(command))
            run.settings |= dict.fromkeys(command, settings)
            lines = [line for crate, own in attacks.items() if crate in command for line in own]
            return not any(fails and fails in word for word in command), [*lines, "packets | 10 | no panic"]

        monkeypatch.setattr(redteam, "run", invented)
        monkeypatch.setattr(redteam, "PAGE", page)
        monkeypatch.setattr(sys, "argv", ["redteam.py", "--docs"])
        return redteam.main(), page.read_text(), commands

    run.settings = {}
    return run


def test_page_has_the_table_if_all_passed(ran):
    """Rows of all commands reach the page; a test that prints no row has a row under its name."""
    status, page, commands = ran("")
    assert status == 0 and "old" not in page and "| packets | 10 | no panic |" in page
    assert page.count("| Nodectl: flood of requests is limited | 1 | as the name says |") == 1
    assert page.count("| BRF switch: bind replaces nothing but dead sockets | 1 | as the name says |") == 1
    assert "| DCCP server: a repeated Request | 200 | 40 answers |" in page
    assert "repeated request gets few answers" not in page
    everything = " ".join(commands)
    for name in (
        "hostile",
        "tests::load",
        "programs",
        "narrows-negotiation --lib -- --include-ignored --show-output tests::attack",
        "test_qlog.py",
        "test_dissector.py",
    ):
        assert name in everything


@pytest.mark.parametrize("fails", ["hostile", "programs", "negotiation", "switch::control", "pytest"])
def test_page_stays_if_a_test_failed(ran, fails):
    """A failure anywhere gives status 1, and the page keeps the last table of success."""
    assert ran(fails)[:2] == (1, "before\n<!-- redteam -->\nold\n<!-- /redteam -->\n")


def test_long_forms_replay_ten_million_events(ran):
    """The comparison of the kernel's programs with their twins runs over ten million events."""
    assert ran("")[0] == 0
    assert ran.settings["programs"]["NARROWS_PROGRAM_EVENTS"] == "10000000"


@pytest.mark.parametrize("left", [(), CRATES[:1], CRATES[1:], CRATES[:-1]])
def test_missing_named_attacks_are_a_failure(ran, left):
    """A filter that matches no test, which passes in cargo, fails here."""
    assert ran("", {crate: ATTACKS[crate] for crate in left})[0] == 1
