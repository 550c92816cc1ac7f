"""Images come back pixel for pixel."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, PngImagePlugin

import otolith
from otolith.errors import BadValue, Corrupt, UnknownType
from otolith.types import Tag
from tests.unit.codecs.storing import again, damaged, data_of, encoded, lift

MODES = [
    "1", "L", "P", "LA", "PA", "La", "RGB", "YCbCr", "LAB", "HSV", "RGBA", "RGBX", "RGBa", "CMYK",
    "I", "F", "I;16", "I;16L", "I;16B", "I;16N",
]  # fmt: skip


def picture(mode="RGB", size=(9, 5)):
    count = len(Image.new(mode, size).tobytes())
    return Image.frombytes(mode, size, bytes(at * 7 % 251 for at in range(count)))


def through_file(image, form, **options):
    file = io.BytesIO()
    image.save(file, form, **options)
    return Image.open(io.BytesIO(file.getvalue()))


@pytest.mark.parametrize("mode", MODES)
def test_images_of_every_mode_come_back_as_they_were(mode):
    image = picture(mode)

    assert type(again(image)) is Image.Image
    assert again(image) == image
    assert encoded(again(image)) == encoded(image)


@pytest.mark.parametrize("size", [(0, 0), (0, 3), (3, 0), (1, 1)])
def test_the_smallest_images_come_back(size):
    assert again(Image.new("RGB", size)) == Image.new("RGB", size)


def test_an_image_comes_back_through_a_repo():
    image = picture(size=(400, 300))
    repo = otolith.open("memory:")
    session = repo.session("a")
    session["i"] = image
    session.commit("kept")

    assert repo.session("a")["i"] == image


@pytest.mark.parametrize(
    ("colours", "mode"), [([], "RGB"), ([1, 2, 3, 4, 5, 6], "RGB"), ([1, 2, 3, 4] * 256, "RGBA")]
)
def test_palettes_come_back_as_they_were(colours, mode):
    image = Image.new("P", (2, 2))
    image.putpalette(colours, mode)

    back = again(image)

    assert back.getpalette(mode) == image.getpalette(mode) == colours
    assert back.palette.mode == mode
    assert back.convert("RGBA") == image.convert("RGBA")


def test_an_image_from_a_file_is_kept_by_what_it_shows():
    opened = through_file(picture(), "PNG")
    assert type(opened) is not Image.Image

    assert again(opened) == picture()
    assert encoded(opened) == encoded(picture())


def test_transparency_and_what_else_is_plain_is_kept():
    opened = through_file(
        picture("L").quantize(5), "PNG", transparency=2, dpi=(300, 300), icc_profile=b"profile"
    )

    back = again(opened)

    assert back.info == opened.info
    assert back.info["transparency"] == 2
    assert back.convert("RGBA") == opened.convert("RGBA")


def test_text_from_a_file_is_text():
    info = PngImagePlugin.PngInfo()
    info.add_itxt("title", "Ünïted", "en")
    opened = through_file(picture(), "PNG", pnginfo=info)

    assert again(opened).info["title"] == "Ünïted"
    assert type(again(opened).info["title"]) is str


def test_what_is_not_plain_is_left_out_of_info():
    image = picture()
    image.info.update(kept=(1, [2.5, {"a": None}]), lost=object(), lost_too=[image])

    assert again(image).info == {"kept": (1, [2.5, {"a": None}])}


def test_of_an_animation_the_shown_frame_is_kept():
    first, second = picture("L"), picture("L").rotate(180)
    opened = through_file(first, "GIF", save_all=True, append_images=[second])
    opened.seek(1)

    assert again(opened).convert("L") == opened.convert("L")


def test_an_image_whose_file_is_cut_short_is_refused():
    file = io.BytesIO()
    picture(size=(200, 200)).save(file, "PNG")

    with pytest.raises(BadValue, match="cannot be read"):
        encoded(Image.open(io.BytesIO(file.getvalue()[:200])))


def test_an_image_that_changed_is_kept_anew():
    image = picture()
    before = encoded(image)
    image.putpixel((0, 0), (1, 2, 3))

    assert encoded(image) != before


@pytest.mark.parametrize(
    "parts",
    [
        {"size": [2**30, 2**30]}, {"size": [-1, 5]}, {"size": [9]}, {"size": None},
        {"pixels": []}, {"pixels": [b"\0" * 136]}, {"mode": "L"}, {"palette": ["RGB", b"123"]},
        {"info": None}, {"info": {"a": {1, 2}}}, {"info": {1: 2}}, {"more": 1},
    ],
)  # fmt: skip
def test_parts_that_do_not_fit_are_refused(parts):
    with pytest.raises(Corrupt):
        lift(Tag.IMAGE, {**data_of(picture()), **parts})


@pytest.mark.parametrize("palette", [["RGB", b"12"], ["CMYK", b"123"], ["RGB", bytes(900)], [], 1])
def test_palettes_that_are_none_are_refused(palette):
    with pytest.raises(Corrupt):
        lift(Tag.IMAGE, {**data_of(picture("P")), "palette": palette})


def test_a_mode_of_tomorrow_is_unknown_today():
    with pytest.raises(UnknownType):
        lift(Tag.IMAGE, {**data_of(picture()), "mode": "RGB;96"})


@given(st.data())
def test_damaged_data_is_refused_or_is_a_sound_image(draw):
    data = data_of(picture("P").convert("RGB").quantize(4))
    try:
        image = lift(Tag.IMAGE, draw.draw(damaged(data)))
    except (Corrupt, UnknownType):
        return
    image.convert("RGBA")
