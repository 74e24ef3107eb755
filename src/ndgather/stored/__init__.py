"""Gather from and scatter into chunked arrays, reading each touched chunk only once."""

from ndgather.stored.cache import CachedArray, CacheInfo, ChunkCache, cached
from ndgather.stored.chunks import missing_chunks
from ndgather.stored.estimates import Estimate, estimate
from ndgather.stored.journals import journal

__all__ = [
    "CacheInfo",
    "CachedArray",
    "ChunkCache",
    "Estimate",
    "cached",
    "estimate",
    "journal",
    "missing_chunks",
]
