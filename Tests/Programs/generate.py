"""Deterministic large inputs: C and C++ sources, text, SQL, a git history. Identical on every machine and Python version."""

import subprocess


class Numbers:
    """A small random generator, because `random` changes its sequences between Python versions."""

    def __init__(self, seed):
        self.state = seed & 0xFFFFFFFFFFFFFFFF

    def next(self, limit):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) & 0xFFFFFFFFFFFFFFFF
        return (self.state >> 33) % limit

    def pick(self, items):
        return items[self.next(len(items))]


WORDS = ("amber basin cedar delta ember fjord grove haven inlet jetty knoll ledge marsh notch oasis prairie quarry ridge "
         "shoal tundra upland valley willow yarrow zenith").split()

C_HEAD = """#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct node { struct node *next; uint32_t key; uint16_t kind, flags; char text[24]; };
static uint32_t mix(uint32_t a, uint32_t b) { a ^= b + 0x9e3779b9u + (a << 6) + (a >> 2); return a; }
static uint32_t sum_text(const char *text) { uint32_t s = 5381; while (*text) s = s * 33 + (unsigned char)*text++; return s; }
"""

C_FUNCTIONS = (
    # Walks a list with a switch.
    """static uint32_t f{n}(const struct node *list, uint32_t seed) {{
    uint32_t total = seed ^ {a}u;
    for (const struct node *at = list; at; at = at->next) {{
        switch (at->kind % {c}) {{
        case 0:
            total = mix(total, at->key * {b}u);
            break;
        case 1:
            total += sum_text(at->text) >> {s};
            break;
        case 2:
            if (at->flags & {b}u)
                total -= {a}u;
            else
                total = mix(at->key, total);
            break;
        default:
            total = (total << {s}) | (total >> (32 - {s}));
        }}
    }}
    return total;
}}
""",
    # Arrays and nested loops, for the vectorizer.
    """static uint32_t f{n}(const struct node *list, uint32_t seed) {{
    uint32_t table[{w}], total = 0;
    for (unsigned i = 0; i < {w}; i++)
        table[i] = seed * (i + {a}u);
    for (unsigned round = 0; round < {c}; round++) {{
        for (unsigned i = 1; i < {w}; i++)
            table[i] += table[i - 1] ^ (round << {s});
        total += table[round % {w}];
    }}
    if (list && list->key > {b}u)
        total = mix(total, list->key);
    return total;
}}
""",
    # Text and early exits.
    """static uint32_t f{n}(const struct node *list, uint32_t seed) {{
    static const char *const names[] = {{"{t}", "{u}", "{v}"}};
    char text[64];
    if (!list)
        return sum_text(names[seed % 3]);
    int length = snprintf(text, sizeof text, "%s-%u-%s", names[(seed + {a}u) % 3], (unsigned)list->key, list->text);
    for (int i = 0; i < length; i++) {{
        if (text[i] == '{x}')
            return mix(seed, (uint32_t)i * {b}u);
        if ((unsigned char)text[i] > 0x7e)
            goto wide;
    }}
    return sum_text(text) + {a}u;
wide:
    return {b}u;
}}
""",
    # Recursion and structure copies.
    """static uint32_t f{n}(const struct node *list, uint32_t seed) {{
    struct node copy;
    memset(&copy, 0, sizeof copy);
    if (list)
        copy = *list;
    copy.key ^= seed;
    copy.flags = (uint16_t)(copy.key >> {s});
    memcpy(copy.text, "{t}", sizeof "{t}");
    if (copy.next && (copy.key & {w}u))
        return mix(f{n}(copy.next, seed + 1), copy.flags);
    return mix(copy.key * {a}u, sum_text(copy.text));
}}
""",
)


