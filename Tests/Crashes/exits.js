// JavaScript programs that end by an exit status, one per function, for Tests/Detection/panics.py. The lines before the
// functions have the format of exits.rs; the function is one of the stack's.

const WORDS = "shop.js:1\nthrow new Error('out of cheese')\n^\n\nError: out of cheese\n    at shop.js:1:1\n\nNode.js v20.1.0\n";

// ends: 1, ^TypeError: out of cheese$, exit
function throws() { throw new TypeError("out of cheese"); }

// ends: 1, ^Error: out of cheese$, exit
function rejects() { Promise.reject(new Error("out of cheese")); }

// ends: 1, ^Error: out of cheese$, exit
function later() { setTimeout(() => { throw new Error("out of cheese"); }, 1); }

// ends: 1, ^out of cheese$, exit
function throws_text() { throw "out of cheese"; }

// ends: 1, ^Error: ENOENT: no such file or directory, exit
function opens() { require("fs").readFileSync("/no/cheese"); }

// quiet: 1
function exits() { process.exit(1); }

// quiet: 1
function caught() { try { throws(); } catch (error) { console.error(error); process.exit(1); } }

// quiet: 1
function caught_status() { try { throws(); } catch (error) { console.error(error); process.exitCode = 1; } }

// quiet: 1
function relays() { require("fs").writeSync(2, WORDS); process.exit(1); }

// quiet: 1
function handles() {
    process.on("uncaughtException", (error) => { console.error(error); process.exit(1); });
    throws();
}

// quiet: 0
function goes_on() { console.error(new Error("out of cheese")); }

eval(process.argv[2])();
