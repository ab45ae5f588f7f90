"""Programs that most machines have: shells, tools, compilers, interpreters. Their output must not change."""

from harness import case


@case("bash", needs=["bash"], short=True)
def bash(run):
    return run.under(r'''
declare -A count; text=""
for i in $(seq 1 4000); do count[$((i % 97))]=$((${count[$((i % 97))]:-0} + i)); text+="line $i
"; done
for k in "${!count[@]}"; do echo "$k ${count[$k]}"; done | sort -n
echo "${#text} ${text:1000:40}"; (for i in 1 2 3; do (echo "sub $i $(echo "deep $i")"); done)
while read -r a b; do x+=("$b"); done <<<"$text"; echo "${#x[@]} ${x[1234]}"; printf '%s\n' "${x[@]}" | md5sum''')


@case("sort, uniq, sed, awk", needs=["sort", "awk", "sed"], threads=True, short=True)
def texts(run):
    return run.under(r'''
seq 1 200000 | awk '{print ($1 * 7919) % 100003, "word" $1 % 1000}' >in
sort --parallel=2 -S 20M in | md5sum; sort -n -k1,1 -S 1M in | md5sum
cut -d' ' -f2 in | sort | uniq -c | sort -rn | sed -n 1,5p
sed -E 's/([0-9]+) word([0-9]+)/\2-\1/' in | md5sum
awk '{n[$2] += $1} END {for (w in n) s += n[w]; print length(n), s}' in''')


@case("git", needs=["git"], short=True)
def git(run):
    return run.under(r'''
export GIT_AUTHOR_DATE='2026-01-01T00:00:00Z' GIT_COMMITTER_DATE='2026-01-01T00:00:00Z' GIT_CONFIG_GLOBAL=/dev/null
git init -q -b main a; cd a; git config user.name t; git config user.email t@example.org; git config gc.auto 0
for i in $(seq 1 12); do for f in $(seq 1 20); do seq $i $((i * f * 7)) >file$f; done; git add .; git commit -qm "step $i"; done
git log --format='%H %s' | sed -n 1,3p; cd ..; git clone -q --no-hardlinks a b; cd b; git gc -q --aggressive
git fsck --full --strict 2>&1 | grep -v '^notice' || true; git rev-list --objects --all | md5sum; git diff HEAD~6 | md5sum
git grep -c 11 | md5sum''')


C_PROJECT = r'''
for i in $(seq 1 %d); do cat >f$i.c <<EOF
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct n$i { struct n$i *next; int v; };
int f$i(int n) { struct n$i *h = 0; for (int i = 0; i < n; i++) { struct n$i *x = malloc(sizeof *x); x->v = i * $i; x->next = h; h = x; }
  int s = 0; while (h) { struct n$i *x = h; s += x->v; h = h->next; free(x); } return s; }
EOF
done
{ for i in $(seq 1 %d); do echo "int f$i(int);"; done; echo '#include <stdio.h>'; echo 'int main(void) { long s = 0;'
  for i in $(seq 1 %d); do echo "s += f$i(1000);"; done; echo 'printf("%%ld\n", s); return 0; }'; } >main.c
printf 'p: $(patsubst %%%%.c,%%%%.o,$(wildcard *.c))\n\t$(CC) -o p $^\n%%%%.o: %%%%.c\n\t$(CC) -O2 -c $<\n' >Makefile
make -s -j2 CC=%s; ./p; cat f*.o main.o | md5sum'''


@case("gcc and make", needs=["gcc", "make"], short=True)
def gcc(run):
    return run.under(C_PROJECT % (8, 8, 8, "gcc"))


@case("clang and make", needs=["clang", "make"])
def clang(run):
    return run.under(C_PROJECT % (30, 30, 30, "clang"))


