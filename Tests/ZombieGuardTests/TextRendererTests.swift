// Findings as text: the sentence of each kind, and complete reports.

import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore

@Suite struct TextRendererTests {
    @Test func wholeReport() {
        #expect(
            TextRenderer().render(.sample()) == """
                ==zguard== double-free: a freed block of 48 bytes at 0x7f000010 was freed again, in close_twice (app.c:41)
                    #0 close_twice  src/app.c:41
                    #1 main  src/app.c:60
                ==zguard== freed by thread 2:
                    #0 close_once  src/app.c:30
                ==zguard== allocated by thread 1:
                    #0 open_it  src/app.c:12:7
                ==zguard== thread 3 (worker) of /opt/app [77], 2026-01-02T03:04:05Z, signature 32497a5b41081948

                """)
    }

    @Test func reportWithoutNames() {
        let finding = Finding(
            kind: .wildAccess, access: .read, confidence: .inferred, address: Address(0x1234),
            stacks: Finding.Stacks(access: [.unnamed("/lib/x.so", 0x10), .unnamed(nil, 0x20)]), count: 3,
            signature: "s", detail: ["signal": "SIGSEGV"])
        #expect(
            TextRenderer().render(finding) == """
                ==zguard== wild-access: read at 0x1234 (SIGSEGV), where the program has no such memory, in /lib/x.so+0x10
                ==zguard== inferred, because the address alone does not determine the block
                    #0 /lib/x.so+0x10
                    #1 0x5020
                ==zguard== signature s, seen 3 times

                """)
    }

    @Test func addressBetweenBlocksHasTwoNeighbours() {
        let finding = Finding(
            kind: .wildAccess, access: .write, confidence: .inferred, address: Address(0x2000),
            detail: [
                "signal": "SIGSEGV", "before": "0x1000", "before_size": "48", "before_state": "retired",
                "after": "0x2001", "after_size": "1", "after_state": "live",
            ])
        #expect(
            finding.sentence == """
                write at 0x2000 (SIGSEGV), outside of every block: 4048 bytes after the end of a freed block of 48 bytes \
                at 0x1000, 1 byte before a live block of 1 byte at 0x2001
                """)
        var strange = finding
        strange.detail["before"] = "0x3000"
        strange.detail["before_size"] = "18446744073709551615"
        strange.detail["after_size"] = "many"
        #expect(strange.sentence.contains("0 bytes after the end of"))
    }

    @Test func lateWritesNameTheBlockInFront() {
        let finding = Finding(
            kind: .writeAfterFree, access: .write, confidence: .exact, address: Address(0x1040),
            block: Finding.Block(start: Address(0x1040), size: 64, offset: 0, state: "quarantined"),
            detail: [
                "offset": "0", "length": "8", "old": "0x55", "new": "0x0", "found_by": "exit", "before": "0x1000",
                "before_size": "64", "before_state": "live",
            ])
        #expect(
            finding.sentence == """
                8 bytes at offset 0 of a freed block of 64 bytes at 0x1040 changed after it was freed, from 0x55 to \
                0x0; found when the program ended; a live block of 64 bytes at 0x1000, in front of it, may have been \
                overrun
                """)
    }

    @Test func pointersReadFromFillsSayWhatTheyAre() {
        let block = Finding.Block(start: Address(0x1000), size: 100, offset: 0, state: "live")
        var finding = Finding(
            kind: .heapOverflow, access: .read, confidence: .inferred, address: Address(0xa5a5_a5a5_a5a5_a5a5),
            block: block, detail: ["signal": "SIGSEGV", "read_from": "the gap beside a block"])
        #expect(
            finding.sentence == """
                0xa5a5a5a5a5a5a5a5 was followed (SIGSEGV), a value read from the red zone of a live block of 100 \
                bytes at 0x1000
                """)
        finding.block = nil
        #expect(
            finding.sentence
                == "0xa5a5a5a5a5a5a5a5 was followed (SIGSEGV), a value read from the red zone of a block")
        #expect(finding.evidence == "inferred, because the address alone does not determine the block")
        finding.block = Finding.Block(start: Address(0x1000), size: 100, offset: 112, state: "live")
        finding.detail["read_from"] = "the freed block behind a block"
        finding.detail["evidence"] = "the pointer was loaded relative to this block"
        #expect(
            finding.sentence == """
                0xa5a5a5a5a5a5a5a5 was followed (SIGSEGV), a value read from freed memory, 12 bytes after the end of a \
                live block of 100 bytes at 0x1000
                """)
        #expect(finding.evidence == "inferred, because the pointer was loaded relative to this block")
        finding.kind = .wildAccess
        finding.block = block
        finding.detail["read_from"] = "memory that was never written"
        #expect(
            finding.sentence.contains("a value read from memory that was never written, in a live block of 100 bytes"))
    }

    @Test func questionsAboutWhatIsNoBlock() {
        var finding = Finding.sample(.useAfterFree)
        finding.stacks = Finding.Stacks()
        finding.detail = ["call": "malloc_usable_size"]
        #expect(finding.sentence.hasPrefix("malloc_usable_size() was given a pointer to memory that was freed, at "))
        finding.kind = .invalidFree
        finding.detail["what"] = "interior pointer"
        #expect(finding.sentence.contains(" was given a pointer that is no block's start, at "))
        finding.block = nil
        finding.detail["what"] = "stack address"
        #expect(finding.sentence.hasSuffix(", a stack address"))
    }

    @Test func accessFarOutsideOfItsBlockKeepsItsPlace() {
        let finding = Finding(
            kind: .useAfterFree, access: .read, confidence: .inferred, address: Address(0x3000),
            block: Finding.Block(start: Address(0x1000), size: 48, offset: 0x2000, state: "retired"))
        #expect(finding.sentence.contains("8144 bytes after the end of a freed block of 48 bytes"))
    }

    @Test func lateWriteIsNotBlamedOnThePlaceThatFoundIt() {
        var finding = Finding.sample(.writeAfterFree)
        finding.detail = ["offset": "8", "length": "4", "old": "0x55", "new": "0x41", "found_by": "eviction"]
        finding.stacks.alloc = []
        let text = TextRenderer().render(finding)
        #expect(
            text.hasPrefix(
                """
                ==zguard== write-after-free: 4 bytes at offset 8 of a freed block of 48 bytes at 0x7f000010 changed after \
                it was freed, from 0x55 to 0x41; found when the block left the quarantine
                ==zguard== the change was detected here; the write happened earlier:
                    #0 close_twice  src/app.c:41

                """))
        #expect(!text.contains("allocated"))
    }

    @Test func frameOfInlinedFunctionSaysSo() {
        var finding = Finding.sample()
        finding.stacks.access[0].inlined = true
        #expect(TextRenderer().render(finding).contains("    #0 close_twice [inlined]  src/app.c:41\n"))
    }

    struct Row: Sendable, CustomTestStringConvertible {
        var kind: Finding.Kind
        var sentence: String
        var change: @Sendable (inout Finding) -> Void = { _ in }
        var testDescription: String { sentence }
    }

    static let rows: [Row] = [
        Row(kind: .doubleFree, sentence: "a freed block of 48 bytes at 0x7f000010 was freed again with operator delete")
        {
            $0.detail = ["freed_with": "operator delete"]
        },
        Row(kind: .invalidFree, sentence: "0x7f000010 was freed, a stack address") {
            $0.block = nil
            $0.detail = ["what": "stack address", "freed_with": "free"]
        },
        Row(kind: .invalidFree, sentence: "0x7f000018 was freed, 8 bytes into a live block of 48 bytes at 0x7f000010") {
            $0.block?.state = "live"
            $0.block?.offset = 8
            $0.address = Address(0x7f00_0018)
            $0.detail = ["what": "interior pointer"]
        },
        Row(
            kind: .invalidFree,
            sentence: "0x7f000010 was freed, but was free memory already; the block's record has been reused"
        ) {
            $0.detail = ["what": "free memory", "freed_with": "free"]
        },
        Row(kind: .invalidFree, sentence: "0x7f000010 was freed, but never allocated") {
            $0.detail = ["what": "never allocated"]
        },
        Row(
            kind: .deallocMismatch,
            sentence: "a live block of 48 bytes at 0x7f000010 from operator new[] was freed with free"
        ) {
            $0.block?.state = "live"
            $0.detail = ["allocated_with": "operator new[]", "freed_with": "free"]
        },
        Row(kind: .useAfterFree, sentence: "read at 0x7f000020, 16 bytes into a freed block of 48 bytes") {
            $0.access = .read
            $0.block?.offset = 16
            $0.address = Address(0x7f00_0020)
        },
        Row(
            kind: .useAfterFree,
            sentence: "write at 0x7f000010 (SIGSEGV), in freed memory; the block's record has been reused"
        ) {
            $0.access = .write
            $0.block = nil
            $0.detail = ["signal": "SIGSEGV", "what": "free memory"]
        },
        Row(
            kind: .useAfterFree,
            sentence: "write() was given memory that was freed: 5 bytes at 0x7f000010; the block's record "
                + "has been reused"
        ) {
            $0.access = .read
            $0.block = nil
            $0.detail = ["call": "write", "bytes": "5", "what": "free memory"]
        },
        Row(
            kind: .invalidFree,
            sentence:
                "malloc_usable_size() was given 0x7f000010, which is freed memory; the block's record has been reused"
        ) {
            $0.block = nil
            $0.detail = ["call": "malloc_usable_size", "what": "free memory"]
        },
        Row(
            kind: .useAfterFree,
            sentence: "read at 0x5555555555555560 (SIGSEGV), through a pointer loaded from freed memory"
        ) {
            $0.access = .read
            $0.block = nil
            $0.address = Address(0x5555_5555_5555_5560)
            $0.detail = ["signal": "SIGSEGV"]
        },
        Row(
            kind: .useAfterFree,
            sentence: "method Cart.add(_:) was called on a deallocated Shop.Cart (48 bytes at 0x7f000010)"
        ) {
            $0.access = .call
            $0.block?.className = "Shop.Cart"
            $0.block?.member = "add(_:)"
        },
        Row(kind: .useAfterFree, sentence: "a deallocated Shop.Cart was released (48 bytes at 0x7f000010)") {
            $0.access = .release
            $0.block?.className = "Shop.Cart"
        },
        Row(
            kind: .useAfterFree,
            sentence:
                "the class of a deallocated Shop.Cart (48 bytes at 0x7f000010) was read (a cast or a dynamic call)"
        ) {
            $0.access = .read
            $0.block?.language = "swift"
            $0.block?.offset = 0
            $0.block?.className = "Shop.Cart"
        },
        Row(
            kind: .useAfterFree,
            sentence: "the payload of a deallocated indirect enum Shop.Expr was read (48 bytes at 0x7f000010)"
        ) {
            $0.access = .read
            $0.block?.language = "swift"
            $0.block?.offset = 0
            $0.block?.className = "indirect enum Shop.Expr"
        },
        Row(kind: .heapOverflow, sentence: "write at 0x7f000041, 1 byte after the end of a live block of 48 bytes") {
            $0.access = .write
            $0.block?.state = "live"
            $0.block?.offset = 49
            $0.address = Address(0x7f00_0041)
        },
        Row(
            kind: .useAfterFree,
            sentence: "write() was given memory that was freed: 5 bytes at 0x7f000020, 16 bytes into a freed block of "
                + "48 bytes"
        ) {
            $0.access = .read
            $0.block?.offset = 16
            $0.address = Address(0x7f00_0020)
            $0.detail = ["call": "write", "bytes": "5"]
        },
        Row(
            kind: .useAfterFree,
            sentence: "read() was given memory that was freed: 1 byte at 0x7f000020, 16 bytes into a deallocated "
                + "Shop.Cart (48 bytes)"
        ) {
            $0.access = .write
            $0.block?.className = "Shop.Cart"
            $0.block?.offset = 16
            $0.address = Address(0x7f00_0020)
            $0.detail = ["call": "read", "bytes": "1"]
        },
        Row(
            kind: .useAfterFree,
            sentence: "recv() wrote 5 bytes to memory that was freed during the call, at the start of a freed block "
                + "of 48 bytes at 0x7f000010"
        ) {
            $0.access = .write
            $0.detail = ["call": "recv", "bytes": "5", "freed": "during the call"]
        },
        Row(
            kind: .heapOverflow,
            sentence: "send() read 10 bytes after the end of a live block of 48 bytes at 0x7f000010"
        ) {
            $0.access = .read
            $0.block?.state = "live"
            $0.block?.offset = 48
            $0.address = Address(0x7f00_0040)
            $0.detail = ["call": "send", "bytes": "58", "excess": "10"]
        },
        Row(
            kind: .heapOverflow,
            sentence:
                "send() failed with EFAULT: its buffer of 58 bytes extends past the end of a live block of 48 bytes "
                + "at 0x7f000010"
        ) {
            $0.access = .read
            $0.block?.state = "live"
            $0.block?.offset = 48
            $0.address = Address(0x7f00_0040)
            $0.detail = ["call": "send", "bytes": "58", "ended": "failed with EFAULT"]
        },
        Row(kind: .nullAccess, sentence: "write at 0x8 (SIGSEGV), through a null pointer") {
            $0.access = .write
            $0.block = nil
            $0.address = Address(8)
            $0.detail = ["signal": "SIGSEGV"]
        },
        Row(kind: .stackOverflow, sentence: "thread 3 (worker) ran out of stack at 0x7f000010"),
        Row(
            kind: Finding.Kind(rawValue: "new-kind"),
            sentence: "free at the start of a freed block of 48 bytes at 0x7f000010"),
    ]

    @Test(arguments: rows) func sentence(row: Row) {
        var finding = Finding.sample(row.kind)
        row.change(&finding)
        #expect(finding.sentence == row.sentence + ", in close_twice (app.c:41)")
    }

    @Test func nothingFromAReportReachesTheTerminalRaw() {
        let evil = "x\u{1b}]0;title\u{7}\r\n\u{202e}\u{9b}31m"
        var finding = Finding.sample(Finding.Kind(rawValue: evil))
        finding.program = evil
        finding.time = evil
        finding.signature = evil
        finding.thread?.name = evil
        finding.block?.className = evil
        finding.block?.member = evil
        finding.stacks.access = [.named(evil, evil, 1), .unnamed(evil, 1)]
        let ofFindings = [
            "what", "offset", "length", "old", "new", "signal", "allocated_with", "freed_with", "freed_size",
        ]
        let ofCalls = ["call", "bytes", "excess", "freed", "ended"]
        for kind in ["use-after-free", "write-after-free", "invalid-free", "dealloc-mismatch", "stack-overflow", evil] {
            for (access, names) in [("read", ofFindings), ("call", ofFindings), (evil, ofFindings), ("write", ofCalls)]
            {
                finding.kind = Finding.Kind(rawValue: kind)
                finding.access = Finding.Access(rawValue: access)
                finding.detail = Dictionary(uniqueKeysWithValues: names.map { ($0, evil) })
                for line in TextRenderer().render(finding).split(separator: "\n", omittingEmptySubsequences: false) {
                    #expect(line.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value < 0x7f })
                }
            }
        }
    }

    @Test func distancesMayBeAnything() {
        var finding = Finding.sample(.heapOverflow)
        finding.block?.offset = .min
        #expect(finding.sentence.contains("9223372036854775808 bytes before a freed block"))
        finding.block?.offset = .max
        finding.block?.size = .max
        #expect(finding.sentence.contains("0 bytes after the end of"))
    }

    @Test func plainTextIsLeftAlone() {
        #expect(visible("naïve/Größe — 漢字.swift") == "naïve/Größe — 漢字.swift")
        #expect(visible("a\tb\nc") == "a\\tb\\nc")
    }
}
