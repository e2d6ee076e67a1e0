"""Reads a QR code from the picture of one that nothing covers: no error is corrected, so that a wrong module is seen."""
import struct
import zlib

from kit import Fail

# For each version at level L: how many words correct errors in a block, and the data words of each block.
BLOCKS = {1: (7, [19]), 2: (10, [34]), 3: (15, [55]), 4: (20, [80]), 5: (26, [108]), 6: (18, [68] * 2), 7: (20, [78] * 2), 8: (24, [97] * 2), 9: (30, [116] * 2),
          10: (18, [68] * 2 + [69] * 2), 11: (20, [81] * 4), 12: (24, [92] * 2 + [93] * 2), 13: (26, [107] * 4), 14: (30, [115] * 3 + [116]), 15: (22, [87] * 5 + [88])}
ALIGNED = {1: [], 7: [6, 22, 38], 8: [6, 24, 42], 9: [6, 26, 46], 10: [6, 28, 50], 11: [6, 30, 54], 12: [6, 32, 58], 13: [6, 34, 62], 14: [6, 26, 46, 66], 15: [6, 26, 48, 70]}
MASKS = [lambda r, c: (r + c) % 2, lambda r, c: r % 2, lambda r, c: c % 3, lambda r, c: (r + c) % 3, lambda r, c: (r // 2 + c // 3) % 2, lambda r, c: r * c % 2 + r * c % 3,
         lambda r, c: (r * c % 2 + r * c % 3) % 2, lambda r, c: ((r + c) % 2 + r * c % 3) % 2]
SIGNS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ $%*+-./:"


def pixels(png):
    """Rows of a PNG of one bit a pixel; true is dark."""
    at, packed = 8, b""
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at:at + 8])
        data = png[at + 8:at + 8 + size]
        if kind == b"IHDR":
            width, height = struct.unpack(">II", data[:8])
        packed += data if kind == b"IDAT" else b""
        at += 12 + size
    rows, wide = zlib.decompress(packed), (width + 7) // 8 + 1
    return [[not rows[y * wide + 1 + x // 8] >> (7 - x % 8) & 1 for x in range(width)] for y in range(height)]


def modules(png):
    rows = pixels(png)
    edge = next(y for y, row in enumerate(rows) if any(row))
    scale = next(x for x in range(edge, len(rows)) if not rows[edge][x]) - edge
    if scale % 7:
        raise Fail("no corner of a code is at %d" % edge)
    scale //= 7
    return [[rows[y][x] for x in range(edge, len(rows) - edge, scale)] for y in range(edge, len(rows) - edge, scale)]


def fixed(version, side):
    """Whether a module belongs to the form of the code rather than to what it says."""
    lines = ALIGNED.get(version, [6, 4 * version + 10])
    corners = {(6, 6), (6, side - 7), (side - 7, 6)}
    centres = [(r, c) for r in lines for c in lines if (r, c) not in corners]

    def is_fixed(r, c):
        corner = r < 9 and c < 9 or r < 9 and c >= side - 8 or r >= side - 8 and c < 9
        told = version > 6 and (r < 6 and c >= side - 11 or c < 6 and r >= side - 11)
        return corner or told or r == 6 or c == 6 or any(abs(r - y) < 3 and abs(c - x) < 3 for y, x in centres)
    return is_fixed


def read(png):
    """What a code says."""
    dark = modules(png)
    side = len(dark)
    version = (side - 17) // 4
    form = int("".join(str(int(dark[8][c])) for c in range(5)), 2) ^ 0b10101
    if form >> 3 != 1:
        raise Fail("not of level L")
    is_fixed, mask, bits = fixed(version, side), MASKS[form & 7], []
    columns = [c for c in range(side - 1, 6, -2)] + [5, 3, 1]
    for turn, right in enumerate(columns):
        for r in range(side) if turn % 2 else range(side - 1, -1, -1):
            bits += [dark[r][c] ^ (mask(r, c) == 0) for c in (right, right - 1) if not is_fixed(r, c)]
    words = [int("".join(str(int(b)) for b in bits[at:at + 8]), 2) for at in range(0, len(bits) - 7, 8)]
    sizes, blocks, at = BLOCKS[version][1], [[] for _ in BLOCKS[version][1]], 0
    for place in range(max(sizes)):
        for block, size in zip(blocks, sizes):
            if place < size:
                block.append(words[at])
                at += 1
    return said("".join(format(word, "08b") for block in blocks for word in block), version)


def said(bits, version):
    at, text, wide = 0, "", version > 9

    def take(count):
        nonlocal at
        at += count
        return int(bits[at - count:at] or "0", 2)
    while len(bits) - at >= 4 and (mode := take(4)):
        if mode == 4:
            text += bytes(take(8) for _ in range(take(16 if wide else 8))).decode()
        elif mode == 2:
            left = take(11 if wide else 9)
            for _ in range(left // 2):
                pair = take(11)
                text += SIGNS[pair // 45] + SIGNS[pair % 45]
            text += SIGNS[take(6)] if left % 2 else ""
        elif mode == 1:
            left = take(12 if wide else 10)
            for _ in range(left // 3):
                text += "%03d" % take(10)
            text += "%0*d" % (left % 3, take(4 if left % 3 == 1 else 7)) if left % 3 else ""
        else:
            raise Fail("a part of a kind that is not known: %d" % mode)
    return text
