#!/usr/bin/env python3
"""Writes digits to train on, in the size of MNIST: images.bin (f32, N x 1 x 28 x 28) and labels.bin (i64, N).

    make_data.py [N=2000] [FOLDER=.]

Each class is a shape of strokes; each image is that shape moved by up to two pixels, its strength and noise drawn anew. Needs Python alone;
the same numbers come out everywhere.
"""
import array
import random
import sys

SIZE = 28
# Strokes of the digits on a 4 x 6 grid: (column, row) from, to.
STROKES = {
    0: [((0, 0), (3, 0)), ((3, 0), (3, 5)), ((3, 5), (0, 5)), ((0, 5), (0, 0))],
    1: [((2, 0), (2, 5)), ((1, 1), (2, 0))],
    2: [((0, 0), (3, 0)), ((3, 0), (3, 2)), ((3, 2), (0, 5)), ((0, 5), (3, 5))],
    3: [((0, 0), (3, 0)), ((3, 0), (3, 5)), ((1, 2), (3, 2)), ((0, 5), (3, 5))],
    4: [((0, 0), (0, 3)), ((0, 3), (3, 3)), ((2, 1), (2, 5))],
    5: [((3, 0), (0, 0)), ((0, 0), (0, 2)), ((0, 2), (3, 2)), ((3, 2), (3, 5)), ((3, 5), (0, 5))],
    6: [((3, 0), (0, 1)), ((0, 1), (0, 5)), ((0, 5), (3, 5)), ((3, 5), (3, 3)), ((3, 3), (0, 3))],
    7: [((0, 0), (3, 0)), ((3, 0), (1, 5))],
    8: [((0, 0), (3, 0)), ((3, 0), (3, 5)), ((3, 5), (0, 5)), ((0, 5), (0, 0)), ((0, 2), (3, 2))],
    9: [((3, 2), (0, 2)), ((0, 2), (0, 0)), ((0, 0), (3, 0)), ((3, 0), (3, 5))],
}


def pixels(digit):
    """The pixels of a digit's strokes, two wide."""
    found = set()
    for (x0, y0), (x1, y1) in STROKES[digit]:
        for step in range(41):
            x = 8 + 4 * (x0 + (x1 - x0) * step / 40)
            y = 4 + 4 * (y0 + (y1 - y0) * step / 40)
            found.update({(int(x), int(y)), (int(x) + 1, int(y)), (int(x), int(y) + 1)})
    return sorted(found)


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    folder = sys.argv[2] if len(sys.argv) > 2 else "."
    draw = random.Random(1)
    shapes = [pixels(digit) for digit in range(10)]
    images, labels = array.array("f"), array.array("q")
    for _ in range(count):
        digit = draw.randrange(10)
        image = [0.1 * draw.random() for _ in range(SIZE * SIZE)]
        dx, dy, strength = draw.randrange(-2, 3), draw.randrange(-2, 3), 0.6 + 0.4 * draw.random()
        for x, y in shapes[digit]:
            image[(y + dy) * SIZE + x + dx] = strength
        images.extend(image)
        labels.append(digit)
    if sys.byteorder == "big":
        images.byteswap()
        labels.byteswap()
    for name, values in (("images.bin", images), ("labels.bin", labels)):
        with open(f"{folder}/{name}", "wb") as file:
            values.tofile(file)


main()
