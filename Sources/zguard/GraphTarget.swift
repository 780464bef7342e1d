// The process or core file whose heap a command reads.

import ZombieGuard
import ZombieGuardGraph

/// A process or a core file, as the operand PID|CORE names it.
enum GraphTarget {
    case process(GuardedProcess)
    case core(CoreFile)

    /// - Parameter arguments: the first operand names the target. A core file whose name is a number must be given as
    ///   ./123.
    init(_ arguments: Arguments) throws {
        let word = arguments.operands[0]
        if word.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }) {
            self = .process(try GuardedProcess(processID: try arguments.processID()))
            return
        }
        do throws(CoreError) { self = .core(try CoreFile(opening: word)) } catch {
            throw Failure(error.description, hint: error.hint)
        }
    }

    var author: Author {
        switch self {
        case .process(let process): process.author
        case .core(let core): core.author
        }
    }

    func reader() throws -> HeapReader {
        try explained {
            switch self {
            case .process(let process): try HeapReader(process: process)
            case .core(let core): try HeapReader(core: core)
            }
        }
    }

    func snapshot(_ extent: HeapSnapshot.Extent) throws -> HeapSnapshot {
        try explained {
            switch self {
            case .process(let process): try HeapSnapshot.of(process, extent)
            case .core(let core): try HeapSnapshot.of(core, extent)
            }
        }
    }

    func dangling() throws -> DanglingSearch {
        try explained {
            switch self {
            case .process(let process): try DanglingSearch.of(process)
            case .core(let core): try DanglingSearch.of(core)
            }
        }
    }

    private func explained<Result>(_ body: () throws -> Result) throws -> Result {
        do { return try body() } catch let error as GraphError {
            throw Failure(error.description, hint: error.hint)
        } catch let error as CoreError {
            throw Failure(error.description, hint: error.hint)
        }
    }
}
