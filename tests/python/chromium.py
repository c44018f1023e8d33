"""Drives headless Chromium over its DevTools protocol, through pipes: JSON messages that end in NUL.

The protocol: https://chromedevtools.github.io/devtools-protocol/
"""

import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import time
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND", "--remote-debugging-pipe",
)  # fmt: skip
READ_FD, WRITE_FD = 3, 4
"""The descriptors of Chromium on which it receives commands and sends answers."""
TIMEOUT_S = 30.0


def find():
    """Return the path of the browser, or `None`."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Chromium:
    """A browser process with its own profile; a context manager that ends it."""

    def __init__(self, binary, profile):
        commands, self._writes = _pipe()
        self._reads, answers = _pipe()
        actions = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
        actions += [(os.POSIX_SPAWN_DUP2, commands, READ_FD), (os.POSIX_SPAWN_DUP2, answers, WRITE_FD)]
        arguments = [binary, *FLAGS, f"--user-data-dir={profile}"]
        self._pid = os.posix_spawn(binary, arguments, os.environ, file_actions=actions, setpgroup=0)
        os.close(commands)
        os.close(answers)
        self._buffer = b""
        self._number = 0
        self.events = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError, AssertionError):
            self.call("Browser.close")
        os.close(self._writes)
        os.close(self._reads)
        deadline = time.monotonic() + 5
        while os.waitpid(self._pid, os.WNOHANG) == (0, 0):
            if time.monotonic() > deadline:
                os.killpg(self._pid, signal.SIGKILL)
                os.waitpid(self._pid, 0)
                return
            time.sleep(0.02)

    def call(self, method, session=None, **params):
        """Send a command and return its result; events that arrive before it go to `events`."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._writes, data) :]
        while True:
            answer = self.receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def receive(self):
        """Return the next message, after adding it to `events` if it is an event."""
        deadline = time.monotonic() + TIMEOUT_S
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._reads], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"Chromium was silent for {TIMEOUT_S:g} s"
            part = os.read(self._reads, 1 << 20)
            assert part, "Chromium ended"
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(line)
        if "method" in message:
            self.events.append(message)
        return message

    def open(self, path, **emulation):
        """Open a file as a page; see `Page.emulate`."""
        page = Page(self)
        if emulation:
            page.emulate(**emulation)
        page.load(path)
        return page


class Page:
    """A page of the browser, with its log and requests."""

    def __init__(self, browser):
        self._browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)

    def call(self, method, **params):
        """Send a command to the page."""
        return self._browser.call(method, self._session, **params)

    def load(self, path):
        """Load a file and wait until it is complete."""
        before = len(self._events("Page.loadEventFired"))
        self.call("Page.navigate", url=Path(path).resolve().as_uri())
        while len(self._events("Page.loadEventFired")) == before:
            self._browser.receive()

    def emulate(self, width=1280, height=800, scheme="light"):
        """Set the size of the viewport in CSS pixels, and the colour scheme."""
        mobile = width < 600
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def evaluate(self, expression):
        """Return the value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key, code=0, text=""):
        """Press and release a key: its name, its Windows virtual key code and the text that it types."""
        named = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **named)
        self.call("Input.dispatchKeyEvent", type="keyUp", **named)

    def tab(self):
        """Move the focus to the next element."""
        self.press("Tab", code=9)

    def accessible(self):
        """Return the nodes of the accessibility tree that a screen reader reads: role, name and properties."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [
            {
                "role": node["role"]["value"],
                "name": node.get("name", {}).get("value", ""),
                **{item["name"]: item["value"].get("value") for item in node.get("properties", ())},
            }
            for node in nodes
            if not node["ignored"]
        ]

    def problems(self):
        """Return errors and warnings that the page logged, and its uncaught exceptions."""
        logged = [entry["entry"] for entry in self._events("Log.entryAdded")]
        console = self._events("Runtime.consoleAPICalled")
        return [
            *(entry["text"] for entry in logged if entry["level"] in ("error", "warning")),
            *(str(call["args"]) for call in console if call["type"] in ("error", "warning", "assert")),
            *(str(event["exceptionDetails"]) for event in self._events("Runtime.exceptionThrown")),
        ]

    def requests(self):
        """Return the addresses that the page requested, besides those of embedded data."""
        sent = [event["request"]["url"] for event in self._events("Network.requestWillBeSent")]
        return [url for url in sent if not url.startswith("data:")]

    def _events(self, method):
        return [
            event["params"]
            for event in self._browser.events
            if event["method"] == method and event.get("sessionId") == self._session
        ]


def _pipe():
    """Return the ends of a pipe above the descriptors of Chromium."""
    ends = os.pipe()
    moved = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends]
    for end in ends:
        os.close(end)
    return moved
