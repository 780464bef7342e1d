// Tests the pictures of deadlocks and stalls.

import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore

@Suite struct WaitGraphTests {
    private func deadlock(_ others: Int, _ kinds: [String] = [], name: String = "worker") -> Finding {
        var finding = Finding(kind: .deadlock, thread: Finding.Thread(id: 1, name: "main"))
        var threads = (0..<others).map {
            Finding.ThreadStack(id: $0 + 2, threadID: 100 + $0, name: name, stack: [])
        }
        finding.stall = Finding.Stall(durationMs: 300, isComputing: false, holder: threads.first)
        if !threads.isEmpty { threads.removeFirst() }
        finding.stall?.waits = threads
        finding.stall?.awaited = kinds.map {
            .init(kind: $0, address: Address(0x1000), name: $0 == "queue" ? name : nil)
        }
        return finding
    }

    private func picture(_ finding: Finding) -> String { WaitGraph(finding)?.figure ?? "" }

    private func boxes(_ text: String) -> Int { text.components("<rect ") }

    @Test func isDrawnForDeadlocksOnly() {
        var stall = deadlock(1)
        stall.kind = .stall
        #expect(WaitGraph(stall) == nil)
        #expect(WaitGraph(Finding(kind: .deadlock)) == nil)
    }

    @Test func ownLock() {
        let text = picture(deadlock(0, ["mutex"]))
        #expect(boxes(text) == 2 && text.contains("mutex") && text.contains("at 0x1000"))
        #expect(text.contains("aria-label=\"Wait-for graph: thread 1 (main) waits for a lock that it holds itself\""))
    }

    @Test func eachKind() {
        let text = picture(deadlock(3, ["queue", "rwlock", "end", "mutex"]))
        #expect(boxes(text) == 7)
        for words in ["queue worker", "served by", "held for writing by", "waits for the end of", "held by"] {
            #expect(text.contains(words), "\(words)")
        }
        // Reports of earlier versions do not say what the threads wait for.
        #expect(boxes(picture(deadlock(1))) == 4)
    }

    @Test func isBounded() {
        let text = picture(deadlock(100_000))
        #expect(boxes(text) < 40 && text.utf8.count < 20_000 && text.contains("more threads"))
    }

    @Test func namesAreEscaped() {
        let name = "<script>alert(1)</script>\u{202e}\""
        let text = picture(deadlock(1, ["queue", "queue"], name: name))
        #expect(!text.contains("<script") && !text.contains("\u{202e}"))
    }

    @Test func flameOfSamples() {
        func stack(_ names: [String]) -> [Finding.Frame] {
            names.map {
                var frame = Finding.Frame(pc: Address(1))
                frame.function = $0
                return frame
            }
        }
        var finding = Finding(kind: .stall)
        finding.stall = Finding.Stall(
            durationMs: 300, sampled: [.init(count: 3, stack: stack(["total", "serve", "main"]))])
        #expect(finding.stall?.flame == nil)
        finding.stall?.sampled.append(.init(count: 1, stack: stack(["<b>", "serve", "main"])))
        let text = finding.stall?.flame ?? ""
        #expect(text.contains("<title>serve · 4 samples · 100 % of all</title>"))
        #expect(text.contains("<title>total · 3 samples · 75 % of all</title>") && !text.contains("<b>"))
        // A report may contain any counts.
        finding.stall?.sampled = [.init(count: .max, stack: stack(["a"])), .init(count: -1, stack: stack(["b"]))]
        #expect(finding.stall?.flame?.contains("<svg") ?? false)
    }
}

extension String {
    fileprivate func components(_ part: String) -> Int {
        var count = 0
        var rest = Substring(self)
        while let range = rest.range(of: part) {
            count += 1
            rest = rest[range.upperBound...]
        }
        return count
    }
}
