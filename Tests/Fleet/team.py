#!/usr/bin/env python3
"""Tests `zguard serve --tokens`: who may do what, tenants, TLS, forms, findings sent by collectors, and harmful clients.
Closing line: N passed, N failed.

Every call is tried with no token, a wrong one, and one of each role. Every page, and every call in docs/fleet.openapi.json, is requested
with the token of another tenant. Servers, shippers and the database are killed: each finding and each decision is stored once."""

import argparse
import concurrent.futures
import contextlib
import gzip
import http.client
import itertools
import json
import os
import random
import re
import socket
import sqlite3
import ssl
import subprocess
import sys
import threading
import time
import urllib.parse
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from Fleet import fleet  # noqa: E402
from Fleet.fleet import Work as FleetWork, exactly_once, fill  # noqa: E402
from Fleet.serve import Clients, page_times, raise_descriptors  # noqa: E402
from Fleet.store_server import finding, write_report  # noqa: E402
from Fleet.triage import described  # noqa: E402
from Support.browser import Browser  # noqa: E402
from Support.environment import ROOT, ZGUARD  # noqa: E402
from Support.ports import Ports  # noqa: E402
from Support.slices import add_slice_option  # noqa: E402

KILLS = 20
pictures = None
FORM = "application/x-www-form-urlencoded"
JSON = "application/json"
LINES = "application/x-ndjson"
BYTES = "application/octet-stream"
SECRET = "Secret.Vault"


def signature(group):
    return f"{group:016x}"


def lines(*findings):
    return "".join(json.dumps(one) + "\n" for one in findings).encode()


class Work(FleetWork):
    def __init__(self, path):
        super().__init__(path)
        self.tokens = self.path / "tokens"
        self.place = f"sqlite:{self.path}/team.db"

    def token(self, name, role="read", tenant="default"):
        return self.run("token", self.tokens, name, "--role", role, "--tenant", tenant).stdout.strip()

    def secret(self, name, text):
        path = self.path / name
        path.write_text(text)
        path.chmod(0o600)
        return path

    def filled(self, place=None):
        """Two tenants with findings of their own: default has the groups 0 to 3, other 10 to 12."""
        place = place or self.place
        now = int(time.time()) - 3600
        write_report(self.source, 1, [finding(number, number % 4, pid=number, at=now) for number in range(12)])
        self.collect(place, "--program-version", "1.9", "--host", "web-1")
        other = self.path / "others"
        block = {"start": "0x7f0000001000", "size": 48, "offset": 0, "state": "quarantined", "language": "swift", "class": SECRET}
        write_report(other, 2, [finding(100 + number, 10 + number % 3, pid=number, at=now, block=block, program="/srv/secret/bin/vault")
                                for number in range(9)])
        self.collect(place, "--tenant", "other", "--program-version", "7.7-secret", "--host", "secret-host", source=other)
        return place

    def certificate(self):
        chain, key = self.path / "cert.pem", self.path / "key.pem"
        if not chain.exists():
            subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", chain, "-days", "30", "-subj",
                            "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"], check=True, capture_output=True)
            key.chmod(0o600)
        return chain, key


class Answer:
    def __init__(self, response):
        self.status, self.headers, self.body = response.status, response.headers, response.read().decode()

    def json(self):
        return json.loads(self.body)


class Team:
    """Runs `zguard serve` with tokens."""

    def __init__(self, work, place=None, *flags, tls=False, port=0):
        self.tls = tls
        words = [str(ZGUARD), "serve", str(place or work.place), "--port", str(port), "--tokens", str(work.tokens), *flags]
        self.context = None
        if tls:
            chain, key = work.certificate()
            words += ["--tls", f"{chain},{key}"]
            self.context = ssl.create_default_context(cafile=chain)
        self.log = open(work.path / "served.log", "w+")
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=self.log, text=True, stdin=subprocess.DEVNULL, env=work.environment)
        said = self.process.stdout.readline()
        found = re.search(r"at (https?)://[^ ]*:(\d+)/$", said.strip())
        assert found and (found[1] == "https") == tls, (said, self.process.poll(), self.errors())
        self.port = int(found[2])
        self.address = f"{found[1]}://127.0.0.1:{self.port}"

    def errors(self):
        self.log.seek(0)
        return self.log.read()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.returncode is None:
            self.process.kill()
            self.process.communicate()
            self.log.close()

    def ask(self, method, path, token=None, body=None, kind=None, seconds=30, **headers):
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        if kind:
            headers["Content-Type"] = kind
        make = (lambda: http.client.HTTPSConnection("127.0.0.1", self.port, timeout=seconds, context=self.context)) if self.tls else (
            lambda: http.client.HTTPConnection("127.0.0.1", self.port, timeout=seconds))
        connection = make()
        try:
            connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def get(self, path, token=None, **how):
        return self.ask("GET", path, token, **how)

    def form(self, path, fields, token=None, **how):
        return self.ask("POST", path, token, urllib.parse.urlencode(fields), FORM, **how)

    def log_in(self, token, **how):
        """Returns the session cookie, as a browser sends it back."""
        answer = self.form("/login", {"token": token}, Origin=self.address, **how)
        assert answer.status == 303, answer.status
        return answer.headers["Set-Cookie"].split(";")[0]

    def send(self, data, seconds=20):
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as connection:
            with contextlib.suppress(OSError):
                connection.sendall(data)
            answer = b""
            with contextlib.suppress(ConnectionResetError):
                while part := connection.recv(65536):
                    answer += part
        return answer


# Calls: method, path, role that allows the call, body, content type. `{one}` is a signature.
CALLS = [("GET", "/", "read", None, None), ("GET", "/?state=all&q=shop", "read", None, None), ("GET", "/group/{one}", "read", None, None),
         ("GET", "/nothing", "read", None, None), ("GET", "/metrics", "read", None, None), ("GET", "/api/groups", "read", None, None),
         ("GET", "/api/groups/{one}", "read", None, None), ("GET", "/api/groups/{one}/findings", "read", None, None),
         ("GET", "/api/nothing", "read", None, None),
         ("POST", "/group/{one}/triage", "triage", "action=comment&comment=a", FORM),
         ("POST", "/api/groups/{one}/triage", "triage", '{"action":"comment","comment":"b"}', JSON),
         ("POST", "/api/findings", "ship", lines(finding(7)), LINES),
         ("POST", "/api/symbols?upload=" + "5" * 32 + "&name=a&size=9&offset=0", "ship", b"12345", BYTES)]


def roles(work):
    """Tries every call without a token, with a wrong token, with a token of each role and of another tenant, with other methods, and from
    another origin."""
    tokens = {role: work.token(role, role) for role in ("read", "triage", "ship")}
    tokens |= {"everything": work.token("everything", "read,triage,ship"), "elsewhere": work.token("elsewhere", "read,triage,ship", "other")}
    fleet.server.clear()
    for place in (work.place, fleet.server.address):
        work.filled(place)
        every_call(work, place, dict(tokens))
    # A server without --tokens allows no changes.
    plain = subprocess.Popen([str(ZGUARD), "serve", work.place, "--port", "0"], stdout=subprocess.PIPE, text=True, env=work.environment)
    try:
        port = int(re.search(r":(\d+)/", plain.stdout.readline())[1])
        for method, path, _, body, kind in CALLS:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            connection.request(method, path.replace("{one}", signature(1)), body, {"Content-Type": kind} if kind else {})
            assert connection.getresponse().status == (405 if method == "POST" else 404 if "nothing" in path else 200), path
    finally:
        plain.kill()
        plain.communicate()


