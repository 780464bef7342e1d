// zguard doctor: lists the features of this machine that guarding uses, and tests whether guarding works.

import CSystem
import Glibc
import ZombieGuard

struct DoctorCommand {
    enum Verdict: String { case ok, limited, missing }

    struct Probe {
        var name: String
        var verdict: Verdict
        var text: String

        init(_ name: String, _ verdict: Verdict, _ text: String) {
            self.name = name
            self.verdict = verdict
            self.text = text
        }
    }

    func run() -> Int32 {
        var rows: [[String]] = []
        var works = false
        for probe in [
            kernel, pages, proc, libc, findObject, memfd, guardPages, windows, watchpoints, maskedLoads, memoryTags,
            safeRead,
            filters,
            overcommit, mapCount,
            addressSpace, addressBits,
            ptraceScope,
            memoryPressure, hugePages, threadStacks,
            library, swift,
        ] {
            rows.append([probe.verdict.rawValue, probe.name, visible(probe.text)])
        }
        guard SelfTest.canRun else {
            rows.append([Verdict.limited.rawValue, "self-test", SelfTest.obstacle])
            Output.out(table(rows) + "guarding was not tried\n")
            return ExitStatus.success
        }
        switch SelfTest.run() {
        case .success(let text):
            works = true
            rows.append([Verdict.ok.rawValue, "self-test", text])
        case .failure(let failure): rows.append([Verdict.missing.rawValue, "self-test", failure.message])
        }
        Output.out(table(rows))
        Output.out(works ? "guarding works\n" : "guarding does not work\n")
        return works ? ExitStatus.success : ExitStatus.failure
    }

    private var kernel: Probe {
        var name = utsname()
        guard uname(&name) == 0 else { return Probe("kernel", .limited, "unknown: \(SystemError.last)") }
        func text(_ field: UnsafeRawBufferPointer) -> String {
            String(decoding: field.prefix { $0 != 0 }, as: UTF8.self)
        }
        let release = withUnsafeBytes(of: name.release) { text($0) }
        return Probe("kernel", .ok, "Linux \(release), \(withUnsafeBytes(of: name.machine) { text($0) })")
    }

    private var proc: Probe {
        if OwnProgram.isInProc { return Probe("/proc", .ok, "shows this process") }
        return Probe(
            "/proc", .limited,
            "not mounted: programs run guarded and findings are reported, but coverage, the other threads of crashes, statistics and checks are not available"
        )
    }

    private var pages: Probe {
        let bytes = zg_system_page_bytes()
        if let reason = Preload.pageProblem(bytes: bytes) { return Probe("pages", .missing, reason) }
        return Probe("pages", .ok, "of \(bytes / 1024) KiB")
    }

    private var libc: Probe { Probe("C library", .ok, "glibc \(String(cString: zg_system_libc_version()))") }

    private var findObject: Probe {
        zg_system_has_find_object() != 0
            ? Probe("_dl_find_object", .ok, "loaded modules are looked up without a lock")
            : Probe("_dl_find_object", .limited, "needs glibc 2.35; loaded modules are looked up in the loader's list")
    }

    private var memfd: Probe {
        let descriptor = zg_system_memfd("zguard-probe")
        if descriptor >= 0 { close(descriptor) }
        return result(
            "memfd_create", descriptor, .ok, "statistics can be published", .missing, "zguard stats cannot work")
    }

    private var guardPages: Probe {
        result(
            "MADV_GUARD_INSTALL", zg_system_probe_guard_pages(), .ok,
            "freed pages are protected without extra mappings",
            .limited,
            "needs Linux 6.13; mprotect is used instead")
    }

    private var windows: Probe {
        result(
            "guards in windows", zg_system_probe_windows(), .ok,
            "small isolated blocks share memory",
            .limited,
            "needs Linux 6.15; each isolated block takes a page of memory, and fewer are isolated")
    }

