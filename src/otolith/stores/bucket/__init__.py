"""A store in a bucket of S3, Google Cloud Storage or Azure, by conditional puts of one key.

Read `root.py` first, then `packs.py`. `writer.py` commits, `upkeep.py` and `gc.py` tidy up beside
it, `client.py` calls the bucket.
"""

from otolith.stores.bucket.store import BucketStore

__all__ = ["BucketStore"]