def every_call(work, place, tokens):
    everything, elsewhere = tokens.pop("everything"), tokens.pop("elsewhere")
    with Team(work, place) as team:
        def events():
            return len(team.get(f"/api/groups/{signature(1)}", everything).json()["events"])

        for method, path, role, body, kind in CALLS:
            path = path.replace("{one}", signature(1))

            def ask(token=None, method=method, path=path, body=body, kind=kind, **headers):
                return team.ask(method, path, token, body, kind, **headers).status

            before = events()
            refused = [ask(), ask("zgt_" + "0" * 64), ask(""), *(ask(token) for name, token in tokens.items() if name != role)]
            assert refused == [401, 401, 401, 403, 403], (method, path, refused)
            with_others = path + ("&" if "?" in path else "?") + "tenant=other"
            assert ask(tokens[role], path=with_others) == ask(tokens[role], path=with_others.replace("other", "none")) == 404, path
            # A tenant's token finds nothing of another tenant.
            if signature(1) in path:
                assert ask(elsewhere) == 404, (method, path)
            # Another method.
            for other in ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE"):
                if other != method:
                    assert ask(everything, method=other, body=body if other == "POST" else None) == 405, (other, path)
            if method == "POST":
                for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"},
                                {"Sec-Fetch-Site": "same-site", "Origin": team.address}, {"Origin": f"http://127.0.0.1:{team.port + 1}"}):
                    assert ask(everything, **headers) == 403, (path, headers)
            assert events() == before, path
            expected = {"/nothing": 404, "/api/nothing": 404, f"/group/{signature(1)}/triage": 303}.get(path, 200)
            for token in (tokens[role], everything):
                assert ask(token) == expected, (method, path, ask(token))
        # Files without findings.
        assert team.get("/style.css").status == team.get("/keys.js").status == 200
        # A token is accepted only in a well-formed Authorization header.
        for value in (f"Basic {everything}", f"Bearer  {everything}", everything, f"Bearer {everything} x", f"Bearer {everything[:-1]}"):
            assert team.get("/api/groups", Authorization=value).status == 401, value
        assert team.get("/api/groups", Authorization=f"bearer {everything}").status == 200
        assert team.get(f"/api/groups?token={everything}").status == 401


def tenants(work):
    """A tenant's token shows nothing of another tenant, on all linked pages and in all calls of docs/fleet.openapi.json."""
    work.filled()
    mine, all_of_them = work.token("mine", "read,triage"), work.token("all", "read,triage", "*")
    words = (SECRET, "vault", "secret", signature(10), "7.7")
    document = json.loads((ROOT / "docs/fleet.openapi.json").read_text())
    reading = [path for path, methods in document["paths"].items() if "get" in methods] + ["/", "/metrics", "/group/{signature}"]
    with Team(work) as team:
        cookie = team.log_in(mine)

        def look(path, **how):
            answer = team.get(path, **how)
            found = [word for word in words if word.lower() in answer.body.lower() and word not in urllib.parse.unquote(path)]
            assert not found, (path, found, answer.body[:2000])
            return answer

        # With a token of all tenants the pages do contain these words of the other tenant.
        assert all(word in team.get("/api/groups?tenant=other", all_of_them).body + team.get(f"/api/groups/{signature(10)}?tenant=other", all_of_them).body
                   for word in (SECRET, signature(10), "7.7-secret", "secret-host"))
        seen, waiting = set(), ["/", "/?state=all"]
        while waiting:
            path = waiting.pop()
            if path in seen:
                continue
            seen.add(path)
            body = look(path, Cookie=cookie).body
            waiting += [link.replace("&amp;", "&") for link in re.findall(r'(?:href|action)="(/[^"]*)"', body) if "/logout" not in link and "triage" not in link]
        groups = {found[0] for found in map(re.compile("/group/[0-9a-f]{16}").match, seen) if found}
        assert len(groups) == 4 and any("finding=" in path for path in seen), seen
        for path in reading:
            for group in (signature(10), signature(1)):
                for query in ("", "?tenant=other", "?tenant=", "?tenant=default&tenant=other", "?tenant=other&tenant=default", "?tenant=OTHER",
                              "?tenant=other%00", "?tenant=*", "?tenant=%25", "?%74enant=other", "?tenant=other&state=all&q=vault&limit=1000",
                              "?q=vault&state=all", "?program=vault&state=all", "?host=secret-host&state=all", "?new=1.0&state=all", "?signature=" + signature(10)):
                    where = path.replace("{signature}", group) + query
                    answer = look(where, token=mine)
                    last = urllib.parse.parse_qs(query[1:], keep_blank_values=True).get("tenant", [""])[-1]
                    assert answer.status == (404 if last not in ("", "default") or (group == signature(10) and "signature" in path) else 200), where
        # The response equals the response for a tenant that does not exist.
        for path in ("/", "/api/groups", "/metrics", f"/api/groups/{signature(10)}"):
            one, other = team.get(path + "?tenant=other", mine), team.get(path + "?tenant=never-was", mine)
            assert (one.status, one.body) == (other.status, other.body)
        # Decisions about groups of another tenant.
        for query in ("", "?tenant=other"):
            assert team.ask("POST", f"/api/groups/{signature(10)}/triage{query}", mine, '{"action":"mute"}', JSON).status == 404
        assert team.get(f"/api/groups/{signature(10)}?tenant=other", all_of_them).json()["events"] == []
        done = team.ask("POST", f"/api/groups/{signature(10)}/triage?tenant=other", all_of_them, '{"action":"mute"}', JSON)
        assert done.status == 200 and done.json()["event"]["tenant"] == "other"


