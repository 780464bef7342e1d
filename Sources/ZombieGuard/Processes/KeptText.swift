// Reads the texts that the runtime stored (zg_kept_text.h) in the memory of a program that has ended.

import CZombie

/// The last finding of a guarded program, the text that its threads wrote to standard error, and its annotations.
struct KeptText {
    private let places: zg_layout_kept
    private let memory: any MemoryReader

    init(_ source: HeapReader) {
        places = source.statistics.rawLayout.kept
        memory = source.memory
    }

    /// The newest finding, not symbolicated; nil if there is none, or the ring has overwritten part of it.
    func lastFinding() -> Finding? {
        guard places.lines != 0, let lines = memory.record(zg_kept_lines.self, at: places.lines), lines.text != 0,
            lines.count > 0, lines.text_bytes > 0, lines.start_count > 0,
            let start = memory.record(
                UInt64.self, at: lines.starts &+ (lines.count - 1) % UInt64(lines.start_count) &* 8),
            start < lines.end, lines.end - start <= lines.text_bytes
        else { return nil }
        let size = UInt64(lines.text_bytes)
        let first = min(lines.end - start, size - start % size)
        let bytes =
            memory.read(at: lines.text &+ start % size, upTo: Int(first))
            + memory.read(at: lines.text, upTo: Int(lines.end - start - first))
        return Finding(jsonLine: String(decoding: bytes, as: UTF8.self))
    }

    /// Message that explains why a thread raised `signal`, from the thread's output to standard error; nil if the
    /// output has none. `isOwn`: the process raised the signal itself.
    func reason(for signal: Int32, of thread: Int, isOwn: Bool) -> String? {
        let size = MemoryLayout<zg_kept_writes>.size
        guard places.writes != 0 else { return nil }
        let writes = memory.read(at: places.writes, upTo: size)
        guard writes.count == size else { return nil }
        return withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(ZG_KEPT_TEXT_BYTES)) { text in
            let start = text.baseAddress!
            let count = writes.withUnsafeBytes {
                zg_kept_writes_get(
                    $0.baseAddress?.assumingMemoryBound(to: zg_kept_writes.self), Int32(truncatingIfNeeded: thread),
                    start, UInt64(text.count))
            }
            var message = [CChar](repeating: 0, count: Int(ZG_KEPT_WORDS_BYTES))
            guard zg_kept_message(signal, isOwn, start, count, &message, UInt64(message.count)) else { return nil }
            return message.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
        }
    }

    /// Annotations that the program made (zg_annotate.h), by key.
    func annotations() -> [String: String] {
        guard places.annotations != 0 else { return [:] }
        let all = memory.records(zg_annotation.self, at: places.annotations, count: Int(ZG_ANNOTATIONS))
        let whole = all.filter { $0.is_there && $0.changes & 1 == 0 }
        let pairs = whole.map { annotation in
            (
                withUnsafeBytes(of: annotation.key) { fieldText($0) },
                withUnsafeBytes(of: annotation.value) { fieldText($0) }
            )
        }
        return Dictionary(pairs) { first, _ in first }
    }
}

extension String {
    /// The string without trailing newlines.
    var withoutLineEnds: String { String(reversed().drop { $0 == "\n" }.reversed()) }
}
