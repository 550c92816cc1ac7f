"""Arrays, columns, indexes and frames by a hash of their whole content.

Not content: the layout of blocks, caches, the bits of a NaN. Content: dtype, shape, order of
columns, the kind and names of an index, its frequency, the levels of a MultiIndex, where NaN is,
-0.0, and whether an array may be written to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from tests.traces.telling.atoms import PLAIN, Module, digest, loaded

Tell: TypeAlias = Callable[[object], str]
"""Says what any value holds; comes from outside, since objects may be inside of tables."""

_PREVIEW = 4


def table(value: object, tell: Tell) -> str | None:
    """Return the text of an array, column, index or frame; None for anything else."""
    np, pd = loaded("numpy"), loaded("pandas")
    if pd is not None and hasattr(pd, "DataFrame"):
        told = _of_pandas(pd, value, tell)
        if told is not None:
            return told
    if np is not None and isinstance(value, np.ndarray):
        return _array(np, value, tell)
    return None


def _of_pandas(pd: Module, value: Any, tell: Tell) -> str | None:
    if isinstance(value, pd.DataFrame):
        return _frame(value, tell)
    if isinstance(value, pd.Series):
        attrs = f" attrs={tell(value.attrs)}" if value.attrs else ""
        inside = f"name={tell(value.name)} index={tell(value.index)}{attrs}"
        return f"<{_kind(value)} {inside} {_column(value.array, tell)}>"
    if isinstance(value, pd.Index):
        return _index(pd, value, tell)
    if isinstance(value, pd.api.extensions.ExtensionArray):
        return f"<{_kind(value)} {_column(value, tell)}>"
    return None


def _frame(frame: Any, tell: Tell) -> str:
    columns = [_column(frame.iloc[:, place].array, tell) for place in range(frame.shape[1])]
    attrs = f" attrs={tell(frame.attrs)}" if frame.attrs else ""
    head = f"{_kind(frame)} {frame.shape[0]}x{frame.shape[1]}{attrs}"
    names = f"columns={tell(frame.columns)} index={tell(frame.index)}"
    return f"<{head} {names} {'; '.join(columns)}>"


def _index(pd: Module, index: Any, tell: Tell) -> str:
    head = f"{_kind(index)} names={tell(list(index.names))}"
    if isinstance(index, pd.RangeIndex):
        return f"<{head} {index.start}:{index.stop}:{index.step}>"
    if isinstance(index, pd.MultiIndex):
        levels = " ".join(tell(level) for level in index.levels)
        codes = " ".join(_numbers(code) for code in index.codes)
        return f"<{head} levels={levels} codes={codes}>"
    return f"<{head} freq={getattr(index, 'freqstr', None)} {_column(index.array, tell)}>"


def _column(array: Any, tell: Tell) -> str:
    """Return dtype and content of the array behind a column, of whatever extension it is."""
    pd = loaded("pandas")
    assert pd is not None
    kinds = pd.arrays
    if isinstance(array, kinds.IntegerArray | kinds.FloatingArray | kinds.BooleanArray):
        mask = array.isna()
        filled = array.to_numpy(dtype=array.dtype.numpy_dtype, na_value=0)
        return f"{array.dtype!r} {_numbers(filled)} missing={_numbers(mask)}"
    if isinstance(array, pd.Categorical):
        told = f"ordered={array.ordered} {tell(array.categories)}"
        return f"category {told} {_numbers(array.codes)}"
    if isinstance(array, kinds.DatetimeArray | kinds.TimedeltaArray | kinds.PeriodArray):
        return f"{array.dtype!r} {_numbers(array.asi8)}"
    if isinstance(array, kinds.NumpyExtensionArray):
        return _cells(array.to_numpy(), tell)
    return f"{tell(array.dtype)} {_elements(list(array), tell)}"


def _array(np: Module, array: Any, tell: Tell) -> str:
    head = f"{_kind(array)} {array.shape}"
    if isinstance(array, np.ma.MaskedArray):
        mask, fill = np.ma.getmaskarray(array), tell(array.fill_value)
        return f"<{head} {_cells(np.ma.getdata(array), tell)} mask={_numbers(mask)} fill={fill}>"
    more = tell(vars(array)) if getattr(array, "__dict__", None) else ""
    may_write = "" if array.flags.writeable else " readonly"
    return f"<{head}{may_write} {_cells(np.asarray(array), tell)}{more}>"


def _cells(array: Any, tell: Tell) -> str:
    if array.dtype.names:  # by field, for the gaps between them may hold anything
        fields = [f"{name}: {_cells(array[name], tell)}" for name in array.dtype.names]
        return f"{array.dtype!r} {'; '.join(fields)}"
    if array.dtype.kind in "OT":
        return f"{array.dtype} {_elements(array.ravel().tolist(), tell)}"
    return f"{array.dtype.str} {_numbers(array)}"


def _numbers(array: Any) -> str:
    np = loaded("numpy")
    assert np is not None
    flat = np.ascontiguousarray(array)
    if flat.dtype.kind in "fc":
        flat = _with_one_nan(np, flat)
    return f"{_preview(array)}#{digest(flat.tobytes())}"


def _with_one_nan(np: Module, flat: Any) -> Any:
    parts = flat.view(flat.real.dtype) if flat.dtype.kind == "c" and flat.ndim else flat
    missing = np.isnan(parts)
    return np.where(missing, np.nan, parts) if missing.any() else parts


def _preview(array: Any) -> str:
    values = array.ravel()[:_PREVIEW].tolist()
    more = ", …" if array.size > _PREVIEW else ""
    return f"[{', '.join(map(repr, values))}{more}]"


def _elements(values: list[Any], tell: Tell) -> str:
    told = [repr(v) if type(v) in PLAIN else tell(v) for v in values]
    more = ", …" if len(told) > _PREVIEW else ""
    return f"[{', '.join(told[:_PREVIEW])}{more}]#{digest(_joined(told))}"


def _joined(texts: Iterable[str]) -> str:
    return "\x1f".join(texts)


def _kind(value: object) -> str:
    return type(value).__qualname__
