// One entry of the debug information, and what reports need of it.

import CDwarf

extension Dwarf_Die {
    var tag: Int {
        var copy = self
        return Int(dwarf_tag(&copy))
    }

    /// The entries directly below.
    var children: Children { Children(of: self) }

    struct Children: Sequence, IteratorProtocol {
        private var following: Dwarf_Die?

        fileprivate init(of parent: Dwarf_Die) {
            var parent = parent
            var first = Dwarf_Die()
            following = dwarf_child(&parent, &first) == 0 ? first : nil
        }

        mutating func next() -> Dwarf_Die? {
            guard var die = following else { return nil }
            var sibling = Dwarf_Die()
            following = dwarf_siblingof(&die, &sibling) == 0 ? sibling : nil
            return die
        }
    }

    /// The addresses of the code that belongs to the entry.
    var ranges: [Range<UInt64>] {
        var copy = self
        var ranges: [Range<UInt64>] = []
        var base: Dwarf_Addr = 0
        var start: Dwarf_Addr = 0
        var end: Dwarf_Addr = 0
        var position = 0
        while true {
            position = dwarf_ranges(&copy, position, &base, &start, &end)
            guard position > 0 else { return ranges }
            // What the linker threw away lies at 0.
            if start > 0, start < end { ranges.append(start..<end) }
        }
    }

    /// The functions below, also within namespaces, modules and types, by their addresses.
    func collectFunctions(into functions: inout [(range: Range<UInt64>, value: Dwarf_Die)]) {
        for die in children {
            switch die.tag {
            case DW_TAG_subprogram:
                for range in die.ranges { functions.append((range, die)) }
            case DW_TAG_namespace, DW_TAG_module, DW_TAG_class_type, DW_TAG_structure_type:
                die.collectFunctions(into: &functions)
            default: break
            }
        }
    }

    /// The functions inlined at an address of this function, the outermost first.
    func inlined(at address: UInt64) -> [Dwarf_Die] {
        var scope = self
        var inlined: [Dwarf_Die] = []
        while let inner = scope.child(at: address) {
            scope = inner
            if scope.tag == DW_TAG_inlined_subroutine { inlined.append(scope) }
        }
        return inlined
    }

    /// The block or inlined function directly in this scope that holds an address.
    private func child(at address: UInt64) -> Dwarf_Die? {
        for var die in children {
            switch die.tag {
            case DW_TAG_inlined_subroutine, DW_TAG_lexical_block, DW_TAG_try_block, DW_TAG_catch_block:
                if dwarf_haspc(&die, address) > 0 { return die }
            default: break
            }
        }
        return nil
    }

    /// What the linker calls the function, or else what the source does.
    var symbol: String? {
        var copy = self
        for name in [DW_AT_linkage_name, DW_AT_MIPS_linkage_name] {
            var attribute = Dwarf_Attribute()
            if dwarf_attr_integrate(&copy, UInt32(name), &attribute) != nil, let text = dwarf_formstring(&attribute) {
                return String(cString: text)
            }
        }
        return dwarf_diename(&copy).map { String(cString: $0) }
    }

    /// The value of an attribute of this entry.
    func number(_ name: Int) -> Int? {
        var copy = self
        var attribute = Dwarf_Attribute()
        var value: Dwarf_Word = 0
        guard dwarf_attr(&copy, UInt32(name), &attribute) != nil, dwarf_formudata(&attribute, &value) == 0 else {
            return nil
        }
        return Int(exactly: value)
    }
}
