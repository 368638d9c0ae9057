"""Drawings of architectures as inline SVG: cells, lists of stages, transformer layers."""
