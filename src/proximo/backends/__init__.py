"""Two ways to run a policy over one memory: fused kernels for perceptrons on the CPU, PyTorch for everything else."""
