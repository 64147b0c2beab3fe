"""Passes: graph to graph, one file each; and the pipeline that runs, verifies, checks, dumps and
times them.
"""
