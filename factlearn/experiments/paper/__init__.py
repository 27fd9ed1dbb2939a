"""The paper's tables and figures, each as one recipe over cached runs: `factlearn reproduce NAME`."""
