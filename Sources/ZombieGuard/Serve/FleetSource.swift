// What a server of pages reads: a database, or a directory as if it were one.

import Synchronization

/// A store of findings, asked by one thread at a time.
public final class FleetSource: @unchecked Sendable {
    private let address: FleetAddress
    private let lock = Mutex<Void>(())
    private var reader: FleetReader?
    /// Of a directory: what its files hold, and how far that was read.
    private var copy: SQLiteFleet?
    private var seen: [String: ReportFile] = [:]

    /// Names a store; nothing is opened.
    ///
    /// - Parameter address: a directory or a database.
    public init(_ address: FleetAddress) { self.address = address }

    /// Whether several threads may have one each: what a directory holds is in memory, once.
    public var isShared: Bool { !address.isDatabase }

    /// Asks the store.
    ///
    /// - Parameter question: asked once more where the connection was broken.
    /// - Returns: the answer.
    /// - Throws: ``FleetError`` where the store does not answer.
    public func ask<Answer>(_ question: (FleetReader) throws(FleetError) -> Answer) throws(FleetError) -> Answer {
        let result: Result<Answer, FleetError> = lock.withLock { _ in
            do throws(FleetError) {
                let isOld = reader != nil
                do throws(FleetError) {
                    return .success(try question(try opened()))
                } catch {
                    reader = nil
                    guard isOld, error.isTemporary else { throw error }
                    return .success(try question(try opened()))
                }
            } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }

    private func opened() throws(FleetError) -> FleetReader {
        if case .directory(let path) = address { try read(path) }
        if let reader { return reader }
        let new: FleetReader
        if let copy { new = FleetReader(copy) } else { new = try FleetReader(address) }
        reader = new
        return new
    }

    /// Takes in what is new in a directory, and complete.
    private func read(_ path: String) throws(FleetError) {
        let sender = ShippedFinding.Sender()
        do {
            let store = ReportStore(directory: path)
            let files = try store.files()
            let names = Dictionary(uniqueKeysWithValues: files.map { ($0.name, $0) })
            // What was taken away, or grew, is no longer to be seen as it was.
            if copy == nil || seen.contains(where: { names[$0.key] != $0.value }) {
                copy = try SQLiteFleet()
                reader = nil
                seen = [:]
            }
            var batch: [ShippedFinding] = []
            for file in files where seen[file.name] == nil {
                seen[file.name] = file
                func take(_ finding: Finding, _ text: String, _ line: Int) throws {
                    let shipped = ShippedFinding(
                        finding, text: text, source: "\(sender.host)/\(file.name)", line: line, written: file.written,
                        sender: sender)
                    guard let shipped else { return }
                    batch.append(shipped)
                    if batch.count == 1000 {
                        _ = try copy?.insert(batch)
                        batch = []
                    }
                }
                guard var reader = try store.reader(of: file) else { continue }
                while let entry = try reader.next() ?? reader.finish() {
                    if case .finding(let finding, let line) = entry { try take(finding, reader.text, line) }
                }
                // What its run has found, where zguard was killed.
                for remains in file.remains {
                    try remains.forEachFinding(missingIn: store.reader(of: file), take)
                }
            }
            _ = try copy?.insert(batch)
        } catch let error as FleetError {
            throw error
        } catch {
            throw FleetError("\(error)")
        }
    }
}
