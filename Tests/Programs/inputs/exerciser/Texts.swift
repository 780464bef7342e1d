// Strings, dictionaries, sets, data, JSON, regular expressions, and the Foundation classes behind them.

import Foundation
import RegexBuilder

struct Entry: Codable, Hashable {
    var id: Int
    var name: String
    var price: Double
    var tags: [String]
    var parent: [String: Int]?
    var kind: Kind

    enum Kind: String, Codable { case plain, wide, deep }
}

final class Node: Codable {
    var name: String
    var children: [Node]
    weak var parent: Node?

    init(_ name: String, _ children: [Node]) {
        self.name = name
        self.children = children
        for child in children { child.parent = self }
    }

    enum CodingKeys: CodingKey { case name, children }

    required init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        name = try container.decode(String.self, forKey: .name)
        children = try container.decode([Node].self, forKey: .children)
        for child in children { child.parent = self }
    }

    var depth: Int { (parent?.depth ?? 0) + 1 }
    var total: Int { depth + children.reduce(0) { $0 + $1.total } }
}

func entry(_ id: Int, _ numbers: inout Numbers) -> Entry {
    Entry(
        id: id, name: "entry \(id) " + String(repeating: ["a", "ö", "漢", "🧭"][numbers.below(4)], count: numbers.below(30)),
        price: Double(numbers.below(100_000)) / 64, tags: (0..<numbers.below(6)).map { _ in "tag \(numbers.below(50))" },
        parent: numbers.below(3) == 0 ? ["up": numbers.below(100)] : nil, kind: [.plain, .wide, .deep][numbers.below(3)])
}

func coding(_ seed: Int) throws -> Int {
    var numbers = Numbers(seed: seed)
    let entries = (0..<250).map { entry($0, &numbers) }
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys]
    let data = try encoder.encode(entries)
    require(try JSONDecoder().decode([Entry].self, from: data) == entries, "JSON came back different")
    var refused = 0
    for cut in 1..<20 {
        do { _ = try JSONDecoder().decode([Entry].self, from: data.dropLast(cut * 31)) } catch { refused += 1 }
    }
    var tree = Node("leaf", [])
    for level in 0..<40 { tree = Node("level \(level)", [tree, Node("side", [])]) }
    let back = try JSONDecoder().decode(Node.self, from: encoder.encode(tree))
    require(back.total == tree.total, "a tree came back different")
    let properties = try PropertyListEncoder().encode(entries)
    require(try PropertyListDecoder().decode([Entry].self, from: properties).count == 250, "a property list came back different")
    let object = try JSONSerialization.jsonObject(with: data) as? [[String: Any]]
    let again = try JSONSerialization.data(withJSONObject: object ?? [], options: [.sortedKeys])
    return data.count + refused + back.total + (object?.count ?? 0) + again.count
}

func tables(_ seed: Int) -> Int {
    var numbers = Numbers(seed: seed)
    var leaves: [String: Leaf] = [:]
    var groups: [Int: Set<String>] = [:]
    var arrays: [ObjectIdentifier: [Leaf]] = [:]
    var sum = 0
    for round in 0..<15_000 {
        let key = "key \(numbers.below(600)) with a tail that does not fit into sixteen bytes"
        switch numbers.below(5) {
        case 0: leaves[key] = Leaf(round)
        case 1: sum &+= leaves.removeValue(forKey: key)?.value ?? 1
        case 2: groups[round % 40, default: []].insert(key)
        case 3: groups[round % 40]?.remove(key)
        default:
            let leaf = leaves[key] ?? Leaf(2)
            arrays[ObjectIdentifier(leaf), default: []].append(leaf)
            if arrays.count > 100 { arrays.removeAll() }
        }
    }
    let united = groups.values.reduce(into: Set<String>()) { $0.formUnion($1) }
    let counts = Dictionary(grouping: united, by: \.count).mapValues(\.count)
    sum &+= leaves.mapValues(\.value).values.reduce(0, &+)
    return sum &+ counts.reduce(0) { $0 &+ $1.key &* $1.value } &+ united.subtracting(leaves.keys).count
}

