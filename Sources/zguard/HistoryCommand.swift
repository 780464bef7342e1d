// zguard history: shows the block that is or was at an address of a guarded process or a core file.

import Glibc
import ZombieGuard

struct HistoryCommand {
    private enum Origin {
        case process(Int)
        case core(String)
    }

    private let origin: Origin
    private let address: Address
    private let options: ReportOptions

    init(_ arguments: Arguments) throws(Failure) {
        let word = arguments.operands[0]
        // A core file whose name is a number must be given as ./123.
        origin = word.utf8.allSatisfy { $0 >= 0x30 && $0 <= 0x39 } ? .process(try arguments.processID()) : .core(word)
        address = Self.withoutTag(try Self.address(arguments.operands[1]))
        options = try ReportOptions(arguments)
    }

    /// Parses a hexadecimal address such as 0x1f, or a decimal number.
    static func address(_ word: String) throws(Failure) -> Address {
        if let address = Address(word) { return address }
        if let number = UInt64(digits: word) { return Address(number) }
        throw .usage(
            "'\(visible(word))' is not an address", hint: "addresses are written as 0x7f10 or as decimal numbers")
    }

    // Removes the tag of a pointer to tagged memory (profile mte), which is in four bits above the address. Other words
    // with high bits, such as fill words, are returned unchanged.
    private static func withoutTag(_ address: Address) -> Address {
        let untagged = address.rawValue & ~Processor.tagBits
        return untagged >> 52 == 0 ? Address(untagged) : address
    }

    func run() throws -> Int32 {
        let source: HeapReader
        let author: Author
        switch origin {
        case .process(let processID):
            let process = try GuardedProcess(processID: processID)
            source = try HeapReader(process: process)
            author = process.author
        case .core(let path): (source, author) = try Self.source(core: path)
        }
        var reader = HistoryReader(source)
        var history = reader.history(of: address)
        let symbolicator = Symbolicator(sources: options.symbols)
        symbolicator.author = author
        history.symbolicate(with: symbolicator)
        for note in source.notes + symbolicator.notes { Output.warn(note) }
        if options.format == .json {
            Output.out(history.json.line + "\n")
        } else {
            let now = UInt64(clamping: Timestamp.now.rawValue)
            var text = options.renderer(for: STDOUT_FILENO)
            text.author = author
            let renderer = HistoryRenderer(renderer: text)
            Output.out(renderer.render(history, now: source.isRunning ? now : nil))
        }
        return history.isKnown ? ExitStatus.success : ExitStatus.failure
    }

    private static func source(core path: String) throws(Failure) -> (HeapReader, Author) {
        do throws(CoreError) {
            let core = try CoreFile(opening: path)
            return (try HeapReader(core: core), core.author)
        } catch {
            throw Failure(error.description, hint: error.hint)
        }
    }
}

extension HistoryCommand {
    static let command = Command(
        name: "history", operands: "PID|CORE ADDRESS", operandCount: 2...2,
        text: "show the block that is, or was, at an address in a process or core file",
        flags: [
            .objectFormat,
            .full, .symbols,
        ],
        run: { try HistoryCommand($0).run() })
}
