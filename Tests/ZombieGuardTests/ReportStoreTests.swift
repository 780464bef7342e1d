// The report store: names, lines, retention, and files that other programs or killed processes leave in its directory.

import Foundation
import Testing

@testable import ZombieGuard
@testable import ZombieGuardCore

@Suite struct ReportStoreTests {
    private let scratch: Scratch
    private let store: ReportStore
    private let now = time(nil)
    private var directory: String { store.directory }

    init() throws {
        scratch = try Scratch()
        store = ReportStore(directory: scratch.path + "/reports")
    }

    private var names: [String] {
        get throws { try FileManager.default.contentsOfDirectory(atPath: directory).sorted() }
    }

    private func contents(_ path: String) throws -> String {
        String(decoding: try Data(contentsOf: URL(fileURLWithPath: path)), as: UTF8.self)
    }

    /// A finished report, last written `age` seconds ago.
    @discardableResult
    private func finished(_ program: String, age: Int = 0, lines: [String] = ["{}"], compressed: Bool = false) throws
        -> String
    {
        let writer = try store.open(program: program, processID: 7)
        for line in lines { try writer.append(line) }
        let path = try #require(try writer.close(compressed: compressed))
        try setAge(path, age)
        return path
    }

    private func setAge(_ path: String, _ seconds: Int) throws {
        let time = timespec(tv_sec: now - seconds, tv_nsec: 0)
        try #require(utimensat(AT_FDCWD, path, [time, time], 0) == 0)
    }

    private func programs(_ store: ReportStore) throws -> [String] {
        try store.files().compactMap { file in
            ReportName.parse(file.name).map { String($0.name.stem.split(separator: "-")[1]) }
        }
    }

    // MARK: names

    static let odd = [
        "", "/", "../../etc/passwd", "a b", "a\nb", "-rf", "…", String(repeating: "x", count: 500), "a-b-c-1-2",
        ".hidden",
        "*?[", "\u{0}", "name.jsonl", "/usr/bin/python3.11",
    ]

    @Test(arguments: odd) func nameIsSafeAndReadBack(program: String) throws {
        let name = ReportName(program: program, processID: 42, started: Timestamp(rawValue: 1_795_293_561_123_456_789))
        #expect(name.stem.hasPrefix("20261121T203921.123Z-"))
        #expect(name.stem.utf8.count < 128)
        #expect(name.stem.utf8.allSatisfy { byte in byte != 0x2f && (0x21...0x7e).contains(byte) })
        for (file, form) in [
            (name.plain, ReportName.Form.plain), (name.compressed, .compressed), (name.temporary, .temporary),
            (name.compressedTemporary, .temporary),
        ] {
            let parsed = try #require(ReportName.parse(file))
            #expect(parsed.form == form && parsed.name == name, "\(file)")
        }
    }

    static let foreign = [
        "notes.jsonl", "4242.jsonl", "20261121T203921.123Z-x-7-1f2e3d4c.txt", "20261121T203921.123Z-x-7-1f2e3d4.jsonl",
        "20261121T203921.123Z-x-7-1F2E3D4C.jsonl", "20261121T203921.123Z-x-seven-1f2e3d4c.jsonl",
        "20261121T203921.123Z--7-1f2e3d4c.jsonl", "20261121T203921.123Z-7-1f2e3d4c.jsonl",
        "20261321T203921.123Z-x-7-1f2e3d4c.jsonl", "20261121T253921.123Z-x-7-1f2e3d4c.jsonl",
        "20261121T203921123Z-x-7-1f2e3d4c.jsonl", "x20261121T203921.123Z-x-7-1f2e3d4c.jsonl",
        ".20261121T203921.123Z-x-7-1f2e3d4c.jsonl", "20261121T203921.123Z-x-7-1f2e3d4c.jsonl.tmp",
        "20261121T203921.123Z-x y-7-1f2e3d4c.jsonl", "20261121T203921.123Z-x-7-1f2e3d4c.jsonl.gz.gz",
    ]

