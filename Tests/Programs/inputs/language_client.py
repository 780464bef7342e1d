"""Talks to a language server through its standard input and output: language_client.py SOURCE COMMAND [ARG]...
Prints every answer, with sorted keys."""

import json
import subprocess
import sys
from pathlib import Path

source = Path(sys.argv[1]).resolve()
server = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=source.parent)
number = 0


def send(message):
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    server.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    server.stdin.flush()


def receive():
    length = 0
    while (line := server.stdout.readline().strip()):
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    if not length:
        sys.exit("the server ended")
    return json.loads(server.stdout.read(length))


def ask(method, parameters):
    """Sends a request and prints its answer. Answers the server's own requests with null, and ignores its notifications."""
    global number
    number += 1
    send({"id": number, "method": method, **({} if parameters is None else {"params": parameters})})
    while True:
        message = receive()
        if message.get("id") == number and "method" not in message:
            return show(method, message)
        if "method" in message and "id" in message:
            send({"id": message["id"], "result": None})


def show(method, message):
    result = message.get("result", message.get("error"))
    if method == "textDocument/completion":  # the server's order is not deterministic
        items = result["items"] if isinstance(result, dict) else result
        result = sorted(f"{item['label']} {item.get('detail')}" for item in items)
    print(method, json.dumps(result, sort_keys=True, indent=1))
    return result


def find(text):
    before = source.read_text().split(text)[0]
    return {"line": before.count("\n"), "character": len(before) - (before.rfind("\n") + 1)}


uri = source.as_uri()
document = {"uri": uri}
ask("initialize", {"processId": None, "rootUri": source.parent.as_uri(), "capabilities": {
    "textDocument": {"documentSymbol": {"hierarchicalDocumentSymbolSupport": True}, "hover": {"contentFormat": ["markdown"]}}}})
send({"method": "initialized", "params": {}})
text = source.read_text()
send({"method": "textDocument/didOpen", "params": {"textDocument": {**document, "languageId": "swift", "version": 1, "text": text}}})
ask("textDocument/documentSymbol", {"textDocument": document})
for place in ("Shelf(label: label)", "totalWeight", "reduce(into:"):
    ask("textDocument/hover", {"textDocument": document, "position": find(place)})
ask("textDocument/definition", {"textDocument": document, "position": find("makeItem(id, &numbers)")})
ask("textDocument/semanticTokens/full", {"textDocument": document})
ask("textDocument/foldingRange", {"textDocument": document})
ask("textDocument/completion", {"textDocument": document, "position": {**find("items.totalWeight"), "character": find("items.totalWeight")["character"] + 6}})
# An edit that leaves a line incomplete: request the symbols again.
end = {"line": text.count("\n"), "character": 0}
send({"method": "textDocument/didChange", "params": {"textDocument": {**document, "version": 2}, "contentChanges": [
    {"range": {"start": end, "end": end}, "text": "func added(_ shelf: Shelf) -> Int { shelf.items.cou\n"}]}})
ask("textDocument/documentSymbol", {"textDocument": document})
ask("textDocument/diagnostic", {"textDocument": document})
send({"method": "textDocument/didClose", "params": {"textDocument": document}})
ask("shutdown", None)
send({"method": "exit"})
server.stdin.close()
print("exit", server.wait())
