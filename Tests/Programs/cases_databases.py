"""Database servers: many processes or threads, shared memory, forks that save, recovery from crashes."""

import os
import signal
import subprocess
import time

from case import Case, Need
from harness import INPUTS, CaseError

POSTGRES = "/usr/lib/postgresql/15/bin"


def postgres_need(command, package="postgresql-15"):
    return Need(f"{POSTGRES}/{command}", package)


class Postgres(Case):
    """Each connection has a server process. If one process is killed, the server ends all others, recovers, and continues."""
    name = "postgresql"
    what = ("initdb, SQL with parallel workers and generated code, pgbench with 4 clients, recovery after a killed backend, "
            "restart, dump")
    user = "postgres"
    needs = (*(postgres_need(command) for command in ("postgres", "initdb", "pgbench")),
             *(postgres_need(command, "postgresql-client-15") for command in ("psql", "pg_dump")))
    sees = ("postgres", "psql", "pgbench", "initdb")

    def steps(self, run):
        if os.geteuid() == 0 and not run.user:
            raise CaseError("PostgreSQL refuses root")
        run.step([f"{POSTGRES}/initdb", "-D", "data", "-A", "trust", "-U", "tester", "--no-sync", "--no-instructions",
                  "--locale=C.UTF-8"])
        server, port = self.start(run)
        connection = ["-h", "127.0.0.1", "-p", port, "-U", "tester"]
        client = [f"{POSTGRES}/psql", "-X", *connection, "-d", "postgres"]
        run.step([*client, "-a", "-f", INPUTS / "work_postgres.sql"])
        bench = [f"{POSTGRES}/pgbench", *connection, "-d", "postgres"]
        run.step([*bench, "-i", "-s", "1", "-q"], stderr="any")
        load = run.step([*bench, "-n", "-c", "4", "-j", "2", "-t", "150", "--random-seed=7"], stderr="any",
                        normalise=lambda text: "\n".join(line for line in text.splitlines() if "actually processed" in line))
        if b"600/600" not in load.stdout and not run.guard:
            raise CaseError("pgbench did not process 600 transactions")
        agree = ("SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(delta) FROM pgbench_history), "
                 "(SELECT sum(tbalance) FROM pgbench_tellers) = (SELECT sum(bbalance) FROM pgbench_branches), "
                 "(SELECT count(*) FROM pgbench_history)")
        run.step([*client, "-c", agree])
        self.crash(run, server, client)
        run.step([*client, "-c", agree, "-c", "SELECT count(*) FROM half", "-c", "SELECT count(*), sum(price) FROM shelf"], stderr="any",
                 status=None)
        server.stop("postgres", signal.SIGINT)
        server, port = self.start(run)
        client[client.index("-p") + 1] = port
        run.step([*client, "-c", agree])
        run.step([f"{POSTGRES}/pg_dump", "-h", "127.0.0.1", "-p", port, "-U", "tester", "-t", "shelf", "-t", "log", "postgres"],
                 normalise=without_key)
        server.stop("postgres", signal.SIGTERM)

    def start(self, run):
        port = str(run.port())
        server = run.spawn([f"{POSTGRES}/postgres", "-D", "data", "-p", port, "-k", run.dir, "-c", "listen_addresses=127.0.0.1",
                            "-c", "shared_buffers=32MB", "-c", "fsync=off", "-c", "max_connections=20",
                            "-c", "autovacuum_naptime=1s"], stderr="any")
        self.wait_until_ready(run, server, port)
        return server, port

    def ask(self, run, port, statement):
        """Sends an unguarded query from the driver."""
        return subprocess.run([f"{POSTGRES}/psql", "-X", "-A", "-t", "-h", "127.0.0.1", "-p", port, "-U", "tester", "-d", "postgres",
                               "-c", statement], capture_output=True, text=True, timeout=60)

    def wait_until_ready(self, run, server, port):
        server.until(lambda: self.ask(run, port, "SELECT 1").stdout == "1\n", "it answers", port=port)

    def crash(self, run, server, client):
        """Kills a connection's process in the middle of a transaction."""
        port = client[client.index("-p") + 1]
        victim = run.spawn([*client, "-c", "CREATE TABLE half (id int)", "-c", "BEGIN", "-c",
                            "INSERT INTO half SELECT generate_series(1, 1000)", "-c", "SELECT pg_sleep(600)"], stderr="any")
        found = []

        def sleeps():
            answer = self.ask(run, port, "SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep'").stdout.strip()
            if answer:
                found.append(int(answer))
            return bool(answer)

        victim.until(sleeps, "the backend that is to be killed sleeps", seconds=60)
        os.kill(found[0], signal.SIGKILL)
        victim.wait()
        self.wait_until_ready(run, server, port)


