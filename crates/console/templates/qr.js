// Draws QR codes (ISO/IEC 18004) in the browser: byte mode, error correction level M. The text may be a secret, so no
// server draws it. `culvertQr(text)` answers the side of the picture in modules, and the dark ones as the path of an SVG.
// It answers null for a text that is too long.
const culvertQr = (() => {
  "use strict";

  // 997 bytes in 117 modules a side: more of them are too fine for a phone's camera in front of a screen.
  const MAX_VERSION = 25;
  // Of level M by version, from 1 on: error correction codewords of each block, and blocks (table 9).
  const ECC_LEN = [10, 16, 26, 18, 24, 16, 18, 22, 22, 26, 30, 22, 22, 24, 24, 28, 28, 26, 26, 26, 26, 28, 28, 28, 28];
  const BLOCKS = [1, 1, 1, 2, 2, 4, 4, 4, 5, 5, 5, 8, 9, 9, 10, 10, 11, 13, 14, 16, 17, 17, 18, 20, 21];
  // Modules of white around it.
  const QUIET = 4;

  const sizeOf = (version) => 4 * version + 17;
  const bit = (number, at) => ((number >>> at) & 1) === 1;

  // The centres of the alignment patterns, of each axis (annex E).
  function alignments(version) {
    if (version === 1) return [];
    const count = Math.floor(version / 7) + 2;
    const step = Math.ceil((4 * version + 4) / (2 * count - 2)) * 2;
    const places = [6];
    for (let at = 0; at < count - 1; at++) places.splice(1, 0, sizeOf(version) - 7 - at * step);
    return places;
  }

  // Codewords of data and error correction together.
  function codewordsOf(version) {
    const centres = alignments(version).length;
    // Without finders and their borders, both formats with the dark module, and the timing patterns. Alignment patterns
    // on a timing pattern share five modules with it.
    let modules = sizeOf(version) ** 2 - 3 * 64 - 31 - 2 * (sizeOf(version) - 16);
    if (centres > 0) modules -= (centres ** 2 - 3) * 25 - (centres - 2) * 2 * 5;
    if (version >= 7) modules -= 36;
    return Math.floor(modules / 8);
  }

  const dataLenOf = (version) => codewordsOf(version) - ECC_LEN[version - 1] * BLOCKS[version - 1];
  const countBitsOf = (version) => (version < 10 ? 8 : 16);

  // The smallest version that has room for so many bytes; 0 if none has.
  function versionFor(len) {
    for (let version = 1; version <= MAX_VERSION; version++) {
      if (4 + countBitsOf(version) + 8 * len <= 8 * dataLenOf(version)) return version;
    }
    return 0;
  }

  // One segment of bytes, its terminator, and padding.
  function dataOf(bytes, version) {
    const bits = [];
    const append = (number, count) => {
      for (let at = count - 1; at >= 0; at--) bits.push(bit(number, at));
    };
    append(0b0100, 4);
    append(bytes.length, countBitsOf(version));
    bytes.forEach((byte) => append(byte, 8));
    const capacity = 8 * dataLenOf(version);
    append(0, Math.min(4, capacity - bits.length));
    append(0, (8 - (bits.length % 8)) % 8);
    for (let pad = 0xec; bits.length < capacity; pad ^= 0xec ^ 0x11) append(pad, 8);
    const data = new Uint8Array(capacity / 8);
    bits.forEach((isSet, at) => { data[at >> 3] |= isSet << (7 - (at & 7)); });
    return data;
  }

  // The product in GF(2^8) modulo x^8 + x^4 + x^3 + x^2 + 1.
  function multiply(a, b) {
    let product = 0;
    for (let at = 7; at >= 0; at--) {
      product = (product << 1) ^ ((product >>> 7) * 0x11d);
      product ^= ((b >>> at) & 1) * a;
    }
    return product;
  }

  // The generator polynomial of that degree, without its highest coefficient.
  function generator(degree) {
    const result = new Uint8Array(degree);
    result[degree - 1] = 1;
    let root = 1;
    for (let round = 0; round < degree; round++) {
      for (let at = 0; at < degree; at++) {
        result[at] = multiply(result[at], root) ^ (at + 1 < degree ? result[at + 1] : 0);
      }
      root = multiply(root, 2);
    }
    return result;
  }

  // The error correction codewords of a block: the remainder by the generator.
  function remainder(data, divisor) {
    const result = new Uint8Array(divisor.length);
    for (const byte of data) {
      const factor = byte ^ result[0];
      result.copyWithin(0, 1);
      result[result.length - 1] = 0;
      divisor.forEach((coefficient, at) => { result[at] ^= multiply(coefficient, factor); });
    }
    return result;
  }

  // Data and error correction of all blocks, one codeword of each block in turn.
  function interleaved(data, version) {
    const [count, eccLen] = [BLOCKS[version - 1], ECC_LEN[version - 1]];
    const divisor = generator(eccLen);
    const shortLen = Math.floor(data.length / count);
    const shorts = count - (data.length % count);
    const blocks = [];
    for (let at = 0, begin = 0; at < count; at++) {
      const end = begin + shortLen + (at < shorts ? 0 : 1);
      blocks.push(data.subarray(begin, end));
      begin = end;
    }
    const result = [];
    for (let at = 0; at <= shortLen; at++) blocks.forEach((block) => at < block.length && result.push(block[at]));
    const ecc = blocks.map((block) => remainder(block, divisor));
    for (let at = 0; at < eccLen; at++) ecc.forEach((block) => result.push(block[at]));
    return result;
  }

  // A square of modules. Those of patterns are kept apart, because no mask applies to them.
  class Square {
    constructor(version) {
      this.version = version;
      this.size = sizeOf(version);
      this.dark = new Uint8Array(this.size ** 2);
      this.isPattern = new Uint8Array(this.size ** 2);
    }

    set(x, y, isDark) {
      this.dark[y * this.size + x] = isDark ? 1 : 0;
      this.isPattern[y * this.size + x] = 1;
    }

    get(x, y) {
      return this.dark[y * this.size + x];
    }

    // Squares within each other around a centre, as far as they are in the picture.
    rings(x, y, reach, isLight) {
      for (let dy = -reach; dy <= reach; dy++) {
        for (let dx = -reach; dx <= reach; dx++) {
          const [atX, atY] = [x + dx, y + dy];
          if (Math.min(atX, atY) < 0 || Math.max(atX, atY) >= this.size) continue;
          this.set(atX, atY, !isLight.includes(Math.max(Math.abs(dx), Math.abs(dy))));
        }
      }
    }

    drawPatterns() {
      const last = this.size - 1;
      for (let at = 0; at < this.size; at++) {
        this.set(6, at, at % 2 === 0);
        this.set(at, 6, at % 2 === 0);
      }
      for (const [x, y] of [[3, 3], [last - 3, 3], [3, last - 3]]) this.rings(x, y, 4, [2, 4]);
      const centres = alignments(this.version);
      const end = centres[centres.length - 1];
      for (const x of centres) {
        for (const y of centres) {
          const isFinder = (x === 6 && (y === 6 || y === end)) || (x === end && y === 6);
          if (!isFinder) this.rings(x, y, 2, [1]);
        }
      }
      this.drawFormat(0);
      this.drawVersion();
    }

    // Level and mask, twice, with a code for errors (section 7.9).
    drawFormat(mask) {
      let rest = mask;
      for (let at = 0; at < 10; at++) rest = (rest << 1) ^ ((rest >>> 9) * 0x537);
      // Level M is 00.
      const bits = ((mask << 10) | rest) ^ 0x5412;
      const last = this.size - 1;
      for (let at = 0; at < 15; at++) {
        const isDark = bit(bits, at);
        // A row and a column of the timing patterns lie between.
        const near = at < 6 ? at : at + 1;
        if (at < 8) this.set(8, near, isDark);
        else this.set(at === 8 ? 7 : 14 - at, 8, isDark);
        if (at < 8) this.set(last - at, 8, isDark);
        else this.set(8, last - 14 + at, isDark);
      }
      this.set(8, last - 7, true);
    }

    // The version, twice, with a code for errors (section 7.10).
    drawVersion() {
      if (this.version < 7) return;
      let rest = this.version;
      for (let at = 0; at < 12; at++) rest = (rest << 1) ^ ((rest >>> 11) * 0x1f25);
      const bits = (this.version << 12) | rest;
      for (let at = 0; at < 18; at++) {
        const [across, along] = [this.size - 11 + (at % 3), Math.floor(at / 3)];
        this.set(across, along, bit(bits, at));
        this.set(along, across, bit(bits, at));
      }
    }

    // Pairs of columns from the right, upwards and downwards in turn.
    drawCodewords(codewords) {
      let at = 0;
      for (let right = this.size - 1; right >= 1; right -= 2) {
        // The column of the timing pattern is in no pair.
        if (right === 6) right = 5;
        const isUpwards = ((right + 1) & 2) === 0;
        for (let row = 0; row < this.size; row++) {
          const y = isUpwards ? this.size - 1 - row : row;
          for (const x of [right, right - 1]) {
            const place = y * this.size + x;
            if (this.isPattern[place] || at >= 8 * codewords.length) continue;
            this.dark[place] = bit(codewords[at >> 3], 7 - (at & 7)) ? 1 : 0;
            at += 1;
          }
        }
      }
    }

    // Done twice, it changes nothing.
    mask(number) {
      const isInverted = MASKS[number];
      for (let y = 0; y < this.size; y++) {
        for (let x = 0; x < this.size; x++) {
          const place = y * this.size + x;
          if (!this.isPattern[place] && isInverted(x, y) === 0) this.dark[place] ^= 1;
        }
      }
    }

    // The worse it is for a reader, the more (section 7.8.3).
    penalty() {
      const [size, lines] = [this.size, []];
      for (let at = 0; at < size; at++) {
        lines.push(this.dark.subarray(at * size, (at + 1) * size).join(""));
        lines.push(Array.from({ length: size }, (_, y) => this.get(at, y)).join(""));
      }
      let sum = 0;
      for (const line of lines) {
        for (const run of line.match(/0{5,}|1{5,}/g) ?? []) sum += run.length - 2;
        for (const looksLikeFinder of [/(?=00001011101)/g, /(?=10111010000)/g]) {
          sum += 40 * [...line.matchAll(looksLikeFinder)].length;
        }
      }
      let darkCount = 0;
      for (let y = 0; y < size; y++) {
        for (let x = 0; x < size; x++) {
          const isDark = this.get(x, y);
          darkCount += isDark;
          if (x + 1 === size || y + 1 === size) continue;
          const around = [this.get(x + 1, y), this.get(x, y + 1), this.get(x + 1, y + 1)];
          if (around.every((other) => other === isDark)) sum += 3;
        }
      }
      return sum + 10 * Math.floor(Math.abs((20 * darkCount) / size ** 2 - 10));
    }
  }

  // A module is inverted where the result is 0 (table 10).
  const MASKS = [
    (x, y) => (x + y) % 2,
    (x, y) => y % 2,
    (x) => x % 3,
    (x, y) => (x + y) % 3,
    (x, y) => (Math.floor(x / 3) + Math.floor(y / 2)) % 2,
    (x, y) => ((x * y) % 2) + ((x * y) % 3),
    (x, y) => (((x * y) % 2) + ((x * y) % 3)) % 2,
    (x, y) => (((x + y) % 2) + ((x * y) % 3)) % 2,
  ];

  // The square of a text; null for a text that is too long.
  function encode(text) {
    const bytes = new TextEncoder().encode(text);
    const version = versionFor(bytes.length);
    if (version === 0) return null;
    const square = new Square(version);
    square.drawPatterns();
    square.drawCodewords(interleaved(dataOf(bytes, version), version));
    let best = { mask: 0, penalty: Infinity };
    for (let mask = 0; mask < MASKS.length; mask++) {
      square.mask(mask);
      square.drawFormat(mask);
      const penalty = square.penalty();
      if (penalty < best.penalty) best = { mask, penalty };
      square.mask(mask);
    }
    square.mask(best.mask);
    square.drawFormat(best.mask);
    return square;
  }

  return (text) => {
    const square = encode(text);
    if (!square) return null;
    let path = "";
    for (let y = 0; y < square.size; y++) {
      for (let x = 0; x < square.size; x++) {
        if (square.get(x, y)) path += `M${x + QUIET} ${y + QUIET}h1v1h-1z`;
      }
    }
    return { side: square.size + 2 * QUIET, path };
  };
})();
