"""The public compatibility ledger: Ceph's s3-tests, run whole against a gateway of this tree, and what came of each.

Owns the run profile, the reviewed reasons, the gate and the two published files. Deselects nothing, retries nothing,
and contains nothing of the suite: the suite is a checkout that `make compat` is pointed at.
"""
