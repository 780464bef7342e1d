// Gives the web pages one query interface for databases and report directories.

import Synchronization
import ZombieGuard

/// A store of findings. A lock admits one thread at a time.
public final class FleetSource: @unchecked Sendable {
    let address: FleetAddress
    private let lock = Mutex<Void>(())
    private var reader: FleetReader?
    /// In-memory database with the findings of a directory. `seen` lists the reports that were read into it.
    private var copy: SQLiteFleet?
    private var seen: [String: ReportFile] = [:]
    /// Version of the file of decisions that was read.
    private var triage: [Int]?
    /// Symbolicates the findings of a directory in memory, without changing the directory's files.
    private var names: DirectoryNames?

    /// Creates a source for a store. Does not open the store.
    ///
    /// - Parameter address: a directory or a database.
    public init(_ address: FleetAddress) { self.address = address }

    /// Whether threads should share one source. True for a directory, because one copy of its findings in memory is
    /// enough.
    public var isShared: Bool { !address.isDatabase }

    /// Queries the store.
    ///
    /// - Parameter question: the query; repeated once if the connection was lost.
    /// - Returns: the result of the query.
    /// - Throws: ``FleetError`` if the query fails.
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
        if let reader {
            reader.refresh()
            return reader
        }
        let new: FleetReader
        if let copy { new = FleetReader(copy) } else { new = try FleetReader(address) }
        reader = new
        return new
    }

    private func insert(_ batch: inout [ShippedFinding]) throws(FleetError) {
        _ = try copy?.insert(batch)
        if let formers = names?.takeFormers() { try copy?.insert(formers) }
        batch = []
    }

    /// Reads new reports of a directory into memory. Starts over if a known report changed or was removed, or if the
    /// directory's symbols changed.
    private func read(_ path: String) throws(FleetError) {
        let sender = ShippedFinding.Sender()
        do {
            let store = ReportStore(directory: path)
            let files = try store.files()
            let names = Dictionary(uniqueKeysWithValues: files.map { ($0.name, $0) })
            // Rebuild the copy if a report changed or disappeared, so that the report's old findings are not counted;
            // and if the symbols changed, so that all findings get names from the new ones.
            let symbols = DirectoryNames.version(in: path)
            if copy == nil || symbols != self.names?.version || seen.contains(where: { names[$0.key] != $0.value }) {
                copy = try SQLiteFleet()
                reader = nil
                self.names = DirectoryNames(path, version: symbols)
                (seen, triage) = ([:], nil)
            }
            var batch: [ShippedFinding] = []
            for file in files where seen[file.name] == nil {
                seen[file.name] = file
                func take(_ finding: Finding, _ text: String, _ line: Int) throws {
                    let shipped = ShippedFinding(
                        finding, text: text, source: "\(sender.host)/\(file.name)", line: line, written: file.written,
                        sender: sender)
                    guard let shipped else { return }
                    batch.append(self.names?.named(shipped) ?? shipped)
                    if batch.count == 1000 { try insert(&batch) }
                }
                guard var reader = try store.reader(of: file) else { continue }
                while let entry = try reader.next() ?? reader.finish() {
                    if case .finding(let finding, let line) = entry { try take(finding, reader.text, line) }
                }
                // Add the raw findings that zguard did not add to the report because it was killed.
                for remains in file.remains {
                    try remains.forEachFinding(missingIn: store.reader(of: file), take)
                }
            }
            try insert(&batch)
            let version = TriageStore.version(in: path)
            if version != triage {
                try copy?.replaceTriage(with: TriageStore.events(in: path))
                triage = version
            }
        } catch let error as FleetError {
            throw error
        } catch {
            throw FleetError("\(error)")
        }
    }
}
