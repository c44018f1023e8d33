"""Writes cellular.trace: ten seconds of a radio link whose capacity wanders between 1 and 24 Mbit/s.

The logarithm of the rate takes a step every 20 ms, pulled back towards 6 Mbit/s; for 300 ms from 6.4 s on nothing is
delivered, as in a handover. One line per 1500-byte opportunity. Our own, from a fixed seed; not a measurement.
"""

import math
import random
from pathlib import Path

MTU_BITS = 1500 * 8
CENTRE, LOW, HIGH = 6e6, 1e6, 24e6

draw = random.Random(1)
rate, credit, lines = CENTRE, 0.0, []
for ms in range(1, 10_001):
    if ms % 20 == 0:
        pull = 0.05 * math.log(CENTRE / rate)
        rate = min(max(rate * math.exp(pull + draw.gauss(0, 0.15)), LOW), HIGH)
    if 6_400 <= ms < 6_700:
        continue
    credit += rate / 1000
    while credit >= MTU_BITS:
        credit -= MTU_BITS
        lines.append(ms)
if lines[-1] != 10_000:
    lines.append(10_000)  # the last line is also the period
Path(__file__).with_suffix(".trace").write_text("".join(f"{ms}\n" for ms in lines))
