// Entry of the Swift fuzzers. One binary contains all fuzzers, and the name that it is started by selects one.

import Glibc

/// A fuzzer: takes any bytes, and traps on an error.
struct FuzzTarget {
    var name: String
    var run: ([UInt8]) -> Void

    nonisolated(unsafe) static let all = [
        FuzzTarget(name: "reader", run: fuzzReader), FuzzTarget(name: "suppressions", run: fuzzSuppressions),
        FuzzTarget(name: "rendering", run: fuzzRendering),
    ]

    nonisolated(unsafe) static let chosen: FuzzTarget = {
        let name = CommandLine.arguments[0].split(separator: "/").last.map(String.init) ?? ""
        guard let target = all.first(where: { $0.name == name }) else { fatalError("no fuzzer is called '\(name)'") }
        return target
    }()
}

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzOneInput(_ data: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    FuzzTarget.chosen.run(Array(UnsafeBufferPointer(start: data, count: count)))
    return 0
}

/// An unlinked temporary file, reused for all inputs.
private let scratch: Int32 = tmpfile().map { fileno($0) } ?? -1

/// Returns every entry that the reader finds in a file with these bytes.
func readEntries(_ bytes: [UInt8]) -> [FindingReader.Entry] {
    precondition(ftruncate(scratch, 0) == 0 && lseek(scratch, 0, SEEK_SET) == 0)
    var written = 0
    bytes.withUnsafeBytes { buffer in
        while written < buffer.count {
            let result = write(scratch, buffer.baseAddress! + written, buffer.count - written)
            precondition(result > 0)
            written += result
        }
    }
    precondition(lseek(scratch, 0, SEEK_SET) == 0)
    let file = Descriptor(adopting: dup(scratch))
    var reader = FindingReader(file: file)
    var entries: [FindingReader.Entry] = []
    do {
        while let entry = try reader.next() ?? reader.finish() { entries.append(entry) }
    } catch {
        preconditionFailure("a file in memory cannot be read: \(error)")
    }
    return entries
}

/// Traps if the text contains terminal control characters. Text must be printable wherever its parts came from.
func checkVisible(_ text: String) {
    for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
        precondition(visible(String(line)) == line, "not safe to print: \(line.debugDescription)")
    }
}
