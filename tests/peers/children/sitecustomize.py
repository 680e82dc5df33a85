"""Opens the stand-in device in the processes that tests of the suite start; see ``numba_cuda_worker``.

Rules of this file: Python imports it by its name as it starts, wherever this folder is in PYTHONPATH.  Imported under
any other name, as by whoever collects doctests, it does nothing.
"""

if __name__ == "sitecustomize":
    from simulator.device.session import device

    opened = device()  # kept: a generator that nobody holds is closed
    opened.__enter__()
