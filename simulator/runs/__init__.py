"""Runs: one launch, from a kernel and its arguments to a trace, or to the exception that tells what is wrong.

``launch`` is the door.  ``arguments`` takes what the caller gave, ``orders`` runs the program once in one order of
execution, ``agreement`` in several and says where they disagree, ``sampling`` how much of a large grid those run;
``raised`` is what the host sees of a kernel's own exception.
"""