def forms(work):
    """Sends the requests of a browser: login, the forms of a group's page, logout."""
    work.filled()
    token, reader = work.token("anna", "read,triage"), work.token("reader")
    with Team(work) as team:
        page = team.get(f"/group/{signature(2)}")
        assert page.status == 401 and 'action="/login"' in page.body and SECRET not in page.body and f'value="/group/{signature(2)}"' in page.body
        # A request from a link on another site lacks the cookie (SameSite=Strict): the page reloads itself to get it.
        assert "http-equiv=\"refresh\"" in team.get("/", Sec_Fetch_Site="cross-site").body
        wrong = team.form("/login", {"token": "zgt_wrong", "to": "/x\"><script>"}, Origin=team.address)
        assert wrong.status == 401 and "not valid" in wrong.body and "<script>" not in wrong.body and "Set-Cookie" not in wrong.headers
        assert team.form("/login", {"token": token}, Origin="https://evil.example").status == 403
        for target, leads in ((f"/group/{signature(2)}", f"/group/{signature(2)}"), ("//evil.example", "/"), ("https://evil.example", "/"), ("/\\evil", "/")):
            answer = team.form("/login", {"token": token, "to": target}, Origin=team.address)
            assert answer.status == 303 and answer.headers["Location"] == leads, (target, answer.headers["Location"])
        attributes = answer.headers["Set-Cookie"]
        assert "HttpOnly" in attributes and "SameSite=Strict" in attributes and "Path=/" in attributes and "Max-Age=43200" in attributes
        assert token not in attributes and "Secure" not in attributes, attributes
        proxied = {"X_Forwarded_Proto": "https", "Origin": team.address.replace("http:", "https:")}
        assert "Secure" in team.form("/login", {"token": token}, **proxied).headers["Set-Cookie"]
        assert team.form("/login", {"token": token}, **{**proxied, "Origin": team.address}).status == 403, "plain HTTP is another origin"
        cookie = team.log_in(token)

        def decide(fields, group=2, **headers):
            return team.form(f"/group/{signature(group)}/triage?tenant=default", fields, **{"Cookie": cookie, "Origin": team.address, **headers})

        def shown(group=2):
            return team.get(f"/group/{signature(group)}", Cookie=cookie).body

        page = shown()
        for action in ("resolve", "mute", "assign", "comment", "reopen"):
            assert f'name="action" value="{action}"' in page, action
        assert "anna" in page and "Log out" in page
        assert 'name="action"' not in team.get(f"/group/{signature(2)}", Cookie=team.log_in(reader)).body
        hostile = "<script>alert(1)</script>"
        for fields, text in (({"action": "resolve", "version": "1.10", "comment": hostile}, "anna resolved it in 1.10: &lt;script&gt;"),
                             ({"action": "mute", "until": "7d"}, "anna muted it until"), ({"action": "mute", "until": ""}, "anna muted it<"),
                             ({"action": "mute", "until_count": "5"}, "muted it until 5 more"), ({"action": "mute", "until_version": "2.0"}, "until version 2.0"),
                             ({"action": "assign", "to": "bob"}, "assigned to bob"), ({"action": "comment", "comment": "seen again"}, "anna wrote: seen again"),
                             ({"action": "reopen"}, "anna opened it")):
            answer = decide(fields)
            assert answer.status == 303 and answer.headers["Location"].startswith(f"/group/{signature(2)}"), (fields, answer.status, answer.body)
            assert text in shown() and "<script>alert" not in shown(), (fields, text)
        for fields in ({}, {"action": "explode"}, {"action": "comment"}, {"action": "mute", "until": "yesterday"}, {"action": "mute", "until_count": "0"},
                       {"action": "mute", "until": "7d", "until_count": "3"}, {"action": "mute", "until": "1999-01-01"}):
            assert decide(fields).status == 400, fields
        assert decide({"action": "mute"}, group=77).status == 404
        # A POST with the cookie must say that it comes from these pages.
        for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "none"},
                        {"origin": "https://evil.example"}, {"Sec-Fetch-Site": "same-origin", "sec-fetch-site": "cross-site"}):
            assert decide({"action": "mute"}, **headers).status == 403, headers
        assert team.form(f"/group/{signature(2)}/triage", {"action": "mute"}, Cookie=cookie).status == 403
        assert team.ask("POST", f"/group/{signature(2)}/triage", None, '{"action":"mute"}', JSON, Origin=team.address).status == 401
        # A decision as JSON: the answer is as docs/fleet.openapi.json describes it.
        answer = team.ask("POST", f"/api/groups/{signature(3)}/triage", token, json.dumps({"action": "resolve", "version": "1.10"}), JSON)
        described(answer.json(), "/api/groups/{signature}/triage", "post")
        assert answer.json()["event"]["author"] == "anna" and answer.json()["group"]["state"] == "resolved", answer.body
        for body, kind in (("[]", JSON), ("", JSON), ("{", JSON), ('{"action":"mute"}', "text/plain"), ("action=%zz", FORM), (b"\xff", FORM)):
            assert team.ask("POST", f"/api/groups/{signature(3)}/triage", token, body, kind).status == 400, (body, kind)
        assert team.form("/logout", {}, Cookie=cookie).status == 403  # no origin
        answer = team.form("/logout", {}, Cookie=cookie, Origin=team.address)
        assert answer.status == 303 and "Max-Age=0" in answer.headers["Set-Cookie"]
        assert team.get("/", Cookie=cookie).status == 401
    # A server of a directory store accepts decisions, too, but no findings.
    work.token("dora", "read,triage")
    with Team(work, work.source) as team:
        answer = team.ask("POST", f"/api/groups/{signature(3)}/triage", token, json.dumps({"action": "mute"}), JSON)
        assert answer.status == 200 and answer.json()["group"]["state"] == "muted", answer.body
        answer = team.ask("POST", "/api/findings", work.token("ships", "ship"), lines(finding(1)), LINES)
        assert answer.status == 409 and "directory" in answer.json()["error"]


def in_a_browser(work):
    """Chromium logs in, decides by the forms, and logs out; all fits into 400 pixels."""
    work.filled()
    token = work.token("anna", "read,triage")
    with Team(work) as team:
        browser = Browser()
        try:
            def wait(expression):
                deadline = time.monotonic() + 30
                while True:
                    with contextlib.suppress(Exception):  # the page is being replaced
                        if browser.evaluate(expression):
                            return
                    assert time.monotonic() < deadline, (expression, browser.evaluate("document.body.innerText"))
                    time.sleep(0.05)

            for width in (400, 1280):
                for dark in (False, True):
                    browser.open(f"{team.address}/group/{signature(2)}", width=width, dark=dark)
                    assert browser.evaluate("document.documentElement.scrollWidth") <= width
                    browser.evaluate(f"document.getElementById('token').value = '{token}'")
                    browser.evaluate("document.querySelector('.login form').submit()")
                    wait(f"location.pathname === '/group/{signature(2)}' && document.readyState === 'complete'"
                         " && document.querySelector('.decide') !== null")
                    wide = browser.evaluate("document.documentElement.scrollWidth")
                    assert wide <= width, f"{wide} wide in {width}"
                    if pictures:
                        (pictures / f"decide-{width}-{'dark' if dark else 'light'}.png").write_bytes(browser.picture())
                    browser.evaluate("document.querySelector('.decide [name=to]').value = 'bob<b>'")
                    browser.evaluate("document.querySelector('.decide [name=to]').form.requestSubmit()")
                    wait("document.readyState === 'complete' && document.querySelector('.triage') !== null"
                         " && document.querySelector('.triage').innerText.includes('assigned to bob<b>')")
                    # Each field has a name for screen readers.
                    assert browser.evaluate("[...document.querySelectorAll('.decide input:not([type=hidden])')].every(e => e.ariaLabel)")
                    assert "zguard_session" not in browser.evaluate("document.cookie")
                    browser.evaluate("document.querySelector('.logout').requestSubmit()")
                    wait("document.getElementById('token') !== null")
        finally:
            browser.close()


