"""Draws screens like those at which Windows stops, as PPM files: draw.py FOLDER < JSON list of {file, style, lines}."""

import json
import sys
import textwrap
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

FONTS = Path("/usr/share/fonts/truetype/dejavu")


def font(name, size):
    return ImageFont.truetype(str(FONTS / name), size)


def wrapped(lines, width):
    return [part for line in lines for part in (textwrap.wrap(line, width) or [""])]


def box(lines):
    """A white box on Setup's dark background, letters of 12 pixels."""
    image = Image.new("RGB", (1024, 768), (24, 0, 82))
    draw = ImageDraw.Draw(image)
    small = font("DejaVuSans.ttf", 12)
    lines = wrapped(lines, 62)
    top, height = 300, 96 + 18 * len(lines)
    draw.rectangle((280, top, 744, top + height), fill=(255, 255, 255), outline=(90, 90, 90))
    draw.text((292, top + 8), "Install Windows", fill=(0, 0, 0), font=small)
    for number, line in enumerate(lines):
        draw.text((300, top + 40 + 18 * number), line, fill=(0, 0, 0), font=small)
    draw.rectangle((640, top + height - 34, 720, top + height - 10), fill=(225, 225, 225), outline=(0, 120, 215))
    draw.text((670, top + height - 29), "OK", fill=(0, 0, 0), font=small)
    return image


def page(lines):
    """A page of the first logon: large light letters on blue."""
    image = Image.new("RGB", (1024, 768), (0, 90, 158))
    draw = ImageDraw.Draw(image)
    large, plain = font("DejaVuSans-ExtraLight.ttf", 40), font("DejaVuSans.ttf", 15)
    draw.text((80, 80), lines[0], fill=(255, 255, 255), font=large)
    for number, line in enumerate(wrapped(lines[1:], 80)):
        draw.text((80, 170 + 26 * number), line, fill=(255, 255, 255), font=plain)
    return image


def stop(lines):
    """A stop error of Windows Server 2016 to 2022."""
    image = Image.new("RGB", (1024, 768), (0, 120, 215))
    draw = ImageDraw.Draw(image)
    draw.text((100, 60), ":(", fill=(255, 255, 255), font=font("DejaVuSans.ttf", 110))
    plain = font("DejaVuSans.ttf", 20)
    for number, line in enumerate(wrapped(lines, 66)):
        draw.text((100, 260 + 32 * number), line, fill=(255, 255, 255), font=plain)
    return image


def console(lines):
    """A text screen of 80 by 25."""
    image = Image.new("RGB", (720, 400), (0, 0, 0))
    draw = ImageDraw.Draw(image)
    mono = font("DejaVuSansMono.ttf", 14)
    for number, line in enumerate(wrapped(lines, 80)):
        draw.text((0, 16 * number), line, fill=(170, 170, 170), font=mono)
    return image


STYLES = {"box": box, "page": page, "stop": stop, "console": console}

if __name__ == "__main__":
    for screen in json.load(sys.stdin):
        STYLES[screen["style"]](screen["lines"]).save(Path(sys.argv[1]) / screen["file"], "PPM")
