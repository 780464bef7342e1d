// Tests of redaction rules: compares their replacements with a simple implementation's; matching must end.

import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore
@testable import ZombieGuardFleet

@Suite struct RedactionTests {
    private func replaced(_ pattern: String, _ text: String) throws -> String? {
        let result = try PathPattern(pattern).replacing(in: Array(text.utf8), with: Array("<>".utf8))
        return result.map { String(decoding: $0, as: UTF8.self) }
    }

    @Test func rows() throws {
        #expect(try replaced("/home/*/", "/home/ann/x /home//y /home/b") == "<>x /home//y /home/b")
        #expect(try replaced("/home/*", "/home/ann/x") == "<>/x")
        #expect(try replaced("user", "user users") == "<> <>s")
        #expect(try replaced("a*b*c", "axbxbxcxc/axbxc") == "<>/<>")
        #expect(try replaced("a**b", "ab/axb/axxb") == "ab/axb/<>")
        #expect(try replaced("é", "caf\u{e9}") == "caf<>")
        #expect(try replaced("user", "nobody") == nil)
        #expect(throws: PathPattern.Malformed.self) { try PathPattern("*x") }
        #expect(throws: PathPattern.Malformed.self) { try PathPattern("a" + String(repeating: "*", count: 64)) }
    }

    /// Simple implementation of matching: tries everything, the longest part first.
    private static func end(_ pieces: ArraySlice<[UInt8]>, _ text: [UInt8], _ start: Int) -> Int? {
        guard let first = pieces.first else { return start }
        guard text[start...].starts(with: first) else { return nil }
        let rest = pieces.dropFirst()
        var end = start + first.count
        if rest.isEmpty { return end }
        while end < text.count, text[end] != UInt8(ascii: "/") { end += 1 }
        while end > start + first.count {
            if let found = Self.end(rest, text, end) { return found }
            end -= 1
        }
        return nil
    }

    private static func plainly(_ pattern: String, _ text: [UInt8]) -> [UInt8]? {
        let pieces = pattern.split(separator: "*", omittingEmptySubsequences: false).map { Array($0.utf8) }
        var result: [UInt8] = []
        var hasChanged = false
        var index = 0
        while index < text.count {
            if let end = end(pieces[...], text, index) {
                result += "<>".utf8
                index = end
                hasChanged = true
            } else {
                result.append(text[index])
                index += 1
            }
        }
        return hasChanged ? result : nil
    }

    @Test func equalsThePlainWay() throws {
        var random = Linear(state: 36)
        for _ in 0..<20_000 {
            let letters = Array("ab/".utf8)
            let text = (0..<Int.random(in: 0...14, using: &random)).map { _ in letters.randomElement(using: &random)! }
            let rest = (0..<Int.random(in: 0...5, using: &random)).map { _ in "ab/*".randomElement(using: &random)! }
            let pattern = "a" + String(rest)
            let result = try PathPattern(pattern).replacing(in: text, with: Array("<>".utf8))
            #expect(result == Self.plainly(pattern, text), "\(pattern) in \(String(decoding: text, as: UTF8.self))")
        }
    }

    private struct Linear: RandomNumberGenerator {
        var state: UInt64
        mutating func next() -> UInt64 {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return state ^ state >> 29
        }
    }
}