def revoked(work):
    """Removing a token's line from the file ends the token and its sessions. A file that others may read or change is not used."""
    work.filled()
    anna, bob = work.token("anna"), work.token("bob")
    with Team(work) as team:
        cookie = team.log_in(anna)
        assert team.get("/", anna).status == team.get("/", bob).status == team.get("/", Cookie=cookie).status == 200
        for forged in ("zguard_session=", "zguard_session=" + "0" * 64, "zguard_session=" + anna, cookie[:-1], cookie.replace("session", "other")):
            assert team.get("/", Cookie=forged).status == 401, forged
        assert team.get("/", Cookie=f"a=b; {cookie}; c=d").status == 200
        text = work.tokens.read_text()
        work.tokens.write_text("".join(line + "\n" for line in text.splitlines() if not line.startswith("anna ")))
        assert [team.get("/", anna).status, team.get("/", Cookie=cookie).status, team.get("/", bob).status] == [401, 401, 200]
        # Replace the file by rename, as editors do.
        new = work.secret("new", text)
        new.rename(work.tokens)
        assert team.get("/", anna).status == team.get("/", Cookie=cookie).status == 200
        for change in (lambda: work.tokens.chmod(0o644), lambda: work.tokens.chmod(0o602), lambda: work.tokens.write_text("anna everything\n"),
                       lambda: work.tokens.unlink()):
            change()
            assert [team.get("/", anna).status, team.get("/", Cookie=cookie).status] == [503, 503]
            work.secret("new", text).rename(work.tokens)
            assert team.get("/", anna).status == 200
        assert "others may read or change it" in team.errors(), team.errors()
        if os.geteuid() == 0:
            os.chown(work.tokens, 1, 1)
            # A server that runs as root uses only files that root owns.
            assert team.get("/", anna).status == 503
    assert anna not in work.tokens.read_text() and bob not in work.tokens.read_text()


def wrong_words(work):
    work.filled()
    if not work.tokens.exists():
        work.token("anna")
    chain, key = work.certificate()
    serve = ("serve", work.place, "--port", "0")
    private = ("--tokens", work.tokens)
    for words, text in (((*serve, "--listen", "0.0.0.0"), "need '--tokens'"), ((*serve, "--tls", f"{chain},{key}"), "need '--tokens'"),
                        ((*serve, *private, "--listen", "0.0.0.0"), "unencrypted"), ((*serve, *private, "--listen", "::"), "unencrypted"),
                        ((*serve, *private, "--listen", "example.com"), "an address in numbers"), ((*serve, *private, "--tls", "one"), "CERT,KEY"),
                        (("token", work.tokens, "a b"), "cannot be used"), (("token", work.tokens, "x", "--role", "admin"), "read,triage,ship"),
                        (("token", work.tokens, "x", "--tenant", "a,,b"), "separated by commas"),
                        (("collect", "--from", work.source, "--to", work.place, "--token-file", work.tokens), "one destination")):
        said = work.run(*words, status=64, seconds=20)
        assert text in said.stderr and said.stdout == "", (words, said)
    assert "has a token with the name" in work.run("token", work.tokens, "anna", status=1).stderr
    key.chmod(0o644)
    assert "others may read or change it" in work.run(*serve, *private, "--tls", f"{chain},{key}", status=1, seconds=20).stderr
    key.chmod(0o600)
    assert "cannot be used for TLS" in work.run(*serve, *private, "--tls", f"{work.source},{key}".replace(str(work.source), str(key)), status=1, seconds=20).stderr
    work.tokens.chmod(0o644)
    assert "others may read or change it" in work.run(*serve, *private, status=1, seconds=20).stderr
    work.tokens.chmod(0o600)
    fake = work.path / "libmicrohttpd.so.12"
    fake.write_bytes(b"no library")
    said = work.run(*serve, status=1, seconds=20, LD_LIBRARY_PATH=str(work.path))
    assert "cannot open libmicrohttpd.so.12" in said.stderr and "libmicrohttpd12" in said.stderr, said.stderr
    fake.unlink()
    addresses = [("0.0.0.0", False)] + ([("::1", False), ("::", True)] if Path("/proc/net/if_inet6").exists() else [])
    for address, tls in addresses:
        with Team(work, None, "--listen", address, *([] if tls or address == "::1" else ["--plain-http"]), tls=tls) as team:
            with socket.create_connection((address, team.port), timeout=20):
                pass


def encrypted(work):
    """The port accepts TLS 1.2 and later, and nothing else."""
    work.filled()
    token = work.token("anna", "read,triage")
    with Team(work, tls=True) as team:
        assert team.get("/api/groups", token).json()["count"] == 4
        cookie = team.form("/login", {"token": token}, Origin=team.address).headers["Set-Cookie"]
        assert "; Secure" in cookie and cookie.startswith("__Host-zguard_session="), cookie
        # A sibling domain can set a cookie without the __Host- prefix: the server refuses such a cookie.
        pair = cookie.split(";")[0]
        assert team.get("/", Cookie=pair).status == 200 and team.get("/", Cookie=pair.removeprefix("__Host-")).status == 401
        answer = team.form("/logout", {}, Cookie=pair, Origin=team.address)
        assert answer.headers["Set-Cookie"].startswith("__Host-zguard_session=; ") and "; Secure" in answer.headers["Set-Cookie"]
        spoken = {}
        warnings.simplefilter("ignore", DeprecationWarning)  # the old versions are tried because they must not work
        for version in (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            context.set_ciphers("ALL:@SECLEVEL=0")
            context.minimum_version = context.maximum_version = version
            try:
                with socket.create_connection(("127.0.0.1", team.port), timeout=20) as plain, context.wrap_socket(plain) as connection:
                    spoken[version.name] = connection.version()
            except (ssl.SSLError, ConnectionError):
                spoken[version.name] = None
        assert spoken == {"TLSv1": None, "TLSv1_1": None, "TLSv1_2": "TLSv1.2", "TLSv1_3": "TLSv1.3"}, spoken
        assert b"HTTP" not in team.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert team.get("/", token).status == 200


def slowest(team, token, seconds):
    """Returns the longest time for a page, requested repeatedly during `seconds`."""
    def get():
        assert team.get("/", token, seconds=20).status == 200

    return max(page_times(get, seconds))


def slow_clients(work):
    """500 connections that are slow at any step do not delay other clients."""
    raise_descriptors()
    work.filled()
    token = work.token("anna", "read,ship")
    post = f"POST /api/findings HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Length: 1000000\r\n\r\n".encode()
    get = f"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
    for tls in (False, True):
        with Team(work, tls=tls) as team:
            hello = ssl.MemoryBIO()
            handshake = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), hello, server_hostname="x")
            with contextlib.suppress(ssl.SSLWantReadError):
                handshake.do_handshake()
            kinds = [("say nothing", {}), ("send a byte a second", {"begin": b"GET / HT", "feed": b"x"})]
            kinds += [("begin a handshake", {"begin": hello.read()[:100], "feed": b"\0"})] if tls else [
                ("send a byte of a body a second", {"begin": post, "feed": b"x"}), ("do not read", {"begin": get}),
                ("try a wrong token", {"begin": get.replace(token.encode(), b"wrong")})]
            for what, more in kinds:
                with Clients(team, 500, **more):
                    longest = slowest(team, token, 4)
                assert longest < 1.5, f"{longest:.1f} s for a page while 500 connections {what}"
                print(f"  {longest:.3f} s at most while 500 connections {what}{', TLS' if tls else ''}")
            # Above its limit of connections the server closes slow ones, whatever they have sent.
            for begin in (get[:20],) if tls else (get[:20], post, get):
                with Clients(team, 1500, begin=begin, feed=b"x"):
                    longest = slowest(team, token, 4)
                assert longest < 1.5, f"{longest:.1f} s for a page while 1500 connections send {begin[:20]} and then a byte a second"
                print(f"  {longest:.3f} s at most while 1500 connections send {begin[:4].decode()} and a byte a second{', TLS' if tls else ''}")
            if not tls:
                # A flood of newer connections that send bodies does not close a connection that has not sent anything yet.
                with socket.create_connection(("127.0.0.1", team.port), timeout=20) as honest, Clients(team, 1200, begin=post):
                    honest.sendall(get)
                    assert honest.recv(100).startswith(b"HTTP/1.1 200")
            if tls:
                with Handshaken(team, 500):
                    longest = slowest(team, token, 4)
                assert longest < 1.5, longest
                print(f"  {longest:.3f} s at most while 500 connections send a byte a second in TLS")


