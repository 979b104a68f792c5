"""A ClickHouse for tests: its engine, in this process, behind the part of its HTTP interface that a collector and Aegis use.

Usage: clickhouse.py DATADIR

Prints the port that it listens on. It answers queries with bound parameters and inserts in any format, one at a time. Compression,
sessions, users and settings of inserts are not there. The reply to the driver's greeting says revision 0, so that the driver reads
plain blocks; it is made by hand, for the engine has no say in it.
"""

import re
import struct
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

from chdb import session

ENGINE = session.Session(sys.argv[1])
ALONE = threading.Lock()
GREETING = "SELECT displayName(), version(), revision(), timezone()"
INTO = re.compile(rb"\s*(INSERT\s+INTO\s+.*?)\s+FORMAT\s+(\w+)\s*;?[ \t]*(?:\r?\n|$)", re.IGNORECASE | re.DOTALL)
LAST_FORMAT = re.compile(r"\bFORMAT\s+(\w+)\s*;?\s*$", re.IGNORECASE)


def text(value):
    encoded = value.encode()
    return bytes([len(encoded)]) + encoded


def greeting():
    """One block of one row in the native format."""
    version, zone = ENGINE.query("SELECT version(), timezone()", "TSV").bytes().decode().split()
    columns = [("displayName()", "String", text("test")), ("version()", "String", text(version))]
    columns += [("revision()", "UInt32", struct.pack("<I", 0)), ("timezone()", "String", text(zone))]
    head = b"\x01\x00\x02\xff\xff\xff\xff\x00" + bytes([len(columns), 1])
    return head + b"".join(text(name) + text(kind) + b"\x00" + data for name, kind, data in columns)


def insert(statement, form, data):
    stream = ENGINE.send_insert(statement.decode(), form)
    try:
        stream.append(data)
        stream.finish()
    except Exception:
        stream.cancel()
        raise


def answer(query, body):
    asked = dict(query)
    form = asked.get("default_format", "TabSeparated")
    statement = asked.get("query", "").encode()
    if form == "Native" and (statement + body).decode(errors="replace").strip() == GREETING:
        return greeting()
    ENGINE.query(f"USE `{asked.get('database', 'default')}`")
    whole = statement + b"\n" + body if statement else body
    into = INTO.match(whole)
    if into and into[2].lower() != b"values":
        data = whole[into.end() :]
        if data:
            insert(into[1], into[2].decode(), data)
        return b""
    sql = whole.decode().strip().rstrip(";")
    named = LAST_FORMAT.search(sql)
    if named:
        form, sql = named[1], sql[: named.start()]
    parameters = {name[6:]: value for name, value in asked.items() if name.startswith("param_")}
    return bytes(ENGINE.query(sql, form, params=parameters or None).bytes())


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def body(self):
        if "chunked" not in (self.headers.get("Transfer-Encoding") or ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def reply(self, status, data, headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        if "query=" in self.path:
            return self.do_POST()
        return self.reply(200, b"Ok.\n")

    def do_POST(self):
        query = parse_qsl(urlsplit(self.path).query, keep_blank_values=True)
        body = self.body()
        try:
            with ALONE:
                data = answer(query, body)
            self.reply(200, data)
        except Exception as error:
            told = str(error)
            code = re.search(r"Code: (\d+)", told)
            self.reply(500, told.encode(), [("X-ClickHouse-Exception-Code", code[1] if code else "1002")])


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(server.server_port, flush=True)
server.serve_forever()
