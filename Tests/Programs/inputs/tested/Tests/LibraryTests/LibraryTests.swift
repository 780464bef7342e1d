import Foundation
import Library
import Testing

extension Tag {
    @Tag static var slow: Self
}

@Suite("Lending") struct LendingTests {
    let library = Library()

    init() { for number in 0..<50 { library.add("book \(number)") } }

    @Test func lendsOnce() throws {
        let reader = Reader("Ada")
        try library.lend("book 1", to: reader)
        #expect(reader.books.map(\.title) == ["book 1"])
        #expect(throws: Library.Refusal.lent(to: "Ada")) { try library.lend("book 1", to: Reader("Bob")) }
    }

    @Test("A reader that is gone has no books", arguments: 0..<20)
    func returns(number: Int) throws {
        do {
            let reader = Reader("reader \(number)")
            try library.lend("book \(number)", to: reader)
        }
        let other = Reader("other")
        try library.lend("book \(number)", to: other)
        #expect(other.books.count == 1)
    }

    @Test(arguments: ["x", "y"], [1, 2, 3])
    func unknown(title: String, number: Int) {
        #expect(throws: Library.Refusal.unknown("\(title)\(number)")) { try library.lend("\(title)\(number)", to: Reader("x")) }
    }

    @Test func knownIssue() {
        withKnownIssue("always so") { #expect(library.count == 49) }
    }

    @Test(.disabled("not today")) func disabled() { #expect(Bool(false)) }
}

@Suite(.tags(.slow)) final class DeskTests {
    let desk = Desk()

    deinit { _ = desk }

    @Test func countsFromManyTasks() async {
        await withTaskGroup { group in
            for _ in 0..<100 { group.addTask { [desk] in await desk.record() } }
        }
        #expect(await desk.total == 100)
    }

    @Test func confirms() async {
        await confirmation("books", expectedCount: 3) { confirm in
            for _ in 0..<3 { confirm() }
        }
    }

    @Test func requires() throws {
        let book = try #require(Optional(Library().add("one")))
        #expect(book.reader == nil)
    }
}
