"""From typed IR to operations of a program.

``body`` lowers one typed function, ``builder`` writes the operations down, ``tidy`` ends a program.  What a variable
is while the program is made stands in ``values``; a file per noun knows what can be done with it (``indexing``,
``iteration``, ``operators``, ``complexes``, ``records``, ``times`` ...), and ``calls`` what calls mean.  What is easier
said in Python is lowered from Python: ``library_functions`` and ``complex_functions``.
"""
