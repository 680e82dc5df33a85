"""Cost: what a launch costs on a card that is chosen by name.

``cards`` are tables from NVIDIA's documents, ``occupancy`` how many blocks a multiprocessor holds, and ``profile`` puts
both beside the counts of a trace.  Nothing here runs a kernel.
"""
