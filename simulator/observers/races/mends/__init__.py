"""What would mend a race: ``facts`` for the catalogue, which has the words.

``roles`` and ``updates`` tell what the two accesses are for, ``places`` where a barrier can stand, ``varying`` which
branches are in its way, and ``lockstep`` in which rounds of a loop the two ran.  A wrong guess costs a mend, never a
finding.
"""