    @Test(arguments: foreign) func otherNamesAreForeign(name: String) { #expect(ReportName.parse(name) == nil) }

    // MARK: writing

    @Test func linesAreThereAtOnce() throws {
        let writer = try store.open(program: "/bin/app", processID: 7)
        try writer.append(#"{"a":1}"#)
        #expect(try contents(writer.path) == "{\"a\":1}\n")
        try writer.append("two\nlines\r\nin one")
        #expect(try contents(writer.path) == "{\"a\":1}\ntwo lines\r in one\n")
        try writer.replace(["x", "y"])
        #expect(try contents(writer.path) == "x\ny\n")
        try writer.append("z")
        let path = try #require(try writer.close())
        #expect(try contents(path) == "x\ny\nz\n")
        #expect(try names.count == 1)
        #expect(throws: StoreError.self) { try writer.append("late") }
        #expect(throws: StoreError.self) { try writer.replace([]) }
        #expect(throws: StoreError.self) { try writer.close() }
        let status = try FileManager.default.attributesOfItem(atPath: path)
        #expect(status[.posixPermissions] as? Int == 0o600)
        #expect(try FileManager.default.attributesOfItem(atPath: directory)[.posixPermissions] as? Int == 0o700)
    }

    @Test func runWithoutFindingsLeavesNoFile() throws {
        let writer = try store.open(program: "app")
        #expect(try names.count == 1)
        #expect(try writer.close(compressed: true) == nil)
        #expect(try names == [])
    }

    @Test func compressedIsReadLikePlain() throws {
        let line = Finding.sample().jsonLine
        let path = try finished("app", age: 100, lines: Array(repeating: line, count: 500), compressed: true)
        #expect(try names.count == 1 && path.hasSuffix(".jsonl.gz"))
        let file = try #require(try store.files().first)
        #expect(file.isCompressed && file.size < UInt64(line.utf8.count * 10))
        var reader = try #require(try store.reader(of: file))
        var count = 0
        while let entry = try reader.next() {
            guard case .finding = entry else { break }
            count += 1
        }
        #expect(count == 500 && reader.problem == nil)
        #expect(reader.finish() == nil)
    }

    @Test func compressedIsAsOldAsItsLastLine() throws {
        let writer = try store.open(program: "app")
        try writer.append("{}")
        try setAge(writer.path, 5000)
        let path = try #require(try writer.close(compressed: true))
        var status = stat()
        #expect(stat(path, &status) == 0 && status.st_mtim.tv_sec == now - 5000)
    }

    @Test func directoryIsMadeWhereItCanBe() throws {
        let deep = ReportStore(directory: scratch.path + "/a/./b//c/")
        _ = try deep.open(program: "x")
        _ = try scratch.file("plain", "x".utf8)
        #expect(throws: StoreError("create report directory", scratch.path + "/plain/c", SystemError(number: ENOTDIR)))
        {
            try ReportStore(directory: scratch.path + "/plain/c").open(program: "x")
        }
        #expect(throws: StoreError("open report directory", scratch.path + "/plain", SystemError(number: ENOTDIR))) {
            try ReportStore(directory: scratch.path + "/plain").open(program: "x")
        }
        let missing = ReportStore(directory: scratch.path + "/missing")
        #expect(throws: StoreError.self) { try missing.files() }
        #expect(throws: StoreError.self) { try missing.prune() }
        #expect(throws: StoreError.self) { try ReportStore(directory: "").open(program: "x") }
        #expect("\(StoreError("open report directory", "a\u{1b}b", SystemError(number: ENOENT)))".contains("a\\u{1b}b"))
    }

    @Test func vanishedDirectoryIsSaid() throws {
        let writer = try store.open(program: "app")
        try writer.append("{}")
        try FileManager.default.removeItem(atPath: directory)
        #expect(throws: StoreError("write report", writer.path, SystemError(number: ENOENT))) {
            try writer.append("{}")
        }
        #expect(throws: StoreError.self) { try writer.replace(["{}"]) }
        #expect(throws: StoreError.self) { try writer.close(compressed: true) }
        #expect(!FileManager.default.fileExists(atPath: directory))
    }

