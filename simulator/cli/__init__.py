"""The command line: what was asked for, run, and shown by the views."""
