"""A store in a bucket: S3, Google Cloud Storage, Azure. Read `root.py` first, then `packs.py`."""

from otolith.stores.bucket.store import BucketStore

__all__ = ["BucketStore"]