    @Test func failedRewriteKeepsWhatIsThere() throws {
        let writer = try store.open(program: "app")
        try writer.append("first")
        // A directory with the temporary file's name prevents the replacement.
        let name = try #require(try names.first)
        let obstacle = "\(directory)/.\(name).tmp"
        try FileManager.default.createDirectory(atPath: obstacle, withIntermediateDirectories: false)
        #expect(throws: StoreError.self) { try writer.replace(["second"]) }
        try writer.append("third")
        #expect(try contents(writer.path) == "first\nthird\n")
        let other = "\(directory)/.\(name).gz.tmp"
        try FileManager.default.createDirectory(atPath: other, withIntermediateDirectories: false)
        #expect(throws: StoreError.self) { try writer.close(compressed: true) }
        #expect(try contents(writer.path) == "first\nthird\n")
    }

    // MARK: retention

    @Test func oldOnesGo() throws {
        for (program, age) in [("old", 3700), ("older", 90000), ("young", 3500), ("fresh", 0)] {
            try finished(program, age: age, compressed: age > 4000)
        }
        let keeper = ReportStore(directory: directory, retention: Retention(age: 3600, count: nil, bytes: nil))
        let pruned = try keeper.prune()
        #expect(pruned.removed == 2 && pruned.remains == 0 && !pruned.isPostponed)
        #expect(try programs(keeper) == ["young", "fresh"])
        #expect(try programs(store).count == 2)
    }

    @Test func countKeepsTheYoungest() throws {
        for age in 1...9 { try finished("p\(age)", age: age * 10, compressed: age.isMultiple(of: 2)) }
        let keeper = ReportStore(directory: directory, retention: Retention(age: nil, count: 3, bytes: nil))
        #expect(try keeper.prune().removed == 6)
        #expect(try programs(keeper) == ["p3", "p2", "p1"])
        #expect(try keeper.files(order: .newestFirst).first?.name.contains("-p1-") == true)
        #expect(try keeper.prune().removed == 0)
    }

    @Test func sizeKeepsTheYoungestAndAlwaysOne() throws {
        let line = String(repeating: "x", count: 999)
        for age in 1...5 { try finished("p\(age)", age: age * 10, lines: [line]) }
        func keeper(_ bytes: UInt64) -> ReportStore {
            ReportStore(directory: directory, retention: Retention(age: nil, count: nil, bytes: bytes))
        }
        #expect(try keeper(5000).prune().removed == 0)
        #expect(try keeper(2999).prune() == ReportStore.Pruned(removed: 3, bytes: 3000))
        #expect(try programs(store) == ["p2", "p1"])
        #expect(try keeper(10).prune().removed == 1)
        #expect(try programs(store) == ["p1"])
        let strict = ReportStore(directory: directory, retention: Retention(age: 1, count: 1, bytes: 1))
        #expect(try strict.prune().removed == 1)
        #expect(try names == [])
    }

    @Test func sizesMayBeAnything() throws {
        // Sparse files of the greatest size that tmpfs allows: their sum exceeds 64 bits.
        let store = ReportStore(
            directory: "/dev/shm/zguard-tests-\(getpid())", retention: Retention(age: nil, count: nil, bytes: 1000))
        defer { try? FileManager.default.removeItem(atPath: store.directory) }
        for number in 1...5 {
            let writer = try store.open(program: "p\(number)")
            try writer.append("{}")
            let path = try #require(try writer.close())
            try #require(truncate(path, .max) == 0)
        }
        #expect(try store.prune() == ReportStore.Pruned(removed: 4, bytes: .max))
        #expect(try store.files().count == 1)
    }

    @Test func whatIsBeingWrittenStays() throws {
        let writer = try store.open(program: "living", processID: 1)
        try writer.append("{}")
        try setAge(writer.path, 90000)
        let empty = try store.open(program: "empty")
        try finished("done", age: 80000)
        let strict = ReportStore(directory: directory, retention: Retention(age: 3600, count: 1, bytes: 1))
        #expect(try strict.prune() == ReportStore.Pruned(removed: 1, bytes: 3))
        #expect(try names.count == 2)
        try writer.replace(["{}", "{}"])
        try setAge(writer.path, 90000)
        #expect(try strict.prune().removed == 0)
        #expect(try writer.close() != nil)
        #expect(try strict.prune().removed == 1 && names.count == 1)
        #expect(try empty.close() == nil)
    }

