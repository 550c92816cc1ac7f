"""Tensors come back bit by bit; what cannot come back is refused."""

from __future__ import annotations

import pytest

import otolith
from otolith.errors import BadValue, Corrupt, UnknownType
from otolith.types import Raw, Tag
from tests.unit.codecs.storing import again, data_of, encoded, lift, lowered

torch = pytest.importorskip("torch", reason="torch is too large for the tests' environment")

DTYPES = [
    "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16",
    "bfloat16", "float32", "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2",
]  # fmt: skip


def bits(tensor):
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


def assert_same(back, tensor):
    assert type(back) is type(tensor)
    assert (back.dtype, back.shape) == (tensor.dtype, tensor.shape)
    assert back.requires_grad == tensor.requires_grad
    assert torch.equal(bits(back), bits(tensor))


@pytest.mark.parametrize("name", DTYPES)
def test_tensors_of_every_dtype_come_back_as_they_were(name):
    tensor = torch.arange(6).reshape(2, 3).to(getattr(torch, name))

    assert_same(again(tensor), tensor)
    assert encoded(again(tensor)) == encoded(tensor)


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.tensor(1.5, dtype=torch.bfloat16),
        lambda: torch.zeros(0, 3),
        lambda: torch.arange(6).reshape(2, 3).T,
        lambda: torch.arange(10)[3:5],
        lambda: torch.ones(3).expand(2, 3),
        lambda: torch.ones(3, requires_grad=True),
        lambda: torch.nn.Parameter(torch.ones(2)),
        lambda: torch.nn.Parameter(torch.arange(2), requires_grad=False),
    ],
)
def test_tensors_of_every_shape_come_back_as_they_were(make):
    assert_same(again(make()), make())


def test_a_conjugate_is_kept_by_its_values():
    tensor = torch.tensor([1 + 2j]).conj()

    assert again(tensor).tolist() == [1 - 2j]


def test_gradients_come_back():
    weight = torch.nn.Parameter(torch.arange(3.0))
    (weight**2).sum().backward()

    assert again(weight).grad.tolist() == [0.0, 2.0, 4.0]


def test_dtypes_devices_and_sizes_come_back():
    for value in (torch.bfloat16, torch.device("cuda:1"), torch.Size([2, 3])):
        assert type(again(value)) is type(value)
        assert again(value) == value


def test_a_tensor_comes_back_through_a_repo_and_can_be_changed():
    tensor = torch.randn(300, 300)
    repo = otolith.open("memory:")
    session = repo.session("a")
    session["t"] = tensor
    session.commit("kept")

    back = repo.session("a")["t"]

    assert_same(back, tensor)
    back[0, 0] = 7.0
    assert back[0, 0] == 7.0


def test_memory_is_handed_over_without_a_copy():
    tensor = torch.zeros(100)

    data = lowered(tensor)["data"]
    tensor[0] = 1.0

    assert type(data) is Raw
    assert bytes(data.view[:4]) == bytes(torch.tensor(1.0).numpy().tobytes())


@pytest.mark.parametrize(
    ("make", "hint"),
    [
        (lambda: torch.zeros(1, device="meta"), r"cpu\(\)"),
        (lambda: torch.ones(1, requires_grad=True) * 2, r"detach\(\)"),
        (lambda: torch.eye(2).to_sparse(), r"to_dense\(\)"),
    ],
)
def test_what_cannot_come_back_is_refused_with_a_way_out(make, hint):
    with pytest.raises(BadValue, match=hint):
        encoded(make())


def test_attributes_of_its_own_are_not_lost_in_silence():
    tensor = torch.zeros(1)
    tensor.label = "mine"

    with pytest.raises(BadValue, match="label"):
        encoded(tensor)


@pytest.mark.parametrize(
    "parts",
    [
        {"shape": [2**40, 2**40]}, {"shape": [-1]}, {"shape": [4]}, {"shape": [0, 2**62, 2**62]},
        {"shape": None}, {"data": []}, {"device": "cuda"}, {"requires_grad": 1}, {"grad": 1},
        {"dtype": 3}, {"dtype": "int32", "requires_grad": True}, {"more": 1},
    ],
)  # fmt: skip
def test_parts_that_do_not_fit_are_refused(parts):
    with pytest.raises(Corrupt):
        lift(Tag.TENSOR, {**data_of(torch.zeros(3)), **parts})


def test_a_gradient_of_another_shape_is_refused():
    data = data_of(torch.zeros(3, requires_grad=True))

    with pytest.raises(Corrupt, match="gradient"):
        lift(Tag.TENSOR, {**data, "grad": torch.zeros(4)})


@pytest.mark.parametrize(
    "data",
    [
        {"type": "dtype", "name": "float4096"},
        {"type": "device", "name": "abacus"},
        {"type": "Module", "name": "x"},
    ],
)
def test_names_of_tomorrow_are_unknown_today(data):
    with pytest.raises(UnknownType):
        lift(Tag.TENSOR, data)
