"""The controller of a BRF switch as an OpenFlow 1.3 application, for `narrows brf controller`.

It polls the counters of a port of Open vSwitch, and requests the length of the queue there from the BRF switch, because
OpenFlow 1.3 reports how much queues sent and dropped, but not their length. The engine judges counters and length by
equations 5 and 6; a congested port is reported to the BRF switch. Messages to that switch are JSON in datagrams:

| message | answer |
|---|---|
| `{"ask": "statistics"}` | `read_s`, `sent_bytes`, `waiting`, `room`, `queues`, `capacity_bytes_s` |
| `{"congestion": "queue", "packets": 120}` | none |
| `{"congestion": "load"}` | none |

Questions are padded with spaces: over UDP the switch answers with at most three times the bytes of a question.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from narrows import hosts
from narrows.arguments import is_count
from narrows.errors import UsageError

UNIX = "unix:"
"""Prefix of the path of a UNIX socket among addresses."""
ETHERNET = 14
"""Bytes of an Ethernet header, which ports count and rates do not."""
COUNTERS = ("waiting", "room", "capacity_bytes_s")
"""Keys of an answer that the judge needs."""
QUESTION_BYTES = 128
"""The length of a question."""
ANSWER_S = 0.5
"""The longest wait for an answer of the switch."""


class SwitchLink:
    """The connection to a switch's agent: UDP, or a datagram socket of this machine."""

    def __init__(self, address: str) -> None:
        """Connect to `HOST:PORT` or `unix:PATH`.

        Raises:
            UsageError: The address is invalid, or nobody listens there.
        """
        self._own: Path | None = None
        try:
            if address.startswith(UNIX):
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                folder = tempfile.mkdtemp(prefix="narrows-")
                self._own = Path(folder) / "controller"
                self._socket.bind(str(self._own))  # the switch answers there
                self._socket.connect(address.removeprefix(UNIX))
            else:
                host, _, port = address.rpartition(":")
                self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                self._socket.connect((host, int(port)))
        except (OSError, ValueError, TypeError, OverflowError) as error:  # the last two: an invalid host, a large port
            self.close()
            raise UsageError(
                f"--control {address}: {error}; accepted: the address of `narrows brf switch --control`, "
                f"HOST:PORT or {UNIX}PATH"
            ) from None
        self._socket.settimeout(ANSWER_S)

    def statistics(self) -> dict[str, int] | None:
        """Request the counters of the switch; `None` without a valid answer."""
        self._drain()
        try:
            self._send({"ask": "statistics"}, QUESTION_BYTES)
            found = json.loads(self._socket.recv(4096))
        except (OSError, ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) and all(is_count(found.get(name)) for name in COUNTERS) else None

    def report(self, kind: str, packets: int | None) -> bool:
        """Report congestion. Return whether the message was sent."""
        message: dict[str, Any] = {"congestion": kind}
        if packets is not None:
            message["packets"] = packets
        try:
            self._send(message)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
        if self._own is not None:
            self._own.unlink(missing_ok=True)
            self._own.parent.rmdir()

    def _send(self, message: Mapping[str, Any], length: int = 0) -> None:
        self._socket.send(json.dumps(message).ljust(length).encode())

    def _drain(self) -> None:
        """Discard late answers."""
        self._socket.setblocking(False)
        try:
            while self._socket.recv(4096):
                pass
        except OSError:
            pass
        self._socket.settimeout(ANSWER_S)


@dataclass
class Watcher:
    """Judges a port by the counters that OpenFlow polls and by the switch's queue."""

    link: SwitchLink
    log: Callable[[str], None]
    utilization: float = 0.98
    queue: float = 0.1
    rate_bytes_s: int | None = None
    """Capacity of the link; by default the switch's."""

    def __post_init__(self) -> None:
        self._judge = hosts.port_judge(self.utilization, self.queue)
        self._answers = True

    def on_port(self, read_s: float, sent_bytes: int, dropped: int) -> str | None:
        """Judge the counters of the port; report congestion and return its kind.

        Args:
            read_s: The time of reading, in seconds.
            sent_bytes: Bytes of IP packets that left the port since its start.
            dropped: Packets that the port dropped; only logged.
        """
        switch = self.link.statistics()
        if (switch is None) == self._answers:
            self._answers = switch is not None
            self.log("the switch answers" if self._answers else "the switch does not answer; equation 6 has no queue")
        own = switch or {"waiting": 0, "room": 1, "capacity_bytes_s": 0}
        capacity = self.rate_bytes_s or own["capacity_bytes_s"]
        if capacity <= 0:
            return None
        found = self._judge.judge(read_s, sent_bytes, own["waiting"], own["room"], capacity)
        if found is None:
            return None
        kind, packets = found
        self.link.report(kind, packets)
        waiting = "" if packets is None else f", {packets} packets wait"
        self.log(f"congestion ({kind}){waiting}, {dropped} packets dropped so far")
        return kind


