"""Operators with custom definitions, as plain loops of their specifications.

Each function receives the inputs by name and the attributes, and raises IndexError for an index
that the specification forbids.
"""

from __future__ import annotations

import itertools

import numpy as np


def scatter_update(data, indices, updates, axis):
    along, out = int(np.reshape(axis, ())) % data.ndim, data.copy()
    for before in np.ndindex(data.shape[:along]):
        for p in np.ndindex(indices.shape):
            index = int(indices[p])
            if not 0 <= index < data.shape[along]:
                raise IndexError(index)
            for after in np.ndindex(data.shape[along + 1 :]):
                out[(*before, index, *after)] = updates[(*before, *p, *after)]
    return out


def tensor_scatter(past_cache, update, write_indices=None, axis=-2, mode="linear"):
    axis, present = axis % past_cache.ndim, past_cache.copy()
    for prefix in np.ndindex(past_cache.shape[:axis]):
        for t in range(update.shape[axis]):
            place = (0 if write_indices is None else int(write_indices[prefix[0]])) + t
            if mode == "circular":
                place %= past_cache.shape[axis]
            if not 0 <= place < past_cache.shape[axis]:
                raise IndexError(place)
            present[(*prefix, place)] = update[(*prefix, t)]
    return present


def slice_scatter(data, updates, start, stop, step, axes=None):
    places, out = [list(range(size)) for size in data.shape], data.copy()
    for number, axis in enumerate(range(len(start)) if axes is None else axes):
        limits = (int(each[number]) for each in (start, stop, step))
        places[int(axis)] = places[int(axis)][slice(*limits)]
    for place, value in zip(itertools.product(*places), updates.reshape(-1), strict=True):
        out[place] = value
    return out


def gather_tree(step_ids, parent_ids, max_seq_len, end_token):
    final = np.full_like(step_ids, end_token)
    for batch, beam in np.ndindex(step_ids.shape[1:]):
        longest = min(len(step_ids), int(max_seq_len[batch]))
        if longest < 1:
            continue
        parent = int(parent_ids[longest - 1, batch, beam])
        final[longest - 1, batch, beam] = step_ids[longest - 1, batch, beam]
        for level in reversed(range(longest - 1)):
            if not 0 <= parent < step_ids.shape[2]:
                raise IndexError(parent)
            final[level, batch, beam] = step_ids[level, batch, parent]
            parent = int(parent_ids[level, batch, parent])
        finished = False
        for time in range(longest):
            if finished:
                final[time, batch, beam] = end_token
            elif final[time, batch, beam] == end_token:
                finished = True
    return final


def gather_block_quantized(
    data,
    indices,
    scales,
    zero_points=None,
    bits=4,
    block_size=128,
    gather_axis=0,
    quantize_axis=1,
):
    along, blocks = gather_axis % data.ndim, quantize_axis % data.ndim
    packed, shape = data.dtype == np.uint8, list(data.shape)
    shape[-1] *= 8 // bits if packed else 1
    out = np.zeros((*shape[:along], *indices.shape, *shape[along + 1 :]), scales.dtype)

    def number(array, at):
        """Return a number; the last axis of bytes packs several per byte, lowest bits first."""
        if not packed:
            return np.float32(array[at])
        factor = 8 // bits
        byte = int(array[(*at[:-1], at[-1] // factor)])
        return byte >> (at[-1] % factor * bits) & (2**bits - 1)

    for at in np.ndindex(out.shape):
        index = int(indices[at[along : along + indices.ndim]])
        if not -shape[along] <= index < shape[along]:
            continue
        where = (*at[:along], index % shape[along], *at[along + indices.ndim :])
        block = list(where)
        block[blocks] = block[blocks] // block_size if block_size else 0
        for axis, size in enumerate(scales.shape):
            block[axis] = 0 if size == 1 else block[axis]
        zero = 2 ** (bits - 1) if packed else 0
        if zero_points is not None:
            zero = number(zero_points, tuple(block))
        scale = np.float32(scales[tuple(block)])
        out[at] = np.float32(number(data, where) - zero) * scale
    return out


LOOPS = {
    "ScatterUpdate": scatter_update,
    "TensorScatter": tensor_scatter,
    "SliceScatter": slice_scatter,
    "GatherTree": gather_tree,
    "GatherBlockQuantized": gather_block_quantized,
}
