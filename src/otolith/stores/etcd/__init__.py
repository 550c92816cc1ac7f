"""Refs in etcd, objects in another store: consensus of a cluster on what is current."""

from otolith.stores.etcd.store import EtcdStore

__all__ = ["EtcdStore"]
