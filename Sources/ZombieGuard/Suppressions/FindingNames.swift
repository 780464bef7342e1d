// Extracts the names in a finding that suppression rules compare.

/// The names in a finding, extracted once for all rules.
struct FindingNames {
    struct Frame {
        /// The stable name that signatures use, and the displayed name; one element if the names are equal.
        var functions: [String]
        var module: String?
        var moduleName: String?
        var file: String?
        var fileName: String?
        /// Whether a rule must match the frame. A rule may skip all other frames: see ``StackNames``.
        var isSignificant: Bool

        /// The strings that a condition with this key is matched against.
        func texts(_ key: Suppressions.Rule.Condition.Key) -> [String] {
            switch key {
            case .function: functions
            case .type: functions.last.flatMap { FindingNames.owner(of: $0) }.map { [$0] } ?? []
            case .module: [moduleName, module].compactMap { $0 }
            case .file: [fileName, file].compactMap { $0 }
            }
        }

        func meets(_ condition: Suppressions.Rule.Condition) -> Bool {
            texts(condition.key).contains { condition.pattern.matches($0) }
        }
    }

    let kind: String
    /// The current signature of the finding, and its former ones.
    let signatures: [String]
    /// The class of the freed object.
    let object: String?
    private let access: [Frame]
    private let free: [Frame]
    private let alloc: [Frame]

    init(_ finding: Finding) {
        kind = finding.kind.rawValue
        var signed = finding
        signed.addSignature()
        signatures = [signed.signature].compactMap { $0 } + signed.formerSignatures
        object = finding.block?.className
        access = Self.frames(finding.stacks.access)
        free = Self.frames(finding.stacks.free)
        alloc = Self.frames(finding.stacks.alloc)
    }

    func frames(of stack: Suppressions.Rule.Stack) -> [Frame] {
        switch stack {
        case .access: access
        case .free: free
        case .alloc: alloc
        }
    }

    private static func frames(_ stack: [Finding.Frame]) -> [Frame] {
        StackNames(stack).names.map { name in
            let frame = stack[name.frame]
            let shown = frame.function ?? name.text
            return Frame(
                functions: shown == name.text ? [shown] : [name.text, shown], module: frame.module,
                moduleName: frame.moduleName, file: frame.file,
                fileName: frame.file.map { String($0.split(separator: "/").last ?? $0[...]) },
                isSignificant: name.isSignificant)
        }
    }

    /// The type or namespace of a function, given its displayed name: `Cart` for `closure #1 in Cart.add(_:)`,
    /// `geo::Circle` for `geo::Circle::area(int) const`; nil if the function is not a member.
    static func owner(of function: String) -> String? {
        let bytes = Array(function.utf8)
        var depth = 0
        var start = 0
        var end: Int?
        for (index, byte) in bytes.enumerated() {
            let isOutside = depth == 0
            switch byte {
            case UInt8(ascii: "(")
            where isOutside && index > start && bytes[start..<index].suffix(8).elementsEqual("operator".utf8):
                return end.map { String(decoding: bytes[start..<$0], as: UTF8.self) }
            case UInt8(ascii: "("), UInt8(ascii: "<"), UInt8(ascii: "["): depth += 1
            case UInt8(ascii: ")"), UInt8(ascii: "]"): depth -= 1
            case UInt8(ascii: ">") where index == 0 || bytes[index - 1] != UInt8(ascii: "-"): depth -= 1
            // Restart behind "in" and "static": "closure #1 in Cart.add(_:)"; "static Cart.make()"
            case UInt8(ascii: " ") where isOutside && bytes[..<index].suffix(3).elementsEqual(" in".utf8),
                UInt8(ascii: " ") where isOutside && bytes[start..<index].elementsEqual("static".utf8):
                start = index + 1
                end = nil
            case UInt8(ascii: ".") where isOutside && index > start: end = index
            case UInt8(ascii: ":") where isOutside && index > start && bytes.dropFirst(index + 1).first == byte:
                end = index
            default: break
            }
        }
        return end.map { String(decoding: bytes[start..<$0], as: UTF8.self) }
    }
}