    private var watchpoints: Probe {
        let name = "watchpoints"
        if SystemCallFilters() != nil {
            return Probe(name, .limited, "not tried under a seccomp filter; rare frees are watched only if isolated")
        }
        return result(
            name, zg_system_probe_watchpoints(), .ok,
            "the first words of freed blocks of rare pairs are watched",
            .limited,
            "need x86-64, Linux 5.18 and kernel.perf_event_paranoid of at most 2; rare frees are watched only if isolated"
        )
    }

    private var maskedLoads: Probe {
        zg_system_has_masked_loads() == 0
            ? Probe(
                "masked loads", .ok, "none: reads just past the end of isolated blocks are always found")
            : Probe(
                "masked loads", .ok,
                "AVX-512: reads just past the end of long-lived isolated blocks are not found (overread_ms)")
    }

    private var memoryTags: Probe {
        switch zg_system_probe_tags() {
        case 0: Probe("memory tagging", .ok, "none: profile mte is profile guard here")
        case 1: Probe("memory tagging", .ok, "profile mte checks every access to small blocks")
        case let error:
            Probe(
                "memory tagging", .limited, "\(SystemError(number: -error)); profile mte is profile guard here")
        }
    }

    private var safeRead: Probe {
        result(
            "process_vm_readv", zg_system_probe_vm_read(), .ok, "stacks are walked through any memory", .limited,
            "stack walks stop at unknown memory")
    }

    private var filters: Probe {
        let name = "system calls"
        guard let filters = SystemCallFilters() else { return Probe(name, .ok, "no seccomp filter is installed") }
        let forbidden = filters.forbidden
        if forbidden.isEmpty {
            return Probe(name, .ok, "the seccomp filter allows all system calls that guarding needs")
        }
        return Probe(
            name, .limited,
            "a seccomp filter kills programs for \(forbidden.joined(separator: ", ")); "
                + "a service of systemd allows them with SystemCallFilter=\(forbidden.joined(separator: " "))")
    }

    private var threadStacks: Probe {
        let name = "stacks of threads"
        if let obstacle = CrashRequests.obstacle {
            return Probe(name, .limited, "\(obstacle); a crash shows the thread that died")
        }
        switch number(in: "/proc/sys/kernel/yama/ptrace_scope") {
        case 3?: return Probe(name, .limited, "the kernel allows no ptrace (Yama); a crash shows the thread that died")
        case 2? where geteuid() != 0:
            return Probe(
                name, .limited, "the kernel allows ptrace only for root (Yama); a crash shows only the crashed thread")
        default: return Probe(name, .ok, "a crash shows all threads (collect=crashes)")
        }
    }

    private func result(
        _ name: String, _ result: Int32, _ good: Verdict, _ goodText: String, _ bad: Verdict, _ badText: String
    ) -> Probe {
        if result >= 0 { return Probe(name, good, goodText) }
        return Probe(name, bad, "\(SystemError(number: -result)); \(badText)")
    }

    private var overcommit: Probe {
        switch number(in: "/proc/sys/vm/overcommit_memory") {
        case 0?: Probe("overcommit", .ok, "heuristic")
        case 1?: Probe("overcommit", .ok, "always")
        case 2?: Probe("overcommit", .limited, "strict: reserved address space may count against the limit")
        default: Probe("overcommit", .limited, "unknown")
        }
    }

    private var mapCount: Probe {
        let usual = 65530
        guard let count = number(in: "/proc/sys/vm/max_map_count") else {
            return Probe("max_map_count", .limited, "unknown")
        }
        return Probe("max_map_count", count >= usual ? .ok : .limited, "\(count) mappings per process")
    }

