// Reads which of the program's own signal handlers were running when a process ended, and the faults that they handled.

import CSystem
import CZombie
import Glibc

/// View of the part of the run's shared page that records running signal handlers of programs (zg_handled.h).
package struct RunningHandlers {
    private let page: RunPage

    /// `page` is the run's shared page.
    package init(page: Descriptor) throws(SystemError) { self.page = try RunPage(page) }

    private var start: UnsafeMutableRawPointer { UnsafeMutableRawPointer(page.contents) + Int(ZG_HANDLED_PLACE) }

    /// Whether a signal handler of this process was running when the process ended.
    package func isInHandler(_ process: Int32) -> Bool {
        (0..<Int(ZG_HANDLER_CALLS)).contains { index in
            let call = (start + index * MemoryLayout<zg_handler_call>.stride).assumingMemoryBound(
                to: zg_handler_call.self)
            return zg_system_load(&call.pointee.pid) == UInt32(bitPattern: process)
        }
    }

    /// Findings of faults whose handlers were running when their process ended unseen by the runtime: by a signal
    /// without a handler, or by a system call that bypasses libc. Each fault is returned once.
    ///
    /// `child` is a child process that zguard has waited for, `end` how it ended. The faults of a child that ended with
    /// status 0 are left out.
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
            // The finding comes from the run's own page, so the files that it names are opened with this user's rights.
            finding.author = .own
            if isChild { finding.detail["ended_by"] = end.signalName ?? "status \(end.status)" }
            return finding
        }
    }
}