def c_source(functions, seed=1):
    """Returns a C program of about 19 lines per function, which calls all functions and prints a checksum."""
    numbers = Numbers(seed)
    parts = [C_HEAD]
    for n in range(functions):
        parts.append(C_FUNCTIONS[(0, 2, 3, 0, 2, 3, 1)[n % 7]].format(
            n=n, a=numbers.next(1 << 30) | 1, b=numbers.next(1 << 16) | 1, c=3 + numbers.next(12), s=1 + numbers.next(30),
            w=8 + numbers.next(56), t=numbers.pick(WORDS), u=numbers.pick(WORDS), v=numbers.pick(WORDS),
            x=numbers.pick("aeioxyz")))
    parts.append("static uint32_t (*const all[])(const struct node *, uint32_t) = {\n")
    parts.extend(f"    f{n},\n" for n in range(functions))
    parts.append("""};
int main(void) {
    struct node *list = NULL;
    uint32_t total = 1;
    for (uint32_t i = 0; i < 50; i++) {
        struct node *one = calloc(1, sizeof *one);
        one->key = i * 2654435761u, one->kind = (uint16_t)i, one->flags = (uint16_t)(i * 3), one->next = list;
        snprintf(one->text, sizeof one->text, "node %u", (unsigned)i);
        list = one;
    }
    for (size_t round = 0; round < 20; round++)
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            total = mix(total, all[i](list, total));
    while (list) {
        struct node *next = list->next;
        free(list);
        list = next;
    }
    printf("%08x\\n", (unsigned)total);
    return 0;
}
""")
    return "".join(parts)


CXX_HEAD = """#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

template <int N> struct Fibonacci { static constexpr unsigned long value = Fibonacci<N - 1>::value + Fibonacci<N - 2>::value; };
template <> struct Fibonacci<0> { static constexpr unsigned long value = 0; };
template <> struct Fibonacci<1> { static constexpr unsigned long value = 1; };
template <typename... Parts> struct Shape {
    std::tuple<Parts...> parts;
    std::variant<std::monostate, Parts...> last;
    std::map<std::string, std::vector<std::tuple<Parts...>>> index;
    unsigned long weigh() const {
        return std::apply([](const auto &...part) { return (sizeof(part) + ... + 0ul); }, parts) + index.size();
    }
};
"""


def cxx_source(types, seed=2):
    """Returns a C++17 program that instantiates many standard templates and prints a checksum."""
    numbers = Numbers(seed)
    kinds = ("int", "double", "std::string", "std::vector<int>", "std::set<long>", "std::unique_ptr<std::string>",
             "std::shared_ptr<int>", "std::map<int, std::string>", "std::function<int(int)>", "char")
    parts, calls = [CXX_HEAD], []
    for n in range(types):
        chosen = []
        while len(chosen) < 3:
            kind = numbers.pick(kinds)
            if kind not in chosen:
                chosen.append(kind)
        number = 20 + numbers.next(60)
        parts.append(f"""
struct Tag{n} {{ int value; bool operator<(const Tag{n} &other) const {{ return value < other.value; }} }};
static unsigned long use{n}() {{
    Shape<{', '.join(chosen)}, Tag{n}> shape;
    shape.index.emplace("{numbers.pick(WORDS)}", 0);
    std::vector<Tag{n}> tags({number});
    std::generate(tags.begin(), tags.end(), [i = {number}]() mutable {{ return Tag{n}{{(i = i * 31 % 97)}}; }});
    std::sort(tags.begin(), tags.end());
    std::unordered_map<std::string, std::unique_ptr<Tag{n}>> owned;
    for (const auto &tag : tags)
        owned[std::to_string(tag.value)] = std::make_unique<Tag{n}>(tag);
    std::ostringstream text;
    for (const auto &[name, tag] : std::map<std::string, int>{{{{"a", {number}}}, {{"b", int(owned.size())}}}})
        text << name << tag;
    return Fibonacci<{number}>::value + shape.weigh() + text.str().size() + tags.back().value;
}}
""")
        calls.append(f"use{n}()")
    parts.append("int main() {\n    std::regex pattern(\"([a-z]+)-([0-9]+)\");\n    unsigned long total = "
                 "std::regex_match(\"row-12\", pattern);\n"
                 + "".join(f"    total = total * 31 + {call};\n" for call in calls)
                 + "    std::cout << total << '\\n';\n}\n")
    return "".join(parts)


