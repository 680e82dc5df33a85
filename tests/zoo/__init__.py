"""The bug zoo: small faulty kernels of every kind, each beside its repaired twin."""
