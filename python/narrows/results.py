"""Results of runs for people: the frames, with their tables and plots."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

from narrows import tables
from narrows.frames import ResultFrames

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Results(ResultFrames):
    """The results of one or many runs.

    The polars frames `flows`, `links`, `connections` and `runs` have one row per flow, link, multipath connection and
    run. Every frame has the run's `id`, its `seed`, and one text column per swept key (`network.buffer` holds "5bdp"),
    so frames join and group directly. Column names end with their unit. `spec` is the scheme with the parameters that
    differ from their defaults and are not swept: "bbr:cwnd_gain=1.5".

    A field of a nested object becomes a column with a dot: `datagrams.delay_mean_ms` of flows over DCCP,
    `counters.timeouts` of runs. `connection` names the multipath connection of a flow, and is null for other flows.

    >>> import narrows
    >>> r = narrows.compare("bbr", "cubic", rate="100mbit", rtt="40ms", buffer="4bdp", repeat=5)  # doctest: +SKIP
    >>> r.flows.group_by("scheme").agg(pl.col("goodput_mbit_s").mean())                           # doctest: +SKIP
    >>> r.plot("share", x="network.buffer")                                                      # doctest: +SKIP
    """

    def plot(self, kind: str | None = None, **options: Any) -> Figure:
        """Draw a matplotlib figure.

        No figure averages over a swept key: keys that it neither draws nor selects get panels.

        Args:
            kind: `time` (panels over time, needs a trace), `share`, `loss`, `delay`, `line`, `bar`, `cdf`, `box` or
                `heatmap`; by default the one that suits the results.
            **options: The options of that kind; see `narrows.plots`. All take `title`, `where` (values by key) and
                `size` (`column` or `page` of a paper), most `x`, `y`, `series`, `panel` and `row`.

        Raises:
            UsageError: There is no such kind or option, the results lack its data, or more keys vary than panels show.
        """
        from narrows import plots  # here, because loading matplotlib takes long

        return plots.plot(self, kind, **options)

    def table(self) -> Any:
        """Return the tables that the command prints, as a rich renderable."""
        return tables.summary(self)

    def __repr__(self) -> str:
        from rich.console import Console

        console = Console(width=100, color_system=None, record=False, file=None, force_terminal=False)
        with console.capture() as capture:
            console.print(self.table())
        return capture.get().rstrip()

    def _repr_html_(self) -> str:
        return f'<pre style="line-height:1.2">{html.escape(repr(self))}</pre>'
