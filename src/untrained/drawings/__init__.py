"""Drawings of architectures as inline SVG: cells, lists of stages, transformer layers.

A function `draw_...` returns the drawing as text.
"""
