#!/usr/bin/env python3
"""Runs real programs from Debian on another processor, with and without the library. They must behave the same, without findings.

Each case is a shell script in its own empty directory; its output and status are compared. Programs that a guarded program starts are
guarded, too: the shell and all its commands.

usage: Tests/Programs/elsewhere.py --arch aarch64 [--filter NAME] [-o OPTION]...
"""

import argparse
import concurrent.futures
import json
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Support import processors  # noqa: E402
from Support.checks import Checks, run_within, said_by_library  # noqa: E402
from Support.environment import ARCH, HERE, LIBRARY, guarded_by, scrubbed  # noqa: E402

SECONDS = 900  # time limit under emulation on a busy machine

# In qemu's user mode /proc/self/smaps lacks a field. Redis takes this for a bug of arm64 kernels (ARM64-COW-BUG): ignore that warning.
CASES = {
    "python3": r"""
python3 - <<'END'
import json, re, hashlib, sqlite3, zlib, collections, subprocess, threading
words = [f"word{i * 7919 % 1000}" for i in range(20000)]
print(collections.Counter(words).most_common(3), hashlib.sha256(" ".join(words).encode()).hexdigest())
print(len(zlib.compress(json.dumps(words).encode())), len(re.findall(r"d(\d)\1", " ".join(words))))
base = sqlite3.connect(":memory:")
base.execute("create table t (a, b)")
base.executemany("insert into t values (?, ?)", enumerate(words))
print(base.execute("select count(*), max(b) from t").fetchone())
threads = [threading.Thread(target=lambda: [bytearray(n) for n in range(2000)]) for _ in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
print(subprocess.run(["python3", "-c", "print(sum(range(1000)))"], capture_output=True).stdout)
END""",
    "perl": r"""
perl -MList::Util=sum -MData::Dumper -e '
    my %count; $count{$_ % 97} .= "x" x ($_ % 13) for 1 .. 40000;
    print sum(map { length } values %count), "\n";
    $Data::Dumper::Sortkeys = 1; print length(Dumper(\%count)), "\n";
    my $text = join ",", map { "k$_=v$_" } 1 .. 5000; my @found = $text =~ /k(\d+)=v\1/g; print scalar(@found), "\n";
    print `echo from the shell`; my $pid = fork; if (!$pid) { exit 7 } waitpid $pid, 0; print $? >> 8, "\n";'""",
    "sqlite3": r"""
sqlite3 test.db <<'END'
create table t (id integer primary key, name text, size real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000) insert into t select i, 'name ' || (i * 31 % 977), i / 7.0 from n;
create index by_name on t (name);
select count(*), count(distinct name), round(sum(size), 3) from t;
select name, count(*) from t group by name order by name limit 5;
update t set name = upper(name) where id % 3 = 0; delete from t where id % 5 = 0; vacuum; pragma integrity_check;
select json_group_array(name) from (select name from t order by id limit 10);
END""",
    "redis": r"""
redis-server --port 0 --unixsocket "$PWD/r" --save '' --daemonize no --io-threads 2 --ignore-warnings ARM64-COW-BUG > log 2>&1 &
server=$!
for _ in $(seq 300); do redis-cli -s "$PWD/r" ping > pong 2> /dev/null && break; sleep 0.1; done
cat pong
for i in $(seq 1 300); do echo "set key:$i $i"; echo "lpush list $i"; echo "zadd sorted $i member$i"; echo "hset hash f$i v$i"; done |
    redis-cli -s "$PWD/r" | sort | uniq -c
redis-cli -s "$PWD/r" <<'END'
get key:77
lrange list 0 4
zrangebyscore sorted 10 14
hlen hash
eval "return redis.call('incrby', 'key:5', 37)" 0
flushall
END
redis-cli -s "$PWD/r" shutdown nosave
wait $server; echo "ended with $?" """,
    "git": r"""
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_DATE='2001-01-01T00:00:00Z' GIT_COMMITTER_DATE='2001-01-01T00:00:00Z' GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b
export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
git init -q -b main r && cd r
for i in 1 2 3; do seq $i 400 > "f$i"; git add -A; git commit -qm "commit $i"; done
git checkout -qb other HEAD~1; sed -i 's/^20$/twenty/' f1; git commit -qam change; git checkout -q main
git merge -q --no-edit other; git log --oneline --stat; git gc -q; git fsck; git diff HEAD~2 | sha256sum; git blame f1 | tail -1; cd ..
git clone -q r s; git -C s log --format=%H | tail -1""",
    "lua": r"""
lua5.4 -e '
local t = {} for i = 1, 50000 do t[i] = string.format("%05d", (i * 7919) % 50021) end
table.sort(t) print(t[1], t[#t], #table.concat(t))
local c = coroutine.wrap(function() for i = 1, 1000 do coroutine.yield({i}) end end)
local s = 0 for i = 1, 1000 do s = s + c()[1] end print(s)
print(select(2, ("x1y22z333"):gsub("%d+", "#"))) collectgarbage() print(pcall(error, {1}))' | sed 's/0x[0-9a-f]*/ADDRESS/'""",
    "jq": r"""
jq -n -c '[range(3000) | {id: ., name: "n\(. * 31 % 97)", tags: [range(. % 5) | tostring]}]' > data
jq 'group_by(.name) | map({name: .[0].name, count: length, sum: (map(.id) | add)}) | sort_by(.sum) | .[:5]' data
jq -r '.[] | select(.id % 500 == 0) | [.id, .name, (.tags | join("+"))] | @csv' data
jq '.[0' data; echo $?""",
    "bash": r"""
bash -c '
declare -A count; for i in {1..3000}; do k=$((i * 7 % 101)); count[$k]=${count[$k]-}x; done
for k in 1 50 100; do echo "$k ${#count[$k]}"; done
fib() { local n=$1; if ((n < 2)); then echo $n; else echo $(($(fib $((n - 1))) + $(fib $((n - 2))))); fi; }; fib 7
while read -r a b; do echo "$b $a"; done < <(printf "%s %s\n" one two three four); [[ "key=value" =~ (.*)=(.*) ]] && echo "${BASH_REMATCH[2]}"
trap "echo trapped" USR1; kill -USR1 $$; (exit 3) || echo $?'""",
    "xz": r"""
seq 200000 > numbers; xz -k -T2 -6 numbers; xz -l numbers.xz | tail -1 | tr -s ' ' | cut -d' ' -f2-; xz -dc numbers.xz | sha256sum
xz -t numbers.xz; echo $?; head -c 1000 numbers.xz > broken.xz; xz -t broken.xz; echo $?""",
    "ruby": r"""
ruby -rjson -rset -rdigest -e '
words = (1..20000).map { |i| "w#{i * 31 % 977}" }
puts words.tally.sort.first(3).inspect, Digest::SHA256.hexdigest(JSON.generate(words))
puts (1..4).map { |n| Thread.new { (1..3000).map { |i| [i, n] }.size } }.map(&:value).sum
GC.start; puts Set.new(words).size, ("a".."e").each_cons(2).to_a.inspect
puts `echo from the shell`; fork { exit! 5 }; Process.wait; puts $?.exitstatus; begin; raise "no"; rescue => e; puts e.message; end'""",
    "node": r"""
node -e '
const crypto = require("crypto"), zlib = require("zlib"), { execFileSync } = require("child_process");
const words = Array.from({ length: 20000 }, (_, i) => "w" + i * 31 % 977);
console.log(new Set(words).size, crypto.createHash("sha256").update(words.join()).digest("hex"), zlib.deflateSync(words.join()).length);
Promise.all([1, 2, 3].map(n => new Promise(r => setTimeout(() => r(n * n), n)))).then(all => console.log(all));
console.log(execFileSync("/bin/echo", ["from a child"]).toString());'""",
    "sh": r"""
i=0; while [ $i -lt 300 ]; do i=$((i + 1)); echo "$i $((i * i % 17))"; done | sort -k2n -k1n | awk '{s[$2] += $1} END {for (k = 0; k < 17; k++) print k, s[k]}'
find /usr/share/doc -maxdepth 1 | wc -l; tar cf - /etc/passwd 2> /dev/null | tar tf -; date -u -d @0 +%F; expr 6 '*' 7""",
}