def slow_pages(work):
    """One reader's slow pages do not occupy all threads: other readers get their pages meanwhile."""
    frame = {"pc": "0x1000", "module": "/gone/shop", "build_id": "ab" * 20, "offset": "0x1000"}
    write_report(work.source, 1, [finding(1, 1, stacks={"access": [frame], "free": [], "alloc": []})])
    work.collect(work.place)
    slow, other = work.token("slow"), work.token("other")
    with socket.create_server(("127.0.0.1", 0)) as silent:  # a debuginfod server that never answers
        work.environment |= {"DEBUGINFOD_URLS": f"http://127.0.0.1:{silent.getsockname()[1]}", "NO_PROXY": "127.0.0.1"}
        with Team(work) as team, contextlib.ExitStack() as waiting:
            for number in range(12):
                connection = waiting.enter_context(socket.create_connection(("127.0.0.1", team.port), timeout=20))
                connection.sendall(f"GET /group/{signature(1)}?x={number} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {slow}\r\n\r\n".encode())
            time.sleep(0.5)
            longest = slowest(team, other, 1)
            assert longest < 1, f"{longest:.1f} s for a page while another reader's pages are slow"
            connection.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                raise AssertionError(f"the page was not slow: {connection.recv(100)}")


def kept_from_readers(work):
    """Neither pages nor errors show the store's address, or names from files of the server's machine."""
    source, program = work.path / "own.c", work.path / "own"
    source.write_text("int of_the_server(void) { return 1; } int main(void) { return of_the_server(); }")
    subprocess.run(["gcc", "-g", "-Wl,--build-id=none", "-o", program, source], check=True)
    listed = subprocess.run(["nm", program], check=True, capture_output=True, text=True).stdout
    offset = "0x" + re.search(r"([0-9a-f]+) T of_the_server", listed)[1]
    frame = {"pc": offset, "module": str(program), "offset": offset}
    write_report(work.source, 1, [finding(1, 1, stacks={"access": [frame], "free": [], "alloc": []})])
    work.collect(work.place)
    token = work.token("anna", "read,triage,ship")
    for place in (work.place, work.source):
        with Team(work, place) as team:
            for path in ("/", "/nothing", f"/group/{signature(1)}", "/group/none"):
                body = team.get(path, token).body
                assert "of_the_server" not in body and str(place).removeprefix("sqlite:") not in body, (path, body)
            if place == work.place:
                (work.path / "team.db").write_bytes(b"no database" * 1000)
            else:
                work.source.rename(work.path / "away")
            for method, path, body, kind in (("GET", "/", None, None), ("GET", "/api/groups", None, None), ("GET", "/metrics", None, None),
                                             ("POST", f"/api/groups/{signature(1)}/triage", '{"action":"mute"}', JSON)):
                answer = team.ask(method, path, token, body, kind)
                assert answer.status >= 500 and "the store is not available" in answer.body and str(work.path) not in answer.body, (path, answer.body)
            assert str(work.path) in team.errors(), "the operator is told"


class Handshaken(Clients):
    """Connections whose TLS handshake is done, and which send a byte of a request each second."""

    def __init__(self, team, count):
        super().__init__(team, count, b"GET / HT", b"x")

    def connect(self):
        connection = socket.create_connection(("127.0.0.1", self.served.port), timeout=20)
        connection = self.served.context.wrap_socket(connection, server_hostname="127.0.0.1")
        connection.sendall(self.begin)
        return connection


def guesses(work):
    """Wrong tokens are answered after a second, and many at a time are refused with 429. A right token is not delayed."""
    work.filled()
    token = work.token("anna")
    with Team(work) as team:
        for ask in (lambda: team.get("/api/groups", "wrong"), lambda: team.form("/login", {"token": "wrong"}, Origin=team.address)):
            began = time.monotonic()
            assert ask().status == 401 and time.monotonic() - began > 0.9
        with concurrent.futures.ThreadPoolExecutor(300) as pool:
            waiting = [pool.submit(lambda: team.get("/api/groups", "wrong").status) for _ in range(900)]
            longest = slowest(team, token, 1.5)
            said = [one.result() for one in waiting]
        assert set(said) <= {401, 429} and longest < 1.5, (set(said), longest)
        assert said.count(429) > 0, "nobody was turned away"


def rss(process):
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())[1]) << 10


