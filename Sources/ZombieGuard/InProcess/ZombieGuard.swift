// The functions with which a guarded program queries its runtime.

/// Queries to the runtime that guards this process.
///
/// A process is guarded if it runs under `zguard run`, or its test bundle links the runtime. In other processes
/// ``isActive`` is false, ``findings`` ends at once, ``annotate(_:_:)`` does nothing, and everything else throws
/// ``ZombieGuardError/inactive``, so that the calls can stay in programs that are not always guarded.
///
/// ```swift
/// let address = Unmanaged.passUnretained(cart).toOpaque()
/// release(&cart)
/// if let zombie = try ZombieGuard.zombie(at: address) {
///     print(zombie.className ?? "?", zombie.deallocationSite?.line ?? 0)
/// }
/// ```
///
/// All members may be used from any thread, but not in a signal handler.
public enum ZombieGuard {
    /// Whether this process is guarded.
    public static var isActive: Bool { GuardRuntime.current != nil }

    /// The runtime's current counters, as `zguard stats` prints them.
    public static var statistics: Statistics {
        get throws(ZombieGuardError) { try GuardRuntime.active.statistics }
    }

    /// Stores a note, such as the current task of the program, that crash reports of the process show
    /// (`collect=crashes`).
    ///
    /// There is room for 32 names of up to 31 bytes, with texts of up to 223 bytes. Longer names and texts are
    /// truncated; further names are ignored. Does nothing if the process is not guarded.
    ///
    /// - Parameters:
    ///   - name: name of the note.
    ///   - value: its description is stored; nil removes the note.
    public static func annotate(_ name: String, _ value: (some CustomStringConvertible)?) {
        GuardRuntime.current?.annotate(name, value?.description)
    }

    /// The coverage of this process so far: which pairs of allocation and free were watched, and why not more.
    ///
    /// - Throws: ``ZombieGuardError/inactive`` if the process is not guarded.
    public static var coverage: Coverage {
        get throws(ZombieGuardError) { try GuardRuntime.active.statistics.coverage }
    }

    /// The freed block at or around an address; nil if no freed block is known there.
    ///
    /// The address is never dereferenced. Freed blocks are known until their memory is reused.
    ///
    /// - Parameter address: any address in the block, or beside it.
    /// - Returns: the record of the block; nil if no freed block is known there.
    /// - Throws: ``ZombieGuardError/inactive`` if the process is not guarded.
    public static func zombie(at address: Address) throws(ZombieGuardError) -> ZombieRecord? {
        try GuardRuntime.active.record(at: address).flatMap { $0.isLive ? nil : $0 }
    }

    /// The freed block at or around the address in a pointer. See ``zombie(at:)-(Address)``.
    ///
    /// - Parameter pointer: a pointer, which may be dangling.
    /// - Returns: the record of the block; nil if no freed block is known there.
    /// - Throws: ``ZombieGuardError/inactive`` if the process is not guarded.
    public static func zombie(at pointer: UnsafeRawPointer) throws(ZombieGuardError) -> ZombieRecord? {
        try zombie(at: UInt(bitPattern: pointer))
    }

    /// The freed block at or around an address. See ``zombie(at:)-(Address)``.
    ///
    /// - Parameter address: any address in the block, or beside it.
    /// - Returns: the record of the block; nil if no freed block is known there.
    /// - Throws: ``ZombieGuardError/inactive`` if the process is not guarded.
    public static func zombie(at address: UInt) throws(ZombieGuardError) -> ZombieRecord? {
        try zombie(at: Address(UInt64(address)))
    }

    /// The known freed objects of exactly this class, without subclasses, in no particular order.
    ///
    /// - Parameter type: the dynamic class of the objects.
    /// - Returns: a record of each object.
    /// - Complexity: O(*n*) in the number of blocks, live ones included.
    /// - Throws: ``ZombieGuardError/inactive`` if the process is not guarded.
    public static func records<Object: AnyObject>(
        of type: Object.Type
    ) throws(ZombieGuardError) -> [ZombieRecord] {
        let runtime = try GuardRuntime.active
        let metadata = UInt(bitPattern: unsafeBitCast(type, to: UnsafeRawPointer.self))
        return runtime.zombies(metadata: UInt64(metadata)).compactMap { runtime.record(at: $0) }
            // The slot may have been reused meanwhile.
            .filter { !$0.isLive }
    }

    /// The live blocks that contain a pointer to or into a live block. The search is conservative: a number may look
    /// like a pointer. Stacks and static memory are not searched.
    ///
    /// - Parameter address: any address in the block.
    /// - Returns: the blocks with such a pointer, in no particular order.
    /// - Complexity: O(*n*) in the bytes of all live blocks.
    /// - Throws: ``ZombieGuardError/inactive`` if the process is not guarded.
    public static func referrers(of address: Address) throws(ZombieGuardError) -> [Referrer] {
        try GuardRuntime.active.referrers(of: address)
    }

    /// The live blocks that contain a pointer to a live block. See ``referrers(of:)-(Address)``.
    ///
    /// - Parameter pointer: any address in the block.
    /// - Returns: the blocks with such a pointer, in no particular order.
    /// - Throws: ``ZombieGuardError/inactive`` if the process is not guarded.
    public static func referrers(of pointer: UnsafeRawPointer) throws(ZombieGuardError) -> [Referrer] {
        try referrers(of: Address(UInt64(UInt(bitPattern: pointer))))
    }

    /// The findings from now on, as they are made, symbolicated.
    ///
    /// Iteration waits for the next finding, and ends if the process is not guarded or the task is canceled. A program
    /// sees its findings only if it continues after them, with the option `on_finding=continue`.
    public static var findings: Findings { findings(since: .now) }

    /// The findings from a given start. See ``findings``.
    ///
    /// - Parameter start: the first finding of the sequence.
    /// - Returns: a sequence that waits for findings.
    public static func findings(since start: Findings.Start) -> Findings {
        Findings(runtime: GuardRuntime.current, since: start)
    }

    /// Checks now whether freed memory, or a red zone of a live block, was written. Without this call, freed memory is
    /// checked before its reuse.
    ///
    /// - Returns: The number of new findings.
    /// - Throws: ``ZombieGuardError/inactive`` if the process is not guarded.
    @discardableResult
    public static func verifyNow() throws(ZombieGuardError) -> Int { try GuardRuntime.active.verify() }
}

/// Why the runtime cannot answer.
public enum ZombieGuardError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The process is not guarded: it does not run under `zguard run`, and no part of it links the runtime.
    case inactive

    public var description: String {
        switch self {
        case .inactive: "this process is not guarded"
        }
    }
}
