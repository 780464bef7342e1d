// Tests of the questions of a test bundle about its heap, and of the texts of the answers.

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
        let read = try #require(HeapAnswer(line: answer.json.line))
        #expect(read.version == zombieGuardVersion && read.processID == 12 && read.problem == "none")
        #expect(read.findings.map(\.kind) == [.leak] && read.undecided.isEmpty)
        #expect(read.references.map(\.holder) == [holder] && read.references[0].count == 2)
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