def shipped(work):
    """Posted findings are stored once, under the tenant of the token. A body that is too large or invalid is refused whole."""
    work.filled()
    token, reader = work.token("ships", "ship", "third"), work.token("all", "read", "*")
    with Team(work) as team:
        def post(body, query="", **headers):
            return team.ask("POST", "/api/findings" + query, token, body, LINES, seconds=120, **headers)

        def stored(tenant="third"):
            return team.get(f"/api/groups?tenant={tenant}", reader).json()

        # Lines that claim another tenant.
        claimed = [finding(500 + one, 3, origin={"id": f"{one:032x}", "host": "h", "tenant": tenant}) for one, tenant in
                   enumerate(("default", "other", "third", "fourth"))]
        answer = post(lines(*claimed))
        described(answer.json(), "/api/findings", "post")
        assert answer.json() == {"received": 4, "new": 4}, answer.body
        assert post(lines(*claimed)).json() == {"received": 4, "new": 0}
        assert post(gzip.compress(lines(*claimed)), Content_Encoding="gzip").json() == {"received": 4, "new": 0}
        assert stored()["count"] == 1 and stored()["groups"][0]["count"] == 4 and stored("fourth")["count"] == 0
        kept = [json.loads(line, object_pairs_hook=lambda pairs: pairs)
                for line in team.get(f"/api/groups/{signature(3)}/findings?tenant=third", reader).body.splitlines()]
        for line in kept:
            assert [dict(value)["tenant"] for key, value in line if key == "origin"] == ["third"], line
        # Refused, whole.
        good = lines(finding(600, 4))
        for body, status in ((good + b"nonsense\n", 400), (good + b'{"schema":"zguard.finding/1"}\n', 400), (b"\0\n", 400), (b"\x1f\x8bnonsense", 400),
                             (gzip.compress(good)[:-9], 400), (b"x" * (17 << 20), 413), (lines(*(finding(one, 5) for one in range(10_001))), 413)):
            try:
                assert post(body).status == status, (body[:40], status, post(body).status)
            except (ConnectionError, BrokenPipeError):
                assert status == 413  # the server does not read it
        assert post(b"").json() == {"received": 0, "new": 0}
        assert stored()["count"] == 1
        # gzip bodies that unpack to much more, to one line and to many, must not use much memory.
        before = rss(team.process)
        for bomb in (gzip.compress(b"a" * (200 << 20)), gzip.compress(b"\n" * (200 << 20)), gzip.compress(good * 30_000)):
            assert post(bomb).status in (400, 413), len(bomb)
        assert rss(team.process) - before < 400 << 20, (before, rss(team.process))
        # Chunked bodies, whose length is not known in advance.
        request = (f"POST /api/findings HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nTransfer-Encoding: chunked\r\n\r\n").encode()
        body = b"".join(f"{len(part):x}\r\n".encode() + part + b"\r\n" for part in (good[:10], good[10:])) + b"0\r\n\r\n"
        assert b'"new":1' in team.send(request + body)
        huge = (b"100000\r\n" + b"x" * 0x100000 + b"\r\n") * 20
        assert b" 413 " in team.send(request + huge + b"0\r\n\r\n", 120)[:20]
        assert stored()["count"] == 2


def fuzzed(work, count=600):
    """Each malformed request gets an error or a closed connection, and the server keeps running."""
    work.filled()
    token = work.token("anna", "read,triage,ship")
    chance = random.Random(7)
    base = [f"GET /api/groups?limit=3&q=shop HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nCookie: zguard_session=1\r\n\r\n".encode(),
            f"POST /api/groups/{signature(1)}/triage HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Type: {JSON}\r\nContent-Length: 38\r\n\r\n"
            f'{{"action":"comment","comment":"fuzzed"}}'.encode(),
            b"POST /login HTTP/1.1\r\nHost: x\r\nContent-Type: " + FORM.encode() + b"\r\nContent-Length: 9\r\n\r\ntoken=abc",
            f"POST /api/findings HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n".encode()]
    special = [b"\0", b"\r\n", b"\n", b"%", b"%00", b"%zz", b"..", b"\xff\xfe", b":", b" ", b"?", b"&tenant=other", b"HTTP/9.9", b"-1", b"99999999999999999999",
               b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"Host: y\r\n", b"x" * 9000, b"{" * 5000, b'"\\ud800"']
    fixed = [b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", b"Host: y\r\n", b"Content-Length: 4\r\nContent-Length: 5\r\n", b"Transfer-Encoding: gzip\r\n",
             b"Content-Length: -5\r\n", b"Content-Length: 5x\r\n", b"X" * 40_000 + b": y\r\n"]

    def mutated():
        data = bytearray(chance.choice(base))
        for _ in range(chance.randint(1, 6)):
            place = chance.randrange(len(data) + 1)
            match chance.randrange(4):
                case 0: data[place:place] = chance.choice(special)
                case 1: del data[place:place + chance.randint(1, 20)]
                case 2: data[place:place + 1] = bytes([chance.randrange(256)])
                case 3: data[place:place + 4] = chance.choice(special)
        return bytes(data)

    with Team(work) as team:
        for extra in fixed:
            for request in base:
                head, rest = request.split(b"\r\n", 1)
                answer = team.send(head + b"\r\n" + extra + rest)
                assert not answer or re.match(rb"HTTP/1\.1 (4\d\d|501|505) ", answer), (extra[:60], request[:60], answer[:100])
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            def send(data):
                with socket.create_connection(("127.0.0.1", team.port), timeout=30) as connection:
                    with contextlib.suppress(OSError):
                        connection.sendall(data)
                        connection.shutdown(socket.SHUT_WR)
                    answer = b""
                    with contextlib.suppress(ConnectionResetError):
                        while part := connection.recv(65536):
                            answer += part
                return answer

            said = list(pool.map(send, [mutated() for _ in range(count)]))
        assert team.process.poll() is None
        assert all(not answer or answer.startswith(b"HTTP/1.") for answer in said), [answer[:60] for answer in said if answer and not answer.startswith(b"HTTP/1.")]
        assert not any(b"HTTP/1.1 500" in answer for answer in said), [answer for answer in said if b"HTTP/1.1 500" in answer][0]
        assert len(said) == count and team.get("/api/groups", token).json()["count"] == 4
        assert SECRET.encode() not in b"".join(said)


