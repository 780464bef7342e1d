import Foundation
import Library
import XCTest

final class OlderTests: XCTestCase {
    private var library: Library!

    override func setUp() {
        super.setUp()
        library = Library()
        library.add("one")
        addTeardownBlock { [weak library] in XCTAssertEqual(library?.count, 1) }
    }

    override func tearDown() {
        library = nil
        super.tearDown()
    }

    func testLends() throws {
        let reader = Reader("Ada")
        try library.lend("one", to: reader)
        XCTAssertEqual(reader.books.first?.title, "one")
        XCTAssertThrowsError(try library.lend("two", to: reader)) { XCTAssertEqual($0 as? Library.Refusal, .unknown("two")) }
    }

    func testWaits() {
        let expectation = expectation(description: "twice")
        expectation.expectedFulfillmentCount = 2
        DispatchQueue.global().async { [count = library.count] in
            expectation.fulfill()
            if count == 1 { expectation.fulfill() }
        }
        wait(for: [expectation], timeout: 60)
    }

    func testConcurrency() async throws {
        let desk = Desk()
        async let first: Void = desk.record()
        async let second: Void = desk.record()
        _ = await (first, second)
        let total = await desk.total
        XCTAssertEqual(total, 2)
    }

    func testSkips() throws { throw XCTSkip("not today") }
}
