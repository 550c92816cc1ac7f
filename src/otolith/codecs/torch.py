"""Tensors and parameters of torch in main memory, and its dtypes, devices and sizes.

Forms (they never change, see `docs/reference/format-v1.md`)

    TENSOR  {"type": "Tensor" or "Parameter", "dtype": str, "shape": [int], "device": "cpu",
             "requires_grad": bool, "grad": None or a Tensor, "data": raw bytes}
            {"type": "dtype" or "device", "name": str}
            {"type": "Size", "shape": [int]}

A dtype is named as in torch, without the `torch.` in front. The data is that of a contiguous
tensor, little endian; strides are not stored, nor whether two tensors share memory. A tensor on
another device is refused, and so is one that was computed with gradients: neither can be restored.
Sparse, quantised, nested and meta tensors are refused too.
"""

from __future__ import annotations

import ctypes
from math import prod
from typing import Any

import torch  # type: ignore[import-not-found, unused-ignore]

from otolith.codecs.base import VERIFY, Form, FormCodec, FormLayout, check, require
from otolith.codecs.buffers import join_chunks
from otolith.errors import BadValue, Corrupt, UnknownType
from otolith.types import Raw, Tag

_NAMES = (
    "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64",
    "float16", "bfloat16", "float32", "float64", "complex32", "complex64", "complex128",
    "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu",
)  # fmt: skip
_DTYPES: dict[str, Any] = {name: getattr(torch, name) for name in _NAMES if hasattr(torch, name)}
_NAMED = {dtype: name for name, dtype in _DTYPES.items()}


def _lower_tensor(value: Any) -> Form:
    _check_storable(value)
    return {
        "type": type(value).__name__,
        "dtype": _NAMED[value.dtype],
        "shape": list(value.shape),
        "device": "cpu",
        "requires_grad": value.requires_grad,
        "grad": value.grad,
        "data": Raw(_memory(value)),
    }


def _check_storable(value: Any) -> None:
    """Raise BadValue for a tensor that could not be restored."""
    if value.device.type != "cpu":
        raise BadValue(
            f"cannot store a tensor that is on {value.device}", hint="store tensor.cpu() instead"
        )
    if value.layout is not torch.strided or value.is_quantized or value.is_nested:
        raise BadValue(
            f"cannot store a tensor of the layout {value.layout}, quantised or nested",
            hint="store tensor.to_dense() or tensor.dequantize()",
        )
    if value.dtype not in _NAMED:
        raise BadValue(
            f"cannot store a tensor of {value.dtype}", hint="convert it with tensor.to()"
        )
    if not value.is_leaf:
        raise BadValue(
            "cannot store a tensor that was computed with gradients: how it was computed is lost",
            hint="store tensor.detach()",
        )
    if strays := set(vars(value)) - {"_backward_hooks"}:
        raise BadValue(f"cannot store a tensor that has an attribute {min(strays)!r}")


def _memory(value: Any) -> memoryview:
    """Return the bytes of a tensor, copied only if they do not lie one after another."""
    plain = value.detach().resolve_conj().resolve_neg().contiguous()
    size = plain.numel() * plain.element_size()
    if size == 0:
        return memoryview(b"")
    # Not by way of numpy, which need not be there and knows no bfloat16.
    memory = (ctypes.c_ubyte * size).from_address(plain.data_ptr())
    memory.owner = plain  # what is seen must live as long as the view of it
    return memoryview(memory).cast("B")


def _lift_tensor(form: Form) -> Any:
    """Return a tensor or parameter over memory of its own, with its gradient."""
    name, shape, device, requires_grad, grad, data = check(
        form, dtype=str, shape=list, device=str, requires_grad=bool, grad=object, data=list
    )
    dtype, lengths = _dtype(name), _lengths(shape)
    require(device == "cpu", "a tensor is stored with another device than cpu")
    memory = join_chunks(data, size=prod(lengths) * dtype.itemsize)
    flat = torch.frombuffer(memory, dtype=dtype) if memory else torch.empty(0, dtype=dtype)
    try:
        tensor = flat.reshape(lengths)
    except RuntimeError as error:
        raise Corrupt(f"a tensor cannot have the shape {lengths!s:.60}", hint=VERIFY) from error
    differs = dtype.is_floating_point or dtype.is_complex
    require(differs or not requires_grad, f"a tensor of {name} has gradients")
    if form["type"] == "Parameter":
        tensor = torch.nn.Parameter(tensor, requires_grad=requires_grad)
    else:
        tensor.requires_grad_(requires_grad)
    if grad is not None:
        fits = type(grad) is torch.Tensor and grad.dtype == dtype and grad.shape == tensor.shape
        require(fits and requires_grad, "a gradient is not one of its tensor")
        tensor.grad = grad
    return tensor


def _lift_device(name: str) -> object:
    try:
        return torch.device(name)
    except RuntimeError as error:
        raise UnknownType(
            f"torch knows no device {name[:40]!r} here", hint="upgrade torch"
        ) from error


def _lower_dtype(value: Any) -> Form:
    if value not in _NAMED:
        raise BadValue(f"cannot store {value}: tensors of this dtype are not stored")
    return {"name": _NAMED[value]}


def _dtype(name: str) -> Any:
    """Return a dtype by its name, or raise UnknownType."""
    if name not in _DTYPES:
        raise UnknownType(f"torch.{name[:40]} is not known here", hint="upgrade torch, or otolith")
    return _DTYPES[name]


def _lengths(shape: list[Any]) -> list[int]:
    require(all(type(n) is int and 0 <= n < 2**63 for n in shape), "a shape is not one of lengths")
    return shape


CODEC = FormCodec(
    Tag.TENSOR,
    (
        FormLayout(torch.Tensor, _lift_tensor, lower=_lower_tensor),
        FormLayout(torch.nn.Parameter, _lift_tensor, lower=_lower_tensor),
        FormLayout(torch.dtype, _dtype, {"name": str}, _lower_dtype),
        FormLayout(torch.device, _lift_device, {"name": str}, lambda value: {"name": str(value)}),
        FormLayout(
            torch.Size,
            lambda shape: torch.Size(_lengths(shape)),
            {"shape": list},
            lambda value: {"shape": list(value)},
        ),
    ),
)