def without_key(text):
    """pg_dump's output without the random key in newer versions' \\restrict lines."""
    return "\n".join(line for line in text.splitlines() if not line.startswith(("\\restrict", "\\unrestrict")))


class RedisReplica(Case):
    """Forked children rewrite the append-only file and save the data, while clients write and a replica follows."""
    name = "redis-replica"
    what = "append-only file and snapshots written by forks under load, a replica, defragmentation; digests compared after restart"
    needs = (Need("redis-server", "redis-server"), Need("redis-benchmark", "redis-tools"), Need("redis-cli", "redis-tools"))
    sees = (r"redis-(server|check-rdb)", "redis-benchmark")

    def steps(self, run):
        port, second = str(run.port()), str(run.port())
        leader = self.start(run, port, "leader")
        follower = self.start(run, second, "follower", "--replicaof", "127.0.0.1", port)
        follower.until(lambda: "master_link_status:up" in self.ask(second, "INFO replication"), "the replica follows", port=second)
        load = run.spawn(["redis-benchmark", "-p", port, "-c", "8", "-t", "set,lpush,hset,sadd,zadd,mset", "-n", "4000",
                          "-r", "2000", "-d", "200", "-q"], stderr="any")
        saves = 0
        while not load.has_ended():
            self.ask(port, "BGREWRITEAOF" if saves % 2 else "BGSAVE")
            leader.until(lambda: self.is_idle(port), "a save ends")
            saves += 1
        load.wait()
        run.records[-1].stdout = b""  # rates vary
        # The load writes random data, but all copies of the data must be equal.
        run.note("after load", self.agreement(follower, port, second))
        run.note("flush", self.ask(port, "FLUSHALL"))
        commands = [f"XADD stream {i}-1 field {i * 7919 % 10007}" for i in range(1, 3000)]
        commands += [f"SET text:{i} {'x' * (i % 500)}{i}" for i in range(4000)]
        commands += [f"PFADD many {i}" for i in range(0, 3000, 3)] + [f"SETBIT bits {i * 31} 1" for i in range(2000)]
        commands += [f"GEOADD places {i % 170} {i % 80} place{i}" for i in range(500)]
        commands += [f"APPEND text:{i % 100} {'y' * 300}" for i in range(2000)] + [f"DEL text:{i}" for i in range(0, 4000, 7)]
        commands += ["MULTI", *(f"INCRBY counter:{i % 9} {i}" for i in range(300)), "EXEC", "XTRIM stream MAXLEN 700"]
        run.note("commands", str(len(self.ask(port, *commands).splitlines())))
        run.note("defragmentation", self.ask(port, "CONFIG SET active-defrag-ignore-bytes 1", "CONFIG SET active-defrag-threshold-lower 0",
                                             "CONFIG SET activedefrag yes"))
        time.sleep(1)
        run.note("state", self.ask(port, "DBSIZE", "DEBUG DIGEST", "PFCOUNT many", "XLEN stream", "GEODIST places place1 place2 km"))
        run.note("replica", self.agreement(follower, port, second))
        for server, its in ((follower, second), (leader, port)):
            self.ask(its, "SHUTDOWN SAVE")
            server.wait()
        leader = self.start(run, port, "leader")
        run.note("restarted", self.ask(port, "DBSIZE", "DEBUG DIGEST"))
        leader.stop(self.sees[0])
        for folder, file in (("leader", "appendonlydir/appendonly.aof.manifest"), ("leader", "dump.rdb")):
            tool = "redis-check-aof" if "aof" in file else "redis-check-rdb"
            run.step([tool, run.dir / folder / file], normalise=lambda text: str("OK" in text or "valid" in text))

    def start(self, run, port, folder, *more):
        path = run.dir / folder
        path.mkdir(exist_ok=True)
        server = run.spawn(["redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", path, "--save", "", "--appendonly", "yes",
                            "--appendfsync", "no", "--logfile", path / "log", "--enable-debug-command", "local",
                            "--repl-diskless-sync-delay", "0", *more])
        server.until(lambda: self.ask(port, "PING") == "PONG\n", "it answers", port=port)
        return server

    def ask(self, port, *commands):
        return subprocess.run(["redis-cli", "-p", port], input="\n".join(commands) + "\n", capture_output=True, text=True,
                              timeout=60).stdout

    def is_idle(self, port):
        answer = self.ask(port, "INFO persistence")
        return all(f"{word}:0" in answer for word in ("rdb_bgsave_in_progress", "aof_rewrite_in_progress", "aof_rewrite_scheduled", "loading"))

    def agreement(self, follower, port, second):
        self.ask(port, "WAIT 1 30000")
        follower.until(lambda: self.ask(port, "DEBUG DIGEST") == self.ask(second, "DEBUG DIGEST"), "the replica has what the leader has")
        return "the same"


