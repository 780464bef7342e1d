// Defines the kinds, accesses, confidences, block states and languages of findings by their names. The lists are the
// runtime's tables (zg_finding_kinds.h, zg_block.h); names from later versions, which are not in the tables, are kept
// unchanged.

import CZombie

extension Finding {
    /// The kind of bug.
    public struct Kind: RawRepresentable, Hashable, Sendable {
        public var rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }
        private init(_ kind: zg_finding_kind) { self = Self.all[Int(kind.rawValue)] }

        /// The kinds of this version, most severe first.
        public static let all = withUnsafeBytes(of: zg_finding_kind_table) { bytes in
            bytes.bindMemory(to: zg_finding_kind_info.self).map { Kind(rawValue: String(cString: $0.name)) }
        }

        /// The program used memory after freeing it.
        public static let useAfterFree = Kind(zg_finding_use_after_free)
        /// Memory changed after the program freed it.
        public static let writeAfterFree = Kind(zg_finding_write_after_free)
        /// The program freed a block twice.
        public static let doubleFree = Kind(zg_finding_double_free)
        /// The program freed an address that no allocation returned.
        public static let invalidFree = Kind(zg_finding_invalid_free)
        /// A block was freed by a function that does not match its allocation function.
        public static let deallocMismatch = Kind(zg_finding_dealloc_mismatch)
        /// The program accessed memory beyond the bounds of a block.
        public static let heapOverflow = Kind(zg_finding_heap_overflow)
        /// The program accessed an invalid address.
        public static let wildAccess = Kind(zg_finding_wild_access)
        /// The program dereferenced a null pointer.
        public static let nullAccess = Kind(zg_finding_null_access)
        /// A thread overflowed its stack.
        public static let stackOverflow = Kind(zg_finding_stack_overflow)
        /// The program accessed a Swift variable during another access to it (law of exclusivity).
        public static let exclusivity = Kind(zg_finding_exclusivity)
        /// A signal terminated the program, and no memory error explains it.
        public static let crash = Kind(zg_finding_crash)
        /// The thread of an event loop was busy for too long between two waits for events.
        public static let stall = Kind(zg_finding_stall)
        /// Threads wait for each other's locks.
        public static let deadlock = Kind(zg_finding_deadlock)
        /// Live blocks are unreachable: no live memory leads to them.
        public static let leak = Kind(zg_finding_leak)
        /// Objects keep only each other alive.
        public static let retainCycle = Kind(zg_finding_retain_cycle)
    }

    /// The operation on the memory.
    public struct Access: RawRepresentable, Hashable, Sendable {
        public var rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }
        private init(_ access: zg_access) { self = Self.all[Int(access.rawValue)] }

        private static let table = withUnsafeBytes(of: zg_access_table) { bytes in
            bytes.bindMemory(to: zg_access_info.self).map {
                (name: String(cString: $0.name), done: String(cString: $0.done), noun: String(cString: $0.noun))
            }
        }

        /// The accesses of this version.
        public static let all = table.map { Access(rawValue: $0.name) }

        /// Memory was read.
        public static let read = Access(zg_access_read)
        /// Memory was written.
        public static let write = Access(zg_access_write)
        /// A method was called.
        public static let call = Access(zg_access_call)
        /// A reference was retained.
        public static let retain = Access(zg_access_retain)
        /// A reference was released.
        public static let release = Access(zg_access_release)
        /// The object's dynamic type was queried, as by a cast.
        public static let cast = Access(zg_access_cast)
        /// The block was freed.
        public static let free = Access(zg_access_free)
        /// The operation is unknown.
        public static let unknown = Access(zg_access_unknown)

        /// Noun, as in "write at 0x10". Safe to print.
        package var noun: String { Self.table.first { $0.name == rawValue }?.noun ?? visible(rawValue) }
        /// Past participle, as in "written by thread 2".
        package var done: String {
            Self.table.first { $0.name == rawValue }?.done ?? Self.table[Int(zg_access_unknown.rawValue)].done
        }
    }

    /// Whether the block is known for certain or is only the most likely one.
    public struct Confidence: RawRepresentable, Hashable, Sendable {
        public var rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }
        private init(_ confidence: zg_confidence) { self = Self.all[Int(confidence.rawValue)] }

        /// The confidences of this version.
        public static let all = withUnsafeBytes(of: zg_confidence_names) { bytes in
            bytes.bindMemory(to: UnsafePointer<CChar>.self).map { Confidence(rawValue: String(cString: $0)) }
        }

        /// The block is known for certain.
        public static let exact = Confidence(zg_confidence_exact)
        /// The block was inferred, for example from a register that points into the block.
        public static let inferred = Confidence(zg_confidence_inferred)
    }
}

extension Finding.Block {
    /// Block states, as in the runtime's table. Reports contain only states with `isReported`; all other states occur
    /// only in running processes.
    package enum State: String, CaseIterable {
        case unused, live, freeing, quarantined, retired, reusable

        package var isReported: Bool { self != .unused && self != .freeing }
    }

    /// Languages whose objects are recognized, as in the runtime's table.
    package enum Language: String, CaseIterable {
        case unknown, swift
        case cxx = "c++"
    }

    /// ``state`` and ``language``, parsed; nil if absent or from a later version.
    package var knownState: State? { state.flatMap { State(rawValue: $0) } }
    package var knownLanguage: Language? { language.flatMap { Language(rawValue: $0) } }

    package var isLive: Bool { knownState == .live }
}
