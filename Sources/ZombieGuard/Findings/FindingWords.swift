// The words of findings. The runtime's tables (zg_finding_kinds.h, zg_block.h) are the lists; words that are not in them, of
// later versions, are kept as they are.

import CZombie

extension Finding {
    /// What kind of bug it is.
    public struct Kind: RawRepresentable, Hashable, Codable, Sendable {
        public var rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }
        private init(_ kind: zg_finding_kind) { self = Self.all[Int(kind.rawValue)] }

        /// The kinds of this version, the gravest first.
        public static let all = withUnsafeBytes(of: zg_finding_kind_table) { bytes in
            bytes.bindMemory(to: zg_finding_kind_info.self).map { Kind(rawValue: String(cString: $0.name)) }
        }

        /// The program used memory that it had freed.
        public static let useAfterFree = Kind(zg_finding_use_after_free)
        /// Memory changed after the program had freed it.
        public static let writeAfterFree = Kind(zg_finding_write_after_free)
        /// The program freed a block twice.
        public static let doubleFree = Kind(zg_finding_double_free)
        /// The program freed something that no allocation returned.
        public static let invalidFree = Kind(zg_finding_invalid_free)
        /// A block was freed by a function that does not belong to its allocation.
        public static let deallocMismatch = Kind(zg_finding_dealloc_mismatch)
        /// The program touched memory beside a block.
        public static let heapOverflow = Kind(zg_finding_heap_overflow)
        /// The program touched an address where it has no memory.
        public static let wildAccess = Kind(zg_finding_wild_access)
        /// The program followed a null pointer.
        public static let nullAccess = Kind(zg_finding_null_access)
        /// A thread ran out of stack.
        public static let stackOverflow = Kind(zg_finding_stack_overflow)
        /// The program accessed a Swift variable while another access to it was going on.
        public static let exclusivity = Kind(zg_finding_exclusivity)
        /// A signal ended the program, and nothing that the guard knows explains it.
        public static let crash = Kind(zg_finding_crash)
        /// A thread that waits for events was busy for long.
        public static let stall = Kind(zg_finding_stall)
    }

    /// What the program did to the memory.
    public struct Access: RawRepresentable, Hashable, Codable, Sendable {
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
        /// The object's type was asked for.
        public static let cast = Access(zg_access_cast)
        /// The block was freed.
        public static let free = Access(zg_access_free)
        /// Nobody knows.
        public static let unknown = Access(zg_access_unknown)

        /// As in "write at 0x10". Safe to print.
        package var noun: String { Self.table.first { $0.name == rawValue }?.noun ?? visible(rawValue) }
        /// As in "written by thread 2".
        package var done: String {
            Self.table.first { $0.name == rawValue }?.done ?? Self.table[Int(zg_access_unknown.rawValue)].done
        }
    }

    /// Whether the finding is certain or the likeliest explanation.
    public struct Confidence: RawRepresentable, Hashable, Codable, Sendable {
        public var rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }
        private init(_ confidence: zg_confidence) { self = Self.all[Int(confidence.rawValue)] }

        /// What this version says.
        public static let all = withUnsafeBytes(of: zg_confidence_names) { bytes in
            bytes.bindMemory(to: UnsafePointer<CChar>.self).map { Confidence(rawValue: String(cString: $0)) }
        }

        /// It is known which block was meant.
        public static let exact = Confidence(zg_confidence_exact)
        /// The block was inferred, such as from a register that points into it.
        public static let inferred = Confidence(zg_confidence_inferred)
    }
}

extension Finding.Block {
    /// States of blocks, as the runtime's table has them. Reports have those that `isReported`; the others are seen in
    /// running processes.
    package enum State: String, CaseIterable {
        case unused, live, freeing, quarantined, retired, reusable

        package var isReported: Bool { self != .unused && self != .freeing }
    }

    /// Languages whose objects are recognised, as the runtime's table has them.
    package enum Language: String, CaseIterable {
        case unknown, swift
        case cxx = "c++"
    }

    /// ``state`` and ``language``; nil where there is none, or one of a later version.
    package var knownState: State? { state.flatMap { State(rawValue: $0) } }
    package var knownLanguage: Language? { language.flatMap { Language(rawValue: $0) } }

    package var isLive: Bool { knownState == .live }
}
