"""Who is compared: one row per library."""

from __future__ import annotations

from .peer import Peer

OWN = Peer(name="ndgather", module="ndgather", threads="as given", has_modes=True)
ORACLE = Peer(name="numpy", module="numpy", threads="one", has_modes=True)
PEERS = (
    OWN,
    ORACLE,
    Peer(name="torch", module="torch", threads="as given"),
    Peer(name="onnxruntime", module="onnxruntime", threads="as given", needs=("onnx",)),
    Peer(name="openvino", module="openvino", threads="as given"),
    Peer(name="numba", module="numba", threads="as given"),
)
