"""Servers under load: each serves clients that run under glibc's malloc, checks what they got, and must end well.

Time is that of the clients' work; memory is the largest that the server's processes have been.
"""

import json
import os
import re
import signal
import socket
import struct
import subprocess
import threading
import time

from harness import Failed, case, children, status

PORT = 21000 + os.getpid() % 20000


def answers(port):
    def ask():
        with socket.socket() as s:
            s.settimeout(1)
            return s.connect_ex(("127.0.0.1", port)) == 0
    return ask


def as_user(name):
    """In front of a command of a server that does not want to be root."""
    return ["setpriv", f"--reuid={name}", f"--regid={name}", "--clear-groups"] if os.geteuid() == 0 else []


@case("redis, redis-benchmark", needs=["redis-server", "redis-benchmark", "redis-cli"])
def redis(run):
    server = run.serve(["redis-server", "--port", str(PORT), "--save", "", "--io-threads", "2", "--dir", run.folder,
                        "--hash-max-listpack-entries", "16"], answers(PORT))
    cli = f"redis-cli -p {PORT} "
    said = run.timed(lambda: run.plain(
        f"redis-benchmark -p {PORT} -q -n 60000 -c 30 -r 5000 -P 8 -d 300 -t set,get,incr,lpush,rpop,sadd,hset,zadd,lrange_100 "
        f"| grep -c 'requests per second' && {cli} flushall && {cli} debug populate 100000 key 200 && {cli} debug digest"
        f" && {cli} bgsave && sleep 1 && {cli} dbsize && {cli} memory purge"))
    run.server_peak(server.pid)
    run.stop(server)
    return said


@case("memcached, 8 clients", needs=["memcached", "setpriv"])
def memcached(run):
    server = run.serve(["memcached", "-l", "127.0.0.1", "-p", str(PORT), "-t", "4", "-m", "64", "-u", "nobody"], answers(PORT))
    bad = []

    def client(number):
        with socket.create_connection(("127.0.0.1", PORT)) as s:
            f = s.makefile("rwb")
            for i in range(8000):
                key, value = f"k{number}-{i % 2000}".encode(), b"v" * (i * 37 % 3000)
                f.write(b"set %s 0 0 %d\r\n%s\r\nget %s\r\n" % (key, len(value), value, key))
                f.flush()
                if f.readline() != b"STORED\r\n":
                    bad.append("set")
                if f.readline() != b"VALUE %s 0 %d\r\n" % (key, len(value)) or f.readline() != value + b"\r\n" or f.readline() != b"END\r\n":
                    bad.append("get")

    def all_clients():
        threads = [threading.Thread(target=client, args=(n,)) for n in range(8)]
        [t.start() for t in threads]
        [t.join() for t in threads]

    run.timed(all_clients)
    run.server_peak(server.pid)
    run.stop(server)
    return f"{len(bad)} wrong answers"


@case("nginx, ab", needs=["nginx", "ab"])
def nginx(run):
    os.makedirs(run.path("html"))
    run.write("html/index.html", "".join(f"<p>line {i} of a page</p>\n" for i in range(2000)))
    run.write("nginx.conf", f"""daemon off; worker_processes 2; pid {run.path('pid')}; error_log stderr;
events {{ worker_connections 512; }}
http {{ access_log off; client_body_temp_path {run.path('t1')}; proxy_temp_path {run.path('t2')}; fastcgi_temp_path {run.path('t3')};
uwsgi_temp_path {run.path('t4')}; scgi_temp_path {run.path('t5')}; types {{ text/html html; }} gzip on; gzip_comp_level 3;
server {{ listen 127.0.0.1:{PORT}; root {run.path('html')};
  location /proxy/ {{ proxy_pass http://127.0.0.1:{PORT}/; }} }} }}""")
    server = run.serve(["nginx", "-c", run.path("nginx.conf"), "-p", run.folder, "-e", "stderr"], answers(PORT))
    said = run.timed(lambda: "".join(run.plain(
        f"ab -q -n 3000 -c 40 {flags} http://127.0.0.1:{PORT}{path} | grep -E 'Complete|Failed|Non-2xx|Document Length'")
        for flags, path in (("-H 'Accept-Encoding: gzip'", "/"), ("-k", "/"), ("", "/proxy/"), ("-k", "/none"))))
    run.server_peak(server.pid)
    run.stop(server, signal.SIGQUIT)
    return said