class MariaDB(Case):
    """A server with a thread, not a process, per connection. SIGKILL ends the whole server, which then recovers."""
    name = "mariadb"
    what = "installation, SQL with InnoDB and Aria, 4 clients at once, recovery after SIGKILL of the server, restart, dump"
    needs = (Need("mariadbd", "mariadb-server-core"), Need("mariadb-install-db", "mariadb-server-core"),
             Need("mariadb", "mariadb-client-core"))
    sees = ("mariadbd", "mariadb")
    user = "nobody"
    long = True

    def steps(self, run):
        run.step(["mariadb-install-db", "--no-defaults", f"--datadir={run.dir}/data", "--auth-root-authentication-method=normal",
                  "--skip-test-db", "--skip-name-resolve"], normalise=lambda text: "", stderr="any")
        server, client = self.start(run)
        run.step([*client, "-e", "CREATE DATABASE work"])
        statements = ["CREATE TABLE shelf (id INT PRIMARY KEY, name VARCHAR(80), price DECIMAL(10,2), data JSON, KEY (name)) ENGINE=InnoDB",
                      "CREATE TABLE other (id INT, note TEXT, FULLTEXT (note)) ENGINE=Aria"]
        statements += ["INSERT INTO shelf SELECT seq, MD5(seq), seq * 7919 % 100003 / 7, JSON_OBJECT('n', seq, 's', seq * seq) FROM seq_1_to_20000",
                       "INSERT INTO other SELECT id, CONCAT(name, ' ', id % 7) FROM shelf",
                       "SELECT COUNT(*), SUM(price), MIN(name) FROM shelf",
                       "SELECT id % 7, COUNT(*), AVG(price), GROUP_CONCAT(IF(id < 60, id, NULL) ORDER BY id) FROM shelf GROUP BY 1 ORDER BY 1",
                       "SELECT a.id, RANK() OVER (PARTITION BY a.id % 3 ORDER BY a.price) FROM shelf a WHERE a.id % 2500 = 0 ORDER BY a.id",
                       "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 500) SELECT SUM(i), MD5(GROUP_CONCAT(i)) FROM n",
                       "SELECT JSON_EXTRACT(data, '$.s'), REGEXP_REPLACE(name, '[0-9]+', '#') FROM shelf WHERE id IN (3, 77, 5000) ORDER BY id",
                       "SELECT COUNT(*), SUM(a.id) FROM shelf a JOIN other b ON a.id = b.id WHERE b.note LIKE '%ab%3'",
                       "START TRANSACTION", "DELETE FROM shelf WHERE id % 3 = 0", "SELECT COUNT(*) FROM shelf", "ROLLBACK",
                       "SELECT COUNT(*) FROM shelf", "ALTER TABLE shelf ADD COLUMN more INT DEFAULT 5, ALGORITHM=COPY",
                       "OPTIMIZE TABLE other", "CHECK TABLE shelf, other", "SELECT * FROM nowhere"]
        run.step([*client, "--force", "work"], stdin=";\n".join([*statements, ""]).encode(), status=None)
        workers = [run.spawn([*client, "work"], stdin="".join(
            f"UPDATE shelf SET more = more + {i % 7} WHERE id = {i * 4 + number + 1}; SELECT COUNT(*) FROM shelf WHERE name > MD5({i});\n"
            for i in range(150)).encode()) for number in range(4)]
        for worker in workers:
            worker.wait()
        run.step([*client, "work", "-e", "SELECT SUM(more), COUNT(*) FROM shelf"])
        server.stop("mariadbd", signal.SIGKILL)
        server, client = self.start(run)
        run.step([*client, "work", "-e", "SELECT SUM(more), COUNT(*) FROM shelf; CHECK TABLE shelf, other"])
        server.stop("mariadbd", signal.SIGTERM)

    def start(self, run):
        port = str(run.port())
        server = run.spawn(["mariadbd", "--no-defaults", f"--datadir={run.dir}/data", f"--socket={run.dir}/socket", f"--port={port}",
                            "--bind-address=127.0.0.1", "--innodb-flush-method=fsync", "--innodb-buffer-pool-size=32M",
                            "--innodb-flush-log-at-trx-commit=2", "--skip-name-resolve"], stderr="any")
        server.wait_for(port)
        return server, ["mariadb", "--no-defaults", "-h", "127.0.0.1", "-P", port, "-u", "root", "-t"]