def text_lines(lines, seed=3):
    """Returns lines of words and numbers, many of which are similar."""
    numbers = Numbers(seed)
    return "".join(f"{numbers.next(100000):05d}\t{numbers.pick(WORDS)} {numbers.pick(WORDS)}\t{numbers.next(1 << 30)}\t"
                   f"{numbers.pick(WORDS)}-{numbers.next(500)}\n" for _ in range(lines))


def git_stream(commits, files=60, seed=4):
    """Returns a history for `git fast-import` with fixed names and dates, so that every object has the same id everywhere."""
    numbers = Numbers(seed)
    contents = [[f"{numbers.pick(WORDS)} {numbers.next(1000)}" for _ in range(80)] for _ in range(files)]
    out = []
    for commit in range(commits):
        message = f"Change {commit}: {numbers.pick(WORDS)} and {numbers.pick(WORDS)}\n\nThe reason is {numbers.next(9999)}.\n"
        date = 1600000000 + commit * 3600
        who = f"{numbers.pick(WORDS).title()} Writer <w{numbers.next(9)}@example.invalid> {date} +0000"
        out.append(f"commit refs/heads/main\nmark :{commit + 1}\nauthor {who}\ncommitter {who}\n"
                   f"data {len(message)}\n{message}")
        if commit:
            out.append(f"from :{commit}\n")
        for _ in range(files if commit == 0 else 1 + numbers.next(5)):
            which = numbers.next(files) if commit else _
            for _ in range(1 + numbers.next(6)):
                contents[which][numbers.next(80)] = f"{numbers.pick(WORDS)} {numbers.next(1000)}"
            text = "\n".join(contents[which]) + "\n"
            out.append(f"M 100644 inline part{which % 7}/file{which}.txt\ndata {len(text)}\n{text}\n")
    return "".join(out).encode()


def git_repository(path, commits):
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(path)], check=True)
    subprocess.run(["git", "-C", str(path), "fast-import", "--quiet"], input=git_stream(commits), check=True)


def sql(rows):
    """Returns an SQL workload over `rows` rows: insert, index, join, aggregate, update, delete, vacuum, integrity check."""
    return f"""
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
CREATE TABLE item(id INTEGER PRIMARY KEY, shelf INTEGER, name TEXT, weight REAL);
CREATE TABLE shelf(id INTEGER PRIMARY KEY, label TEXT);
BEGIN;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
INSERT INTO item SELECT i, (i * 7919) % 1000, printf('item-%08x-%d', (i * 2654435761) % 4294967296, i % 97), (i * 37 % 1009) / 7.0 FROM n;
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 999) INSERT INTO shelf SELECT i, 'shelf ' || i FROM n;
COMMIT;
CREATE INDEX item_shelf ON item(shelf, weight);
CREATE INDEX item_name ON item(name) WHERE id % 10 = 0;
SELECT count(*), round(sum(weight), 3), min(name), max(name) FROM item;
SELECT s.label, count(*), round(avg(i.weight), 4), max(i.name) FROM item i JOIN shelf s ON s.id = i.shelf GROUP BY s.label ORDER BY s.label LIMIT 20;
SELECT substr(name, 6, 2) AS k, count(DISTINCT shelf), group_concat(DISTINCT id % 5) FROM item WHERE id % 3 = 0 GROUP BY k ORDER BY k LIMIT 20;
SELECT id, sum(weight) OVER (ORDER BY id ROWS 10 PRECEDING) FROM item WHERE shelf = 500 ORDER BY id DESC LIMIT 5;
UPDATE item SET name = upper(name) || '/' || shelf WHERE shelf < 50;
DELETE FROM item WHERE shelf BETWEEN 100 AND 300;
SELECT json_group_array(json_object('id', id, 'name', name)) FROM (SELECT * FROM item WHERE shelf = 7 ORDER BY id LIMIT 50);
VACUUM;
PRAGMA integrity_check;
SELECT count(*), round(total(weight), 3) FROM item;
"""
