/**
 * A request to a web server in a sandbox through the daemon's preview, compared with the same
 * server on the machine.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import type { BenchContext, Scenario } from "../context.ts";
import { HttpClient } from "../http-client.ts";
import { inARow, interleave, timeUs } from "../interleave.ts";
import type { Series } from "../series.ts";

const IN_A_ROW = 10;
const WARM_UP_ROUNDS = 20;
const PORT = 8000;

/**
 * Answers every request with a few bytes in one packet, and prints its port once it listens. In two
 * packets, a client's delayed acknowledgement would cost 40 ms.
 */
const SERVER = `
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "6")
        self.end_headers()
        self.wfile.write(b"hello\\n")
    def log_message(self, *args): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
`;

export const preview: Scenario = {
  name: "preview",
  what: "a request to a web server in a sandbox through a preview, beside the same server on the machine",
  run: measure,
};

async function measure(context: BenchContext): Promise<Series[]> {
  const { signal, quick, progress } = context;
  await using daemon = await context.startDaemon();
  const session = await daemon.open();
  const program = Buffer.from(SERVER);
  await daemon.client.upload(session.filePath("server.py"), program.byteLength, program);
  await session.exec(
    `/usr/bin/python3 server.py ${PORT} >server.out 2>&1 & until [ -s server.out ]; do sleep 0.05; done`,
  );
  const plain = spawn("/usr/bin/python3", ["-c", SERVER, "0"], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  try {
    const [port] = (await once(plain.stdout, "data")) as [Buffer];
    const direct = new HttpClient(`http://127.0.0.1:${Number(port)}`);
    const path = `${session.path}/proxy/${PORT}/`;
    const row = (act: () => Promise<string>) =>
      inARow(IN_A_ROW, () =>
        timeUs(async () => {
          if ((await act()) !== "hello\n") throw new Error("the server said something else");
        }),
      );
    const series = await interleave(
      {
        "direct request": row(() => direct.text("GET", "/")),
        "HTTP, preview": row(() => daemon.client.text("GET", path)),
      },
      {
        scenario: preview.name,
        rounds: quick ? 10 : 50,
        warmUpRounds: WARM_UP_ROUNDS,
        signal,
        onRound: (round, rounds) => progress(`round ${round + 1} of ${rounds}`),
      },
    );
    await direct.close();
    return series;
  } finally {
    plain.kill();
  }
}
