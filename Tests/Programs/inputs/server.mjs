// An HTTP server in two workers of a cluster, with worker threads, streams and compression; ends at SIGTERM.
import cluster from 'node:cluster';
import http from 'node:http';
import zlib from 'node:zlib';
import { createHash, pbkdf2Sync } from 'node:crypto';
import { Worker } from 'node:worker_threads';

const port = Number(process.argv[2]);
if (cluster.isPrimary) {
  for (let i = 0; i < 2; i++) cluster.fork();
  process.on('SIGTERM', () => { for (const worker of Object.values(cluster.workers)) worker.process.kill('SIGTERM'); });
  let ended = 0;
  cluster.on('exit', (worker, code) => { console.log(`worker ended with ${code}`); if (++ended == 2) process.exit(6); });
} else {
  const server = http.createServer((request, response) => {
    const url = new URL(request.url, 'http://localhost');
    const number = Number(url.searchParams.get('n') ?? 0);
    const chunks = [];
    request.on('data', (chunk) => chunks.push(chunk));
    request.on('end', () => {
      const body = Buffer.concat(chunks);
      response.setHeader('content-type', 'text/plain');
      switch (url.pathname) {
        case '/hash': response.end(createHash('sha256').update(body).digest('hex')); break;
        case '/key': response.end(pbkdf2Sync('word', String(number), 2000, 32, 'sha256').toString('hex')); break;
        case '/json': response.end(JSON.stringify(Array.from({ length: number }, (_, i) => ({ i, text: 'x'.repeat(i % 50) })))); break;
        case '/thread': {
          const worker = new Worker(`const { parentPort, workerData } = require('worker_threads');
            let sum = 0; const parts = []; for (let i = 0; i < workerData; i++) { sum = (sum * 31 + i) % 1000003; parts.push(Buffer.alloc(i % 300)); }
            parentPort.postMessage(sum);`, { eval: true, workerData: number });
          worker.on('message', (sum) => response.end(String(sum)));
          break;
        }
        default: {
          response.setHeader('content-encoding', 'gzip');
          const gzip = zlib.createGzip();
          gzip.pipe(response);
          for (let i = 0; i < number; i++) gzip.write(`line ${i * 7919 % 10007}\n`);
          gzip.end();
        }
      }
    });
  });
  server.listen(port, '127.0.0.1');
  process.on('SIGTERM', () => { server.close(() => process.exit(0)); server.closeAllConnections(); });
}
