"""The list of hostile tests: every one is run, and the page states only what passed."""

import sys

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "tests"))
import redteam

ATTACK = "test negotiation::tests::attack::flood_of_requests_is_limited ... ok"


@pytest.fixture
def ran(tmp_path, monkeypatch):
    """Run the list with invented outcomes: those of the commands whose words have `fails` in them are failures."""
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- redteam -->\nold\n<!-- /redteam -->\n")
    commands = []

    def run(fails, attack=ATTACK):
        def invented(command, settings):
            commands.append(" ".join(command))
            run.settings |= dict.fromkeys(command, settings)
            return not any(fails and fails in word for word in command), [attack, "packets | 10 | no panic"]

        monkeypatch.setattr(redteam, "run", invented)
        monkeypatch.setattr(redteam, "PAGE", page)
        monkeypatch.setattr(sys, "argv", ["redteam.py", "--docs"])
        return redteam.main(), page.read_text(), commands

    run.settings = {}
    return run


def test_page_has_the_table_if_all_passed(ran):
    """Rows of all commands reach the page, those of Nodectl under the names of the tests."""
    status, page, commands = ran("")
    assert status == 0 and "old" not in page and "| packets | 10 | no panic |" in page
    assert "| Nodectl: flood of requests is limited | 1 | as the name says |" in page
    everything = " ".join(commands)
    for name in (
        "hostile",
        "tests::load",
        "programs",
        "negotiation::tests::attack",
        "test_qlog.py",
        "test_dissector.py",
    ):
        assert name in everything


@pytest.mark.parametrize("fails", ["hostile", "programs", "negotiation", "pytest"])
def test_page_stays_if_a_test_failed(ran, fails):
    """A failure anywhere gives status 1, and the page keeps the last table of success."""
    assert ran(fails)[:2] == (1, "before\n<!-- redteam -->\nold\n<!-- /redteam -->\n")


def test_long_forms_replay_ten_million_events(ran):
    """The comparison of the kernel's programs with their twins runs over ten million events."""
    assert ran("")[0] == 0
    assert ran.settings["programs"]["NARROWS_PROGRAM_EVENTS"] == "10000000"


def test_missing_attacks_on_nodectl_are_a_failure(ran):
    """A filter that matches no test passes in cargo, and fails here."""
    assert ran("", "running 0 tests")[0] == 1
