"""What watches a run: one file per question, each a subclass of ``simulator.machine.observer.Observer``."""
