"""Caches of decoded chunks."""

from ndgather.stored.cache.cached_array import CachedArray, cached
from ndgather.stored.cache.chunk_cache import CacheInfo, ChunkCache

__all__ = ["CacheInfo", "CachedArray", "ChunkCache", "cached"]
