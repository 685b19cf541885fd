"""What every room leans on: array types, checks, progress, threads, budgets, files."""
