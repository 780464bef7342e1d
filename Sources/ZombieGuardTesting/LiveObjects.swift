// The live objects of a class.

import Testing
import ZombieGuardCore

extension ZombieGuard {
    /// The objects of a class and its subclasses that have not been deallocated, in no particular order, each with its
    /// holders, the shortest path from a variable, and its allocation stack.
    ///
    /// ```swift
    /// #expect(ZombieGuard.liveObjects(of: Cart.self).isEmpty)
    /// ```
    ///
    /// Includes objects of all tests of the process. Excludes objects that the compiler has put on a stack or into
    /// static memory. Only the first 1,000 objects have holders and stacks.
    ///
    /// zguard stops the process while it searches the heap (less than 50 ms in a small test bundle, 110 ms with 100,000
    /// blocks). If there is no zguard, the process is not guarded, or zguard could not read a part of the heap, the
    /// current test fails, and the result is empty.
    ///
    /// - Parameters:
    ///   - type: the class.
    ///   - fileID: module and file of the call.
    ///   - filePath: path of the file of the call.
    ///   - line: line of the call.
    ///   - column: column of the call.
    /// - Returns: the objects.
    /// - Complexity: O(*n*) in the bytes of all live blocks.
    public static func liveObjects<Object: AnyObject>(
        of type: Object.Type, fileID: String = #fileID, filePath: String = #filePath, line: Int = #line,
        column: Int = #column
    ) -> [LiveObject] {
        if ExpectedZombie.isChild { return [] }
        var question = HeapQuestion(.objects)
        let metadata = UInt(bitPattern: unsafeBitCast(type, to: UnsafeRawPointer.self))
        question.metadata = Address(UInt64(metadata))
        do throws(HeapHelper.Failure) {
            return try WaitingThread.ask(question).objects.map(\.withoutLibrary)
        } catch {
            CurrentTest.fail(
                "liveObjects(of:) cannot look at the heap: \(error)",
                at: SourceLocation(fileID: fileID, filePath: filePath, line: line, column: column))
            return []
        }
    }
}

extension LiveObject {
    /// This object without the holders that are local variables of this library, and without a path that starts at such
    /// a variable. These variables only hold copies of the pointer.
    var withoutLibrary: LiveObject {
        var object = self
        object.holders.removeAll { $0.isInLibrary }
        if object.path.first?.isInLibrary ?? false { object.path = [] }
        return object
    }
}
