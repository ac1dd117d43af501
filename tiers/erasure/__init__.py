"""Layout arithmetic, the Reed-Solomon codec and the fragment format."""
