"""Charts as inline SVG: axes, plot areas, bars, scatter plots, heat maps.

A function `draw_...` returns SVG elements as text; functions for whole charts return an `<svg>`.
"""
