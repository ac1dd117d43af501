"""The root of every storage error, and the errors that the metadata layer itself raises.

StorageError                    root; no S3 word in it, translated once in the gateway
|-- MetadataUnavailable         the database cannot answer now
|-- MetadataRefused             the database is open but not safe to use (wrong schema, wrong durability)
|-- LogGap                      the commit log lacks a batch that a later batch continues
`-- (tiers.errors)              everything else, one level beneath the root
"""


class StorageError(Exception):
    """A fault of the world below the protocol; its text is for operators, never for clients."""


class MetadataUnavailable(StorageError):
    """The metadata database cannot be reached or refused the transaction; nothing was committed."""


class MetadataRefused(StorageError):
    """The database answers but must not be used: unknown schema, or weaker durability than promised."""


class LogGap(StorageError):
    """A batch of the commit log is missing although a later batch names it as its predecessor."""


class TooManyChanges(Exception):
    """A step changes more rows than its transaction was limited to; whoever set the limit does it elsewhere.

    No storage error: it never leaves the committer.
    """
