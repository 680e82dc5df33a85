"""Device code, and nothing else: the reductions, and one file per operation.

``lanes`` is what one lane does, ``reduce`` what lanes do together.  ``rms_norm``, ``layer_norm``, ``add_norm``,
``batch_norm`` and ``moments`` are the textbook's kernels.  ``vector`` and ``stream`` keep rows in registers (``tile``,
``scale``), ``across`` those whose elements lie apart (``tokens``).

Rules of this folder:

* Kernels are written once, by factories specialised on the number of threads and on dtypes, and cached: the same
  arguments give the same function object, so what is traced is what is launched.
* Raise the precision before squaring; round once, at the store.  Every literal is ``compute(...)``: a bare ``0.5``
  would drag float64 into a float32 kernel.
* Rows are blocks along grid x, with a 64-bit row number, so tensors past 2**31 elements address rightly.
* An optional array that is absent is the empty tuple: Numba drops the branch, the kernel gets no parameter for it.
"""