class Memcached(Case):
    """Four threads, more items than fit into memory, and slabs that move."""
    name = "memcached"
    what = "4 threads, 8 connections that set, get, append and delete; more data than fits into memory"
    needs = (Need("memcached", "memcached"),)
    sees = ("memcached",)
    user = "nobody"

    def steps(self, run):
        import socket
        import threading
        from concurrent.futures import ThreadPoolExecutor
        port = run.port()
        server = run.spawn(["memcached", "-l", "127.0.0.1", "-p", str(port), "-U", "0", "-t", "4", "-m", "64", "-o", "slab_reassign,slab_automove=2"])
        server.wait_for(port)
        together = threading.Barrier(8, timeout=300)  # evictions are random, so no client reads while they happen

        def work(number):
            answers = []
            with socket.create_connection(("127.0.0.1", port), 120) as connection, connection.makefile("rb") as reader:
                def ask(text, lines=1):
                    connection.sendall(text.encode())
                    return [reader.readline().decode() for _ in range(lines)]
                for i in range(1500):
                    key, value = f"k{number}:{i % 300}", "v" * (i * 37 % 3000) + str(i)
                    answers += ask(f"set {key} {i % 65536} 0 {len(value)}\r\n{value}\r\n")
                    if i % 3 == 0:
                        answers += ask(f"append {key} 0 0 3\r\nend\r\n")
                        answers.append(ask(f"get {key}\r\n", 3)[1][-12:])
                    if i % 7 == 0:
                        answers += ask(f"delete {key}\r\n")
                    if i % 11 == 0:
                        answers += ask(f"get absent{i}\r\n")
                together.wait()
                for i in range(600):  # these fill the memory and evict older items
                    value = "w" * 20000
                    answers += ask(f"set big{number}:{i} 0 0 {len(value)}\r\n{value}\r\n")
                answers += ask("bad command\r\n") + ask("flush_all\r\n") + ask("version\r\n")
            return "".join(answers)

        with ThreadPoolExecutor(8) as pool:
            for number, text in enumerate(pool.map(work, range(8))):
                run.note(f"connection {number}", text)
        server.stop("memcached", signal.SIGINT)