def run(watcher: Watcher, *, bridge_port: str, listen: int, poll_s: float, log: Callable[[str], None]) -> None:
    """Serve switches that speak OpenFlow 1.3, and poll the port of this name, until the process ends.

    Args:
        watcher: Judges the port.
        bridge_port: The port's name in Open vSwitch.
        listen: The TCP port where switches connect.
        poll_s: Seconds between polls.
        log: Receives lines.

    Raises:
        UsageError: os-ken is not installed, or the TCP port is taken.
    """
    # Set before the first import, which patches the standard library.
    os.environ.setdefault("OSKEN_HUB_TYPE", "native")
    try:
        from os_ken.lib import hub
    except ImportError:
        raise UsageError(
            "narrows brf controller needs os-ken; accepted: pip install 'narrows[sdn]', "
            "or a switch with --controller self"
        ) from None
    _check_free(listen)
    hub.patch()
    from os_ken import cfg
    from os_ken.base import app_manager
    from os_ken.controller import controller as _controller  # noqa: F401 (registers the options set below)
    from os_ken.controller import ofp_event
    from os_ken.controller.handler import CONFIG_DISPATCHER, DEAD_DISPATCHER, MAIN_DISPATCHER, set_ev_cls
    from os_ken.ofproto import ofproto_v1_3

    class PortWatch(app_manager.OSKenApp):  # type: ignore[misc]
        OFP_VERSIONS = (ofproto_v1_3.OFP_VERSION,)

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.number: dict[int, int] = {}
            self.paths: dict[int, Any] = {}
            hub.spawn(self._poll)

        @set_ev_cls(ofp_event.EventOFPSwitchFeatures, CONFIG_DISPATCHER)  # type: ignore[untyped-decorator]
        def on_features(self, event: Any) -> None:
            """Forward as a learning switch does, and ask for the ports."""
            path = event.msg.datapath
            ofp, parser = path.ofproto, path.ofproto_parser
            action = parser.OFPActionOutput(ofp.OFPP_NORMAL)
            rule = [parser.OFPInstructionActions(ofp.OFPIT_APPLY_ACTIONS, [action])]
            path.send_msg(parser.OFPFlowMod(datapath=path, priority=0, match=parser.OFPMatch(), instructions=rule))
            path.send_msg(parser.OFPPortDescStatsRequest(path, 0))

        @set_ev_cls(ofp_event.EventOFPStateChange, [MAIN_DISPATCHER, DEAD_DISPATCHER])  # type: ignore
        def on_state(self, event: Any) -> None:
            path = event.datapath
            if event.state == MAIN_DISPATCHER:
                self.paths[path.id] = path
                log(f"switch {path.id:016x} is connected")
            elif self.paths.pop(path.id, None) is not None:
                self.number.pop(path.id, None)
                log(f"switch {path.id:016x} is gone")

        @set_ev_cls(ofp_event.EventOFPPortDescStatsReply, MAIN_DISPATCHER)  # type: ignore[untyped-decorator]
        def on_ports(self, event: Any) -> None:
            path = event.msg.datapath
            for port in event.msg.body:
                if port.name.decode(errors="replace") == bridge_port and path.id not in self.number:
                    self.number[path.id] = port.port_no
                    log(f"port `{bridge_port}` is number {port.port_no} of switch {path.id:016x}")

        @set_ev_cls(ofp_event.EventOFPPortStatsReply, MAIN_DISPATCHER)  # type: ignore[untyped-decorator]
        def on_port(self, event: Any) -> None:
            for port in event.msg.body:
                if port.port_no == self.number.get(event.msg.datapath.id):
                    sent = port.tx_bytes - ETHERNET * port.tx_packets
                    watcher.on_port(time.monotonic(), max(sent, 0), port.tx_dropped)

        @set_ev_cls(ofp_event.EventOFPQueueStatsReply, MAIN_DISPATCHER)  # type: ignore[untyped-decorator]
        def on_queues(self, event: Any) -> None:
            for queue in event.msg.body:
                if queue.tx_errors:
                    log(f"queue {queue.queue_id} of port {queue.port_no}: {queue.tx_errors} packets dropped")

        def _poll(self) -> None:
            while True:
                for path in list(self.paths.values()):
                    ofp, parser = path.ofproto, path.ofproto_parser
                    number = self.number.get(path.id)
                    if number is None:
                        path.send_msg(parser.OFPPortDescStatsRequest(path, 0))
                    else:
                        path.send_msg(parser.OFPPortStatsRequest(path, 0, number))
                        path.send_msg(parser.OFPQueueStatsRequest(path, 0, number, ofp.OFPQ_ALL))
                hub.sleep(poll_s)

    cfg.CONF(args=[], project="os_ken")
    cfg.CONF.set_override("ofp_tcp_listen_port", listen)
    manager = app_manager.AppManager.get_instance()
    manager.load_apps(["os_ken.controller.ofp_handler"])
    contexts = manager.create_contexts()
    services = manager.instantiate_apps(**contexts)
    watch = manager.instantiate(PortWatch)
    watch.start()
    signals: list[int] = []

    def stop(number: int, _: object) -> None:
        signals.append(number)
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    try:
        log(f"controller listens for OpenFlow 1.3 at port {listen}")
        hub.joinall(services)
    except KeyboardInterrupt:
        log("stopped")
        watcher.link.close()
        os._exit(128 + signals[0])  # os-ken's threads never end


def _check_free(port: int) -> None:
    """Refuse a TCP port in use, which os-ken would only log."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            raise UsageError(f"--listen {port}: {error.strerror}; accepted: a free TCP port") from None
