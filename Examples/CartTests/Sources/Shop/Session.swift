// Objects that can keep each other alive: a session with a handler, an aisle with shelves, and a clock with a task.

/// A session at the till.
public final class Session {
    /// Called at the end.
    public var handler: (() -> Void)?
    public private(set) var sales = 0
    /// The seller, whom the session does not keep.
    public unowned(unsafe) var seller: Seller?

    public init() {}

    /// A bug: the session keeps the handler, which keeps the session.
    public func startKeeping() { handler = { self.sales += 1 } }

    public func start() { handler = { [weak self] in self?.sales += 1 } }

    /// Waits like one that asks a server.
    public func sell() async {
        await Task.yield()
        sales += 1
    }
}

/// A seller.
public final class Seller {
    public init() {}
}

/// An aisle with its shelves.
public final class Aisle {
    public var shelves: [Shelf] = []

    public init() {}

    /// A shelf that keeps its aisle is a bug.
    public func addShelf(keepingAisle: Bool) {
        let shelf = Shelf()
        shelf.aisle = self
        if keepingAisle { shelf.kept = self }
        shelves.append(shelf)
    }
}

/// A shelf in an aisle.
public final class Shelf {
    weak var aisle: Aisle?
    var kept: Aisle?
}

/// Waits for a signal in a task.
public final class Clock: @unchecked Sendable {
    private var task: Task<Void, Never>?
    private var waiting: CheckedContinuation<Void, Never>?

    public init() {}

    /// A bug: the task keeps the clock until the signal arrives, and nobody else could send the signal.
    public func run() async {
        task = Task { await self.wait() }
        while waiting == nil { await Task.yield() }
    }

    public func signal() {
        waiting?.resume()
        waiting = nil
        task = nil
    }

    private func wait() async { await withCheckedContinuation { waiting = $0 } }
}
