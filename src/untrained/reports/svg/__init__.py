"""Charts as inline SVG: axes, plot areas, bars, scatter plots, heat maps."""
