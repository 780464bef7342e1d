// Buffers, worker threads, crypto, zlib, JSON, wasm, streams, child processes, garbage collection pressure.
import { execFileSync } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import vm from 'node:vm';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import zlib from 'node:zlib';

function numbers(seed) {
  let state = seed >>> 0;
  return (limit) => ((state = (Math.imul(state, 1664525) + 1013904223) >>> 0) >>> 8) % limit;
}

function work(seed) {
  const next = numbers(seed);
  const map = new Map();
  for (let i = 0; i < 60000; i++) {
    const key = `k${next(4000)}`;
    map.set(key, { id: i, text: key.repeat(1 + (i % 5)), list: Array.from({ length: i % 9 }, (_, n) => n) });
    if (i % 4 === 0) map.delete(`k${next(4000)}`);
  }
  let sum = 0;
  for (const one of map.values()) sum += one.id + one.text.length + one.list.length;
  const buffers = [];
  for (let i = 0; i < 4000; i++) {
    const buffer = Buffer.allocUnsafeSlow(500 + next(20000));
    buffer.fill(i & 255);
    buffers[i % 100] = buffer;
    sum += buffer[buffer.length - 1];
  }
  return sum + Buffer.concat(buffers).length;
}

if (!isMainThread) {
  parentPort.postMessage(work(workerData));
} else {
  const me = fileURLToPath(import.meta.url);
  console.log('main', work(1));
  const answers = await Promise.all([2, 3, 4, 5].map((seed) => new Promise((resolve, reject) => {
    new Worker(me, { workerData: seed }).on('message', resolve).on('error', reject);
  })));
  console.log('workers', answers.join(' '));

  const next = numbers(77);
  const data = Array.from({ length: 20000 }, (_, id) => ({ id, name: `näme ${next(1000)}`, values: [next(9), next(9) / 4, null, true] }));
  const text = JSON.stringify(data);
  console.log('json', JSON.stringify(JSON.parse(text)) === text, crypto.createHash('sha256').update(text).digest('hex').slice(0, 16));
  for (const [name, pack, unpack] of [['gzip', zlib.gzipSync, zlib.gunzipSync], ['brotli', (x) => zlib.brotliCompressSync(x, { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 4 } }), zlib.brotliDecompressSync]]) {
    console.log(name, unpack(pack(text)).toString() === text);
  }
  const zipped = await Promise.all(Array.from({ length: 12 }, (_, i) => new Promise((resolve, reject) => {
    zlib.deflate(text.slice(i * 1000), (error, out) => (error ? reject(error) : resolve(zlib.inflateSync(out).length)));
  })));
  console.log('async zlib', zipped.join(' '));

  const key = crypto.scryptSync('secret', 'salt', 32);
  const cipher = crypto.createCipheriv('aes-256-gcm', key, Buffer.alloc(12));
  console.log('cipher', crypto.createHash('md5').update(Buffer.concat([cipher.update(text), cipher.final()])).digest('hex'));
  const pair = crypto.generateKeyPairSync('ec', { namedCurve: 'P-256' });
  console.log('sign', crypto.verify('sha256', Buffer.from(text), pair.publicKey, crypto.sign('sha256', Buffer.from(text), pair.privateKey)));
  console.log('pbkdf2', (await Promise.all([1, 2, 3, 4].map((i) => new Promise((resolve, reject) =>
    crypto.pbkdf2('p', `s${i}`, 5000, 16, 'sha512', (error, out) => (error ? reject(error) : resolve(out.toString('hex')))))))).join(' '));

  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'node-'));
  await Promise.all(Array.from({ length: 40 }, (_, i) => fs.promises.writeFile(path.join(folder, `${i}`), text.slice(0, i * 1000))));
  console.log('files', fs.readdirSync(folder).map((name) => fs.statSync(path.join(folder, name)).size).reduce((a, b) => a + b));
  fs.rmSync(folder, { recursive: true });
  console.log('regexp', [...text.matchAll(/"name":"näme (\d+)"/g)].length, text.replace(/\d+/g, (d) => d * 2).length);
  const bytes = new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0, 1, 7, 1, 96, 2, 127, 127, 1, 127, 3, 2, 1, 0, 7, 7, 1, 3, 97, 100, 100, 0, 0, 10, 9, 1, 7, 0, 32, 0, 32, 1, 106, 11]);
  console.log('wasm', (await WebAssembly.instantiate(bytes)).instance.exports.add(40, 2));
  for (let i = 0; i < 30; i++) vm.runInNewContext(`let a = []; for (let i = 0; i < 1000; i++) a.push({ i }); a.length * ${i}`);
  console.log('intl', new Intl.NumberFormat('de-CH').format(1234567.891), ['ö', 'z', 'a'].sort(new Intl.Collator('de').compare).join(''));
  console.log('child', execFileSync('/bin/echo', ['from a child']).toString().trim());
  process.exitCode = 5;
}
