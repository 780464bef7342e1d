// Loads libsqlite3 and executes statements with it.

import Glibc
import ZombieGuard

private struct SQLiteLibrary: Sendable {
    typealias Handle = OpaquePointer
    typealias Open =
        @convention(c) (
            UnsafePointer<CChar>, UnsafeMutablePointer<Handle?>, CInt, UnsafePointer<CChar>?
        ) -> CInt
    typealias Message = @convention(c) (Handle?) -> UnsafePointer<CChar>?
    typealias Execute =
        @convention(c) (
            Handle, UnsafePointer<CChar>, UnsafeRawPointer?, UnsafeRawPointer?, UnsafeRawPointer?
        ) -> CInt
    typealias Prepare =
        @convention(c) (
            Handle, UnsafePointer<CChar>, CInt, UnsafeMutablePointer<Handle?>, UnsafeRawPointer?
        ) -> CInt
    typealias BindText = @convention(c) (Handle, CInt, UnsafePointer<CChar>, CInt, Int) -> CInt
    typealias BindBytes = @convention(c) (Handle, CInt, UnsafeRawPointer?, CInt, Int) -> CInt
    typealias Blob = @convention(c) (Handle, CInt) -> UnsafeRawPointer?
    typealias BindInteger = @convention(c) (Handle, CInt, Int64) -> CInt
    typealias StatementFunction = @convention(c) (Handle?) -> CInt
    typealias ColumnFunction = @convention(c) (Handle, CInt) -> CInt
    typealias Integer = @convention(c) (Handle, CInt) -> Int64
    typealias Text = @convention(c) (Handle, CInt) -> UnsafePointer<UInt8>?

    let open: Open, message: Message, execute: Execute, prepare: Prepare
    let bindText: BindText, bindInteger: BindInteger, bindNull: ColumnFunction
    let step: StatementFunction, reset: StatementFunction, finalize: StatementFunction, close: StatementFunction,
        changes: StatementFunction, columns: StatementFunction
    let bindBytes: BindBytes, blob: Blob
    let timeout: ColumnFunction, type: ColumnFunction, bytes: ColumnFunction, integer: Integer, text: Text

    init() throws(FleetError) {
        let library = try SharedLibrary("libsqlite3.so.0", package: "libsqlite3-0")
        open = try library.function("sqlite3_open_v2", Open.self)
        message = try library.function("sqlite3_errmsg", Message.self)
        execute = try library.function("sqlite3_exec", Execute.self)
        prepare = try library.function("sqlite3_prepare_v2", Prepare.self)
        bindText = try library.function("sqlite3_bind_text", BindText.self)
        bindInteger = try library.function("sqlite3_bind_int64", BindInteger.self)
        bindBytes = try library.function("sqlite3_bind_blob", BindBytes.self)
        blob = try library.function("sqlite3_column_blob", Blob.self)
        bindNull = try library.function("sqlite3_bind_null", ColumnFunction.self)
        step = try library.function("sqlite3_step", StatementFunction.self)
        reset = try library.function("sqlite3_reset", StatementFunction.self)
        finalize = try library.function("sqlite3_finalize", StatementFunction.self)
        close = try library.function("sqlite3_close", StatementFunction.self)
        changes = try library.function("sqlite3_changes", StatementFunction.self)
        columns = try library.function("sqlite3_column_count", StatementFunction.self)
        timeout = try library.function("sqlite3_busy_timeout", ColumnFunction.self)
        type = try library.function("sqlite3_column_type", ColumnFunction.self)
        bytes = try library.function("sqlite3_column_bytes", ColumnFunction.self)
        integer = try library.function("sqlite3_column_int64", Integer.self)
        text = try library.function("sqlite3_column_text", Text.self)
    }
}

/// A connection to a SQLite file.
class SQLiteConnection {
    private let library: SQLiteLibrary
    private let handle: OpaquePointer
    private let name: String
    /// Prepared statements that change something: a few for each day's tables.
    private var statements: [String: OpaquePointer] = [:]
    /// Prepared statements that only read, by their text.
    private var questions: [String: OpaquePointer] = [:]

    /// Limit of prepared statements that only read: a statement over the tables of 400 days takes up to a megabyte.
    private static let mostQuestions = 64
    private static let ok: CInt = 0
    private static let row: CInt = 100
    private static let done: CInt = 101
    /// SQLITE_BUSY, SQLITE_LOCKED, SQLITE_IOERR and SQLITE_FULL.
    private static let temporary: Set<CInt> = [5, 6, 10, 13]
    private static let waitMilliseconds: CInt = 30_000
    private static let integerType: CInt = 1
    private static let nullType: CInt = 5
    private static let blobType: CInt = 4
    /// SQLITE_TRANSIENT: SQLite copies the text.
    private static let copies = -1

