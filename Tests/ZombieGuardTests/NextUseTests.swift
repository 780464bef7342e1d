// Findings about retained objects: sentences from the code that the runtime has analyzed behind the retain, and
// sentences about overlapping accesses.

import Foundation
import Testing

@testable import ZombieGuard

@Suite struct NextUseTests {
    private func finding(access: String = "retain", next: String, bases: String = "[]") throws -> Finding {
        let line = """
            {"schema":"zguard.finding/1","kind":"use-after-free","access":"\(access)","confidence":"exact","address":"0x18",
            "block":{"start":"0x10","size":48,"offset":8,"state":"quarantined","language":"swift","class":"Shop.Cart",
            "next":\(next),"bases":\(bases)},
            "stacks":{"access":[],"free":[],"alloc":[]},"count":1,"detail":{"part":"reference count"}}
            """
        return Symbolicator().symbolicate(try Finding(parsing: line))
    }

    private let add = #"{"access":"call","member_symbol":"$s4Shop4CartC3addyS2iF"}"#
    private let total = #"{"access":"read","member":"total"}"#

    @Test func methodIsNamed() throws {
        let finding = try finding(next: "[\(add),\(total)]")
        #expect(finding.block?.member == "add(_:)" && finding.access == .retain && finding.detail["next"] == "call")
        let sentence =
            "method Cart.add(_:) was called on a deallocated Shop.Cart (48 bytes at 0x10)"
        #expect(finding.sentence == sentence)
        #expect(finding.evidence == "detected at the retain before this call")
        #expect(!finding.jsonLine.contains("member_symbol") && !finding.jsonLine.contains("\"bases\""))
    }

    @Test func propertyIsNamed() throws {
        let finding = try finding(next: "[\(total)]")
        #expect(finding.block?.member == "total" && finding.detail["next"] == "read")
        #expect(finding.sentence == "Cart.total was read after its Shop.Cart was deallocated (48 bytes at 0x10)")
        #expect(finding.evidence == "detected at the retain before this read")
    }

    @Test func readOfTheClassIsForSomething() throws {
        let call = try finding(access: "cast", next: "[\(add)]")
        #expect(call.sentence == "method Cart.add(_:) was called on a deallocated Shop.Cart (48 bytes at 0x10)")
        #expect(call.evidence == "detected at the read of its class before this call")
        #expect(call.access == .cast && call.detail["next"] == "call")
        let cast = try finding(access: "cast", next: "[]")
        #expect(
            cast.sentence
                == "the class of a deallocated Shop.Cart (48 bytes at 0x10) was read (a cast or a dynamic call)")
        #expect(cast.evidence == nil)
    }

    @Test func accessorsReadAndWrite() throws {
        let getter = #"{"access":"call","member_symbol":"$s4Shop4CartC5totalSivg"}"#
        let setter = #"{"access":"call","member_symbol":"$s4Shop4CartC5totalSivs"}"#
        #expect(try finding(next: "[\(getter)]").detail["next"] == "read")
        let written = try finding(next: "[\(setter)]")
        #expect(written.detail["next"] == "write" && written.block?.member == "total")
    }

    @Test func othersFunctionsArePassedOver() throws {
        let other = #"{"access":"call","member_symbol":"$s4Shop6PersonC5greetSSyF"}"#
        let runtime = #"{"access":"call","member_symbol":"swift_endAccess"}"#
        #expect(try finding(next: "[\(runtime),\(other),\(add)]").block?.member == "add(_:)")
        #expect(try finding(next: "[\(other)]").block?.member == nil)
        #expect(try finding(next: "[\(other)]", bases: #"["Shop.Person"]"#).block?.member == "greet()")
    }

    @Test func nothingIsSaidBehindWhatHasNoName() throws {
        let unnamed = #"{"access":"call","member_frame":{"pc":"0x1","module":"/none","offset":"0x1"}}"#
        let finding = try finding(next: "[\(unnamed),\(total)]")
        #expect(finding.block?.member == nil && finding.detail["next"] == nil)
        #expect(
            finding.sentence == "a deallocated Shop.Cart was retained (48 bytes at 0x10)" && finding.evidence == nil)
    }

    @Test func doubtIsSaid() throws {
        let finding = try finding(next: #"[{"access":"write","member":"total","confidence":"inferred"}]"#)
        #expect(finding.confidence == .inferred)
        #expect(
            finding.evidence == "detected at the retain before this write; "
                + "inferred, because the address alone does not determine the block")
        #expect(
            TextRenderer().render(finding).hasPrefix(
                """
                ==zguard== use-after-free: Cart.total was written after its Shop.Cart was deallocated (48 bytes at 0x10)
                ==zguard== detected at the retain before this write; inferred, because the address alone does not determine the block

                """))
    }

    @Test func onlyRetainsAreForSomething() throws {
        let finding = try finding(access: "release", next: "[\(add)]")
        #expect(finding.block?.member == nil && finding.sentence.contains("was released"))
    }

    @Test func overlap() throws {
        let line = """
            {"schema":"zguard.finding/1","kind":"exclusivity","access":"read","confidence":"exact","address":"0x20",
            "block":{"start":"0x10","size":24,"offset":16,"state":"live","language":"swift","class":"Shop.Cart","member":"total"},
            "stacks":{"access":[],"free":[],"alloc":[],
            "previous":[{"pc":"0x1","function":"Cart.change(_:)","file":"/a/cart.swift","line":4}]},
            "count":1,"detail":{"previous":"write"}}
            """
        let finding = try Finding(parsing: line)
        #expect(
            finding.sentence
                == "property Cart.total was read while it was being modified, in Shop.Cart (24 bytes at 0x10)")
        let text = TextRenderer().render(finding)
        #expect(text.contains("the earlier access began here:\n    #0 Cart.change(_:)"))
        #expect(try Finding(parsing: finding.jsonLine) == finding)
        var other = finding
        other.stacks.previous[0].function = "Cart.clear()"
        #expect(other.computeSignature() != finding.computeSignature())
    }

    @Test func thrownError() throws {
        let line = """
            {"schema":"zguard.finding/1","kind":"crash","access":"unknown","confidence":"exact","address":"0x0","signal":"SIGILL","code":2,
            "message":"Fatal error: out of cheese","registers":{},"stacks":{"access":[{"pc":"0x1","function":"checkOut()"}],"free":[],"alloc":[],
            "thrown":[{"pc":"0x2","function":"takeCheese(_:)","file":"/a/shop.swift","line":4}]},"count":1}
            """
        let finding = try Finding(parsing: line)
        let text = TextRenderer().render(finding)
        #expect(text.contains("the error was thrown here:\n    #0 takeCheese(_:)"))
        #expect(try Finding(parsing: finding.jsonLine) == finding)
        let sarif = SARIFReport(ReportDocument(findings: [finding])).text
        #expect(sarif.contains("; the error was [thrown here](1)"))
    }
}
