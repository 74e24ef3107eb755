"""Decoded chunks that stay in memory between calls."""

from ndgather.stored.cache.cached_array import CachedArray, cached
from ndgather.stored.cache.chunk_cache import CacheInfo, ChunkCache

__all__ = ["CacheInfo", "CachedArray", "ChunkCache", "cached"]
