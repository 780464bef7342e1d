// Composes the headline for a freed object of a known class.

extension Finding {
    /// "method Cart.add(_:) was called on a deallocated Shop.Cart (48 bytes at 0x7f10)"
    func zombie(_ block: Block, className: String) -> String {
        let object = block.object(of: className)
        let place = block.place
        switch detail["operation"] {
        case "weak reference"?: return "a weak reference was formed to \(object) \(place)"
        case "unowned reference"? where access == .release:
            return "an unowned reference to \(object) was released \(place)"
        case "unowned reference"?: return "an unowned reference to \(object) was read \(place)"
        case "escape from deinit"?:
            let count = detail["references"].flatMap { Int(digits: $0) } ?? 1
            let references = count == 1 ? "a reference outlives it" : "\(count) references outlive it"
            return "\(visible(className)) was retained in its deinit, and \(references) \(place)"
        case "uniqueness check"?: return "\(object) was checked for uniqueness \(place)"
        case "reference count"?: return "the reference count of \(object) was read \(place)"
        default: break
        }
        if confidence == .inferred, access == .unknown {
            return "a pointer loaded from \(object) was dereferenced \(place)"
        }
        if let member = block.member, let next = nextUse {
            return memberUse(of: block.qualified(member), next, in: block, object)
        }
        switch access {
        case .retain: return "\(object) was retained \(place)"
        case .release: return "\(object) was released \(place)"
        case .cast: return "the class of \(object) \(place) was read (a cast or a dynamic call)"
        default: break
        }
        if let member = block.member.map({ block.qualified($0) }) {
            return memberUse(of: member, access, in: block, object)
        }
        switch access {
        case .call: return "\(method) was called on \(object) \(place)"
        case .write: return "\(block.contents(of: object)) written \(place)"
        case .read where block.isClassWord:
            return "the class of \(object) \(place) was read (a cast or a dynamic call)"
        case .read: return "\(block.contents(of: object)) read \(place)"
        default: return "\(object) was accessed \(place)"
        }
    }

    /// The access that the program was about to make to an object after it had retained the object or read its class;
    /// nil unless the following code shows the access.
    package var nextUse: Access? {
        guard access == .retain || access == .cast, block?.className != nil, block?.member != nil,
            detail["operation"] == nil
        else {
            return nil
        }
        return detail["next"].flatMap(Access.init(rawValue:))
    }

    private func memberUse(of member: String, _ access: Access, in block: Block, _ object: String) -> String {
        let noun = block.isMethod ? "method" : "property"
        let owner = block.className.map(Block.displayName) ?? "object"
        switch access {
        case .read where block.isStorageWord: return "\(block.contents(of: object)) read \(block.place)"
        case .write where block.isStorageWord: return "\(block.contents(of: object)) written \(block.place)"
        case .read: return "\(member) was read after its \(owner) was deallocated \(block.place)"
        case .write: return "\(member) was written after its \(owner) was deallocated \(block.place)"
        case .call where detail["part"] == "contents": return "\(noun) \(member) of \(object) was called \(block.place)"
        case .call where block.isMethod || block.member == "deinit":
            return "\(block.member == "deinit" ? "" : "method ")\(member) was called on \(object) \(block.place)"
        case .call: return "\(member) was called on \(object) \(block.place)"
        default: return "\(noun) \(member) was accessed on \(object) \(block.place)"
        }
    }

    // A description of a method whose name is unknown.
    private var method: String {
        guard let slot = detail["slot"] else { return "a method" }
        return block?.knownLanguage == .cxx
            ? "vtable slot \(visible(slot))" : "a method (word \(visible(slot)) of the class)"
    }
}

extension Finding.Block {
    /// "a deallocated Shop.Cart"
    package func object(of className: String) -> String {
        let isPayload = className.hasPrefix(Self.payloadPrefix)
        return (isPayload ? "the payload of " : "") + "a deallocated \(Self.displayName(className))"
    }

