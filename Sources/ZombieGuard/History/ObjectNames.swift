// Names classes and members of objects in another process or a core file, with the runtime's own code.

import CZombie

/// Names objects. Not thread-safe.
package final class ObjectNames {
    private let memory: any MemoryReader
    private let layout: HeapLayout
    private let knowsSwift: Bool
    private var modules: ProcessModules

    private static let longestName = 512
    private static let mostRead: UInt64 = 1 << 20

    /// A class: `pointer` is its Swift metadata or C++ virtual table, to which the first word of its objects points.
    package struct Class: Hashable {
        package var isSwift: Bool
        package var pointer: UInt64

        package init(isSwift: Bool, pointer: UInt64) {
            self.isSwift = isSwift
            self.pointer = pointer
        }
    }

    package init(_ source: HeapReader) {
        memory = source.memory
        layout = source.statistics.heapLayout
        modules = ProcessModules(mappings: source.mappings, memory: source.memory)
        knowsSwift = !source.statistics.degradations.contains { $0.name == "swift_layout" }
    }

    // MARK: Which class

    /// The class with this number in the class table, which a death record names. Nil if the number is not in use, or
    /// if the class's library was unloaded.
    package func `class`(number: UInt32) -> Class? {
        guard number > 0, UInt64(number) <= layout.classTableCount,
            let entry = memory.record(UInt64.self, at: layout.classTable &+ UInt64(number - 1) * 8)
        else { return nil }
        switch entry & 7 {
        case 1: return Class(isSwift: true, pointer: entry & ~7)
        case 2: return Class(isSwift: false, pointer: entry & ~7)
        default: return nil
        }
    }

    /// The class of a live object, by its first words; nil if the block does not look like an object.
    package func `class`(of record: BlockRecord) -> Class? {
        guard record.isLive, record.size >= 8 else { return nil }
        let words = memory.records(UInt64.self, at: record.start, count: record.size >= 16 ? 2 : 1)
        guard let pointer = words.first else { return nil }
        let kind = zg_alloc_family(rawValue: record.block.header >> 8 & 0x7)
        if kind == zg_family_malloc || kind == zg_family_aligned {
            guard knowsSwift, words.count == 2, Self.isReferenceCount(words[1]) else { return nil }
            let fits = withSpace {
                zg_names_is_swift_class($0, pointer) && UInt64(zg_names_swift_size($0, pointer)) <= record.size
            }
            return fits ? Class(isSwift: true, pointer: pointer) : nil
        }
        guard kind == zg_family_new || kind == zg_family_new_aligned, withSpace({ zg_names_is_cxx_class($0, pointer) })
        else { return nil }
        return Class(isSwift: false, pointer: pointer)
    }

    // Whether a word may be the reference count of a live Swift object (SwiftShims/RefCount.h): a side-table reference,
    // or an inline count with bit 0, which is always set, and a nonzero unowned count. Distinguishes objects from other
    // blocks that begin with a metadata pointer.
    package static func isReferenceCount(_ bits: UInt64) -> Bool {
        bits >> 62 == 3 || (bits & 1 == 1 && bits & 0xffff_fffe != 0)
    }

    /// Whether objects of the class exist: its pointer is that of Swift metadata or of a C++ virtual table.
    package func exists(_ class: Class) -> Bool {
        if `class`.isSwift { return knowsSwift && withSpace { zg_names_is_swift_class($0, `class`.pointer) } }
        return withSpace { zg_names_is_cxx_class($0, `class`.pointer) }
    }

    /// Size of an instance without tail-allocated elements, in bytes; 0 if unknown.
    package func instanceSize(of class: Class) -> UInt64 {
        `class`.isSwift ? UInt64(withSpace { zg_names_swift_size($0, `class`.pointer) }) : 0
    }

    // MARK: Names

    /// The name of a Swift class, or the mangled symbol of a C++ class's type information, for the symbolicator.
    package func name(of class: Class) -> (name: String?, symbol: String?) {
        if `class`.isSwift { return (text { zg_names_swift_class($0, `class`.pointer, $1, $2) }, nil) }
        return (nil, text { zg_names_cxx_class($0, `class`.pointer, $1, $2) }.map { "_ZTS" + $0 })
    }

    /// The stored property at an offset of an instance; nil for C++.
    package func property(of class: Class, at byte: UInt64) -> String? {
        guard `class`.isSwift else { return nil }
        return text { zg_names_swift_property($0, `class`.pointer, byte, $1, $2) }
    }

    /// The kind of an access at this offset in the class metadata or virtual table, and the function or stored property
    /// that the access concerns, if known.
    func slot(of class: Class, at offset: Int64) -> (access: String, code: Finding.Frame?, property: String?) {
        var slot = zg_names_slot()
        let property = text { space, name, capacity in
            name[0] = 0
            slot =
                `class`.isSwift
                ? zg_names_swift_slot(space, `class`.pointer, offset, name, capacity)
                : zg_names_cxx_slot(space, `class`.pointer, offset)
            return name[0] != 0
        }
        let access = slot.access.map { String(cString: $0) } ?? Finding.Access.unknown.rawValue
        return (access, slot.code == 0 ? nil : modules.frame(at: slot.code), property)
    }

    // MARK: The address space, as the runtime's code sees it

    private func text(_ write: (UnsafePointer<zg_space>, UnsafeMutablePointer<CChar>, UInt64) -> Bool) -> String? {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: Self.longestName) { buffer in
            let name = buffer.baseAddress!
            guard withSpace({ write($0, name, UInt64(Self.longestName)) }) else { return nil }
            return String(cString: name)
        }
    }

    private func withSpace<Result>(_ body: (UnsafePointer<zg_space>) -> Result) -> Result {
        var space = zg_space()
        space.context = Unmanaged.passUnretained(self).toOpaque()
        space.read = { context, to, from, count in
            guard let to, count <= ObjectNames.mostRead else { return 0 }
            let names = Unmanaged<ObjectNames>.fromOpaque(context!).takeUnretainedValue()
            let bytes = names.memory.read(at: from, upTo: Int(count))
            bytes.withUnsafeBytes { to.copyMemory(from: $0.baseAddress ?? UnsafeRawPointer(to), byteCount: $0.count) }
            return UInt64(bytes.count)
        }
        space.is_image = { context, address in
            Unmanaged<ObjectNames>.fromOpaque(context!).takeUnretainedValue().modules.image(at: address) != nil
        }
        space.is_code = { context, address in
            Unmanaged<ObjectNames>.fromOpaque(context!).takeUnretainedValue().modules.isCode(address)
        }
        return withExtendedLifetime(self) { withUnsafePointer(to: space, body) }
    }
}
