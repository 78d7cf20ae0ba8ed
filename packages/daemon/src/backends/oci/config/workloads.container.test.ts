import { existsSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Runtime, TestBundle, whyNoContainers } from "./testing/test-bundle.ts";

interface Workload {
  readonly name: string;
  readonly needs: string;
  readonly argv: readonly string[];
  readonly output: string;
}

const python = (...lines: string[]): string[] => ["python3", "-c", lines.join("\n")];
const bash = (...lines: string[]): string[] => [
  "bash",
  "-c",
  ["set -eu -o pipefail", ...lines].join("\n"),
];

/** Typical work of agents. Each program makes calls that the filter could get wrong. */
const WORKLOADS: readonly Workload[] = [
  {
    name: "a shell with pipes, jobs and process substitution",
    needs: "bash",
    argv: bash(
      "seq 1000 | sort -rn | head -1",
      "sleep 0.01 & wait $!; echo job $?",
      "diff <(echo a) <(echo a) && echo same",
      "mkfifo f; (echo fifo > f &); cat f; rm f",
    ),
    output: "1000\njob 0\nsame\nfifo\n",
  },
  {
    name: "file tools",
    needs: "find",
    argv: bash(
      "mkdir -p d/e; echo x > d/e/f; cp -a d d2; ln -s d2 l; mv d2 d3; find d3 -type f; chmod 600 d3/e/f; touch -d @0 d3/e/f; stat -c '%a %Y' d3/e/f",
      "df . > /dev/null; du -s d > /dev/null; sync -f d3/e/f; dd if=/dev/zero of=big bs=1k count=8 conv=fsync status=none; truncate -s 1M big; flock big true",
      "rm -r d d3 l big; timeout 5 nice true; echo done",
    ),
    output: "d3/e/f\n600 0\ndone\n",
  },
  {
    name: "Python threads and sub-processes",
    needs: "python3",
    argv: python(
      "import subprocess, threading",
      "seen = []",
      "ts = [threading.Thread(target=seen.append, args=(i,)) for i in range(8)]",
      "[t.start() for t in ts]; [t.join() for t in ts]",
      "print(sorted(seen), subprocess.run(['echo', 'sub'], capture_output=True, text=True).stdout.strip())",
    ),
    output: "[0, 1, 2, 3, 4, 5, 6, 7] sub\n",
  },
  {
    name: "Python asyncio with sockets",
    needs: "python3",
    argv: python(
      "import asyncio",
      "async def serve(r, w): w.write(await r.readline()); await w.drain(); w.close()",
      "async def main():",
      "  s = await asyncio.start_server(serve, '127.0.0.1', 0)",
      "  r, w = await asyncio.open_connection(*s.sockets[0].getsockname())",
      "  w.write(b'hello\\n'); print((await r.readline()).decode().strip())",
      "  p = await asyncio.create_subprocess_exec('true'); print(await p.wait())",
      "asyncio.run(main())",
    ),
    output: "hello\n0\n",
  },
  {
    name: "Python multiprocessing with a pool and shared memory",
    needs: "python3",
    argv: python(
      "import multiprocessing as m",
      "from multiprocessing import shared_memory",
      "if __name__ == '__main__':",
      "  with m.Pool(2) as p: print(p.map(abs, [-1, -2]))",
      "  s = shared_memory.SharedMemory(create=True, size=4096); s.buf[0] = 7; print(s.buf[0]); s.close(); s.unlink()",
      "  q = m.Queue(); c = m.Process(target=q.put, args=('child',)); c.start(); print(q.get()); c.join()",
    ),
    output: "[1, 2]\n7\nchild\n",
  },
  {
    name: "Python sqlite, temporary files and a terminal",
    needs: "python3",
    argv: python(
      "import os, pty, sqlite3, tempfile",
      "c = sqlite3.connect('x.db'); c.execute('pragma journal_mode=wal'); c.execute('create table t(a)'); c.commit(); c.close(); os.unlink('x.db')",
      "with tempfile.NamedTemporaryFile() as f: f.write(b'x')",
      "a, b = pty.openpty(); os.write(a, b'typed\\n'); print(os.read(b, 10).decode().strip(), os.isatty(b))",
    ),
    output: "typed True\n",
  },
  {
    name: "Node with a worker, a child and a server",
    needs: "node",
    argv: [
      "node",
      "-e",
      "const {Worker}=require('worker_threads'),{execFileSync}=require('child_process'),http=require('http');" +
        "new Worker('require(`worker_threads`).parentPort.postMessage(6*7)',{eval:true}).on('message',m=>{console.log(m,String(execFileSync('echo',['child'])).trim());" +
        "const s=http.createServer((q,r)=>r.end('served')).listen(0,'127.0.0.1',()=>http.get({port:s.address().port,host:'127.0.0.1'},r=>r.on('data',d=>{console.log(String(d));s.close()})))})",
    ],
    output: "42 child\nserved\n",
  },
  {
    name: "the C compiler and what it made",
    needs: "gcc",
    argv: bash(
      "printf '#include <stdio.h>\\nint main(void){puts(\"compiled\");}' > a.c",
      "gcc -O1 -o a a.c; ./a; rm a a.c",
    ),
    output: "compiled\n",
  },
  {
    name: "git",
    needs: "git",
    argv: bash(
      "git init -q r; cd r; git config user.email a@b.c; git config user.name n",
      "echo x > f; git add f; git commit -qm first; git gc -q; git clone -q . ../r2; git -C ../r2 log --format=%s; cd ..; rm -rf r r2",
    ),
    output: "first\n",
  },
  {
    name: "tar and compression",
    needs: "tar",
    argv: bash(
      "mkdir t; seq 100 > t/n; tar czf t.tgz t; rm -r t; tar xzf t.tgz; tail -1 t/n; rm -r t t.tgz",
    ),
    output: "100\n",
  },
  {
    name: "strace of a program of its own",
    needs: "strace",
    argv: bash(
      "strace -f -e trace=execve -o log sh -c 'true; /bin/true'; grep -c execve log; rm log",
    ),
    output: "2\n",
  },
  {
    name: "gdb on a program of its own",
    needs: "gdb",
    argv: bash("gdb -q -nx -batch -ex run /bin/true 2>/dev/null | grep -o 'exited normally'"),
    output: "exited normally\n",
  },
];

describe.each(["crun", "runc"] as const)("workloads under %s", (runtime: Runtime) => {
  const reason = whyNoContainers(runtime);
  if (reason !== undefined)
    process.stderr.write(`workloads under ${runtime} are not tested: ${reason}\n`);

  describe.skipIf(reason !== undefined)("a restricted sandbox runs", () => {
    let bundle: TestBundle;
    beforeAll(async () => {
      bundle = await TestBundle.create();
    });
    afterAll(async () => {
      await bundle?.remove();
    });

    for (const { name, needs, argv, output } of WORKLOADS) {
      test(`${name} (needs ${needs})`, async (context) => {
        if (!existsSync(`/usr/bin/${needs}`)) context.skip(`${needs} is not installed`);
        expect(await bundle.run(runtime, bundle.config(), ["run", ...argv])).toEqual({
          exitCode: 0,
          stdout: output,
          stderr: "",
        });
      });
    }
  });
});
