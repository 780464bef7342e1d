// Defines the JSON lines in which a guarded test bundle asks zguard about the bundle's own heap, and in which zguard
// answers. The bundle and zguard must have the same version, which zguard's first line names.

import CZombie

/// A question about the heap of the process that asks. "The part" below is the part of a test that the question is
/// about.
package struct HeapQuestion: JSONObject {
    package enum Kind: String, JSONValue {
        /// Remember which blocks exist.
        case begin
        /// Find blocks that a part of a test allocated and leaked.
        case leaks
        /// Find references to blocks that a part of a test has freed.
        case dangling
        /// Find live objects and the references that hold them.
        case objects
    }

    package var kind: Kind
    /// Result of the question `begin` at the start of the part; 0 for `begin` and `objects`.
    package var moment = 0
    /// Address of an object that the part's thread has allocated. All tasks of the part refer to the object.
    package var marker = Address(0)
    /// Whether the part is synchronous. If it is, all blocks that the marker's thread has allocated or freed since
    /// `moment` belong to the part.
    package var isSynchronous = false
    /// Whether no other test runs at the same time. If none does, all blocks allocated or freed since `moment` belong
    /// to the part.
    package var isAlone = false
    /// Part of the name of the test's function, such as "CartTests.add("; nil if unknown.
    package var function: String?
    /// Like `function`, for each of the other tests that the process knows so far.
    package var others: [String] = []
    /// The kernel's ID of the thread that waits for the answer, and the stack pointer at which the program's frames on
    /// that thread's stack begin.
    package var thread = 0
    package var stackPointer = Address(0)
    /// Class metadata: the question `objects` asks for the objects of the class and its subclasses.
    package var metadata: Address?
    /// Further objects for the question `objects`, whatever their class. The array contains the complements of their
    /// addresses: a plain address in the question would be found as a reference that holds the object.
    package var objects: [Address] = []

    package init(_ kind: Kind) { self.kind = kind }

    package static let blank = HeapQuestion(.begin)
    package static let fields = JSONFields<HeapQuestion>([
        .needed("kind", \.kind), .value("moment", \.moment), .value("marker", \.marker),
        .value("synchronous", \.isSynchronous), .value("alone", \.isAlone), .optional("function", \.function),
        .list("others", \.others), .value("thread", \.thread), .value("sp", \.stackPointer),
        .optional("metadata", \.metadata), .list("objects", \.objects),
    ])
}

