"""Graphs to plans: the calls of a graph, and a place in memory for every value."""
