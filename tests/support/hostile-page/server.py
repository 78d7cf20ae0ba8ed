"""Serves the page that attacks its visitor, and stores the page's reports in files."""

import http.server
import itertools
import pathlib

reports = itertools.count()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        name = {"/": "page.html", "/attack.js": "attack.js"}.get(self.path.split("?")[0])
        body = pathlib.Path(name).read_bytes() if name else b"the application itself"
        kind = "text/javascript" if name == "attack.js" else "text/html"
        self.send_response(200 if name else 404)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        name = f"report-{next(reports)}.json"
        pathlib.Path(name + ".partial").write_bytes(body)
        pathlib.Path(name + ".partial").rename(name)
        self.send_response(204)
        self.end_headers()


http.server.ThreadingHTTPServer(("127.0.0.1", 8000), Handler).serve_forever()
