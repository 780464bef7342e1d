# Dictionaries, strings, json, objects, sorting and regular expressions: typical work of a Python program.
import json
import re
import sys


class Record:
    def __init__(self, number, name):
        self.number, self.name, self.links = number, name, []


def main(rounds):
    total = 0
    for round_number in range(rounds):
        records = [Record(i, f"record {i * 7919 % 10007} of {round_number}") for i in range(6000)]
        for record in records:
            record.links.append(records[record.number * 31 % len(records)])
        groups = {}
        for record in records:
            groups.setdefault(record.name[7:9], []).append(record.name.upper().split())
        text = json.dumps([{"n": r.number, "name": r.name, "to": r.links[0].number, "f": r.number / 7} for r in records])
        back = json.loads(text)
        back.sort(key=lambda one: (one["name"][::-1], one["n"]))
        total += len(re.sub(r"(\d+)", lambda m: str(int(m.group(1)) + 1), text[:200000]))
        total += sum(len(" ".join(words)) for group in groups.values() for words in group) + back[0]["n"]
        total += len({word for one in back for word in one["name"].split()})
    print(total)


main(max(1, int(14 * float(sys.argv[1]))))
