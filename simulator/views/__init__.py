"""Views of a trace: text for people, JSON for machines.  A view reads a trace and nothing else."""