    private var addressSpace: Probe {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(UInt32(RLIMIT_AS.rawValue)), &limit) == 0 else {
            return Probe("RLIMIT_AS", .limited, "unknown: \(SystemError.last)")
        }
        if limit.rlim_cur == rlim_t.max { return Probe("RLIMIT_AS", .ok, "address space is unlimited") }
        return Probe("RLIMIT_AS", .limited, "address space is limited to \(byteText(UInt64(limit.rlim_cur)))")
    }

    // Uses the same thresholds and fallbacks as the runtime (zg_os_address_space, process/ready.c).
    private var addressBits: Probe {
        let bits = zg_system_address_bits()
        if bits == 0 { return Probe("addresses", .ok, "of unknown size") }
        if bits >= 46 { return Probe("addresses", .ok, "of \(bits) bits") }
        let space = UInt64(1) << UInt64(bits)
        var region = UInt64(1) << 36
        while region * 45 > space / 8 { region /= 4 }
        return Probe(
            "addresses", .limited,
            "of \(bits) bits: at most \(byteText(region)) of small blocks of each size are guarded, and "
                + "\(byteText(space / 8)) of large ones; small blocks have no windows, "
                + "and fewer dead objects are told apart")
    }

    private var ptraceScope: Probe {
        switch number(in: "/proc/sys/kernel/yama/ptrace_scope") {
        case nil: Probe("ptrace_scope", .ok, "not restricted; zguard check works on your own processes")
        case 0?: Probe("ptrace_scope", .ok, "0: zguard check works on your own processes")
        case let scope?:
            Probe(
                "ptrace_scope", geteuid() == 0 && scope < 3 ? .ok : .limited,
                "\(scope): zguard check needs root" + (scope == 3 ? " and is forbidden" : ""))
        }
    }

    // Sources from which the runtime detects memory pressure, in addition to the limits of the process.
    private var memoryPressure: Probe {
        let stalls = contents("/proc/pressure/memory") != nil
        let groups = contents("/proc/self/cgroup") != nil
        let available = contents("/proc/meminfo") != nil
        let name = "memory pressure"
        let seen = [
            (stalls, "stalls"), (groups, "control group limits"), (available, "available memory"),
        ]
        let missing = seen.filter { !$0.0 }.map(\.1)
        if missing.isEmpty { return Probe(name, .ok, seen.map(\.1).joined(separator: ", ") + " are watched") }
        return Probe(name, .limited, missing.joined(separator: ", ") + " cannot be read")
    }

    private var hugePages: Probe {
        let text = contents("/sys/kernel/mm/transparent_hugepage/enabled") ?? "unknown"
        return Probe("huge pages", .ok, text)
    }

    private var library: Probe {
        do throws(Failure) {
            return Probe("library", .ok, try Preload.library())
        } catch {
            return Probe("library", .missing, error.message)
        }
    }

    // Tests the Swift runtime of the toolchain on the PATH. Programs may contain another Swift runtime.
    private var swift: Probe {
        let name = "Swift runtime"
        guard let path = swiftRuntime else {
            return Probe(name, .ok, "none installed here; a program's own is checked when it starts")
        }
        guard OwnProgram.isInProc else {
            return Probe(name, .limited, "\(path): not checked, because /proc is not mounted")
        }
        switch SelfTest.knowsLayout(of: path) {
        case .success(true): return Probe(name, .ok, "\(path): object layout is as expected")
        case .success(false):
            return Probe(name, .limited, "\(path): object layout is unknown; classes are not reported")
        case .failure(let failure): return Probe(name, .limited, failure.message)
        }
    }

    private var swiftRuntime: String? {
        let directories = (Preload.environment("PATH") ?? "").split(separator: ":")
        for directory in directories {
            guard let compiler = realpath("\(directory)/swift", nil) else { continue }
            defer { free(compiler) }
            let bin = String(cString: compiler).split(separator: "/", omittingEmptySubsequences: false).dropLast()
            let path = bin.dropLast().joined(separator: "/") + "/lib/swift/linux/libswiftCore.so"
            if access(path, R_OK) == 0 { return path }
        }
        return nil
    }

    private func contents(_ path: String) -> String? {
        guard let file = try? Descriptor(opening: path), let bytes = try? file.read(upTo: 4096) else { return nil }
        return String(decoding: bytes.prefix { $0 != 0x0a }, as: UTF8.self)
    }

    private func number(in path: String) -> Int? { contents(path).flatMap { Int(signedDigits: $0) } }
}

extension DoctorCommand {
    static let command = Command(
        name: "doctor", text: "check what this machine supports and whether guarding works",
        run: { _ in DoctorCommand().run() })
}
