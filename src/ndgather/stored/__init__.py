"""Arrays that are stored in chunks: gathers and scatters that read each touched chunk once."""

from ndgather.stored.chunks import missing_chunks
from ndgather.stored.estimates import Estimate, estimate

__all__ = ["Estimate", "estimate", "missing_chunks"]
