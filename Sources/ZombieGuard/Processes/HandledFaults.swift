// Handlers of programs that ran when their process ended, and what they had been called for.

import CSystem
import CZombie
import Glibc

/// The part of a run's page that says which threads are in a handler of the program's own (zg_handled.h).
package struct HandledFaults {
    private let page: RunPage

    /// `page` is the run's, for its processes to map.
    package init(page: Descriptor) throws(SystemError) { self.page = try RunPage(page) }

    private var start: UnsafeMutableRawPointer { UnsafeMutableRawPointer(page.contents) + Int(ZG_HANDLED_PLACE) }

    /// Whether a handler of this process ran when it ended.
    package func isInHandler(_ process: Int32) -> Bool {
        (0..<Int(ZG_HANDLER_CALLS)).contains { index in
            let call = (start + index * MemoryLayout<zg_handler_call>.stride).assumingMemoryBound(
                to: zg_handler_call.self)
            return zg_system_load(&call.pointee.pid) == UInt32(bitPattern: process)
        }
    }

    /// The faults in whose handlers processes have ended that are gone by now, in a way that nothing in them saw: by a signal that no handler sees,
    /// or by a system call past libc. Each is handed out once.
    ///
    /// `child` is a process that was waited for, and ended so.
    package func left(by child: Int32, _ end: ProgramEnd) -> [Finding] {
        (0..<Int(ZG_HANDLED_FAULTS)).compactMap { index in
            let place = start + Int(ZG_HANDLED_CALLS_BYTES) + index * Int(ZG_HANDLED_FAULT_BYTES)
            let fault = place.assumingMemoryBound(to: zg_handled_fault.self)
            guard zg_system_load(&fault.pointee.state) == zg_handled_held.rawValue else { return nil }
            let process = Int32(bitPattern: fault.pointee.pid)
            let isChild = process == child
            if !isChild, kill(process, 0) == 0 || errno != ESRCH { return nil }
            zg_system_store(&fault.pointee.state, zg_handled_free.rawValue)
            if isChild, end.status == 0 { return nil }
            let head = MemoryLayout<zg_handled_fault>.size
            let count = min(Int(fault.pointee.bytes), Int(ZG_HANDLED_FAULT_BYTES) - head)
            let text = UnsafeRawBufferPointer(start: place + head, count: count)
            guard var finding = Finding(jsonLine: String(decoding: text, as: UTF8.self)),
                finding.processID == Int(process)
            else { return nil }
            // The run's own page.
            finding.author = .own
            if isChild { finding.detail["ended_by"] = end.signalName ?? "status \(end.status)" }
            return finding
        }
    }
}
