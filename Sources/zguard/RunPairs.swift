// zguard run --coverage: adds the pairs of a run to a directory.

import Glibc
import ZombieGuard

/// The directory to which a run adds its pairs.
struct RunPairs {
    private let directory: CoverageDirectory

    /// Creates the directory if needed; nil if the run has no `--coverage`.
    init?(_ arguments: Arguments) throws(Failure) {
        guard let path = arguments.value("--coverage") else { return nil }
        directory = CoverageDirectory(path)
        do throws(SystemError) {
            try directory.create()
        } catch {
            throw Failure("cannot use '\(visible(path))' as coverage directory: \(error)", status: ExitStatus.usage)
        }
    }

    /// The runtime options for processes that log their pairs. Stacks are recorded whole: the length of shortened
    /// stacks depends on processor time, so the same pair would differ between runs.
    static let options = ["stack_overhead=100%", "log_pairs=1"]

    /// Tells the processes of the run which allocation stacks earlier runs watched.
    func tell(_ run: RunDirectory) throws(Failure) {
        do throws(SystemError) {
            let words = try directory.read().watchedStacks
            let file = try Descriptor(opening: run.watched, flags: O_WRONLY | O_CREAT | O_EXCL, mode: 0o644)
            try file.write(bytes: words)
        } catch {
            throw Failure(
                "cannot read the runs in '\(visible(directory.path))': "
                    + (error.number == EINVAL ? "'pairs' is no coverage file" : "\(error)"), status: ExitStatus.usage)
        }
    }

    /// Adds the pairs that the processes of the run have logged.
    func add(from run: RunDirectory) {
        do throws(SystemError) {
            try directory.add(run: run.readPairs())
        } catch {
            Output.warn("the pairs of this run could not be added to '\(visible(directory.path))': \(error)")
        }
    }
}
