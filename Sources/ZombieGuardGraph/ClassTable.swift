// The classes of the blocks of a heap.

import CZombie
import ZombieGuard

/// Validates and names the candidates for class pointers of a snapshot, each once.
package final class ClassTable {
    package let names: ObjectNames
    private let snapshot: HeapSnapshot
    private var classes: [ObjectNames.Class?]
    private var labels: [Label?]
    private var sizes: [Int: UInt64] = [:]
    private var layouts: [Int: ObjectLayout] = [:]
    private var ofProgram: [Int: Bool] = [:]
    private let reader: LayoutReader

    /// The name of a class. Names of C++ classes are mangled symbols, which the symbolicator makes readable.
    package struct Label: Hashable {
        package var language: Finding.Block.Language
        package var name: String?
        package var symbol: String?
    }

    package init(_ snapshot: HeapSnapshot) {
        self.snapshot = snapshot
        let names = ObjectNames(snapshot.source)
        self.names = names
        reader = LayoutReader(snapshot.source.memory)
        classes = snapshot.firstWords.words.elements.map { word in
            let candidate = ObjectNames.Class(isSwift: word & 1 != 0, pointer: word & ~1)
            return names.exists(candidate) ? candidate : nil
        }
        labels = Array(repeating: nil, count: classes.count)
    }

    /// The class of a block; nil if it holds no object of a known class.
    package func `class`(of block: UInt32) -> ObjectNames.Class? { number(of: block).flatMap { classes[$0] } }

    /// A number that blocks of one class share; nil if the block holds no object of a known class.
    package func number(of block: UInt32) -> Int? {
        guard let number = snapshot.blocks.firstWord(of: block), classes[number] != nil else { return nil }
        return number
    }

    /// The name of the class with a number.
    package func label(_ number: Int) -> Label {
        if let label = labels[number] { return label }
        guard let known = classes[number] else { return Label(language: .unknown) }
        let name = names.name(of: known)
        let label = Label(language: known.isSwift ? .swift : .cxx, name: name.name, symbol: name.symbol)
        labels[number] = label
        return label
    }

    /// Size of an instance of the class without tail-allocated elements, in bytes; 0 if unknown.
    package func instanceSize(_ number: Int) -> UInt64 {
        if let size = sizes[number] { return size }
        let size = classes[number].map { names.instanceSize(of: $0) } ?? 0
        sizes[number] = size
        return size
    }

    /// What each word in an object of a Swift class refers to.
    package func layout(_ number: Int) -> ObjectLayout {
        if let layout = layouts[number] { return layout }
        let layout = classes[number].map { $0.isSwift ? reader.objects(of: $0.pointer) : .unknown } ?? .unknown
        layouts[number] = layout
        return layout
    }

    /// Whether the block holds an instance of a class that the program declares, and not an instance of a toolchain
    /// library's class, a closure context or a box.
    package func isOfProgram(_ block: UInt32) -> Bool {
        guard let number = number(of: block) else { return false }
        if let known = ofProgram[number] { return known }
        let name = label(number).name ?? ""
        let module = name.prefix { $0 != "." && $0 != "<" }
        let isOfProgram =
            name[module.endIndex...].hasPrefix(".") && !SwiftName.libraryModules.contains(module)
            && !name.hasPrefix("indirect enum ")
        ofProgram[number] = isOfProgram
        return isOfProgram
    }

    /// The blocks that are side tables of Swift objects. A side table refers back to its object, but does not keep the
    /// object alive.
    func sideTables(_ graph: References) -> Set<UInt32> {
        Set(
            snapshot.sideTables.elements.lazy.filter { pair in
                self.isSwift(pair.object) && graph.targets(of: pair.table).contains(pair.object)
            }.map(\.table))
    }

    package func isSwift(_ block: UInt32) -> Bool { `class`(of: block)?.isSwift ?? false }

    package func isTask(_ block: UInt32) -> Bool { number(of: block).map { label($0).name == "Swift.Task" } ?? false }
}
