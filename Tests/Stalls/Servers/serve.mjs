// Node.js HTTP server whose handler computes for /computes and sleeps for /sleeps; SIGTERM ends the server.
import { createServer } from "node:http";

function compute() {
    const start = process.cpuUsage().user;
    let sum = 0;
    while (process.cpuUsage().user - start < 800000) for (let i = 0; i < 1e6; i++) sum += i % 7;
    return sum > 0;
}

const server = createServer((request, response) => {
    if (request.url === "/computes") compute();
    if (request.url === "/sleeps") Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 800);
    response.setHeader("content-type", "text/plain");
    response.end("done\n");
});
process.on("SIGTERM", () => process.exit(0));
server.listen(Number(process.argv[2]), "127.0.0.1");