func strings(_ seed: Int) -> Int {
    var numbers = Numbers(seed: seed)
    var sum = Checksum()
    var text = ""
    for line in 0..<300 {
        text += "2\(numbers.below(900) + 100)-0\(1 + numbers.below(9)) line \(line): café № \(numbers.below(500)), "
        text.append(contentsOf: ["naïve", "résumé", "🇨🇭 flag", "plain"][numbers.below(4)])
        text.append("\n")
        if line % 50 == 0 { text.replaceSubrange(text.startIndex..<text.index(text.startIndex, offsetBy: 4), with: "....") }
    }
    for line in text.split(separator: "\n") {
        sum.add(line.split(whereSeparator: { !$0.isLetter }).map { $0.uppercased() }.sorted().joined(separator: "+"))
    }
    let date = Regex {
        Capture { Repeat(.digit, count: 4) }
        "-"
        TryCapture(OneOrMore(.digit)) { Int($0) }
    }
    for match in text.prefix(4000).matches(of: date) { sum.add(match.output.2 + match.output.1.count) }
    sum.add(text.prefix(3000).replacing(/№ (?<number>[0-9]+)/) { "#\($0.output.number.count)" }.count)
    if let expression = try? NSRegularExpression(pattern: "line ([0-9]+)") {
        sum.add(expression.numberOfMatches(in: text, range: NSRange(text.startIndex..., in: text)))
    }
    sum.add(text.components(separatedBy: "café").count)
    sum.add(String(text.reversed()).utf16.count)
    sum.add(String(format: "%05d %@ %.3f", numbers.below(1000), "text" as NSString, 1.5))
    sum.add((text as NSString).substring(with: NSRange(location: 10, length: 40)))
    sum.add(text.data(using: .utf16)?.count ?? 0)
    let characters = Dictionary(grouping: text, by: { $0 }).mapValues(\.count).sorted { $0.key < $1.key }
    for (character, count) in characters { sum.add("\(character)\(count)") }
    return Int(truncatingIfNeeded: sum.value)
}

func foundation(_ seed: Int) throws -> Int {
    var numbers = Numbers(seed: seed)
    var sum = Checksum()
    var data = Data()
    for round in 0..<400 {
        data.append(contentsOf: (0..<numbers.below(200)).map { UInt8($0) })
        if round % 9 == 0 { data.removeSubrange(0..<min(data.count, 300)) }
        let slice = data.suffix(40)
        sum.add(Data(slice.reversed()).base64EncodedString())
    }
    let path = FileManager.default.temporaryDirectory.appendingPathComponent("exerciser-\(UUID().uuidString)")
    try data.write(to: path, options: .atomic)
    require(try Data(contentsOf: path, options: .mappedIfSafe) == data, "a file came back different")
    let handle = try FileHandle(forReadingFrom: path)
    sum.add(try handle.read(upToCount: 1000)?.count ?? 0)
    try handle.close()
    try FileManager.default.removeItem(at: path)

    let array = NSMutableArray(), table = NSMutableDictionary()
    for round in 0..<600 {
        array.add(Leaf(round))
        table["key \(round % 70)" as NSString] = [round, "text \(round)", Leaf(round)] as [Any]
        if array.count > 100 { array.removeObjects(in: NSRange(location: 0, length: 60)) }
    }
    sum.add(array.compactMap { ($0 as? Leaf)?.value }.reduce(0, +) + table.count)
    let date = Date(timeIntervalSince1970: 1_700_000_000 + Double(numbers.below(1_000_000)))
    var calendar = Calendar(identifier: .gregorian)
    calendar.timeZone = TimeZone(secondsFromGMT: 0)!
    sum.add(date.ISO8601Format())
    sum.add(calendar.component(.weekday, from: calendar.date(byAdding: .day, value: seed, to: date)!))
    sum.add("\(Decimal(string: "1.25")! * Decimal(numbers.below(1000)))")
    var attributed = AttributedString("an attributed text")
    attributed[attributed.range(of: "text")!].link = URL(string: "https://example.org/a?b=\(seed)")
    sum.add(attributed.runs.count)
    sum.add(URLComponents(string: "https://example.org:80/path?x=1&y=2")?.queryItems?.count ?? 0)
    let name = Notification.Name("exerciser \(seed)")
    let counter = Counter()
    let observer = NotificationCenter.default.addObserver(forName: name, object: nil, queue: nil) { note in
        counter.add((note.object as? Leaf)?.value ?? 0)
    }
    for round in 0..<200 { NotificationCenter.default.post(name: name, object: Leaf(round)) }
    NotificationCenter.default.removeObserver(observer)
    NotificationCenter.default.post(name: name, object: Leaf(1_000_000))
    sum.add(counter.value)
    return Int(truncatingIfNeeded: sum.value)
}

func texts(_ seed: Int) throws -> String {
    var sum = Checksum()
    sum.add(try coding(seed))
    sum.add(tables(seed))
    sum.add(strings(seed))
    sum.add(try foundation(seed))
    return sum.description
}
