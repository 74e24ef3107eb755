"""An HTTP server for a folder that can be made slow or faulty."""

import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Faults:
    """The faults of requests for paths that contain `part`."""

    def __init__(self):
        self.delay = 0.0
        self.part = "/c/"
        self.statuses = []  # status codes of the next responses, before files are served again
        self.change = None  # changes the content of a response
        self.cut = 0  # bytes of a response that are announced but not sent
        self.requests = []
        self.running = []  # a handler that outlives a test remains in the list of that test
        self.most_at_once = 0
        self.lock = threading.Lock()


def handler_of(folder, faults):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_HEAD(self):
            self.do_GET()

        def do_GET(self):
            with faults.lock:
                faults.requests.append((self.path, self.headers.get("Range")))
                running = faults.running
                running.append(self)
                faults.most_at_once = max(faults.most_at_once, len(running))
                ours = faults.part in self.path
                status = faults.statuses.pop(0) if ours and faults.statuses else 200
            try:
                if ours:
                    time.sleep(faults.delay)
                self._answer(status, ours)
            except (BrokenPipeError, ConnectionResetError):
                pass
            finally:
                with faults.lock:
                    running.remove(self)

        def _answer(self, status, ours):
            file = folder / self.path.lstrip("/")
            if status == 200 and not file.is_file():
                status = 404
            content = file.read_bytes() if status == 200 else b""
            size = len(content)
            wanted = self.headers.get("Range")
            if wanted and status == 200:
                first, _, last = wanted.removeprefix("bytes=").partition("-")
                start = int(first) if first else max(0, size - int(last))
                stop = min(size, int(last) + 1) if first and last else size
                content, status = content[start:stop], 206
            if ours and faults.change and content:
                content = faults.change(content)
            self.send_response(status)
            if status == 206:
                self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{size}")
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
            self.end_headers()
            if self.command == "GET":
                cut = faults.cut if ours else 0
                self.wfile.write(content[: len(content) - cut])
                self.close_connection = bool(cut)

    return Handler


@contextmanager
def served(folder):
    """Serve the files of a folder; yield the address and the faults."""
    faults = Faults()
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(folder, faults))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", faults
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