CXX = r'''
#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>
int main() {
    std::vector<std::thread> threads;
    std::vector<long> sums(4);
    for (int t = 0; t < 4; t++) threads.emplace_back([t, &sums] {
        std::unordered_map<std::string, std::vector<std::shared_ptr<int>>> all;
        for (int i = 0; i < 30000; i++) all["key of some length " + std::to_string(i % 700)].push_back(std::make_shared<int>(i));
        for (auto &e : all) for (auto &p : e.second) sums[t] += *p;
    });
    for (auto &t : threads) t.join();
    std::regex word("([a-z]+)([0-9]+)");
    std::string text;
    for (int i = 0; i < 500; i++) text += "w" + std::to_string(i) + " ";
    long n = std::distance(std::sregex_iterator(text.begin(), text.end(), word), std::sregex_iterator());
    std::cout << sums[0] + sums[1] + sums[2] + sums[3] << " " << n << std::endl;
}
'''


@case("g++ and what it made", needs=["g++"], threads=True, short=True)
def gxx(run):
    run.write("a.cc", CXX)
    return run.under("g++ -std=c++17 -O1 -pthread -o a a.cc; ./a; ./a; md5sum <a.cc")


@case("perl", needs=["perl"], short=True)
def perl(run):
    return run.under(r'''perl -e '
my (%h, @a); for my $i (1..60000) { push @{$h{$i % 501}}, "value $i"; push @a, join(",", map { $_ * $i } 1..3) }
print scalar(keys %h), " ", length(join("", @a)), "\n";
my $t = join(" ", @a); my $n = () = $t =~ /\b(\d)\d*\1\b/g; print "$n\n"; my @s = sort { $a cmp $b } @a; print "$s[0] $s[-1]\n";
if (my $pid = fork) { waitpid $pid, 0; print "child $?\n" } else { my @b = map { "x" x $_ } 1..2000; exit(@b == 2000 ? 0 : 1) }' ''')


PYTHON = r'''
import json, threading, subprocess, sys, collections, re, hashlib
data = {f"key {i}": [i, str(i) * 3, {"n": i / 7}] for i in range(15000)}
text = json.dumps(data, sort_keys=True); assert json.loads(text) == data
print(len(text), hashlib.md5(text.encode()).hexdigest())
out = []
def work(n): out.append(sum(len(str(i) * (i % 50)) for i in range(n * 500)))
ts = [threading.Thread(target=work, args=(n,)) for n in range(20)]
[t.start() for t in ts]; [t.join() for t in ts]
print(sorted(out))
print([subprocess.run([sys.executable, "-c", f"print('x' * {n})"], capture_output=True, text=True).stdout.strip() for n in (1, 5)])
print(collections.Counter(re.findall(r"\d\d", text[:200000])).most_common(3))
'''


@case("python3", needs=["python3"], threads=True, short=True)
def python(run):
    # Python's own allocator would take whole arenas and hide what it does.
    return run.under(["python3", run.write("a.py", PYTHON)], env={"PYTHONMALLOC": "malloc"})


@case("sqlite3", needs=["sqlite3"], short=True)
def sqlite(run):
    return run.under(r'''sqlite3 a.db "pragma journal_mode=wal; create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 60000) insert into t select i, 'text ' || (i * 7919 % 10007), i / 3.0 from n;
create index tb on t(b); select count(*), sum(length(b)), round(sum(c), 3) from t; delete from t where a % 3 = 0;
select b, count(*) from t group by b order by 2 desc, 1 limit 4; vacuum; pragma integrity_check;
select max(x.b), min(y.c) from t x join t y on x.b = y.b where x.a < 3000;"; sqlite3 a.db .dump | md5sum''')


@case("tar and xz -T2", needs=["tar", "xz"], threads=True, short=True)
def archive(run):
    return run.under(r'''mkdir d; for i in $(seq 1 40); do seq 1 $((i * 400)) >d/$i; done
tar --sort=name --mtime=@0 --owner=0 --group=0 -cf a.tar d; xz -T2 -2 --block-size=300KiB -k a.tar; md5sum <a.tar.xz
mkdir e; tar -xJf a.tar.xz -C e; diff -r d e/d && echo same; xz -T2 -dc a.tar.xz | md5sum''')