    @Test func runThatHasFoundNothingYetCountsForNothing() throws {
        for age in 1...2 { try finished("p\(age)", age: age * 10) }
        let empty = try store.open(program: "empty")
        for retention in [Retention(age: nil, count: 2, bytes: nil), Retention(age: nil, count: nil, bytes: 6)] {
            #expect(try ReportStore(directory: directory, retention: retention).prune() == ReportStore.Pruned())
        }
        #expect(
            try ReportStore(directory: directory, retention: Retention(age: nil, count: 1, bytes: 1)).prune().removed
                == 1)
        #expect(try names.count == 2)
        #expect(try empty.close() == nil)
    }

    @Test func foreignFilesStay() throws {
        for name in Self.foreign + ["README", ".hidden", "20261121T203921.123Z-x-7-1f2e3d4c.jsonl.d"] {
            _ = try scratch.file(name, "x\n".utf8)
            try finished("x", age: 90000)
            try setAge(scratch.path + "/" + name, 90000)
            try FileManager.default.moveItem(atPath: scratch.path + "/" + name, toPath: directory + "/" + name)
        }
        let before = try names.filter { ReportName.parse($0) == nil }
        let strict = ReportStore(directory: directory, retention: Retention(age: 3600, count: 1, bytes: 1))
        #expect(try strict.prune().removed == before.count)
        #expect(try names == before)
        // Foreign files called .jsonl are read nevertheless.
        #expect(try strict.files().map(\.name).contains("4242.jsonl"))
        #expect(try strict.files().allSatisfy { $0.started == nil })
        #expect(try !strict.files().map(\.name).contains("README"))
    }

    @Test func linksAndPipesAreLeftAlone() throws {
        let target = try scratch.file("precious", "keep\n".utf8)
        try setAge(target, 90000)
        try finished("x", age: 1)
        let link = ReportName(program: "link", processID: 1, started: Timestamp(rawValue: 0))
        let pipe = ReportName(program: "pipe", processID: 1, started: Timestamp(rawValue: 0))
        let folder = ReportName(program: "folder", processID: 1, started: Timestamp(rawValue: 0))
        for name in [link.plain, link.compressed, link.temporary] {
            try #require(symlink(target, directory + "/" + name) == 0)
        }
        try #require(mkfifo(directory + "/" + pipe.plain, 0o600) == 0)
        try #require(mkdir(directory + "/" + folder.plain, 0o700) == 0)
        let before = try names
        let strict = ReportStore(directory: directory, retention: Retention(age: 3600, count: 1, bytes: 1))
        #expect(try strict.prune() == ReportStore.Pruned())
        #expect(try names == before)
        #expect(try contents(target) == "keep\n")
        #expect(try strict.files().count == 1)
        let file = ReportFile(
            name: pipe.plain, path: directory + "/" + pipe.plain, started: nil, written: .now, size: 0,
            isCompressed: false, inode: 0)
        #expect(try strict.reader(of: file) == nil)
    }

    // MARK: remains of killed processes

    @Test func remainsAreClearedAndNothingElse() throws {
        let path = try finished("both", lines: ["one", "two"], compressed: true)
        let name = try #require(ReportName.parse(String(path.split(separator: "/").last!))).name
        // A writer died after it had named the compressed file and before it removed the plain one.
        let plain = directory + "/" + name.plain
        try Data("one\ntwo\n".utf8).write(to: URL(fileURLWithPath: plain))
        #expect(try store.files().map(\.name) == [name.plain])
        // One writer died while it wrote a temporary file, and another before it wrote anything.
        for left in [name.temporary, name.compressedTemporary] {
            try Data("hal".utf8).write(to: URL(fileURLWithPath: directory + "/" + left))
        }
        let empty = ReportName(program: "empty", processID: 1)
        try Data().write(to: URL(fileURLWithPath: directory + "/" + empty.plain))
        // A live process is about to rename this temporary file.
        let living = ReportName(program: "living", processID: 1)
        let opened = try StoreDirectory(opening: directory)
        let file = try opened.create(living.temporary)
        #expect(try store.prune() == ReportStore.Pruned(remains: 4))
        #expect(try names == [".\(living.plain).tmp", name.compressed])
        withExtendedLifetime(file) {}
    }

    @Test func tornLastLineIsSkippedAndOlderOnesAreRead() throws {
        let line = Finding.sample().jsonLine
        let path = try finished("torn", lines: [line, line])
        try Data((line + "\n" + line + "\n" + line.prefix(40)).utf8).write(to: URL(fileURLWithPath: path))
        let file = try #require(try store.files().first)
        var reader = try #require(try store.reader(of: file))
        var entries: [FindingReader.Entry] = []
        while let entry = try reader.next() ?? reader.finish() { entries.append(entry) }
        #expect(entries.count == 3 && entries.last == .skipped(line: 3, reason: "cut off"))
    }

    @Test func fileMayBeCompressedOrGoneBeforeItIsRead() throws {
        let writer = try store.open(program: "app")
        try writer.append(Finding.sample().jsonLine)
        let file = try #require(try store.files().first)
        _ = try writer.close(compressed: true)
        var reader = try #require(try store.reader(of: file))
        guard case .finding? = try reader.next() else {
            Issue.record("the compressed file is not read")
            return
        }
        for name in try names { try FileManager.default.removeItem(atPath: directory + "/" + name) }
        #expect(try store.reader(of: file) == nil)
    }

    @Test func sinceLooksAtTheLastLine() throws {
        for (program, age) in [("a", 7200), ("b", 3000), ("c", 10)] { try finished(program, age: age) }
        let since = try Timestamp(since: "1h")
        #expect(try store.files(since: since).map { $0.name.contains("-b-") } == [true, false])
        #expect(try store.files(since: .now).isEmpty)
        #expect(try store.files(since: since, order: .newestFirst).map { $0.name.contains("-c-") } == [true, false])
    }

    @Test func lockedStoreIsPrunedLater() throws {
        try finished("old", age: 90000)
        let lock = try #require(try StoreDirectory(opening: directory).lock(seconds: 0))
        let strict = ReportStore(directory: directory, retention: Retention(age: 60, count: nil, bytes: nil))
        #expect(try strict.prune().isPostponed)
        #expect(try names.count == 1)
        withExtendedLifetime(lock) {}
    }

    @Test func prunesThatNeverEndDoNotStopWriters() async throws {
        // Like a process that is stopped while it removes the remains of dead writers, this task locks each new
        // temporary file and never unlocks it.
        let opened = try StoreDirectory(creating: directory)
        let meddler = Task.detached {
            var taken: [Descriptor] = []
            while !Task.isCancelled {
                for name in (try? opened.names()) ?? [] where name.hasSuffix(".tmp") {
                    if let file = try? opened.open(name), flock(file.number, LOCK_EX | LOCK_NB) == 0 {
                        taken.append(file)
                    }
                }
                await Task.yield()
            }
            return taken.count
        }
        for number in 0..<200 {
            let writer = try store.open(program: "p\(number)")
            try writer.append("{}")
            try writer.replace(["{}"])
            #expect(try writer.close(compressed: true) != nil)
        }
        meddler.cancel()
        _ = await meddler.value
        #expect(try store.files().count == 200)
    }

    @Test func racingPrunesRemoveNoMoreThanOne() async throws {
        for age in 1...60 { try finished("p\(age)", age: age) }
        let keeper = ReportStore(directory: directory, retention: Retention(age: nil, count: 20, bytes: nil))
        let removed = try await withThrowingTaskGroup(of: Int.self) { group in
            for _ in 0..<8 { group.addTask { try keeper.prune().removed } }
            return try await group.reduce(0, +)
        }
        #expect(removed == 40)
        #expect(try programs(keeper) == (1...20).reversed().map { "p\($0)" })
    }
}