@case("postgres, pgbench", needs=["/usr/lib/postgresql/15/bin/postgres", "setpriv"])
def postgres(run):
    bin = "/usr/lib/postgresql/15/bin/"
    user = as_user("postgres")
    data = run.path("data")
    os.makedirs(data)
    if user:
        import shutil
        shutil.chown(data, "postgres", "postgres")
    run.plain(user + [bin + "initdb", "-A", "trust", "-N", "-D", data, "-U", "postgres"])
    server = run.serve(user + [bin + "postgres", "-D", data, "-p", str(PORT), "-k", data, "-c", "fsync=off",
                               "-c", "max_parallel_workers_per_gather=2"], answers(PORT))
    env = f"PGHOST=127.0.0.1 PGPORT={PORT} PGUSER=postgres "
    time.sleep(0.5)
    said = run.timed(lambda: run.plain(
        f"{env} {bin}pgbench -q -i -s 3 postgres >/dev/null 2>&1; {env} {bin}pgbench -n -c 8 -j 2 -t 400 postgres 2>&1 "
        f"| grep -E 'actually processed|failed'; {env} {bin}psql -At -c 'select count(*), sum(length(a::text)) from generate_series(1,300000) a' "
        f"-c 'select count(*) from (select a % 1000 b, array_agg(a) from generate_series(1,200000) a group by 1) x' postgres"))
    run.server_peak(server.pid)
    run.stop(server, signal.SIGINT)
    return said


def mariadb_up(run, extra=(), env=None):
    data, sock = run.path("data"), run.path("sock")
    os.makedirs(data)
    user = ["--user=mysql"] if os.geteuid() == 0 else []
    if user:
        import shutil
        shutil.chown(data, "mysql", "mysql")
        shutil.chown(run.folder, "mysql", "mysql")
    run.plain(["mysql_install_db", "--no-defaults", f"--datadir={data}", "--skip-test-db", "--auth-root-authentication-method=normal"] + user)
    server = run.serve(["mariadbd", "--no-defaults", f"--datadir={data}", f"--socket={sock}", f"--pid-file={run.path('pid')}",
                        "--bind-address=127.0.0.1", f"--port={PORT}", "--innodb-buffer-pool-size=64M", "--skip-networking=0",
                        *user, *extra], answers(PORT), env=env)
    run.plain(f"mariadb -S {sock} -u root -e 'create database sb'")
    return server, f"sysbench oltp_read_write --mysql-socket={sock} --mysql-user=root --mysql-db=sb --tables=4 --table-size=10000 --rand-seed=7 "


def sysbench_prepare(run, sysbench):
    run.plain(sysbench + "prepare")


@case("mariadbd, sysbench", needs=["mariadbd", "sysbench", "mysql_install_db"])
def mariadb(run):
    server, sysbench = mariadb_up(run)
    sysbench_prepare(run, sysbench)
    said = run.timed(lambda: run.plain(sysbench + "--threads=8 --events=2500 --time=120 run"))
    run.server_peak(server.pid)
    run.stop(server)
    errors = re.search(r"ignored errors:\s+(\d+)", said)
    done = re.search(r"transactions:\s+(\d+)", said)
    run.notes["ignored_errors"] = int(errors[1])
    return f"{done and done[1]} transactions"


@case("mariadbd, sysbench, by thread", needs=["mariadbd", "sysbench", "mysql_install_db"], threads=True)
def mariadb_by_thread(run):
    """The thread's experiment: which connection holds how much. Under tenalloc alone the report is read, too."""
    ours = "tenalloc" in run.malloc.name
    report = run.path("report.json")
    env = {"TENALLOC_GROUP": "thread", "TENALLOC_REPORT": f"{report},json,signal=USR2"} if ours else None
    server, sysbench = mariadb_up(run, env=env)
    sysbench_prepare(run, sysbench)
    rows = []

    def work():
        client = subprocess.Popen(sysbench + "--threads=8 --events=2500 --time=120 run", shell=True, cwd=run.folder,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if ours:
            time.sleep(1.5)
            server.send_signal(signal.SIGUSR2)
        out = client.communicate(timeout=200)[0]
        if client.returncode != 0:
            raise Failed(out[-500:])
        return out

    said = run.timed(work)
    run.server_peak(server.pid)
    run.stop(server)
    if ours:
        lines = [json.loads(line) for line in open(report)]
        at_signal = next((r for r in lines if r["when"] == "signal"), None)
        if not at_signal:
            raise Failed("no report came at the signal")
        rows = [(g["name"], g.get("tid"), g["live"], g["peak"]) for g in at_signal["groups"]]
        run.notes["groups"] = rows[:20]
        if len(rows) < 10:
            raise Failed(f"only {len(rows)} groups")
    done = re.search(r"transactions:\s+(\d+)", said)
    return f"{done and done[1]} transactions"
