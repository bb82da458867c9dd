"""The reference's path of its native library; here it is Python like everything else."""
