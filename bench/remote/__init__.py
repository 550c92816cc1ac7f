"""Stores on servers, caches in front of them, and copies between them."""

from bench.remote import bucket, postgres, redis, tiers, transfers

KINDS = {
    "postgres": postgres.rows,
    "redis": redis.rows,
    "bucket": bucket.rows,
    "tiers": tiers.rows,
    "transfers": transfers.rows,
}
# Which kind makes a row, by the first part of its name.
MADE_BY = {"pull": "transfers"}
MADE_BY |= {name: name for name in ("postgres", "redis", "bucket", "tiers")}

__all__ = ["KINDS", "MADE_BY"]
