// What a guarded program may ask about itself.

/// The runtime that guards this process, asked from inside.
///
/// A process is guarded when it runs under `zguard run`, or when its test bundle links the runtime. Elsewhere
/// ``isActive`` is false, ``findings`` ends at once, and everything else throws ``ZombieGuardError/inactive``:
/// code that asks may stay in programs that are not always guarded.
///
/// ```swift
/// let address = Unmanaged.passUnretained(cart).toOpaque()
/// release(&cart)
/// if let zombie = try ZombieGuard.zombie(at: address) {
///     print(zombie.className ?? "?", zombie.deallocationSite?.line ?? 0)
/// }
/// ```
///
/// All of it may be called from any thread, but not from a signal handler.
public enum ZombieGuard {
    /// Whether this process is guarded.
    public static var isActive: Bool { GuardRuntime.current != nil }

    /// The runtime's counters as they are now: the same as `zguard stats` prints.
    public static var statistics: Statistics {
        get throws(ZombieGuardError) { try GuardRuntime.active.statistics }
    }

    /// Notes something about the program, such as what it works on, to be shown with what it dies of (`collect=crashes`).
    ///
    /// There is room for 32 names of up to 31 bytes, with texts of up to 223; what is longer is cut off, and what is too much is left out. Where
    /// nothing guards the process nothing happens.
    ///
    /// - Parameters:
    ///   - name: what the text is about.
    ///   - value: its description is the text; nil takes the name away.
    public static func annotate(_ name: String, _ value: (some CustomStringConvertible)?) {
        GuardRuntime.current?.annotate(name, value?.description)
    }

    /// How many of this process's blocks and allocation stacks have been watched until now, and why not more.
    ///
    /// - Throws: ``ZombieGuardError/inactive`` where the process is not guarded.
    public static var coverage: Coverage {
        get throws(ZombieGuardError) { try GuardRuntime.active.statistics.coverage }
    }

    /// The dead block at an address, or around it; nil where no block is known to have died.
    ///
    /// The address is never followed. Blocks are known until their memory is used again.
    ///
    /// - Parameter address: any address in the block, or beside it.
    /// - Returns: what is known; nil where no block is known to have died there.
    /// - Throws: ``ZombieGuardError/inactive`` where the process is not guarded.
    public static func zombie(at address: Address) throws(ZombieGuardError) -> ZombieRecord? {
        try GuardRuntime.active.record(at: address).flatMap { $0.isLive ? nil : $0 }
    }

    /// The dead block at or around the address that a pointer holds. See ``zombie(at:)-(Address)``.
    ///
    /// - Parameter pointer: may be dangling.
    /// - Returns: what is known; nil where no block is known to have died there.
    /// - Throws: ``ZombieGuardError/inactive`` where the process is not guarded.
    public static func zombie(at pointer: UnsafeRawPointer) throws(ZombieGuardError) -> ZombieRecord? {
        try zombie(at: UInt(bitPattern: pointer))
    }

    /// The dead block at or around an address. See ``zombie(at:)-(Address)``.
    ///
    /// - Parameter address: any address in the block, or beside it.
    /// - Returns: what is known; nil where no block is known to have died there.
    /// - Throws: ``ZombieGuardError/inactive`` where the process is not guarded.
    public static func zombie(at address: UInt) throws(ZombieGuardError) -> ZombieRecord? {
        try zombie(at: Address(UInt64(address)))
    }

    /// What is known of the freed objects of exactly this class, those of its subclasses not included; in no particular
    /// order.
    ///
    /// - Parameter type: the class of the objects themselves.
    /// - Returns: a record of each object.
    /// - Complexity: O(*n*) in the number of blocks, live ones included.
    /// - Throws: ``ZombieGuardError/inactive`` where the process is not guarded.
    public static func records<Object: AnyObject>(
        of type: Object.Type
    ) throws(ZombieGuardError) -> [ZombieRecord] {
        let runtime = try GuardRuntime.active
        let metadata = UInt(bitPattern: unsafeBitCast(type, to: UnsafeRawPointer.self))
        return runtime.zombies(metadata: UInt64(metadata)).compactMap { runtime.record(at: $0) }
            .filter { !$0.isLive } // used again meanwhile
    }

    /// Who holds a pointer to a live block, or into it, as far as is known: words in live blocks that have the value of one.
    /// Variables on stacks and in static memory are not looked at, and a number may look like a pointer.
    ///
    /// - Parameter address: any address in the block.
    /// - Returns: those that hold one, in no particular order.
    /// - Complexity: O(*n*) in the bytes of all live blocks.
    /// - Throws: ``ZombieGuardError/inactive`` where the process is not guarded.
    public static func referrers(of address: Address) throws(ZombieGuardError) -> [Referrer] {
        try GuardRuntime.active.referrers(of: address)
    }

    /// Who holds a pointer to a live block. See ``referrers(of:)-(Address)``.
    ///
    /// - Parameter pointer: any address in the block.
    /// - Returns: those that hold one, in no particular order.
    /// - Throws: ``ZombieGuardError/inactive`` where the process is not guarded.
    public static func referrers(of pointer: UnsafeRawPointer) throws(ZombieGuardError) -> [Referrer] {
        try referrers(of: Address(UInt64(UInt(bitPattern: pointer))))
    }

    /// The findings from now on, as they are made, with names of functions and lines.
    ///
    /// Iterating waits for the next finding; it ends where the process is not guarded or the task is cancelled.
    /// Findings are seen only where the program goes on after them: with the option `on_finding=continue`.
    public static var findings: Findings { findings(since: .now) }

    /// The findings from a moment on. See ``findings``.
    ///
    /// - Parameter start: the moment.
    /// - Returns: a sequence that waits for findings.
    public static func findings(since start: Findings.Start) -> Findings {
        Findings(runtime: GuardRuntime.current, since: start)
    }

    /// Looks now whether freed memory was written to, rather than when it is about to be used again.
    ///
    /// - Returns: The number of new findings.
    /// - Throws: ``ZombieGuardError/inactive`` where the process is not guarded.
    @discardableResult
    public static func verifyNow() throws(ZombieGuardError) -> Int { try GuardRuntime.active.verify() }
}

/// Why the runtime cannot answer.
public enum ZombieGuardError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The process is not guarded: it runs without `zguard run`, and nothing in it links the runtime.
    case inactive

    public var description: String {
        switch self {
        case .inactive: "this process is not guarded"
        }
    }
}
