// Objects that can keep each other alive: a session with a handler, an aisle with shelves, and a clock with a task.

/// A session at the till.
public final class Session {
    /// Called at the end.
    public var handler: (() -> Void)?
    public private(set) var sales = 0
    /// The seller. The session does not retain it.
    public unowned(unsafe) var seller: Seller?

    public init() {}

    /// A bug: the session keeps the handler, which keeps the session.
    public func startKeeping() { handler = { self.sales += 1 } }

    public func start() { handler = { [weak self] in self?.sales += 1 } }

    /// Suspends before it counts the sale, like a method that sends a request to a server.
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

    /// A bug if `keepingAisle` is true: the shelf keeps the aisle, which keeps the shelf.
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

/// A clock with a task that waits for a signal.
public final class Clock: @unchecked Sendable {
    private var task: Task<Void, Never>?
    private var waiting: CheckedContinuation<Void, Never>?

    public init() {}

    /// A bug: the task keeps the clock until `signal()` is called, but only an owner of the clock can call it.
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
