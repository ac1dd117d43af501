"""Group commit, the commit log, recovery, snapshots, rebuild."""
