// Stops the threads of another process.

import Foundation
import Testing

@testable import ZombieGuard

@Suite struct StoppedThreadsTests {
    // The child of posix_spawn opens a FIFO, which has no writer, before it executes the program. The parent waits for
    // the execution in an uninterruptible state (vfork).
    private static let script = """
        import os, sys, time
        os.posix_spawn('/bin/true', ['true'], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 0, sys.argv[1], os.O_RDONLY, 0)])
        time.sleep(60)
        """

    @Test func threadThatHasNotStoppedIsStoppedByALaterLook() throws {
        let fifo = NSTemporaryDirectory() + "zguard-stop-\(UUID().uuidString)"
        try #require(mkfifo(fifo, 0o600) == 0)
        defer { unlink(fifo) }
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["python3", "-c", Self.script, fifo]
        try process.run()
        let processID = Int(process.processIdentifier)
        defer {
            kill(process.processIdentifier, SIGKILL)
            process.waitUntilExit()
        }
        for _ in 0..<1000 where !(GuardedProcess.status(of: processID)["State"]?.hasPrefix("D") ?? false) {
            usleep(10_000)
        }
        let memory = try ProcessMemory(processID: processID)
        for _ in 0..<2 {
            let stopped = try StoppedThreads(of: processID, memory: memory)
            #expect(stopped.threads.isEmpty && stopped.unstopped.map(\.id) == [Int32(processID)])
        }
        let writer = open(fifo, O_WRONLY | O_NONBLOCK)
        #expect(writer >= 0)
        close(writer)
        #expect(try StoppedThreads(of: processID, memory: memory).threads.map(\.id) == [Int32(processID)])
        #expect(GuardedProcess.status(of: processID)["TracerPid"] == "0")
    }
}