@case("cargo and rustc", needs=["cargo"], threads=True, short=True)
def cargo(run):
    import os
    os.makedirs(run.path("c/src"))
    run.write("c/Cargo.toml", '[package]\nname = "c"\nversion = "0.1.0"\nedition = "2021"\n')
    run.write("c/src/main.rs", '''use std::collections::BTreeMap;
fn main() {
    let all: Vec<_> = (0..4).map(|t| std::thread::spawn(move || {
        (0..20_000u64).map(|i| (i * 7919 % 1009, format!("{t} {i}"))).fold(BTreeMap::new(), |mut m: BTreeMap<u64, Vec<String>>, (k, v)| { m.entry(k).or_default().push(v); m })
    })).collect();
    println!("{}", all.into_iter().map(|t| t.join().unwrap().values().flatten().map(String::len).sum::<usize>()).sum::<usize>());
}
''')
    return run.under("cd c && CARGO_TARGET_DIR=t cargo build -q --offline && t/debug/c")


@case("cmake", needs=["cmake", "gcc"])
def cmake(run):
    run.write("CMakeLists.txt", "cmake_minimum_required(VERSION 3.10)\nproject(p C)\nadd_executable(p m.c)\nenable_testing()\nadd_test(t p)\n")
    run.write("m.c", "#include <stdio.h>\nint main(void) { puts(\"built\"); return 0; }\n")
    return run.under("cmake -S . -B b >/dev/null && cmake --build b >/dev/null && b/p")


@case("jq", needs=["jq"], short=True)
def jq(run):
    return run.under("jq -nc '[range(30000) | {a: ., b: (. * 7 % 101 | tostring)}] | group_by(.b) | map({b: .[0].b, n: length, s: (map(.a) | add)}) | .[:3]'")


NODE = r'''
const { Worker, isMainThread, parentPort } = require('worker_threads');
if (!isMainThread) { const m = new Map(); for (let i = 0; i < 60000; i++) m.set('k' + i % 5000, Buffer.alloc(64, i % 256).toString('hex')); parentPort.postMessage(m.size); }
else {
  const zlib = require('zlib'), crypto = require('crypto');
  const text = JSON.stringify(Array.from({ length: 40000 }, (_, i) => ({ i, s: 'text ' + i * 7919 % 10007 })));
  const packed = zlib.gzipSync(text); console.log(crypto.createHash('md5').update(zlib.gunzipSync(packed)).digest('hex'));
  let left = 4; for (let w = 0; w < 4; w++) new Worker(__filename).on('message', n => { console.log(n); }).on('exit', () => { if (--left == 0) console.log('done'); });
}
'''


@case("node", needs=["node"])
def node(run):
    return run.under(["node", run.write("a.js", NODE)])


JAVA = r'''
import java.util.*; import java.util.concurrent.*; import java.util.zip.*;
public class A { public static void main(String[] x) throws Exception {
  ExecutorService e = Executors.newFixedThreadPool(8); List<Future<Long>> all = new ArrayList<>();
  for (int t = 0; t < 16; t++) { final int n = t; all.add(e.submit(() -> { Map<String, byte[]> m = new HashMap<>(); long s = 0;
    for (int i = 0; i < 20000; i++) { m.put("k" + i % 900, new byte[i % 500]); if (i % 100 == 0) { Deflater d = new Deflater(); d.setInput(new byte[50000]); d.finish(); byte[] b = new byte[60000]; s += d.deflate(b); d.end(); } }
    for (byte[] b : m.values()) s += b.length; return s + n; })); }
  long s = 0; for (Future<Long> f : all) s += f.get(); e.shutdown(); System.out.println(s); } }
'''


@case("java", needs=["java", "javac"])
def java(run):
    run.write("A.java", JAVA)
    return run.under("javac A.java && java -Xmx256m -cp . A")
