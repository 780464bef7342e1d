// Tests the questions that a test bundle can ask about its own heap, and the texts of the answers.

import Glibc
import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore

@Suite struct HeapQuestionTests {
    @Test func questionsAreReadAsWritten() throws {
        var question = HeapQuestion(.leaks)
        question.moment = 7
        question.marker = Address(0x7f00_0000_1000)
        question.isSynchronous = true
        question.isAlone = true
        question.function = "CartTests.add("
        question.others = ["CartTests.remove("]
        question.thread = 4711
        question.stackPointer = Address(0x7ffc_0000_0000)
        question.metadata = Address(0x5555_0000)
        question.objects = [Address(0x10)]
        let read = try #require(HeapQuestion(line: question.json.line))
        #expect(read.kind == .leaks && read.moment == 7 && read.marker == question.marker)
        #expect(read.isSynchronous && read.isAlone && read.function == "CartTests.add(")
        #expect(read.others == ["CartTests.remove("] && read.thread == 4711)
        #expect(read.stackPointer == question.stackPointer && read.metadata == question.metadata)
        #expect(read.objects == question.objects)
        #expect(HeapQuestion(line: "{\"kind\":\"other\"}") == nil)
        #expect(HeapQuestion(line: "nonsense") == nil)
    }

    private let holder = Finding.Holder(
        place: "field", className: "Shop.Customer", member: "cart",
        block: Finding.Block(start: Address(0x20), size: 48, offset: 16), isTyped: true)

    @Test func answersAreReadAsWritten() throws {
        var answer = HeapAnswer()
        answer.processID = 12
        answer.problem = "none"
        answer.findings = [Finding(kind: .leak, block: Finding.Block(start: Address(0x10), size: 8))]
        answer.references = [
            HeapAnswer.Reference(
                holder: holder, count: 2, target: Finding.Block(start: Address(0x30), size: 8),
                stacks: Finding.Stacks())
        ]
        answer.objects = [LiveObject(address: Address(0x40), size: 1), LiveObject(address: Address(0x50), size: 2)]
        #expect(answer.lines.count == 5)
        let read = try #require(try Self.read(answer.lines))
        #expect(read.version == zombieGuardVersion && read.processID == 12 && read.problem == "none")
        #expect(read.findings.map(\.kind) == [.leak] && read.undecided.isEmpty)
        #expect(read.references.map(\.holder) == [holder] && read.references[0].count == 2)
        #expect(read.objects == answer.objects)
    }

    private static func read(_ lines: [String]) throws(SystemError) -> HeapAnswer? {
        var rest = lines[...]
        return try HeapAnswer.read { () throws(SystemError) in
            guard let line = rest.popFirst() else { throw SystemError(number: ENODATA) }
            return line
        }
    }

    @Test func answersThatBreakOffAreRefused() throws {
        var answer = HeapAnswer()
        answer.objects = [LiveObject(address: Address(0x40), size: 1)]
        let lines = answer.lines
        #expect(throws: SystemError.self) { try Self.read([lines[0]]) }
        #expect(try Self.read([lines[0], "{}"]) == nil)
        let negative = lines[0].replacing("\"objects\":1", with: "\"objects\":-1")
        #expect(negative != lines[0])
        #expect(try Self.read([negative]) == nil)
    }

    @Test func answersWithATooLongLineAreAProblem() throws {
        var answer = HeapAnswer()
        let name = String(repeating: "A", count: LineReader.longestLine)
        answer.objects = [LiveObject(className: name, address: Address(0x40), size: 1)]
        let read = try #require(try Self.read(answer.lines))
        #expect(read.problem == "a line of the answer is longer than 4 MiB" && read.objects.isEmpty)
    }

    @Test func objectsSayWhoHoldsThem() throws {
        let variable = Finding.Holder(place: "global", symbol: "customers")
        let element = Finding.Holder(
            place: "element", className: "Swift._ContiguousArrayStorage<Shop.Customer>",
            block: Finding.Block(start: Address(0x40), size: 48, offset: 32), isTyped: true)
        let object = LiveObject(
            className: "Shop.Cart", address: Address(0x10), size: 48, holders: [holder],
            path: [variable, element, holder])
        #expect(
            "\(object)"
                == "a Shop.Cart (48 bytes at 0x10), held by Customer.cart of a live Shop.Customer; "
                + "the global 'customers' → element of [Customer] → Customer.cart")
        #expect(LiveObject(line: object.json.line) == object)
        #expect("\(LiveObject(address: Address(0x10), size: 1))".hasSuffix("held by nothing that was found"))
    }

    @Test func functionsAreFoundByTheirWholeName() {
        func stack(_ function: String) -> [Finding.Frame] {
            var frame = Finding.Frame(pc: Address(1))
            frame.function = function
            return [frame]
        }
        #expect(stack("closure #1 in CartTests.add(_:)").mention("CartTests.add("))
        #expect(!stack("OtherCartTests.add(_:)").mention("CartTests.add("))
        #expect(stack("OtherTests.`adds\u{a0}twice`()").mention("OtherTests.adds twice("))
        #expect(!stack("CartTests.add(_:)").mention(nil))
        #expect(!stack("main").haveTest)
    }
}
