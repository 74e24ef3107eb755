"""Arrays that are stored in chunks: gathers and scatters that read each touched chunk once."""

from ndgather.stored.dry_run import Estimate, estimate

__all__ = ["Estimate", "estimate"]
