// A part of a test whose blocks are distinguished from those of other tests.

import CZombieTesting
import Glibc
import Synchronization
import Testing
import ZombieGuardCore

/// A part of a test. The part begins when this object is created. The object's address is the marker of
/// ``HeapQuestion``, by which zguard recognizes the threads and tasks of the part: the thread that runs a synchronous
/// part allocates the object, and every task that the part starts refers to the object as a task-local value.
final class HeapScope: Sendable {
    @TaskLocal static var current: HeapScope?

    private let functionName: String?
    private let isAlone: Bool
    private let isSynchronous: Bool
    private let moment: Int

    // Functions of all tests that had a scope so far.
    private static let knownFunctions = Mutex<Set<String>>([])

    /// Remembers the name of a test's function, which distinguishes the blocks of this test from those of others.
    static func know(_ functionName: String?) {
        if let functionName { GuardRuntime.aside { _ = knownFunctions.withLock { $0.insert(functionName) } } }
    }

    /// Looks at the heap as it is now.
    init(isSynchronous: Bool, test: Test? = Test.current) throws(HeapHelper.Failure) {
        let xctest = test == nil ? CurrentTest.xctestCase.withLock { $0 } : nil
        functionName = test.flatMap { FindingScope($0).functionName } ?? xctest?.scope.functionName
        self.isSynchronous = isSynchronous
        // XCTest runs one test at a time.
        isAlone = xctest != nil || OwnProgram.arguments.contains("--no-parallel")
        moment = try HeapHelper.ask(HeapQuestion(.begin)).moment
        Self.know(functionName)
    }

    /// Opens a scope. If that fails, fails the test at `location` and returns nil. Returns nil in a child of
    /// `expectZombie`.
    static func open(
        isSynchronous: Bool, test: Test? = Test.current, _ purpose: String, _ location: SourceLocation
    ) -> HeapScope? {
        if ExpectedZombie.isChild { return nil }
        do throws(HeapHelper.Failure) {
            return try HeapScope(isSynchronous: isSynchronous, test: test)
        } catch {
            fail(error, purpose, location)
            return nil
        }
    }

    private static func fail(_ failure: HeapHelper.Failure, _ purpose: String, _ location: SourceLocation) {
        CurrentTest.fail("\(purpose) cannot look at the heap: \(failure)", at: location)
    }

    private func question(_ kind: HeapQuestion.Kind) -> HeapQuestion {
        var question = HeapQuestion(kind)
        question.moment = moment
        question.marker = Address(UInt64(UInt(bitPattern: Unmanaged.passUnretained(self).toOpaque())))
        question.isSynchronous = isSynchronous
        question.isAlone = isAlone
        question.function = functionName
        question.others = Self.knownFunctions.withLock { $0.filter { $0 != functionName } }
        return question
    }

    // MARK: End

    /// Overwrites the values that the part has left on the stack and in the frames of its task: a stale pointer there
    /// would hide a leak.
    @inline(never)
    static func clear() {
        if withUnsafeCurrentTask(body: { $0 != nil }) { zg_testing_clear_task() }
        zg_testing_clear_stack()
    }

    /// Fails the current test for each leak of the part.
    @inline(never)
    func failLeaks(_ purpose: String, _ location: SourceLocation) {
        do throws(HeapHelper.Failure) {
            let answer = try WaitingThread.ask(GuardRuntime.aside { question(.leaks) })
            for finding in answer.findings {
                CurrentTest.fail(finding.message, at: location, report: GuardRuntime.aside { finding.report })
            }
            for finding in answer.undecided {
                OlderTesting.warn(
                    finding.message
                        + "\nnothing tells which test has lost it, as others may run at the same time: "
                        + "`swift test --no-parallel` makes this exact", at: location)
            }
        } catch {
            Self.fail(error, purpose, location)
        }
    }

    /// Fails the current test for each reference to a block that the part has freed.
    @inline(never)
    func failDanglingReferences(_ purpose: String, _ location: SourceLocation) {
        do throws(HeapHelper.Failure) {
            let answer = try WaitingThread.ask(GuardRuntime.aside { question(.dangling) })
            for reference in answer.references { CurrentTest.fail(reference.message, at: location) }
        } catch {
            Self.fail(error, purpose, location)
        }
    }
}

extension HeapAnswer.Reference {
    /// "dangling reference: Feed.listener of a live Shop.Feed points to a freed Shop.Listener of 48 bytes", and stacks.
    var message: String {
        let times = count == 1 ? "" : " (\(count) times)"
        let what =
            "\(target.className.map { visible($0) } ?? "block") of \(target.size) byte\(target.size == 1 ? "" : "s")"
        return Finding.text(
            "dangling reference: \(holder.text)\(times) points to a freed \(what)",
            [("freed", stacks.free), ("allocated", stacks.alloc)])
    }
}