    /// - Parameters:
    ///   - path: path of the file; ":memory:" is a private database that ends with the connection.
    ///   - isWritable: whether to open for writing, and create a missing file.
    init(path: String, isWritable: Bool) throws(FleetError) {
        let library = try SQLiteLibrary()
        let (readOnly, readWrite, create, noMutex): (CInt, CInt, CInt, CInt) = (1, 2, 4, 0x8000)
        var opened: OpaquePointer?
        let status = library.open(path, &opened, (isWritable ? readWrite | create : readOnly) | noMutex, nil)
        name = visible(path)
        guard status == Self.ok, let opened else {
            let reason = library.message(opened).map { String(cString: $0) } ?? "no memory"
            _ = library.close(opened)
            throw FleetError("cannot open '\(name)': \(visible(reason))", isTemporary: Self.temporary.contains(status))
        }
        (self.library, handle) = (library, opened)
        _ = library.timeout(opened, Self.waitMilliseconds)
    }

    deinit {
        for statement in [statements, questions].joined().map(\.value) { _ = library.finalize(statement) }
        _ = library.close(handle)
    }

    func execute(_ script: String) throws(FleetError) {
        let status = library.execute(handle, script, nil, nil, nil)
        if status != Self.ok { throw failure(status) }
    }

    @discardableResult
    func query(_ text: String, _ parameters: [SQLValue]) throws(FleetError) -> [[SQLValue]] {
        let statement = try prepared(text)
        defer { _ = library.reset(statement) }
        for (index, value) in parameters.enumerated() {
            let place = CInt(index + 1)
            let status =
                switch value {
                case .null: library.bindNull(statement, place)
                case .bytes(let bytes):
                    library.bindBytes(statement, place, bytes, CInt(clamping: bytes.count), Self.copies)
                case .integer(let number): library.bindInteger(statement, place, number)
                case .text(let text):
                    library.bindText(statement, place, text, CInt(clamping: text.utf8.count), Self.copies)
                }
            if status != Self.ok { throw failure(status) }
        }
        var rows: [[SQLValue]] = []
        while true {
            let status = library.step(statement)
            if status == Self.done { return rows }
            if status != Self.row { throw failure(status) }
            rows.append((0..<library.columns(statement)).map { value(of: statement, $0) })
        }
    }

    /// Rows changed by the last statement.
    var changes: Int { Int(library.changes(handle)) }

    private func prepared(_ text: String) throws(FleetError) -> OpaquePointer {
        if let known = statements[text] ?? questions[text] { return known }
        var statement: OpaquePointer?
        // Statements number parameters as PostgreSQL does ($1, $2); SQLite writes ?1, ?2. Statements contain no other
        // dollar signs.
        let status = library.prepare(handle, text.replacing("$", with: "?"), -1, &statement, nil)
        guard status == Self.ok, let statement else { throw failure(status) }
        if !text.hasPrefix("SELECT"), !text.hasPrefix("WITH") {
            statements[text] = statement
            return statement
        }
        // Statements that only read differ with the requested page and period, so there may be any number: drop all at
        // the limit.
        if questions.count >= Self.mostQuestions {
            for old in questions.values { _ = library.finalize(old) }
            questions = [:]
        }
        questions[text] = statement
        return statement
    }

    private func value(of statement: OpaquePointer, _ column: CInt) -> SQLValue {
        switch library.type(statement, column) {
        case Self.nullType: return .null
        case Self.blobType:
            // The pointer of an empty value is null.
            let count = Int(library.bytes(statement, column))
            let start = library.blob(statement, column)
            return .bytes(Array(UnsafeRawBufferPointer(start: start, count: start == nil ? 0 : count)))
        case Self.integerType: return .integer(library.integer(statement, column))
        default:
            guard let start = library.text(statement, column) else { return .null }
            let bytes = UnsafeBufferPointer(start: start, count: Int(library.bytes(statement, column)))
            return .text(String(decoding: bytes, as: UTF8.self))
        }
    }

    private func failure(_ status: CInt) -> FleetError {
        let reason = library.message(handle).map { String(cString: $0) } ?? "error \(status)"
        return FleetError("'\(name)': \(visible(reason))", isTemporary: Self.temporary.contains(status & 0xff))
    }
}