/// An answer to a ``HeapQuestion``. The first line has the counts of findings, references and objects. Each finding,
/// reference and object follows in a line of its own, because the reader limits the length of a line.
package struct HeapAnswer: JSONObject {
    /// A reference to a freed block.
    package struct Reference: JSONObject {
        package var holder = Finding.Holder.blank
        package var count = 1
        package var target = Finding.Block.blank
        /// Stacks of the allocation and the free of the target.
        package var stacks = Finding.Stacks.blank

        package init(holder: Finding.Holder, count: Int, target: Finding.Block, stacks: Finding.Stacks) {
            (self.holder, self.count, self.target, self.stacks) = (holder, count, target, stacks)
        }

        private init() {}

        package static let blank = Reference()
        package static let fields = JSONFields<Reference>([
            .needed("holder", \.holder), .value("count", \.count), .needed("target", \.target),
            .value("stacks", \.stacks),
        ])
    }

    /// Version of zguard.
    package var version = zombieGuardVersion
    /// ID of the process that answers.
    package var processID = 0
    /// Why there is no answer; nil if there is one.
    package var problem: String?
    package var moment = 0
    /// Leaks and retain cycles of the part.
    package var findings: [Finding] = [] { didSet { counts.findings = findings.count } }
    /// Leaks and retain cycles that another test may have made.
    package var undecided: [Finding] = [] { didSet { counts.undecided = undecided.count } }
    /// References to blocks that the part has freed.
    package var references: [Reference] = [] { didSet { counts.references = references.count } }
    package var objects: [LiveObject] = [] { didSet { counts.objects = objects.count } }
    /// Number of lines of each kind that follow, in this order.
    private var counts = (findings: 0, undecided: 0, references: 0, objects: 0)
    /// Time for which the process was stopped, in microseconds.
    package var stoppedMicroseconds = 0

    package init() {}

    package static let blank = HeapAnswer()
    package static let fields = JSONFields<HeapAnswer>([
        .value("zguard", \.version), .value("pid", \.processID), .optional("problem", \.problem),
        .value("moment", \.moment), .value("findings", \.counts.findings), .value("undecided", \.counts.undecided),
        .value("references", \.counts.references), .value("objects", \.counts.objects),
        .value("stopped_us", \.stoppedMicroseconds),
    ])

    /// The answer as lines without line feeds. If a line is too long for the reader, returns an answer with a problem
    /// instead.
    package var lines: [String] {
        let lines =
            [json.line] + findings.map(\.json.line) + undecided.map(\.json.line) + references.map(\.json.line)
            + objects.map(\.json.line)
        if lines.allSatisfy({ $0.utf8.count <= LineReader.longestLine }) { return lines }
        var answer = HeapAnswer()
        answer.problem = "a line of the answer is longer than \(LineReader.longestLine >> 20) MiB"
        return [answer.json.line]
    }

    /// Reads an answer.
    ///
    /// - Parameter next: returns the next line.
    /// - Returns: the answer; nil if a line does not have the form of this version.
    /// - Throws: what `next` throws.
    package static func read<Failure: Error>(_ next: () throws(Failure) -> String) throws(Failure) -> HeapAnswer? {
        guard var answer = HeapAnswer(line: try next()) else { return nil }
        let counts = answer.counts
        guard let findings: [Finding] = try read(counts.findings, next),
            let undecided: [Finding] = try read(counts.undecided, next),
            let references: [Reference] = try read(counts.references, next),
            let objects: [LiveObject] = try read(counts.objects, next)
        else { return nil }
        (answer.findings, answer.undecided) = (findings, undecided)
        (answer.references, answer.objects) = (references, objects)
        return answer
    }

    // Reads values of one line each; nil if a line is no such value, or the count is negative.
    private static func read<Value: JSONValue, Failure: Error>(
        _ count: Int, _ next: () throws(Failure) -> String
    ) throws(Failure) -> [Value]? {
        guard count >= 0 else { return nil }
        var values: [Value] = []
        while values.count < count {
            guard let value = Value(line: try next()) else { return nil }
            values.append(value)
        }
        return values
    }
}

extension Finding: JSONValue {}

extension JSONValue {
    /// Reads a value from a line; nil if the line is no such value.
    package init?(line: String) {
        var line = line
        guard let value = try? JSONScanner.read(&line, Self.read) else { return nil }
        self = value
    }
}

extension [Finding.Frame] {
    /// Whether the name of a frame's function contains `name`, a part of a demangled name such as "CartTests.add(".
    package func mention(_ name: String?) -> Bool {
        guard let name else { return false }
        return contains { $0.function?.asDeclared.containsName(name) ?? false }
    }

    /// Whether a synchronous Swift Testing test is on the stack: the stack contains the test's caller, which the @Test
    /// macro generates.
    package var haveTest: Bool { contains { $0.function?.contains("4TestfMp_") ?? false } }
}

extension String {
    // Raw identifiers are printed in backticks, and the compiler writes their spaces as no-break spaces.
    fileprivate var asDeclared: String { filter { $0 != "`" }.replacing("\u{a0}", with: " ") }

    /// Whether this string contains the text, but not as the end of a longer name.
    fileprivate func containsName(_ text: String) -> Bool {
        ranges(of: text).contains { range in
            guard range.lowerBound > startIndex else { return true }
            let before = self[index(before: range.lowerBound)]
            return !before.isLetter && !before.isNumber && before != "_"
        }
    }
}
