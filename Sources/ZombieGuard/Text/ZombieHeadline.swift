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
        if confidence == .inferred, access == .unknown { return "a pointer that came from \(object) was used \(place)" }
        if access == .retain, let member = block.member, let next = detail["next"].flatMap(Access.init(rawValue:)) {
            return "\(memberUse(of: block.qualified(member), next, in: block, object)) (at the retain before it)"
        }
        switch access {
        case .retain: return "\(object) was retained \(place)"
        case .release: return "\(object) was released \(place)"
        case .cast: return "\(object) was cast or asked for its type \(place)"
        default: break
        }
        if let member = block.member.map({ block.qualified($0) }) {
            return memberUse(of: member, access, in: block, object)
        }
        switch access {
        case .call: return "\(method) was called on \(object) \(place)"
        case .write: return "\(object) was written to \(place)"
        case .read: return "\(object) was read \(place)"
        default: return "\(object) was used \(place)"
        }
    }

    private func memberUse(of member: String, _ access: Access, in block: Block, _ object: String) -> String {
        let noun = block.isMethod ? "method" : "property"
        switch access {
        case .read where block.isMethod: return "\(member) was read from \(object) \(block.place)"
        case .write where block.isMethod: return "\(member) was written in \(object) \(block.place)"
        case .read: return "property \(member) was read from \(object) \(block.place)"
        case .write: return "property \(member) was written in \(object) \(block.place)"
        case .call where detail["part"] == "contents": return "\(noun) \(member) of \(object) was called \(block.place)"
        case .call where block.isMethod || block.member == "deinit":
            return "\(block.member == "deinit" ? "" : "method ")\(member) was called on \(object) \(block.place)"
        case .call: return "\(member) was called on \(object) \(block.place)"
        default: return "\(noun) \(member) was used on \(object) \(block.place)"
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
    package func object(of className: String) -> String { "a deallocated \(visible(className))" }

    /// "(48 bytes at 0x7f10)"
    package var place: String { "(\(purpose)\(size) byte\(size == 1 ? "" : "s") at \(start))" }

    /// "(48 bytes)"
    var extent: String { "(\(purpose)\(size) byte\(size == 1 ? "" : "s"))" }

    // The purpose of objects whose class does not appear in source code.
    private var purpose: String {
        guard let className else { return "" }
        if className == "closure context" { return "what a closure captured, " }
        if className == "box" { return "a captured variable, " }
        let storages = [
            ("Swift._ContiguousArrayStorage<", "the elements of an array, "),
            ("Swift._DictionaryStorage<", "the elements of a dictionary, "),
            ("Swift._SetStorage<", "the elements of a set, "), ("Swift.__StringStorage", "the text of a string, "),
        ]
        return storages.first { className.hasPrefix($0.0) }?.1 ?? ""
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
        if names.contains(className) { return visible(member) }
        let type = SwiftTypeText.path(of: Substring(className)).last ?? className
        return visible("\(type).\(member)")
    }
}
