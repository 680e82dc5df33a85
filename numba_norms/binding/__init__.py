"""Calls whose checks are done once: recorded, and repeated for arrays that look the same.

``looks`` says what arrays look like, ``recording`` writes down what an operation does, ``bound`` repeats it, and
``plans`` hands that out as ``plan``.
"""
