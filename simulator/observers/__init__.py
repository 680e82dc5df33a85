"""What watches a run: one file per question, each a subclass of ``simulator.machine.observer.Observer`` or a domain.

* Records keep or count: ``steps``, ``traffic`` (with ``banks``), ``operations``, ``printout``.
* Verdicts judge (``verdict``): ``races``, ``initialisation``, ``overlap``, ``bounds``, ``barriers``, ``doubles``,
  ``uncalled``, ``overflows``, ``outputs``, ``lost``, ``traps``; ``costs`` judges what ``traffic`` counted.
  ``checks`` is the table of those that a check attaches.
* Value domains are carried along behind every value: ``lineage`` (its result is a ``graph``), ``definedness``.
* Shared: ``warps`` sees a group's values warp by warp, ``places`` says which bytes the lanes of an access touch,
  ``shadow_memory`` keeps marks behind bytes, ``firsts`` one fault per operation.
"""
