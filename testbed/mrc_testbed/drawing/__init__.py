"""Drawings of a fabric: SVG, DOT and text."""
