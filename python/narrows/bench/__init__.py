"""Measures the engine on one core.

`cases` measures data packets per wall-second, `ns3` runs the same cases in ns-3, `costs` measures single schemes and
router algorithms, `datagrams` measures DCCP beside UDP, and `tables` formats the rows.
"""
