// Objects, maps, JSON, buffers and compression: the engine's own heap, and the blocks of its libraries.
import zlib from 'node:zlib';

const rounds = Math.max(1, Math.floor(12 * Number(process.argv[2])));
let state = 12345;
const number = (limit) => ((state = (Math.imul(state, 1664525) + 1013904223) >>> 0) >>> 8) % limit;

let total = 0;
for (let round = 0; round < rounds; round++) {
  const records = new Map();
  for (let i = 0; i < 30000; i++) {
    const key = `key ${number(5000)}`;
    records.set(key, { id: i, text: key.repeat(1 + (i % 5)), list: Array.from({ length: i % 9 }, (_, n) => n + round) });
  }
  const text = JSON.stringify([...records.entries()].sort());
  total += JSON.parse(text).reduce((sum, [key, one]) => sum + key.length + one.text.length + one.list.length, 0);
  const buffers = [];
  for (let i = 0; i < 2000; i++) {
    const buffer = Buffer.allocUnsafeSlow(500 + number(20000));
    buffer.fill(i & 255);
    buffers[i % 100] = buffer;
  }
  total += Buffer.concat(buffers).length;
  total += zlib.inflateSync(zlib.deflateSync(text, { level: 1 })).length;
}
console.log(total);