def behind_nginx(work):
    """Serves behind nginx with the configuration of docs/SERVE.md."""
    work.filled()
    token, ships = work.token("anna", "read,triage"), work.token("ships", "ship", "third")
    chain, key = work.certificate()
    ports = Ports()
    port = ports.take()
    with Team(work) as team:
        block = re.search(r"```nginx\n(.*?)```", (ROOT / "docs/SERVE.md").read_text(), re.S)[1]
        for old, new in (("listen 443 ssl;", f"listen 127.0.0.1:{port} ssl;"), ("/etc/ssl/certs/findings.pem", str(chain)),
                         ("/etc/ssl/private/findings.key", str(key)), ("127.0.0.1:7070", f"127.0.0.1:{team.port}"), ("findings.example", "localhost")):
            assert old in block, old
            block = block.replace(old, new)
        logs = "".join(f"{name}_temp_path {work.path}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        conf = work.path / "nginx.conf"
        conf.write_text(f"daemon off; pid {work.path}/nginx.pid; error_log {work.path}/nginx.log; user root;\nevents {{}}\n"
                        f"http {{ access_log off; {logs}\n{block}\n}}\n" if os.geteuid() == 0 else
                        f"daemon off; pid {work.path}/nginx.pid; error_log {work.path}/nginx.log;\nevents {{}}\nhttp {{ access_log off; {logs}\n{block}\n}}\n")
        nginx = subprocess.Popen(["nginx", "-p", str(work.path), "-c", str(conf), "-e", f"{work.path}/nginx.log"], stdin=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE, text=True)
        try:
            deadline = time.monotonic() + 30
            while True:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
                    break
                assert nginx.poll() is None and time.monotonic() < deadline, (nginx.poll(), (work.path / "nginx.log").read_text())
                time.sleep(0.05)
            front = Team.__new__(Team)
            front.tls, front.port, front.address = True, port, f"https://127.0.0.1:{port}"
            front.context = ssl.create_default_context(cafile=chain)
            assert front.get("/api/groups", token).json()["count"] == 4 and front.get("/", "wrong").status == 401
            answer = front.form("/login", {"token": token}, Origin=front.address)
            assert answer.status == 303 and "Secure" in answer.headers["Set-Cookie"] and answer.headers["Location"] == "/", answer.headers
            cookie = answer.headers["Set-Cookie"].split(";")[0]
            where = f"/group/{signature(2)}/triage"
            assert front.form(where, {"action": "assign", "to": "bob"}, Cookie=cookie, Origin=front.address).status == 303
            assert "assigned to bob" in front.get(f"/group/{signature(2)}", Cookie=cookie).body
            assert front.form(where, {"action": "mute"}, Cookie=cookie, Origin="https://evil.example").status == 403
            # A collector through the proxy.
            said = work.collect(front.address + "/api/findings", "--token-file", work.secret("ships", ships), CURL_CA_BUNDLE=str(chain))
            assert "12 findings" in said.stdout, said
            large = lines(*(finding(one, 9, pid=one) for one in range(9000)))
            assert front.ask("POST", "/api/findings", ships, large, LINES, seconds=120).json() == {"received": 9000, "new": 9000}
        finally:
            nginx.terminate()
            nginx.wait(30)
            ports.close()


class Decisions:
    """Makes decisions about groups in two threads, alternately by `zguard triage` and by the server. Records acknowledged decisions."""

    GROUPS = range(20)
    # Groups with a finding that is later than all decisions: resolving such a group makes it a regression.
    SEEN_AGAIN = GROUPS[::4]
    WORDS = {"resolve": [], "mute": [], "reopen": [], "assign": ["--to", "bob"], "comment": []}

    def __init__(self, work, place, team, token, seed):
        self.work, self.place, self.team, self.token = work, place, team, token
        self.numbers, self.over = itertools.count(), threading.Event()
        self.began, self.ended = {}, {}  # times by decision; decisions that were not acknowledged have no end
        self.pool = concurrent.futures.ThreadPoolExecutor(2)
        self.threads = [self.pool.submit(self.decide, random.Random(f"{seed} {number}")) for number in range(2)]

    def decide(self, chance):
        while not self.over.wait(chance.uniform(0, 0.05)):
            number, group, action = next(self.numbers), signature(chance.choice(self.GROUPS)), chance.choice(list(self.WORDS))
            self.began[number] = time.monotonic()
            if number % 2:
                process = subprocess.Popen([str(ZGUARD), "triage", self.place, action, group, "--comment", f"number {number}", *self.WORDS[action]],
                                           env=self.work.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                with process:
                    try:
                        process.communicate(timeout=chance.uniform(0.02, 2))
                    except subprocess.TimeoutExpired:
                        process.kill()
                    is_made = process.wait() == 0
            else:
                fields = json.dumps({"action": action, "comment": f"number {number}", "to": "bob"})
                is_made = False
                with contextlib.suppress(OSError, http.client.HTTPException):
                    answer = self.team.ask("POST", f"/api/groups/{group}/triage", self.token, fields, JSON)
                    assert answer.status in (200, 503), (answer.status, answer.body)
                    is_made = answer.status == 200
            if is_made:
                self.ended[number] = time.monotonic()

    def stop(self):
        self.over.set()
        self.pool.shutdown()

    def check(self):
        """Each acknowledged decision is stored once, after decisions that ended before it began. The states follow from the decisions."""
        for thread in self.threads:
            thread.result()
        listed = self.work.run("triage", self.place, "--format", "json", "--limit", "1000").stdout
        shown = {one["signature"]: one for one in map(json.loads, listed.splitlines())}
        seen = []
        for group in self.GROUPS:
            said = self.team.get(f"/api/groups/{signature(group)}", self.token).json()
            numbers = [int(event["comment"].split()[1]) for event in said["events"]]
            for place, number in enumerate(numbers):
                assert all(self.began[number] < self.ended.get(later, time.monotonic()) for later in numbers[place:]), (group, numbers)
            state, assigned = "open", None
            for event in said["events"]:
                match event["action"]:
                    case "resolve": state = "regression" if group in self.SEEN_AGAIN else "resolved"
                    case "mute": state = "muted"
                    case "reopen": state = "open"
                    case "assign": assigned = "bob"
            for one in (said["group"], shown[signature(group)]):
                assert (one["state"], one.get("assigned")) == (state, assigned), (one, said["events"])
            seen += numbers
        assert len(seen) == len(set(seen)), f"decisions are there twice: {sorted(seen)}"
        assert set(self.ended) <= set(seen) <= set(self.began), f"acknowledged decisions are lost: {set(self.ended) - set(seen)}"
        return f"{len(self.ended)} of {len(self.began)} decisions acknowledged, {len(seen)} kept"


def everything_killed(work):
    """Servers, shippers and the database are killed while findings arrive and decisions are made: each finding and each acknowledged
    decision is stored once, and the states follow from the decisions."""
    seed = random.randrange(1 << 30)
    print(f"       seed {seed}")
    chance = random.Random(seed)
    work.certificate()
    secret, triages = work.secret("ships", work.token("ships", "ship")), work.token("triages", "read,triage")
    work.environment["CURL_CA_BUNDLE"] = str(work.certificate()[0])
    fleet.server.clear()
    with contextlib.closing(Ports()) as ports:
        for place in (f"sqlite:{work.path}/killed.db", fleet.server.address):
            work.source = work.path / f"reports-{place[:6]}"
            kill_everything(work, place, ports.take(), secret, triages, chance)


def kill_everything(work, place, port, secret, triages, chance):
    # The store exists, with all groups, before the server reads it.
    later = int(time.time()) + 3600
    first = [finding(900_000 + group, group, **({"at": later} if group in Decisions.SEEN_AGAIN else {})) for group in Decisions.GROUPS]
    work.collect(place, source=write_report(work.path / "first", 999, first).parent)
    count = fill(work, 20, 50)
    target = f"https://127.0.0.1:{port}/api/findings"
    # Two shippers send to the server, and one writes to the database directly.
    calls = [(target, "--token-file", str(secret))] * 2 + [(place,)]

    def ship(number):
        return work.start(*calls[number], "--watch", "0.1", "--quiet")

    kills = dict.fromkeys(["server", "shipper"] + ["database"] * place.startswith("postgresql"), 0)
    shippers = [ship(number) for number in range(len(calls))]
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: [shipper.kill() or shipper.communicate() for shipper in shippers])
        team = stack.enter_context(Team(work, place, tls=True, port=port))
        decisions = Decisions(work, place, team, triages, chance.random())
        stack.callback(decisions.stop)
        while sum(kills.values()) < KILLS:
            time.sleep(chance.uniform(0.02, 0.25))
            write_report(work.source, 1000 + sum(kills.values()), [finding(count + one, one) for one in range(20)])
            count += 20
            kind = chance.choice(list(kills))
            kills[kind] += 1
            if kind == "server":
                assert team.process.poll() is None, team.errors()
                team.__exit__()
                team = stack.enter_context(Team(work, place, tls=True, port=port))
            elif kind == "database":
                fleet.server.kill(chance)
            else:
                which = chance.randrange(len(shippers))
                assert shippers[which].poll() is None, shippers[which].communicate()
                shippers[which].kill()
                shippers[which].communicate()
                # Without its state file a shipper sends everything again.
                if chance.random() < 0.8:
                    for path in work.source.glob(".zguard-collect-*"):
                        path.unlink(missing_ok=True)
                shippers[which] = ship(which)
        decisions.stop()
        while shippers:
            shipper = shippers.pop()
            shipper.kill()
            shipper.communicate()
        work.collect(target, "--token-file", secret)
        exactly_once(place, count + len(first))
        said = decisions.check()
    print(f"       {', '.join(f'{number} {kind}' for kind, number in kills.items())} kills: {count + len(first)} findings once, {said}")


def described_calls(work):
    """docs/fleet.openapi.json describes every call, the responses 401 and 403, and how a token is given."""
    document = json.loads((ROOT / "docs/fleet.openapi.json").read_text())
    assert document["components"]["securitySchemes"]["token"] == {"type": "http", "scheme": "bearer"}
    known = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    for method, path, *_ in CALLS:
        if path.startswith("/api/") and "nothing" not in path:
            assert (method, path.partition("?")[0].replace("{one}", "{signature}")) in known, (method, path)
    for path, methods in document["paths"].items():
        for method, call in methods.items():
            assert {"401", "403"} <= set(call["responses"]), (method, path)
            assert method == "get" or call["security"] == [{"token": []}], (method, path)


def symbols(work):
    """A large file arrives in parts, even if the server is killed. Findings of its build get names. Wrong parts are refused."""
    source, whole, program = work.path / "shop.c", work.path / "shop.debugged", work.path / "shop"
    source.write_text("""#include <stdlib.h>
const char room[30 << 20] = {1};
struct cart { long count; };
static __attribute__((noinline)) void drop(struct cart *cart) { free(cart); }
static __attribute__((noinline)) long total(struct cart *cart) { return cart->count; }
int main(void) { struct cart *cart = calloc(1, 64); drop(cart); return (int)total(cart) + room[1]; }
""")
    subprocess.run(["gcc", "-g", "-O1", "-Wno-use-after-free", "-o", program, source], check=True)
    whole.write_bytes(program.read_bytes())
    subprocess.run(["strip", program], check=True)
    subprocess.run([ZGUARD, "run", "--report", f"{work.source}/", "--quiet", "--", program], env=work.environment)
    work.collect(work.place, "--program-version", "1.0")
    ships, reader = work.token("ships", "ship"), work.token("reader")
    other = work.token("other", "ship")
    secret = work.secret("secret", ships)

    def groups(team):
        return team.get("/api/groups", reader).json()["groups"]

    with Team(work) as team:
        def part(data, offset, token=ships, upload="a" * 32, size=20, name="a"):
            return team.ask("POST", f"/api/symbols?upload={upload}&name={name}&size={size}&offset={offset}", token, data, BYTES)

        assert "total" not in groups(team)[0]["headline"], groups(team)
        answer = part(b"0123456789", 0)
        assert answer.json() == {"received": 10} and part(b"0123456789", 0).json() == {"received": 10}
        described(answer.json(), "/api/symbols", "post")
        assert [part(b"x", 11).status, part(b"x", 10, other).status, part(b"x", 10, upload="b" * 32).status, part(b"x" * 11, 10).status] == [409] * 4
        assert part(b"0123456789", 10).status == 422 and part(b"x", 10).status == 409
        for upload, size, offset, data in (("A" * 32, 20, 0, b"x"), ("a", 20, 0, b"x"), ("a" * 32, 0, 0, b"x"), ("a" * 32, 1 << 40, 0, b"x"), ("a" * 32, 20, -1, b"x"),
                                           ("a" * 32, 20, 0, b"")):
            assert part(data, offset, upload=upload, size=size).status == 400, (upload, size, offset)
        with contextlib.suppress(ConnectionError):  # the server does not read it
            assert part(b"x" * (17 << 20), 0, size=18 << 20).status == 413
        # A token with four incomplete files gets 503 for further files. Other tokens do not.
        answers = [part(b"x", 0, upload=f"{number:032x}", size=4 << 30).status for number in range(6)]
        assert answers == [200] * 4 + [503] * 2 and part(b"x", 0, other).status == 200, answers
        sent = work.run("symbols", "upload", source, "--to", team.address + "/api/symbols", "--token-file", secret, status=1)
        assert "ELF" in sent.stderr, sent
        port = team.port
    # The server is killed while parts arrive, and started again at the same port.
    words = [str(ZGUARD), "symbols", "upload", str(whole), "--to", f"http://127.0.0.1:{port}/api/symbols", "--token-file", str(secret)]
    with Team(work, port=port) as team:
        sending = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=work.environment)
        time.sleep(0.05)
        team.process.kill()
        team.process.wait()
        with Team(work, port=port) as again:
            out, err = sending.communicate(timeout=120)
            assert sending.returncode == 0 and "1 file sent" in out, (out, err)
            for _ in range(600):
                if "in total (shop.c:5)" in groups(again)[0]["headline"]:
                    break
                time.sleep(0.1)
            assert len(groups(again)) == 1 and "in total (shop.c:5)" in groups(again)[0]["headline"], groups(again)
            listed = work.run("symbols", "list", work.place).stdout
            assert "shop.debugged" in listed and "debug information" in listed, listed
            assert again.get(f"/api/groups/{groups(again)[0]['signature']}/findings", reader).json()["stacks"]["access"][0]["line"] == 5
            # A tenant whose files fill its share cannot upload more, and other tenants can.
            with contextlib.closing(sqlite3.connect(work.place.removeprefix("sqlite:"), timeout=60)) as base, base:
                base.execute("INSERT INTO zguard_symbols VALUES ('default', 'ff', 'debug', 'large', ?, 'none', 1, 0)", [40 << 30])
            subprocess.run(["gcc", "-g", "-Wl,--build-id=0x" + "12" * 20, "-x", "c", "-o", program, "-"], check=True,
                           input=b"int main(void) { return 0; }")
            upload = ("symbols", "upload", program, "--to", again.address + "/api/symbols", "--token-file")
            assert "413" in work.run(*upload, secret, status=1).stderr
            work.run(*upload, work.secret("elsewhere", work.token("elsewhere", "ship", "elsewhere")))


TESTS = [("roles", roles), ("tenants", tenants), ("forms", forms), ("in a browser", in_a_browser), ("revoked", revoked), ("wrong words", wrong_words), ("encrypted", encrypted),
         ("slow clients", slow_clients), ("slow pages", slow_pages), ("kept from readers", kept_from_readers), ("guesses", guesses), ("shipped", shipped), ("symbols", symbols), ("fuzzed", fuzzed), ("behind nginx", behind_nginx),
         ("everything killed", everything_killed), ("described calls", described_calls)]


def main():
    global KILLS, pictures
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=KILLS, help="servers, shippers and databases to kill, in each of two stores (default 20)")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="keeps what was seen in this folder")
    parser.add_argument("--only", default="", metavar="NAME", help="only tests whose name contains this")
    add_slice_option(parser)
    arguments = parser.parse_args()
    KILLS, pictures = arguments.kills, arguments.pictures
    return fleet.run_with_server(TESTS, "zguard-team-", arguments.only, Work, arguments.slice)


if __name__ == "__main__":
    sys.exit(main())