    private static let payloadPrefix = "indirect enum "

    /// Whether the accessed word is the class pointer, with which every instance of a Swift class begins.
    var isClassWord: Bool {
        let names = ["closure context", "box", "boxed error"]
        guard let className, knownLanguage == .swift, !names.contains(className) else { return false }
        return offset == 0 && !className.hasPrefix(Self.payloadPrefix)
    }

    /// Whether the member is a property of a collection's storage class. Such a property does not appear in source
    /// code.
    var isStorageWord: Bool {
        guard let className, member != nil, !isMethod else { return false }
        return Self.storages.contains { className.hasPrefix($0.prefix) }
    }

    /// "elements of a deallocated [Int] were", for the storage of an array or another collection.
    func contents(of object: String) -> String {
        guard let className, let storage = Self.storages.first(where: { className.hasPrefix($0.prefix) }) else {
            return "\(object) was"
        }
        if member?.lowercased().contains("count") == true { return "the count of \(object) was" }
        return storage.isText ? "the text of \(object) was" : "elements of \(object) were"
    }

    // Storage classes of the Swift standard library's collections, and their notation in source code.
    private static let storages: [(prefix: String, opening: String, closing: String, isText: Bool)] = [
        ("Swift._ContiguousArrayStorage<", "[", "]", false), ("Swift._DictionaryStorage<", "[", "]", false),
        ("Swift._SetStorage<", "Set<", ">", false), ("Swift.__StringStorage", "String", "", true),
    ]

    /// The class as in source code, safe to print: "Shop.Cart"; "[UInt8]" for
    /// `Swift._ContiguousArrayStorage<Swift.UInt8>`.
    static func displayName(_ className: String) -> String {
        guard let storage = storages.first(where: { className.hasPrefix($0.prefix) }) else { return visible(className) }
        if storage.isText { return storage.opening }
        guard className.hasSuffix(">") else { return visible(className) }
        var arguments = String(className.dropFirst(storage.prefix.count).dropLast())
        arguments = arguments.replacing("Swift.", with: "")
        if storage.prefix.contains("Dictionary"), let comma = topLevelComma(arguments) {
            arguments.replaceSubrange(comma...comma, with: ":")
        }
        return visible(storage.opening + arguments + storage.closing)
    }

    // The comma between two generic arguments.
    private static func topLevelComma(_ text: String) -> String.Index? {
        var depth = 0
        for index in text.indices {
            switch text[index] {
            case "<", "(", "[": depth += 1
            case ">", ")", "]": depth -= 1
            case "," where depth == 0: return index
            default: break
            }
        }
        return nil
    }

    /// "(48 bytes at 0x7f10)"
    package var place: String { "(\(purpose)\(size) byte\(size == 1 ? "" : "s") at \(start))" }

    /// "(48 bytes)"
    var extent: String { "(\(purpose)\(size) byte\(size == 1 ? "" : "s"))" }

    // The purpose of objects whose class does not appear in source code.
    private var purpose: String {
        guard let className else { return "" }
        if className == "closure context" { return "what a closure captured, " }
        if className == "box" { return "a captured variable, " }
        return ""
    }

    /// Whether the member takes arguments, as methods, initializers and subscripts do.
    package var isMethod: Bool { member?.contains("(") == true }

    /// "Cart.total" if the member is a stored property.
    package var property: String? { isMethod ? nil : member.map { qualified($0) } }

    /// "Cart.add(_:)", "geo::Circle::area(int) const": a Swift member is qualified with the class's own name, without
    /// module and enclosing types.
    package func qualified(_ member: String) -> String {
        guard let className else { return visible(member) }
        if knownLanguage == .cxx { return visible("\(className)::\(member)") }
        let names = ["closure context", "box", "boxed error"]
        if names.contains(className) || className.hasPrefix(Self.payloadPrefix) { return visible(member) }
        let type = SwiftTypeText.path(of: Substring(className)).last ?? className
        return visible("\(type).\(member)")
    }
}
