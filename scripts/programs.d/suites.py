"""What programs bring to test themselves with, and large programs without a network: decoders, compilers, a database in
a library."""

import re

from harness import case

PYTHON = "/usr/bin/python3"
TESTS = "/usr/lib/python3.11/test/test_list.py"


def python_tests(run, tests, env=None):
    said = run.under([PYTHON, "-m", "test", "-u", "none", "--timeout", "300", *tests], stderr=True,
                     env={"PYTHONMALLOC": "malloc", **(env or {})})
    result = re.findall(r"All \d+ tests? OK|\d+ tests? OK|Result: \w+|test_\w+ failed|test_\w+ skipped", said)
    return " ".join(sorted(set(result)))


@case("python3: test_list, dict, json", needs=[PYTHON, TESTS])
def collections(run):
    return python_tests(run, ["test_list", "test_dict", "test_json", "test_set", "test_unicode"])


@case("python3: test_threading", needs=[PYTHON, TESTS], threads=True)
def threading(run):
    return python_tests(run, ["test_threading", "test_thread", "test_queue"])


@case("python3: test_asyncio", needs=[PYTHON, TESTS])
def asyncio(run):
    return python_tests(run, ["test_asyncio"])


@case("python3: test_subprocess", needs=[PYTHON, TESTS])
def subprocess(run):
    return python_tests(run, ["test_subprocess"])


@case("python3: test_fork1, test_os", needs=[PYTHON, TESTS], threads=True)
def fork(run):
    return python_tests(run, ["test_fork1", "test_os", "test_mmap"])


@case("ffmpeg", needs=["ffmpeg"])
def ffmpeg(run):
    return run.under(r'''
ffmpeg -v error -f lavfi -i testsrc=size=640x360:rate=25:duration=6 -f lavfi -i sine=frequency=440:duration=6 \
 -threads 4 -fflags +bitexact -flags:v +bitexact -flags:a +bitexact -c:v mpeg4 -q:v 4 -c:a aac -y a.mkv
ffmpeg -v error -threads 4 -i a.mkv -vf scale=320:-2,hqdn3d -f md5 - ; md5sum <a.mkv''')


@case("rocksdb db_bench", needs=["db_bench"], threads=True)
def rocksdb(run):
    said = run.under("db_bench --benchmarks=fillrandom,readrandom,readwhilewriting,compact,verifychecksum --num=60000 --threads=4 "
                     f"--value_size=200 --seed=7 --db={run.path('db')} 2>&1 | grep -oE '^[a-z]+ +:|[Cc]orrupt.*|[Ee]rror.*'")
    return said


@case("openssl", needs=["openssl"])
def openssl(run):
    return run.under(r'''seq 1 300000 >a; openssl dgst -sha256 <a; openssl enc -aes-256-cbc -K 00 -iv 00 -in a 2>/dev/null | md5sum
for i in 1 2 3; do openssl req -x509 -newkey rsa:2048 -nodes -keyout k -out c -subj /CN=x -days 2 2>/dev/null; openssl verify -CAfile c c; done''')
