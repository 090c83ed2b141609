"""What the form for accelerators costs: ``python -m benchmarks.speed.accelerator``, in less than ten minutes."""
