// Keeps zguard_names: the classes, members and functions of each group, for searches by the beginning of a name.

import ZombieGuard

/// A name for which a search asks.
public struct FleetName: Hashable, Sendable {
    /// What has the name.
    public enum Field: String, CaseIterable, Sendable {
        case `class`, member, function
    }

    public var field: Field
    /// The name, or its beginning.
    public var text: String
    /// Whether the text is a whole name.
    public var isWhole: Bool

    /// Asks for a name.
    ///
    /// - Parameters:
    ///   - field: the kind of name.
    ///   - text: the name; module and outer types are optional: "add(_:)", "Cart.add" and "Shop.Cart.add(_:)" find the
    ///     same.
    ///   - isWhole: whether only whole names match; otherwise `text` is a prefix.
    public init(_ field: Field, _ text: String, isWhole: Bool = false) {
        (self.field, self.text, self.isWhole) = (field, text, isWhole)
    }

    /// The key to search for in zguard_names.
    var key: String { Self.key(field, text) }

    static func key(_ field: Field, _ text: some StringProtocol) -> String { "\(field):" + text.lowercased() }

    /// Upper bound of the texts that begin with the key, in the order of code points.
    var end: String { key + "\u{10ffff}" }
}

/// The names by which searches find a group.
enum FleetNames {
    /// Name of a marker row, which says that the names of a group were inserted.
    static let mark = ""
    private static let mostNames = 200
    private static let mostBytes = 250
    private static let mostFrames = 16

    static func creation(key: String = "text", form: String = "") -> String {
        """
        CREATE TABLE IF NOT EXISTS zguard_names (
            tenant text NOT NULL, name \(key) NOT NULL, signature text NOT NULL, PRIMARY KEY (tenant, name, signature))\(form);
        CREATE INDEX IF NOT EXISTS zguard_names_by_signature ON zguard_names (tenant, signature);
        """
    }

    /// The keys under which a finding is found, and the mark.
    static func keys(of finding: Finding?) -> [String] {
        var keys = [mark]
        guard let finding else { return keys }
        var seen: Set<String> = []
        func add(_ field: FleetName.Field, _ name: String?) {
            guard let name else { return }
            for part in parts(of: visible(name)) where keys.count < mostNames {
                let key = FleetName.key(field, part.utf8.count <= mostBytes ? part : short(part))
                if seen.insert(key).inserted { keys.append(key) }
            }
        }
        add(.class, finding.block?.className)
        add(.member, finding.block?.member)
        let stacks = finding.stacks
        for stack in [stacks.access, stacks.thrown, stacks.previous, stacks.free, stacks.alloc] {
            for frame in stack.prefix(mostFrames) { add(.function, frame.function) }
        }
        return keys
    }

    private static func short(_ text: Substring) -> Substring {
        var view = text.unicodeScalars.prefix(mostBytes)
        while view.reduce(0, { $0 + UTF8.width($1) }) > mostBytes { view = view.dropLast(8) }
        return Substring(view)
    }

    /// The name, and its suffixes without outer modules and types. Separators within brackets do not count.
    static func parts(of name: String) -> [Substring] {
        var starts = [name.startIndex]
        var depth = 0
        var previous: UInt8 = 0
        for index in name.utf8.indices {
            let byte = name.utf8[index]
            switch byte {
            case UInt8(ascii: "("), UInt8(ascii: "<"), UInt8(ascii: "["), UInt8(ascii: "{"): depth += 1
            case UInt8(ascii: ")"), UInt8(ascii: "]"), UInt8(ascii: "}"): depth = max(0, depth - 1)
            // Not of "->".
            case UInt8(ascii: ">") where previous != UInt8(ascii: "-"): depth = max(0, depth - 1)
            case UInt8(ascii: "."), UInt8(ascii: ":"), UInt8(ascii: " "):
                let next = name.utf8.index(after: index)
                if depth == 0, next < name.endIndex { starts.append(next) }
            default: break
            }
            previous = byte
        }
        return starts.map { name[$0...] }.filter { !$0.isEmpty && $0.first != ":" && $0.first != " " }
    }
}

extension Database {
    /// Inserts the names of groups.
    func insertNames(of groups: [(tenant: String, signature: String, finding: Finding?)]) throws(FleetError) {
        var columns = [[String]](repeating: [], count: 3)
        for group in groups {
            for key in FleetNames.keys(of: group.finding).sorted() {
                columns[0].append(group.tenant)
                columns[1].append(key)
                columns[2].append(group.signature)
            }
        }
        try insertNames(columns)
    }

    /// Inserts the names of groups that were stored by versions without zguard_names.
    func addMissingNames() throws(FleetError) {
        while true {
            let rows = try query(
                """
                SELECT tenant, signature, body FROM zguard_groups g WHERE NOT EXISTS
                    (SELECT 1 FROM zguard_names n WHERE n.tenant = g.tenant AND n.signature = g.signature)
                ORDER BY tenant, signature LIMIT \(Self.batch)
                """)
            if rows.isEmpty { return }
            try insertNames(
                of: rows.map { ($0[0].text ?? "", $0[1].text ?? "", Finding(jsonLine: $0[2].text ?? "")) })
            if rows.count < Self.batch { return }
        }
    }

    private static var batch: Int { 1000 }
}