def run(name, options, temporary):
    """Returns differences between the plain and the guarded run, as lines of text."""
    seen, problems = [], []
    for guarded in (False, True):
        directory = Path(tempfile.mkdtemp(dir=temporary))
        report = directory.with_suffix(".jsonl")
        plain = scrubbed()
        environment = guarded_by(LIBRARY, ":".join([f"report_path={report}", *options])) if guarded else plain
        seen.append(run_within(SECONDS, ["/bin/sh", "-c", CASES[name]], cwd=directory, env=environment))
        if seen[-1][0] is None:
            return [f"{'guarded' if guarded else 'unguarded'}: still running after {SECONDS} s"]
    for what, plain, guarded in zip(("status", "output", "errors"), *seen):
        if plain != guarded:
            problems.append(f"{what}: {str(plain)[-400:]!r}, guarded {str(guarded)[-400:]!r}")
    if seen[0][0] != 0:
        problems.append(f"unguarded: status {seen[0][0]}: {seen[0][2][-300:]!r}")
    problems += said_by_library(seen[1][2])[:3]
    for line in (report.read_text().splitlines() if report.exists() else []):
        value = json.loads(line)
        if value.get("schema", "").startswith("zguard.finding"):
            problems.append(f"finding: {value.get('kind')} ({value.get('access')}) in {value.get('program')}")
    return problems


def main():
    parser = argparse.ArgumentParser(description="Runs real programs of another processor with and without the library.")
    parser.add_argument("--filter", default="", metavar="TEXT", help="only cases whose name contains TEXT")
    parser.add_argument("-o", action="append", default=[], metavar="OPTION", help="an option of the library; repeatable")
    processors.add_option(parser)
    arguments = parser.parse_args()
    if processors.is_elsewhere(arguments.arch):
        words = [word for option in arguments.o for word in ("-o", option)]
        return processors.run(__file__, arguments.arch, ["--filter", arguments.filter, *words])
    if ARCH == HERE:
        parser.error("without --arch there is nothing to do: programs.py runs this machine's programs")
    if processors.stage() == processors.BUILD:
        return 0
    checks = Checks()
    names = [name for name in CASES if arguments.filter in name]
    with tempfile.TemporaryDirectory() as temporary, concurrent.futures.ThreadPoolExecutor(2) as pool:
        for name, problems in zip(names, pool.map(lambda name: run(name, arguments.o, temporary), names)):
            checks.check(name, problems, shows_passed=True)
    if not arguments.filter and not arguments.o:
        processors.record("programs", "real programs", checks.passed, checks.failed)
    return checks.close()


if __name__ == "__main__":
    os.environ.setdefault("TZ", "UTC")
    sys.exit(main())
