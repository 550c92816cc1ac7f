"""Tensors and parameters of torch that are in main memory, with their dtypes, devices and sizes.

The form is seen by hashes and never changes (`docs/reference/format-v1.md`):

    TENSOR  {"type": "Tensor" or "Parameter", "dtype": str, "shape": [int], "device": "cpu",
             "requires_grad": bool, "grad": None or a Tensor, "data": raw bytes}
            {"type": "dtype" or "device", "name": str}
            {"type": "Size", "shape": [int]}

A dtype is named as in torch, without the `torch.` in front. The data is that of a contiguous
tensor, little endian; strides are not kept, nor is it whether two tensors share memory. What lies
on another device is refused, and so is what was computed with gradients: neither can come back as
it was. Sparse, quantised, nested and meta tensors are refused too.
"""

from __future__ import annotations

import ctypes
from math import prod
from typing import Any

import torch  # type: ignore[import-not-found, unused-ignore]

from otolith.codecs.base import VERIFY, Form, Forms, check, demand
from otolith.codecs.buffers import gather
from otolith.errors import BadValue, Corrupt, UnknownType
from otolith.types import Raw, Tag

_NAMES = (
    "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64",
    "float16", "bfloat16", "float32", "float64", "complex32", "complex64", "complex128",
    "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu",
)  # fmt: skip
_DTYPES: dict[str, Any] = {name: getattr(torch, name) for name in _NAMES if hasattr(torch, name)}
_NAMED = {dtype: name for name, dtype in _DTYPES.items()}


def _form_tensor(value: Any) -> Form:
    _check_kept(value)
    return {
        "type": type(value).__name__,
        "dtype": _NAMED[value.dtype],
        "shape": list(value.shape),
        "device": "cpu",
        "requires_grad": value.requires_grad,
        "grad": value.grad,
        "data": Raw(_memory(value)),
    }


def _check_kept(value: Any) -> None:
    if value.device.type != "cpu":
        raise BadValue(
            f"cannot keep a tensor that is on {value.device}", hint="keep tensor.cpu() instead"
        )
    if value.layout is not torch.strided or value.is_quantized or value.is_nested:
        raise BadValue(
            f"cannot keep a tensor of the layout {value.layout}, quantised or nested",
            hint="keep tensor.to_dense() or tensor.dequantize()",
        )
    if value.dtype not in _NAMED:
        raise BadValue(f"cannot keep a tensor of {value.dtype}", hint="convert it with tensor.to()")
    if not value.is_leaf:
        raise BadValue(
            "cannot keep a tensor that was computed with gradients: how it was computed is lost",
            hint="keep tensor.detach()",
        )
    if strays := set(vars(value)) - {"_backward_hooks"}:
        raise BadValue(f"cannot keep a tensor that has an attribute {min(strays)!r} of its own")


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


def _read_tensor(form: Form) -> Any:
    name, shape, device, requires_grad, grad, data = check(
        form, dtype=str, shape=list, device=str, requires_grad=bool, grad=object, data=list
    )
    dtype, lengths = _dtype(name), _lengths(shape)
    demand(device == "cpu", "a tensor is on a device that no tensor is kept from")
    memory = gather(data, size=prod(lengths) * dtype.itemsize)
    tensor = _tensor(memory, dtype, lengths)
    differs = dtype.is_floating_point or dtype.is_complex
    demand(differs or not requires_grad, f"a tensor of {name} has gradients")
    if form["type"] == "Parameter":
        tensor = torch.nn.Parameter(tensor, requires_grad=requires_grad)
    else:
        tensor.requires_grad_(requires_grad)
    if grad is not None:
        fits = type(grad) is torch.Tensor and grad.dtype == dtype and grad.shape == tensor.shape
        demand(fits and requires_grad, "a gradient is not one of its tensor")
        tensor.grad = grad
    return tensor


def _tensor(memory: bytearray | memoryview, dtype: Any, lengths: list[int]) -> Any:
    flat = torch.frombuffer(memory, dtype=dtype) if memory else torch.empty(0, dtype=dtype)
    try:
        return flat.reshape(lengths)
    except RuntimeError as error:
        raise Corrupt(f"a tensor cannot have the shape {lengths!s:.60}", hint=VERIFY) from error


def _read_dtype(form: Form) -> object:
    return _dtype(*check(form, name=str))


def _read_device(form: Form) -> object:
    (name,) = check(form, name=str)
    try:
        return torch.device(name)
    except RuntimeError as error:
        raise UnknownType(
            f"torch knows no device {name[:40]!r} here", hint="upgrade torch"
        ) from error


def _read_size(form: Form) -> object:
    return torch.Size(_lengths(*check(form, shape=list)))


def _form_dtype(value: Any) -> Form:
    if value not in _NAMED:
        raise BadValue(f"cannot keep {value}: it is not a dtype that tensors are kept with")
    return {"type": "dtype", "name": _NAMED[value]}


def _dtype(name: str) -> Any:
    if name not in _DTYPES:
        raise UnknownType(f"torch.{name[:40]} is not known here", hint="upgrade torch, or otolith")
    return _DTYPES[name]


def _lengths(shape: list[Any]) -> list[int]:
    demand(all(type(n) is int and 0 <= n < 2**63 for n in shape), "a shape is not one of lengths")
    return shape


CODEC = Forms(
    Tag.TENSOR,
    {
        torch.Tensor: _form_tensor,
        torch.nn.Parameter: _form_tensor,
        torch.dtype: _form_dtype,
        torch.device: lambda value: {"type": "device", "name": str(value)},
        torch.Size: lambda value: {"type": "Size", "shape": list(value)},
    },
    {
        "Tensor": _read_tensor,
        "Parameter": _read_tensor,
        "dtype": _read_dtype,
        "device": _read_device,
        "Size": _read_size,
    },
)
