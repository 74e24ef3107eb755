"""An array type with DLPack's C exchange API, built from NumPy arrays with ctypes.

Calls that the core leaves to the adapter return `Declined`, so tests can tell who handled a call.
"""

import ctypes
from ctypes import (
    POINTER,
    c_int,
    c_int32,
    c_int64,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
    py_object,
)
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from ndgather import exchange

CPU = 1
READ_ONLY = 1

CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
OTHER_CODES = {"bfloat16": 4, "float8_e4m3fn": 10, "float8_e5m2": 12, "float8_e8m0fnu": 14}


class DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("rank", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    )


class Managed(ctypes.Structure):
    pass


Deleter = ctypes.CFUNCTYPE(None, POINTER(Managed))
Managed._fields_ = (
    ("major", c_uint32),
    ("minor", c_uint32),
    ("context", c_void_p),
    ("deleter", Deleter),
    ("flags", c_uint64),
    ("tensor", DLTensor),
)
Borrow = ctypes.PYFUNCTYPE(c_int, py_object, POINTER(DLTensor))
Export = ctypes.PYFUNCTYPE(c_int, py_object, POINTER(POINTER(Managed)))
Import = ctypes.PYFUNCTYPE(c_int, POINTER(Managed), POINTER(c_void_p))


class Table(ctypes.Structure):
    _fields_ = (
        ("major", c_uint32),
        ("minor", c_uint32),
        ("previous", c_void_p),
        ("allocate", c_void_p),
        ("export_managed", Export),
        ("import_managed", Import),
        ("borrow", Borrow),
        ("current_stream", c_void_p),
    )


@dataclass(frozen=True)
class Declined:
    """A call that the core left to the adapter."""

    call: object


class Adapter:
    run = staticmethod(Declined)


class Tensor:
    """An array and the transforms that may be active on it."""

    __ndgather_adapter__ = Adapter
    exported = deleted = 0  # managed tensors of arguments
    written = 0
    transformed = False
    recording = True

    def __init__(self, array, **state):
        self.array = array
        self.device = state.get("device", CPU)
        self.gradient = state.get("gradient", False)
        self.negated = state.get("negated", False)
        self.conjugated = state.get("conjugated", False)
        self.bits = state.get("bits", 8 * array.itemsize)
        self.without_memory = state.get("without_memory", False)
        self.dtype = array.dtype
        self.shape = array.shape


class Subclass(Tensor):
    """A subclass, which is not accepted."""


class Consumed:
    """An object from which NumPy consumes a managed tensor."""

    def __init__(self, managed):
        self.managed = managed

    def __dlpack__(self, **_):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = py_object, (c_void_p, ctypes.c_char_p, c_void_p)
        return new(self.managed, b"dltensor_versioned", None)

    def __dlpack_device__(self):
        return (CPU, 0)


def fill(tensor, of):
    """Describe an array whose strides are multiples of the element size."""
    array = of.array
    size = array.itemsize
    # Put half of the offset in the pointer and half in the byte offset.
    tensor.data = None if of.without_memory else array.ctypes.data - size
    tensor.byte_offset = size
    tensor.device_type, tensor.device_id = of.device, 0
    tensor.rank = array.ndim
    tensor.code = OTHER_CODES.get(array.dtype.name, CODES.get(array.dtype.kind, 0))
    tensor.bits, tensor.lanes = of.bits, 1
    of.shape_memory = (c_int64 * max(array.ndim, 1))(*array.shape)
    of.strides_memory = (c_int64 * max(array.ndim, 1))(*(each // size for each in array.strides))
    tensor.shape, tensor.strides = of.shape_memory, of.strides_memory


@Borrow
def borrow(of, tensor):
    fill(tensor[0], of)
    return 0


KEPT = {}
LEVELS = {"level": None}  # a transform is active if the value differs


@Deleter
def delete(managed):
    Tensor.deleted += 1
    del KEPT[ctypes.addressof(managed[0])]


@Export
def export_managed(of, made):
    managed = Managed(1, 3, None, delete, 0 if of.array.flags.writeable else READ_ONLY)
    fill(managed.tensor, of)
    KEPT[ctypes.addressof(managed)] = managed, of.array, of.shape_memory, of.strides_memory
    made[0] = ctypes.pointer(managed)
    Tensor.exported += 1
    return 0


@Import
def import_managed(managed, made):
    tensor = managed[0].tensor
    names = [name for name, code in OTHER_CODES.items() if code == tensor.code]
    if names:
        tensor.code = CODES["u"]  # NumPy lacks this type
    array = np.from_dlpack(Consumed(ctypes.addressof(managed[0])))
    if names:
        array = array.view(getattr(ml_dtypes, names[0]))
    result = Tensor(array)
    ctypes.pythonapi.Py_IncRef(py_object(result))
    made[0] = id(result)
    return 0


def capsule(table):
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = py_object, (c_void_p, ctypes.c_char_p, c_void_p)
    return new(ctypes.addressof(table), b"dlpack_exchange_api", None)


TABLE = Table(1, 3, None, None, export_managed, import_managed, borrow, None)
NEWER = Table(2, 0, ctypes.addressof(TABLE), None, Export(), Import(), Borrow(), None)


def written(_):
    Tensor.written += 1


def accept(kind, table):
    kind.__dlpack_c_exchange_api__ = capsule(table)
    return exchange.accept(
        kind,
        gradient="gradient",
        records=lambda: Tensor.recording,
        negated=lambda of: of.negated,
        conjugated=lambda of: of.conjugated,
        transforms=(lambda: Tensor.transformed, (LEVELS, "level", None)),
        written=written,
    )


assert accept(Tensor, NEWER)  # listed after the newer version


def dense(array):
    """Return an array whose strides are multiples of the element size, copied if necessary."""
    whole = array.dtype.isnative and not any(each % array.itemsize for each in array.strides)
    return Tensor(array if whole else array.astype(array.dtype.newbyteorder("=")))


__all__ = ["CPU", "KEPT", "LEVELS", "Declined", "Subclass", "Tensor", "accept", "dense"]
