// The kinds of findings as documents explain them: rules of SARIF, headings of HTML.

/// What a kind of finding means.
public struct FindingKind: Sendable {
    /// How serious a finding of the kind is by itself, in SARIF's words.
    public enum Level: String, Sendable { case error, warning, note }

    public var kind: Finding.Kind
    /// "UseAfterFree"
    public var name: String
    /// One sentence.
    public var summary: String
    public var explanation: String
    /// What to do about it.
    public var help: String
    /// Number in the Common Weakness Enumeration.
    public var weakness: Int?
    public var level: Level = .error

    /// Every kind that this version knows, the gravest first.
    public static let all: [FindingKind] = [
        FindingKind(
            kind: .useAfterFree, name: "UseAfterFree", summary: "The program used memory that it had freed.",
            explanation: """
                The memory belonged to a block that was freed before. What is there now is what the guard left, or, \
                without it, whatever was allocated next: the program reads wrong values, damages other data, or crashes \
                far from the cause.
                """,
            help: """
                Compare the three stacks: who used the block, who freed it, who allocated it. Either the user has to \
                keep it alive (hold a strong reference, own a copy), or has to be told that it is gone.
                """, weakness: 416),
        FindingKind(
            kind: .writeAfterFree, name: "WriteAfterFree",
            summary: "Memory changed after the program had freed it.",
            explanation: """
                The contents of a freed block are not what the guard left there. The write itself was not seen: the \
                first stack shows where the change was noticed, which may be much later and in other code.
                """,
            help: """
                Look for pointers to the block that outlive the place where it was freed. With 'zguard run --profile \
                fence' the write is caught at the instruction that does it.
                """, weakness: 416),
        FindingKind(
            kind: .doubleFree, name: "DoubleFree", summary: "The program freed a block twice.",
            explanation: """
                The block had been freed already. Without a guard the second free damages the allocator's own data, or \
                frees a block that somebody else has been given meanwhile.
                """,
            help: "Decide which of the two places owns the block; the other must not free it.", weakness: 415),
        FindingKind(
            kind: .invalidFree, name: "InvalidFree",
            summary: "The program freed something that no allocation returned.",
            explanation: """
                The pointer given to free is not the beginning of a block: it points into one, to the stack, to static \
                data, or to nothing at all.
                """,
            help: "Free exactly the pointer that the allocation returned, and only if it came from one.",
            weakness: 763),
        FindingKind(
            kind: .heapOverflow, name: "HeapOverflow", summary: "The program touched memory beside a block.",
            explanation: """
                The access went beyond the end of a block, or before its beginning. Without a guard it reads or damages \
                the neighbouring block.
                """,
            help: "Check the length or index against the size that the block was allocated with.", weakness: 787),
        FindingKind(
            kind: .deallocMismatch, name: "DeallocMismatch",
            summary: "A block was freed by a function that does not belong to its allocation.",
            explanation: """
                Blocks from malloc belong to free, from new to delete, from new[] to delete[], and a size given to the \
                deallocation has to be the one that was asked for. Other pairs work with some allocators by accident.
                """,
            help: "Use the deallocation that belongs to the allocation.", weakness: 762, level: .warning),
        FindingKind(
            kind: .wildAccess, name: "WildAccess", summary: "The program touched an address where it has no memory.",
            explanation: """
                The address belongs to no block that the guard knows, dead or alive. The pointer was damaged, never \
                initialised, or computed wrongly.
                """,
            help: "Follow the pointer back from the first stack to where it was made.", weakness: 119),
        FindingKind(
            kind: .nullAccess, name: "NullAccess", summary: "The program followed a null pointer.",
            explanation:
                "The address lies in the first page, where a null pointer, or a field of what it points to, is.",
            help: "Check the pointer before it is followed, or find out why it is null.", weakness: 476),
        FindingKind(
            kind: .stackOverflow, name: "StackOverflow", summary: "A thread ran out of stack.",
            explanation: "The recursion is too deep, or a local variable too large, for the stack of this thread.",
            help: "Look for the function that repeats in the stack.", weakness: 674),
    ]

    /// The entry of a kind; one that says little for kinds of later versions.
    public static func of(_ kind: Finding.Kind) -> FindingKind {
        all.first { $0.kind == kind }
            ?? FindingKind(
                kind: kind, name: "Other", summary: "A kind of finding that this version of zguard does not know.",
                explanation: "A later version of the runtime reported it.", help: "Read the report with that version.")
    }
}
