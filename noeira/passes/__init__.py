"""Passes: graph to graph, one file each; and the pipeline that runs and checks them."""
