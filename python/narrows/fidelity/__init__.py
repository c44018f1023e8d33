"""How well simulator and kernel agree: the same scenarios in both worlds, cell by cell.

`grid` holds the cells, `work` runs them, `comparison` judges them. `tables` prints the outcome, `drawing` draws the map
of agreement, and `page` writes Markdown.
"""
